"""Compiles Triton kernels to PTX. Follows compile_server.py in one program; triton_wire.h describes the request."""

PACKAGE = "triton"
FILES = ()
DIVISIBLE_BY_16, EQUAL_TO_1 = 1, 2


def import_compiler():
    global JITFunction, ASTSource, GPUTarget, ir, make_backend, triton
    import triton
    import triton.compiler

    # Otherwise each child imports it, which takes longer than compiling a kernel.
    import triton.compiler.code_generator
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend
    from triton.runtime.jit import JITFunction


def constexpr_value(kind, text):
    if kind == "int":
        return int(text)
    if kind == "float":
        return float(text)
    if kind == "bool":
        return text == "true"
    if kind == "none":
        return None
    if kind == "dtype":
        value = getattr(triton.language, text, None)
        if not isinstance(value, triton.language.dtype):
            raise Refused(f"'tl.{text}' is not a type")
        return value
    return text


def find_kernel(module, name):
    found = module.__dict__.get(name)
    while found is not None and not isinstance(found, JITFunction):
        # The launch gives the configuration, so @triton.autotune and @triton.heuristics do nothing.
        found = getattr(found, "fn", None)
    if found is None:
        names = sorted(n for n, v in module.__dict__.items() if hasattr(v, "fn") and not n.startswith("_"))
        known = ", ".join(names) if names else "none"
        raise Refused(f"no @triton.jit function '{name}' in the source; there are: {known}")
    return found


def compile_variant(module, variant, arch, ptx_version):
    name, num_warps, num_stages, arguments, constexprs = variant
    kernel = find_kernel(module, name)
    parameters = kernel.params
    signature, constants, attributes = {}, {}, {}
    given = dict(constexprs)
    runtime = [parameter for parameter in parameters if not parameter.is_constexpr]
    if len(runtime) != len(arguments):
        names = ", ".join(parameter.name for parameter in runtime)
        raise Refused(
            f"kernel '{name}' takes {len(runtime)} arguments that are not constexpr ({names}), "
            f"and the launch has {len(arguments)}"
        )
    unused = [given_name for given_name in given if given_name not in [p.name for p in parameters if p.is_constexpr]]
    if unused:
        raise Refused(f"kernel '{name}' has no constexpr parameter '{unused[0]}'")
    left = iter(arguments)
    for index, parameter in enumerate(parameters):
        if parameter.is_constexpr:
            if parameter.name in given:
                kind, text = given[parameter.name]
                constants[(index,)] = constexpr_value(kind, text)
            elif parameter.has_default:
                constants[(index,)] = parameter.default
            else:
                raise Refused(
                    f"constexpr '{parameter.name}' of kernel '{name}' has no value; set it in the "
                    "launch's constexprs (configurations of @triton.autotune are not tried)"
                )
            signature[parameter.name] = "constexpr"
            continue
        kind, flags = next(left)
        if flags & EQUAL_TO_1:
            signature[parameter.name] = "constexpr"
            constants[(index,)] = 1
            continue
        signature[parameter.name] = kind
        if flags & DIVISIBLE_BY_16:
            attributes[(index,)] = [["tt.divisibility", 16]]
    target = GPUTarget("cuda", arch, 32)
    backend = make_backend(target)
    wanted = {"enable_fp_fusion": True, "ptx_version": ptx_version}
    if num_warps:
        wanted["num_warps"] = num_warps
    if num_stages:
        wanted["num_stages"] = num_stages
    options = backend.parse_options(wanted)
    source = ASTSource(kernel, signature, constants, attributes)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages = {}
    backend.add_stages(stages, options, source.language)
    made = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    metadata = {"target": target, **options.__dict__}
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        made = stages[stage](made, metadata)
    return (
        made,
        int(metadata.get("shared") or 0),
        int(metadata.get("num_warps") or 0),
        int(metadata.get("global_scratch_size") or 0),
        int(metadata.get("num_ctas") or 1),
    )


def describe(error):
    """The text of an error of the compiler. None: of Python."""
    if not isinstance(error, triton.CompilationError):
        return None
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__
    return "\n".join(texts)


def compile_request(request):
    arch, ptx_version, source = request.number(), request.number(), request.string()
    variants = []
    for _ in range(request.number()):
        name, num_warps, num_stages = request.string(), request.number(), request.number()
        arguments = [(request.string(), request.number()) for _ in range(request.number())]
        constexprs = [(request.string(), (request.string(), request.string())) for _ in range(request.number())]
        variants.append((name, num_warps, num_stages, arguments, constexprs))
    module = load_candidate(source)
    fields = [len(variants)]
    for variant in variants:
        fields += compile_variant(module, variant, arch, ptx_version)
    return fields
