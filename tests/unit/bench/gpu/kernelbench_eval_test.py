"""Tests how kernelbench_eval.py runs candidates in processes of their own. Needs neither PyTorch nor KernelBench."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import types
import unittest

for name in ("torch", "triton"):
    sys.modules[name] = types.ModuleType(name)
sys.path.insert(0, str(pathlib.Path(__file__).parents[4] / "tests/bench/gpu"))

from kernelbench_eval import in_process  # noqa: E402


class InProcessTest(unittest.TestCase):
    def test_returns_the_result(self):
        self.assertEqual(in_process(lambda: {"correct": True, "error": "a\nb" * 100_000}, 30)["error"], "a\nb" * 100_000)

    def test_returns_an_exception(self):
        self.assertEqual(in_process(lambda: 1 / 0, 30), {"error": "ZeroDivisionError: division by zero"})

    def test_tells_how_a_process_ended(self):
        for end, status in (lambda: os._exit(3), 3 << 8), (lambda: os.kill(os.getpid(), signal.SIGKILL), signal.SIGKILL):
            self.assertEqual(in_process(end, 30)["error"], f"the process ended with wait status {int(status)}")

    def test_ends_what_hangs_or_has_stopped_itself(self):
        for hang in lambda: time.sleep(100), lambda: os.kill(os.getpid(), signal.SIGSTOP):
            self.assertEqual(in_process(hang, 1)["error"], "did not end within 1 s")

    def test_does_not_wait_for_programs_that_a_candidate_has_started(self):
        def start():
            return {"started": subprocess.Popen(["sleep", "100"], close_fds=False).pid}

        began = time.monotonic()
        started = in_process(start, 50)["started"]
        self.assertLess(time.monotonic() - began, 40)
        while time.monotonic() - began < 50:
            try:
                state = pathlib.Path(f"/proc/{started}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                return
        self.fail("the program is still there")


if __name__ == "__main__":
    unittest.main()
