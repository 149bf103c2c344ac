"""Tests which errors are Triton's compiler's, and that their lines are named (services/worker/python/kernel_errors.py).

    kernel_errors_test.py FOLDER

FOLDER is services/worker/python. Triton compiles here as on a GPU, but launches nothing.
"""

import linecache
import os
import pathlib
import sys
import tempfile
import types
import unittest

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

ERRORS = {"__name__": "kernel_errors"}
exec((pathlib.Path(sys.argv.pop(1)) / "kernel_errors.py").read_text(), ERRORS)

# The candidate. {line} is its line 15.
SOURCE = """
import triton
import triton.language as tl


@triton.jit
def helper(x):
    return tl.exponential(x)


@triton.jit
def kernel(a, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    y = at
    {line}
    tl.store(a + at, y)


def launch(given={block}):
    kernel.warmup(triton.runtime.jit.MockTensor(tl.float32), given, grid=(1,))


def forget_an_argument():
    kernel.warmup(triton.runtime.jit.MockTensor(tl.float32), grid=(1,))


def fail_on_the_host():
    return tl.exponential


def need_resources():
    raise triton.runtime.errors.OutOfResources(300000, 232448, "shared memory")
"""
# Answers to --version, and refuses all code.
PTXAS = """#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release 12.8, V12.8.93"; exit 0;; esac
echo "ptxas error : too much shared data" >&2
exit 255
"""


class Driver:
    """A device of architecture 9.0."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


def load(source):
    module = types.ModuleType("candidate")
    module.__file__ = "candidate.py"
    sys.modules["candidate"] = module
    linecache.cache["candidate.py"] = (len(source), None, source.splitlines(True), "candidate.py")
    exec(compile(source, "candidate.py", "exec"), module.__dict__)
    return module


class KernelErrorsTest(unittest.TestCase):
    def error(self, line="pass", block=64, function="launch"):
        """The error, and whether it is the compiler's."""
        module = load(SOURCE.format(line=line, block=block))
        try:
            getattr(module, function)()
        except Exception as error:
            return error, ERRORS["is_kernel_error"](error, ERRORS["kernel_errors"]())
        raise AssertionError("no error")

    def text(self, *arguments, **named):
        error, compilers = self.error(*arguments, **named)
        self.assertTrue(compilers, repr(error))
        heading, text = ERRORS["kernel_error_text"](error).split("\n", 1)
        self.assertEqual(heading, ERRORS["HEADING"])
        return text

    def check(self, text, place, *parts):
        self.assertTrue(text.startswith(place), text)
        for part in parts:
            self.assertIn(part, text)

    def test_errors_of_a_kernel_name_their_line(self):
        unknown = "module 'triton.language' has no attribute 'exponential'"
        self.check(self.text("y = tl.exponential(at)"), "candidate.py:15: ", unknown, "\n    y = tl.exponential(at)")
        self.check(self.text("y = helper(at)"), "candidate.py:8: ", unknown, "\n    return tl.exponential(x)")
        self.check(self.text("y = at + undefined"), "candidate.py:15: ", "undefined is not defined")
        self.check(self.text("y = [i for i in at]"), "candidate.py:15: ")
        # Inside Triton's own functions.
        self.check(self.text("y = tl.sum(at, axis=3)"), "candidate.py:15: ", "axis", "\n    y = tl.sum(at, axis=3)")
        self.check(self.text(block=1000), "candidate.py:13: ", "arange's range must be a power of 2")

    def test_static_assertions_name_their_line(self):
        text = self.text("tl.static_assert(BLOCK > 100)")
        self.check(text, "candidate.py:15: CompileTimeAssertionFailure\n    tl.static_assert(BLOCK > 100)")

    def test_errors_after_the_source_was_read_name_the_launch(self):
        self.check(self.text(), "candidate.py:20: PTXASError: ", "too much shared data", "\n    kernel.warmup(")
        self.check(self.text(function="need_resources"), "candidate.py:32: OutOfResources: ", "shared memory")

    def test_a_compiler_that_the_system_ended_is_not_the_sources_fault(self):
        error = triton.runtime.errors.PTXASError("`ptxas` failed with error code -9: ``")
        self.assertFalse(ERRORS["is_kernel_error"](error, ERRORS["kernel_errors"]()))

    def test_extensions_that_do_not_build_name_the_place(self):
        """As PyTorch reports what ninja printed."""
        built = {"__name__": "torch.utils.cpp_extension"}
        exec("def _run_ninja_build(text):\n    raise RuntimeError(text)\n", built)
        for text, expected in (
            ("Error building extension 'k':\n/scratch/x/main.cu(4): error: identifier \"two\" is undefined\n", True),
            ("Error building extension 'k':\nmain.cpp:3:5: error: expected ';'\n", True),
            ("Error building extension 'k':\nnvcc fatal: Could not open output file\n", False),
            ("Error building extension 'k':\nc++: fatal error: Killed signal terminated program cc1plus\n", False),
        ):
            with self.subTest(text):
                try:
                    built["_run_ninja_build"](text)
                except RuntimeError as error:
                    self.assertEqual(bool(ERRORS["is_kernel_error"](error, ())), expected)
                    if expected:
                        self.assertEqual(ERRORS["kernel_error_text"](error), f"{ERRORS['HEADING']}\n{text}")
        try:
            raise RuntimeError("main.cpp:3:5: error: not a build")
        except RuntimeError as error:
            self.assertFalse(ERRORS["is_kernel_error"](error, ()))

    def test_other_errors_are_not_the_compilers(self):
        for function, kind in (("forget_an_argument", TypeError), ("fail_on_the_host", AttributeError)):
            with self.subTest(function=function):
                error, compilers = self.error(function=function)
                self.assertIsInstance(error, kind)
                self.assertFalse(compilers)

    def test_lack_of_files_while_compiling_is_not_the_sources(self):
        kept, os.environ["TRITON_CACHE_DIR"] = os.environ["TRITON_CACHE_DIR"], "/dev/null/none"
        try:
            error, compilers = self.error("y = at + 1")
        finally:
            os.environ["TRITON_CACHE_DIR"] = kept
        self.assertIsInstance(error, OSError)
        self.assertFalse(compilers)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ptxas = pathlib.Path(folder) / "ptxas"
        ptxas.write_text(PTXAS)
        ptxas.chmod(0o755)
        os.environ["TRITON_PTXAS_PATH"] = os.environ["TRITON_PTXAS_BLACKWELL_PATH"] = str(ptxas)
        os.environ["TRITON_CACHE_DIR"] = folder
        triton.runtime.driver.set_active(Driver())
        unittest.main()
