"""Compiles Triton kernels to PTX for the worker. Not meant to be started by hand.

    PYTHON -I -S compile_server.py PATH...    packages, modules and *.dist-info to import from

Triton is imported once. For each request on descriptor 3 this process forks a child, which restricts
itself further, runs the candidate's source and answers the worker directly. A child is never trusted:
this process reads nothing from it. triton_server.h describes the protocol.
"""

import ctypes
import gc
import importlib.metadata
import importlib.util
import linecache
import os
import pathlib
import resource
import select
import socket
import struct
import sys
import traceback
import types
import warnings

CONTROL = 3
SOURCE_NAME = "candidate.py"
COMPILED, REFUSED, ADMISSION, OUT_OF_MEMORY, BROKEN = range(5)
DIVISIBLE_BY_16, EQUAL_TO_1 = 1, 2
STACK_BYTES = 64 << 20
MAX_LOG_CHARACTERS = 64 << 10

PR_SET_PDEATHSIG = 1
SIGKILL = 9
SYS_SECCOMP = 317
SECCOMP_SET_MODE_FILTER = 1

libc = ctypes.CDLL(None, use_errno=True)


class GivenPackages(importlib.metadata.DistributionFinder):
    """Finds packages by their paths. Their folders cannot be listed."""

    def __init__(self, paths):
        self.distributions = [pathlib.Path(path) for path in paths if path.endswith(".dist-info")]
        self.packages = {pathlib.Path(path).name.split(".")[0]: path for path in paths if not path.endswith(".dist-info")}

    def find_spec(self, name, path=None, target=None):
        found = self.packages.get(name)
        if found is None:
            return None
        if not os.path.isdir(found):
            return importlib.util.spec_from_file_location(name, found)
        return importlib.util.spec_from_file_location(
            name, os.path.join(found, "__init__.py"), submodule_search_locations=[found]
        )

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        wanted = context.name and context.name.replace("-", "_").lower()
        for path in self.distributions:
            if wanted is None or path.name.split("-")[0].lower() == wanted:
                yield importlib.metadata.PathDistribution(path)


class Refused(Exception):
    """The launch does not fit the source."""


def import_triton():
    global JITFunction, ASTSource, GPUTarget, ir, make_backend, triton
    warnings.simplefilter("ignore")
    import triton
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend
    from triton.runtime.jit import JITFunction


class Reader:
    def __init__(self, content):
        self.content = content
        self.at = 0

    def number(self):
        (value,) = struct.unpack_from("<Q", self.content, self.at)
        self.at += 8
        return value

    def text(self):
        size = self.number()
        self.at += size
        return self.content[self.at - size : self.at]

    def string(self):
        return self.text().decode("utf-8")


def encoded(*fields):
    out = []
    for field in fields:
        if isinstance(field, int):
            out.append(struct.pack("<Q", field))
        else:
            text = field.encode("utf-8", "replace") if isinstance(field, str) else field
            out.append(struct.pack("<Q", len(text)) + text)
    content = b"".join(out)
    return struct.pack("<Q", len(content)) + content


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


def load(source):
    """Runs the source as a module. inspect finds its text through linecache."""
    module = types.ModuleType("candidate")
    module.__file__ = SOURCE_NAME
    sys.modules["candidate"] = module
    linecache.cache[SOURCE_NAME] = (len(source), None, source.splitlines(True), SOURCE_NAME)
    exec(compile(source, SOURCE_NAME, "exec"), module.__dict__)
    return module


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


def log_of(error):
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, triton.CompilationError):
        texts = []
        while error is not None:
            texts.append(str(error))
            error = error.__cause__
        return "\n".join(texts)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == SOURCE_NAME]
    lines = traceback.format_list(own) + traceback.format_exception_only(type(error), error)
    text = "".join(lines)
    if isinstance(error, ModuleNotFoundError):
        text += "A device_triton source can import triton and Python's standard library only.\n"
    return text


def answer(request):
    arch, ptx_version, source = request.number(), request.number(), request.string()
    variants = []
    for _ in range(request.number()):
        name, num_warps, num_stages = request.string(), request.number(), request.number()
        arguments = [(request.string(), request.number()) for _ in range(request.number())]
        constexprs = [(request.string(), (request.string(), request.string())) for _ in range(request.number())]
        variants.append((name, num_warps, num_stages, arguments, constexprs))
    try:
        module = load(source)
        fields = [COMPILED, "", len(variants)]
        for variant in variants:
            fields += compile_variant(module, variant, arch, ptx_version)
        return encoded(*fields)
    except MemoryError:
        return encoded(OUT_OF_MEMORY, "", 0)
    except Refused as error:
        return encoded(ADMISSION, log_of(error), 0)
    except BaseException as error:
        return encoded(REFUSED, log_of(error)[:MAX_LOG_CHARACTERS], 0)


class FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def read_exactly(fd, size):
    parts = []
    while size > 0:
        part = os.read(fd, size)
        if not part:
            os._exit(1)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def serve_one(reply_fd, output_fd):
    """The child. Reads one request, gives up what it does not need, and answers."""
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.dup2(reply_fd, CONTROL)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.closerange(4, 1024)
    (size,) = struct.unpack("<Q", read_exactly(CONTROL, 8))
    request = Reader(read_exactly(CONTROL, size))
    memory_bytes, cpu_seconds, output_bytes = request.number(), request.number(), request.number()
    instructions = request.text()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (output_bytes, output_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if instructions:
        buffer = ctypes.create_string_buffer(instructions, len(instructions))
        program = FilterProgram(len(instructions) // 8, ctypes.cast(buffer, ctypes.c_void_p))
        if libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(program)) != 0:
            os.write(CONTROL, encoded(BROKEN, f"seccomp: error {ctypes.get_errno()}", 0))
            os._exit(1)
    reply = answer(request)
    while reply:
        reply = reply[os.write(CONTROL, reply) :]
    os._exit(0)


def serve():
    # All parameters, because the sandbox does not let Python ask for them; and writes instead of sends.
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=CONTROL)
    os.write(CONTROL, encoded("", triton.__version__, "%d.%d.%d" % sys.version_info[:3]))
    poll = select.poll()
    poll.register(CONTROL, select.POLLIN)
    children = {}
    while True:
        for fd, _ in poll.poll():
            if fd != CONTROL:
                # The worker has the answer, or has killed the child.
                poll.unregister(fd)
                os.waitpid(children.pop(fd), 0)
                os.close(fd)
                continue
            message, fds, _, _ = socket.recv_fds(control, 1, 2)
            if not message or len(fds) != 2:
                return
            child = os.fork()
            if child == 0:
                try:
                    serve_one(*fds)
                finally:
                    os._exit(1)
            os.close(fds[1])
            children[fds[0]] = child
            # Sees only the end of the other side: requests are the child's to read.
            poll.register(fds[0], select.POLLHUP)
            os.write(CONTROL, struct.pack("<Q", child))


def main():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    sys.dont_write_bytecode = True
    sys.meta_path.append(GivenPackages(sys.argv[1:]))
    try:
        import_triton()
    except BaseException as error:
        os.write(CONTROL, encoded(f"cannot import triton: {error!r}", "", ""))
        os._exit(1)
    # Keeps the children's pages shared with this process.
    gc.collect()
    gc.freeze()
    serve()
    os._exit(0)


main()
