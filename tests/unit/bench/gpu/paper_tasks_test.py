"""Tests how paper_tasks.py adapts the task with two functions, and what it makes of Kernelcast's answers. Needs neither
PyTorch nor the tasks: a program that prints given lines stands for Kernelcast.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
PROGRAM = os.path.join(ROOT, "tests/bench/paper_tasks.py")
sys.path.insert(0, os.path.dirname(PROGRAM))
sys.dont_write_bytecode = True
import paper_tasks  # noqa: E402

TASK = """files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "eval.py"}
lang: "py"
tests:
  - {"vocab_size": 8}
benchmarks:
  - {"vocab_size": 16}
"""


def line(name, **result):
    return {"name": name, "evaluation": {"text_feedback": "said", **result}}


def measured(comparison="COMPARISON_FASTER"):
    return {"measured": {"ok": {"speedup": {"value": 2.0, "low": 1.5, "high": 2.5}, "comparison": comparison}}}


class PaperTasksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.task = os.path.join(self.folder, "problems/princeton/cross_entropy_py")
        for name, text in (("task.yml", TASK), ("reference.py", "ATOL = 1\n"), ("eval.py", "WARMUP = 2\nB = 4_096\n")):
            paper_tasks.write(text, self.task, name)
        paper_tasks.write("def cross_entropy_forward():\n    pass\n", self.folder, "candidates/cross_entropy/a.py")

    def run_program(self, lines, *arguments, code=1):
        """Runs it with a Kernelcast that prints these lines, and returns the last line and all that it printed."""
        fake = os.path.join(self.folder, "fake")
        paper_tasks.write(f"#!{sys.executable}\nprint({chr(10).join(map(json.dumps, lines))!r})\n", fake)
        os.chmod(fake, 0o755)
        command = [sys.executable, "-B", PROGRAM, self.folder, "--candidates", os.path.join(self.folder, "candidates"),
                   "--kernelcast", fake, "--task", "cross_entropy", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.splitlines()[-1], done.stdout

    def test_the_adapted_task_has_the_usual_functions_and_the_batch_size_of_its_own_program(self):
        out = os.path.join(self.folder, "out")
        task, candidates = paper_tasks.adapted_pair(self.task, os.path.join(self.folder, "candidates/cross_entropy"), out)
        text = paper_tasks.read(task, "task.yml")
        self.assertNotIn("eval.py", text)
        self.assertIn('- {"batch_size": 4096, "seed": 0, "vocab_size": 8}', text)
        self.assertIn('- {"batch_size": 4096, "seed": 0, "vocab_size": 16}', text)
        reference = paper_tasks.read(task, "reference.py")
        self.assertTrue(reference.startswith("ATOL = 1\n"))
        for name in ("generate_input", "ref_kernel", "check_implementation"):
            self.assertIn(f"\ndef {name}(", reference)
        self.assertIn("\ndef custom_kernel(", paper_tasks.read(candidates, "a.py"))

    def test_right_and_faster_candidates_pass(self):
        last, _ = self.run_program([line("a", **measured())], code=0)
        self.assertEqual(last, "1 of 1 tasks judged, 1 of 1 candidates right and faster")

    def test_candidates_that_are_wrong_or_not_faster_fail(self):
        for result in (measured("COMPARISON_SAME"), {"measured": {"wrong_result": {}}}, {"rejected": {"compile_error": {}}}):
            last, _ = self.run_program([line("a", **result)])
            self.assertEqual(last, "1 of 1 tasks judged, 0 of 1 candidates right and faster")

    def test_tasks_without_a_verdict_are_not_judged(self):
        for lines in ([{"error": {"message": "no worker"}}], [line("a", measured={"environment_unstable": {}})],
                      [line("a", rejected={"unavailable": "busy"})], []):
            last, _ = self.run_program(lines)
            self.assertTrue(last.startswith("0 of 1 tasks judged, 0 of 1 candidates"), last)

    def test_a_stored_result_is_not_measured_again(self):
        store = os.path.join(self.folder, "store")
        self.run_program([{"error": {"message": "no worker"}}], "--store", store)
        self.run_program([line("a", **measured())], "--store", store, code=0)
        self.run_program([line("a", **{"measured": {"wrong_result": {}}})], "--store", store, code=0)


if __name__ == "__main__":
    unittest.main()
