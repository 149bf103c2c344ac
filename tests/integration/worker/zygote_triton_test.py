"""Tests that copies of the zygote do not compile Triton's C module.

    zygote_triton_test.py FOLDER

FOLDER is services/worker/python. A stub stands for the driver's library: each of its functions returns an error.
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import triton
import triton.language


def functions_of(folder):
    """Runs the zygote's program (programs.cc.in) without its last line, and returns its global names."""
    files = ("task_values", "definition_task", "gpu_mode_task", "gpu_mode_eval", "reference_facts", "task_draws", "runner",
             "kernel_errors", "cuda_runner")
    source = "\n".join((pathlib.Path(folder) / f"{name}.py").read_text() for name in files)
    names = {"__name__": "runner"}
    exec(source.removesuffix("\nmain()\n"), names)
    return names


def make_driver(folder):
    source = pathlib.Path(triton.__file__).parent / "backends/nvidia/driver.c"
    called = set(re.findall(r"\b(cu[A-Z]\w+)\(", source.read_text()))
    stubs = folder / "stubs.c"
    stubs.write_text("".join(f"int {name}(void) {{ return 999; }}\n" for name in sorted(called)))
    library = folder / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, stubs], check=True)
    return library


def main():
    names = functions_of(sys.argv[1])
    with tempfile.TemporaryDirectory() as created:
        folder = pathlib.Path(created)
        cache = folder / "cache"
        os.environ["TRITON_CACHE_DIR"] = str(cache)
        # A later load of libcuda.so.1 finds this library, because it has that name.
        ctypes.CDLL(str(make_driver(folder)))
        names["prepare_triton"]()
        assert os.environ["TRITON_CACHE_DIR"] == str(cache)
        child = os.fork()
        if child == 0:
            from triton.backends.nvidia.driver import CudaUtils

            made = CudaUtils()
            compiled = list(cache.rglob("*.so"))
            print("compiled in the copy:", compiled, "load_binary:", made.load_binary, flush=True)
            os._exit(1 if compiled else 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


main()
