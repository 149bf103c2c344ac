"""Tests how programs of GPU MODE's folders check candidates that they never run.

    gpu_mode_eval_test.py FOLDER

FOLDER is services/worker/python.
"""

import json
import pathlib
import sys
import types
import unittest

try:
    import torch
except ImportError:
    print("skipped: there is no PyTorch")
    sys.exit(77)

FOLDER = pathlib.Path(sys.argv.pop(1))
RUNNER = {"__name__": "runner"}
sys.modules["runner"] = types.ModuleType("runner")
for file in ("task_values", "definition_task", "gpu_mode_task", "gpu_mode_eval", "reference_facts", "task_draws", "runner"):
    exec(compile((FOLDER / f"{file}.py").read_text(), f"{file}.py", "exec"), RUNNER)
RUNNER["import_torch"]()
TaskError, GpuModeEval = RUNNER["TaskError"], RUNNER["GpuModeEval"]

SUBMISSION = "def scale(x, factor, out=None):\n    return helper(x) * factor\n\n\ndef helper(x):\n    return x + 0\n"
REFERENCE = """
import torch


def make(size, seed=3):
    torch.manual_seed(seed)
    return torch.randn(size, size), torch.full((), 2.0)


def wanted(x, factor):
    return x * factor
"""
# The parts that tests change stand alone.
PROGRAM = """
import os
import sys

import torch

from reference import make, wanted


def case_of(line):
    return {key.strip(): int(value) for key, value in (part.split(":") for part in line.split(";"))}


def agree(found, data):
    return torch.allclose(found, wanted(*data))


def check(case):
    import submission

    data = make(case["size"])
    found = submission.scale(*data)
    return agree(found, data)


def main():
    assert sys.argv[1] == "test" and torch.cuda.is_available()
    with open(sys.argv[2]) as file:
        cases = [case_of(line) for line in file if line.strip()]
    fd = int(os.environ["POPCORN_FD"])
    with os.fdopen(fd, "w") as report:
        os.set_inheritable(fd, False)
        good = all(check(case) for case in cases)
        print("test.0.error:", "off" if not good else "", file=report)
        print("check:", "pass" if good else "fail", file=report, flush=True)


if __name__ == "__main__":
    main()
"""


class Task:
    """A folder, and what its processes know."""

    def __init__(self, program=PROGRAM, submission=SUBMISSION, reference=REFERENCE, modules=None):
        modules = {"eval.py": program, "submission.py": submission, "reference.py": reference, **(modules or {})}
        self.details = json.dumps({"modules": modules, "program": "eval.py", "cases": [{"arguments": {"size": 4}}]})
        self.describing = self.process("describe")
        self.case = json.loads(json.dumps(self.describing.cases()[0]))

    def process(self, role):
        RUNNER["forget_modules"]()
        sys.modules.pop("submission", None)  # a candidate
        known = [] if role == "describe" else [{"case": self.case}]
        return GpuModeEval({"role": role, "details": self.details, "cases": known})

    def inputs(self, seed):
        return self.process("inputs").make_inputs(seed, self.case)

    def run(self, source, inputs):
        return self.process("candidate").candidate(source)(*inputs)

    def verdict(self, inputs, outputs):
        return self.process("check").check(*inputs, tuple(outputs))

    def judge(self, source, seed=11):
        inputs = self.inputs(seed)
        return self.verdict(inputs, self.run(source, inputs))


def refused(*given, **named):
    try:
        Task(*given, **named)
    except TaskError as error:
        return str(error)
    return None


class Programs(unittest.TestCase):
    def test_a_program_decides_about_outputs_of_another_process(self):
        task = Task()
        self.assertEqual(task.case["maker"]["function"], ["reference", "make"])
        self.assertEqual([call["function"] for call in task.case["calls"]], ["scale"])
        self.assertIsNone(task.judge(SUBMISSION))
        self.assertEqual(task.judge(SUBMISSION.replace("* factor", "* 3")), "off")

    def test_inputs_are_those_of_the_judge(self):
        task = Task()
        first, second = task.inputs(1), task.inputs(2)
        self.assertFalse(torch.equal(first[1], second[1]))
        outputs = task.run(SUBMISSION, first)
        self.assertIsNone(task.verdict(first, outputs))
        self.assertEqual(task.verdict(second, outputs), "off")

    def test_a_candidate_has_neither_program_nor_reference(self):
        task = Task(modules={"task.py": "shared = 1\n"})
        self.assertIsNone(task.judge("import task\n" + SUBMISSION))
        for module in ("eval", "reference"):
            with self.assertRaises(ModuleNotFoundError):
                task.judge(f"import {module}\n{SUBMISSION}")

    def test_results_may_be_arguments_of_later_calls(self):
        program = PROGRAM.replace(
            "found = submission.scale(*data)", "found = submission.scale(submission.scale(*data), factor=data[1]) / 2")
        task = Task(program)
        self.assertEqual([call["tensors"] for call in task.case["calls"]], [[0, 1], [2, 1]])
        self.assertIsNone(task.judge(SUBMISSION))
        self.assertEqual(task.judge(SUBMISSION.replace("* factor", "* (factor + x)")), "off")

    def test_arguments_may_be_outputs(self):
        program = PROGRAM.replace("    found = submission.scale(*data)", "    found = data[0].clone()\n    submission.scale(found, data[1])")
        task = Task(program, "def scale(x, factor):\n    x.mul_(factor)\n")
        self.assertEqual(task.case["calls"][0]["written"], [[0, 0]])

        def judge(body):
            inputs = task.inputs(5)
            return task.verdict(inputs, task.run(f"def scale(x, factor):\n    {body}\n", [inputs[0], inputs[1].clone(), inputs[2]]))

        self.assertIsNone(judge("x *= factor"))
        self.assertEqual(judge("x *= 3"), "off")

    def test_copies_of_inputs_with_nan_are_inputs(self):
        reference = REFERENCE.replace("torch.full((), 2.0)", "torch.full((), float('nan'))").replace("x * factor", "x * 2")
        program = PROGRAM.replace("submission.scale(*data)", "submission.scale(*[part.clone() for part in data])")
        task = Task(program, "def scale(x, factor):\n    return x + x\n", reference)
        self.assertIsNone(task.judge("def scale(x, factor):\n    return x * 2\n"))

    def test_rounds_on_other_inputs_are_like_the_first(self):
        program = PROGRAM.replace(
            "    return agree(found, data)",
            "    good = agree(found, data)\n    data = make(case['size'], 9)\n    return good and agree(submission.scale(*data), data)")
        task = Task(program)
        self.assertEqual(len(task.case["calls"]), 1)
        self.assertIsNone(task.judge(SUBMISSION))

    def test_a_pool_of_processes_is_this_process(self):
        program = PROGRAM.replace("all(check(case) for case in cases)", "all(pool().map(check, cases))").replace(
            "def main():", "def pool():\n    import multiprocessing\n    return multiprocessing.get_context('spawn').Pool(1)\n\n\ndef main():")
        task = Task(program)
        self.assertIsNone(task.judge(SUBMISSION))
        self.assertEqual(task.judge(SUBMISSION.replace("* factor", "* 3")), "off")

    def test_programs_that_cannot_be_run_without_a_candidate_are_refused(self):
        exactly = "the program cannot be run without a candidate: no function of the task makes exactly the tensors that scale gets"
        self.assertEqual(refused(PROGRAM.replace("(*data)", "(torch.ones(2, 2), data[1])")), exactly)
        self.assertEqual(refused(PROGRAM.replace("(*data)", "(data[0], 2)")), exactly)
        changed = PROGRAM.replace("    found =", "    data[0].add_(1)\n    found =")
        self.assertEqual(refused(changed), exactly)
        unused = PROGRAM.replace("found = submission.scale(*data)", "found = wanted(*data)")
        self.assertEqual(refused(unused), "the program cannot be run without a candidate: it calls no candidate")
        accepts = PROGRAM.replace("return agree(found, data)", "return True")
        self.assertEqual(refused(accepts), "eval.py accepts wrong outputs in its mode test")
        wrong = SUBMISSION.replace("* factor", "* 3")
        self.assertEqual(refused(submission=wrong), "eval.py refuses the reference, submission.py: off")

    def test_a_candidate_that_returns_too_few_tensors_has_another_form(self):
        with self.assertRaisesRegex(RUNNER["WrongForm"], "scale returns 0 tensors instead of 1"):
            Task().judge("def scale(x, factor):\n    return None\n")
        with self.assertRaisesRegex(TaskError, "the candidate does not define scale"):
            Task().judge("def helper(x):\n    return x\n")


if __name__ == "__main__":
    unittest.main()
