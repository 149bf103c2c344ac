"""Lowers TileLang kernels to CUDA. Follows compile_server.py in one program; tilelang_plan.h describes the request."""

PACKAGE = "tilelang"
# PyTorch reads these when it is imported.
FILES = ("/dev/urandom", "/proc/cpuinfo", "/sys/devices/system/cpu")
ENTRY = "kernelcast_kernel"
# Kernels get plain pointers. A TMA descriptor would need host code.
PASSES = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
DIMENSIONS = ("x", "y", "z")


def import_compiler():
    global inspect, math, tilelang, tvm
    import inspect
    import math
    import logging
    import tempfile

    # Otherwise it compiles a module for PyTorch, or warns that it cannot.
    os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = "1"
    from tvm_ffi import _optional_torch_c_dlpack

    _optional_torch_c_dlpack.load_torch_c_dlpack_extension = lambda *args, **kwargs: None
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILELANG_CACHE_DIR"] = folder
        import tilelang
        from tilelang import tvm
    # It prints its rewritten form of a source that fails.
    logging.disable(logging.CRITICAL)


def describe(error):
    return None


def find_entry(module):
    """The function that makes the kernel for axes, and its parameters."""
    found = module.__dict__.get(ENTRY)
    if found is None:
        raise Refused(f"the source does not define {ENTRY}")
    if isinstance(found, tvm.tirx.PrimFunc):
        return lambda: found, {}
    # @tilelang.jit compiles when it is called.
    make = getattr(found, "get_tir", found)
    return make, inspect.signature(getattr(found, "func", found)).parameters


def bound_axes(parameters, axes):
    given = {}
    for name, parameter in parameters.items():
        if name in axes:
            given[name] = axes[name]
        elif parameter.default is inspect.Parameter.empty:
            raise Refused(f"{ENTRY} has the parameter '{name}', which is no axis of the problem and has no default")
    return given


def check_buffers(function, tensors, elements):
    """Names of the kernel's buffers, in the order of the tensors."""
    buffers = [function.buffer_map[p] for p in function.params if p in function.buffer_map]
    if len(buffers) != len(function.params) or len(buffers) != len(tensors):
        names = ", ".join(name for name, _ in tensors)
        raise Refused(f"the kernel has {len(function.params)} parameters, of which {len(buffers)} are tensors, and the "
                      f"problem has {len(tensors)} tensors ({names}): its inputs and outputs, in this order")
    for buffer, (name, dtype), count in zip(buffers, tensors, elements):
        if str(buffer.dtype) != dtype:
            raise Refused(f"the kernel's parameter '{buffer.name}' has elements of {buffer.dtype}, and '{name}' of {dtype}")
        shape = [dim.value if isinstance(dim, tvm.tirx.IntImm) else None for dim in buffer.shape]
        if count and None not in shape and math.prod(shape) != count:
            raise Refused(f"the kernel's parameter '{buffer.name}' has the shape {shape}, and '{name}' has {count} elements")
    names = [buffer.data.name for buffer in buffers]
    if len(set(names)) != len(names):
        raise Refused("the kernel's parameters have equal names")
    return names


BINARY = {"Add": "({}+{})", "Sub": "({}-{})", "Mul": "({}*{})", "FloorDiv": "floor({}/{})", "Div": "floor({}/{})",
          "FloorMod": "mod({},{})", "Mod": "mod({},{})", "Min": "min({},{})", "Max": "max({},{})"}


def text_of(value, axes):
    """An expression over axes as launches have them."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tvm.tirx.IntImm):
        return str(value.value)
    if isinstance(value, tvm.tirx.Var) and value.name in axes:
        return value.name
    if isinstance(value, tvm.tirx.Cast):
        return text_of(value.value, axes)
    kind = type(value).__name__
    if kind in BINARY:
        return BINARY[kind].format(text_of(value.a, axes), text_of(value.b, axes))
    if isinstance(value, tvm.tirx.Call) and value.op.name.endswith(".shift_right"):
        return f"floor({text_of(value.args[0], axes)}/2^{text_of(value.args[1], axes)})"
    raise Refused(f"the launch depends on '{value}', which is no expression over axes")


def launch_of(device, names, tensors, axes):
    """The launch of a lowered kernel: its name, grid, block, shared memory and arguments."""
    extents = dict(device.attrs["thread_extent"].items())
    grid = [text_of(extents.pop(f"blockIdx.{d}", 1), axes) for d in DIMENSIONS]
    block = [text_of(extents.pop(f"threadIdx.{d}", 1), axes) for d in DIMENSIONS]
    if extents:
        raise Refused(f"the kernel uses '{next(iter(extents))}', which is not supported")
    for unsupported in ("use_cooperative_groups", "cluster_dims"):
        if unsupported in device.attrs and device.attrs[unsupported]:
            raise Refused(f"the kernel has '{unsupported}', which is not supported")
    shared = text_of(device.attrs["dyn_shared_memory_buf"], axes) if "dyn_shared_memory_buf" in device.attrs else ""
    arguments = []
    for parameter in device.params:
        if parameter.name in names:
            arguments.append(tensors[names.index(parameter.name)][0])
        elif parameter.name in axes:
            arguments.append(f"{parameter.name}:{parameter.dtype}")
        else:
            raise Refused(f"the kernel needs '{parameter.name}', which is neither a tensor nor an axis of the problem")
    return [str(device.attrs["global_symbol"]), *grid, *block, shared, len(arguments), *arguments]


def compile_request(request):
    arch, source = request.number(), request.string()
    tensors = [(request.string(), request.string()) for _ in range(request.number())]
    # 0: symbolic, or unknown.
    variants = [
        ([(request.string(), request.string(), request.number()) for _ in range(request.number())],
         [request.number() for _ in tensors])
        for _ in range(request.number())
    ]
    module = load_candidate(source)
    make, parameters = find_entry(module)
    functions, names = {}, []
    for i, (axes, elements) in enumerate(variants):
        values = {name: value or tilelang.language.dynamic(name, dtype) for name, dtype, value in axes}
        function = make(**bound_axes(parameters, values))
        if not isinstance(function, tvm.tirx.PrimFunc):
            raise Refused(f"{ENTRY} returns {type(function).__name__} instead of a T.prim_func")
        names.append(check_buffers(function, tensors, elements))
        symbol = f"kernelcast_{i}"
        functions[symbol] = function.with_attr("global_symbol", symbol)
    target = tvm.target.Target({"kind": "cuda", "arch": f"sm_{arch}"})
    with tvm.transform.PassContext(opt_level=3, config=PASSES), target:
        lowered = tilelang.lower(tvm.IRModule(functions), target=target)
    fields = [lowered.kernel_source, len(variants)]
    for i, (axes, _) in enumerate(variants):
        known = [name for name, _, _ in axes]
        # If a function has several kernels, TileLang adds a number to the names of all but the first.
        devices = [device for device in lowered.device_mod.functions.values()
                   if str(device.attrs["global_symbol"]).startswith(f"kernelcast_{i}_kernel")]
        if len(devices) != 1:
            raise Refused(f"{ENTRY} makes {len(devices)} kernels (T.Kernel), and must make one")
        fields += launch_of(devices[0], names[i], tensors, known)
    return fields
