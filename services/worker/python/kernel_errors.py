"""Tells errors of kernel compilers from others, and finds the line of a source that they are about."""

import linecache
import re
import sys
import traceback

ERROR_CLASSES = (
    ("triton.compiler.errors", "CompilationError"),
    ("triton.runtime.errors", "OutOfResources"),
    ("triton.runtime.errors", "PTXASError"),
    # Older versions.
    ("triton.runtime.autotuner", "OutOfResources"),
)
# Triton lets other errors through while it looks up the names that a kernel uses, and while it compiles.
COMPILING = {("triton.runtime.jit", "cache_key"), ("triton.compiler.compiler", "compile")}
# PyTorch and TVM FFI run ninja to build extensions.
BUILDING = {("torch.utils.cpp_extension", "_run_ninja_build"), ("tvm_ffi.cpp.extension", "build_ninja")}
# What a compiler says about a place in a source: "main.cpp:3:5: error: ..." or "kernel.cu(3): error: ...".
SOURCE_ERROR = re.compile(r"^\S+\.(?:cu|cuh|c|cc|cpp|cxx|h|hpp)(?::\d+|\(\d+\)).*\berror\b", re.MULTILINE)
# What Triton says where the system has ended ptxas.
KILLED = re.compile(r"failed with error code -\d")
# In verdict.cc too.
HEADING = "A kernel does not compile:"
# These errors come from the host. They are not the source's fault.
NOT_THE_SOURCE = (MemoryError, OSError)


def kernel_errors():
    """The classes of Triton's errors, if it has been imported."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in ERROR_CLASSES)
    return tuple(kind for kind in found if isinstance(kind, type))


def is_kernel_error(error, kinds):
    """Whether a kernel does not compile. Triton compiles a kernel when it first runs, and extensions are built then."""
    if isinstance(error, kinds):
        return not KILLED.search(str(error))
    if not isinstance(error, Exception) or isinstance(error, NOT_THE_SOURCE):
        return False
    frames = {(frame.f_globals.get("__name__"), frame.f_code.co_name) for frame, _ in traceback.walk_tb(error.__traceback__)}
    return bool(frames & COMPILING or (frames & BUILDING and SOURCE_ERROR.search(str(error))))


def places(error):
    """Texts of kernels, and nodes of their syntax trees, that Triton's error is about: the caller before the called."""
    found = []
    while error is not None:
        source, node = getattr(error, "src", None), getattr(error, "node", None)
        for frame, _ in traceback.walk_tb(error.__traceback__) if source is None else ():
            if frame.f_code.co_name == "cache_key":
                source = getattr(frame.f_locals.get("self"), "src", None)
            elif hasattr(frame.f_locals.get("node"), "lineno"):
                node = frame.f_locals["node"]
        if isinstance(source, str) and hasattr(node, "lineno"):
            found.append((source, node))
        error = error.__cause__
    return found


def is_own(file):
    """Whether a file is the task's or the candidate's, which have no path."""
    return not file.startswith(("/", "<"))


def line_of(source, node):
    """File, number and text of the line at which a node of a kernel stands; None if it is not in an own file."""
    wanted = [line.strip() for line in source.rstrip().splitlines()]
    for file, (_, _, text, _) in [entry for entry in linecache.cache.items() if len(entry[1]) == 4 and is_own(entry[0])]:
        lines = [line.strip() for line in text]
        for begin in range(len(lines) - len(wanted) + 1):
            if lines[begin : begin + len(wanted)] == wanted:
                return file, begin + node.lineno, lines[begin + node.lineno - 1]
    return None


def message_in(error):
    """What is wrong. Triton's own text repeats the source."""
    while getattr(error, "src", None) is not None:
        if error.error_message or error.__cause__ is None:
            return error.error_message or ""
        error = error.__cause__
    return str(error)


def kernel_error_text(error):
    """As compilers write it: file, line and error; and the text of the line."""
    if SOURCE_ERROR.search(str(error)):
        return f"{HEADING}\n{error}"
    at = next(filter(None, [line_of(*place) for place in reversed(places(error))]), None)
    if at is None:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
        at = (own[-1].filename, own[-1].lineno, own[-1].line) if own else None
    message = ": ".join(filter(None, [type(error).__name__, message_in(error)]))
    return f"{HEADING}\n{message}" if at is None else f"{HEADING}\n{at[0]}:{at[1]}: {message}\n    {at[2]}"
