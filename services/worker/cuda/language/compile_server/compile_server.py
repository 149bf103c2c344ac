"""Compiles kernels in Python for the worker. Not meant to be started by hand. The program of a language follows this
one, with PACKAGE, import_compiler(), compile_request() and describe(); compile_server.h describes them.

    PYTHON -I -S -c PROGRAM PATH...    packages, modules and *.dist-info to import from

The compiler is imported once. For each request on descriptor 3 this process forks a child, which restricts
itself further, runs the candidate's source and answers the worker directly. A child is never trusted:
this process reads nothing from it.
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
    """The source does not fit the problem or its launches."""


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


def packed(*fields):
    out = []
    for field in fields:
        if isinstance(field, int):
            out.append(struct.pack("<Q", field))
        else:
            text = field.encode("utf-8", "replace") if isinstance(field, str) else field
            out.append(struct.pack("<Q", len(text)) + text)
    return b"".join(out)


def framed(*fields):
    return packed(packed(*fields))


def load_candidate(source):
    """Runs the source as a module. inspect finds its text through linecache."""
    module = types.ModuleType("candidate")
    module.__file__ = SOURCE_NAME
    sys.modules["candidate"] = module
    linecache.cache[SOURCE_NAME] = (len(source), None, source.splitlines(True), SOURCE_NAME)
    exec(compile(source, SOURCE_NAME, "exec"), module.__dict__)
    return module


def log_of(error):
    described = describe(error)
    if described is not None:
        return described
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == SOURCE_NAME]
    lines = traceback.format_list(own) + traceback.format_exception_only(type(error), error)
    text = "".join(lines)
    if isinstance(error, ModuleNotFoundError):
        text += f"A device_{PACKAGE} source can import {PACKAGE} and Python's standard library only.\n"
    return text


def answer(request):
    try:
        return framed(COMPILED, "", packed(*compile_request(request)))
    except MemoryError:
        return framed(OUT_OF_MEMORY, "", "")
    except Refused as error:
        return framed(ADMISSION, str(error), "")
    except BaseException as error:
        return framed(REFUSED, log_of(error)[:MAX_LOG_CHARACTERS], "")


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
    request = Reader(request.text())
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (output_bytes, output_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if instructions:
        buffer = ctypes.create_string_buffer(instructions, len(instructions))
        program = FilterProgram(len(instructions) // 8, ctypes.cast(buffer, ctypes.c_void_p))
        if libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(program)) != 0:
            os.write(CONTROL, framed(BROKEN, f"seccomp: error {ctypes.get_errno()}", ""))
            os._exit(1)
    reply = answer(request)
    while reply:
        reply = reply[os.write(CONTROL, reply) :]
    os._exit(0)


def serve():
    # All parameters, because the sandbox does not let Python ask for them; and writes instead of sends.
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=CONTROL)
    os.write(CONTROL, framed(""))
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


def serve_compiler():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    sys.dont_write_bytecode = True
    sys.meta_path.append(GivenPackages(sys.argv[1:]))
    try:
        warnings.simplefilter("ignore")
        import_compiler()
    except BaseException as error:
        os.write(CONTROL, framed(f"cannot import {PACKAGE}: {error!r}"))
        os._exit(1)
    # Keeps the children's pages shared with this process.
    gc.collect()
    gc.freeze()
    serve()
    os._exit(0)
