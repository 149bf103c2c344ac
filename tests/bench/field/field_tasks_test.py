#!/usr/bin/env python3
"""Tests of field_tasks: how it finds tasks, what it counts, how it continues, and the truth where there is PyTorch."""

import contextlib
import importlib.util
import io
import json
import os
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import main
import summary
import tasks

RELU = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""
# All values are far below the tolerance.
SOFTMAX = RELU.replace("torch.relu(x)", "torch.softmax(x, -1)").replace("randn(64, 64)", "rand(2, 32768)")
NOTHING = RELU.replace("torch.relu(x)", "torch.relu(-x.abs() - 1)")
# float32 loses digits, and so does a candidate.
CANCELLING = RELU.replace("torch.relu(x)", "(x + 4096.0) - 4096.0")
TASK_YML = """files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "reference.py", "source": "reference.py"}
lang: "py"
description: |
  A list below is text:
  - {"size": 1}
tests:
  - {"size": 100, "seed": 1} # small
  # - {"size": 200, "seed": 1}
  - {size: 64, on: True, kind: normal}
benchmarks:
  - {"size": 300, "seed": 1}
"""
REFERENCE = """import torch
from task import input_t

def generate_input(size, seed=3, on=True, kind="normal"):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    return torch.randn(size, device="cuda", generator=generator), torch.empty(size, device="cuda")

def ref_kernel(data):
    values, out = data
    out[...] = values * 2
    return out

def check_implementation(data, output):
    return torch.allclose(ref_kernel(data), output), "differs"
"""
# A stand-in for the program: refuses one task, and accepts references and the candidate of an input.
KERNELCAST = """#!{python}
import json, os, sys
if sys.argv[1] == "up":
    print(json.dumps({{"orchestrator": "127.0.0.1:1"}}), flush=True)
    sys.stdin.read()
    import signal
    signal.pause()
open({log!r}, "a").write(sys.argv[2] + "\\n")
if "refused" in sys.argv[2]:
    print(json.dumps({{"error": {{"message": "refused when it is read"}}}}))
    sys.exit(2)
for name in sorted(os.listdir(sys.argv[sys.argv.index("--candidates") + 1])):
    kind = name[:-3]
    good = kind in ("reference", "input")
    outcome = {{"ok": {{"speedup": {{"value": 1.0}}}}}} if good else {{"wrong_result": {{"cause": "CAUSE_VALUE"}}}}
    print(json.dumps({{"name": kind, "evaluation": {{"measured": outcome}}}}))
"""


class Folder:
    def __init__(self):
        self.made = tempfile.TemporaryDirectory()
        self.path = self.made.name

    def __del__(self):
        self.made.cleanup()

    def write(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def gpu_mode(self, name="set/double"):
        for file, text in (("task.yml", TASK_YML), ("reference.py", REFERENCE), ("task.py", "input_t = tuple\n")):
            self.write(f"problems/{name}/{file}", text)


class FindTest(unittest.TestCase):
    def test_tasks_are_found_by_name_and_level_4_only_when_asked_for(self):
        folder = Folder()
        for name in ("level1/10_b.py", "level1/9_a.py", "level4/1_c.py"):
            folder.write(f"KernelBench/{name}", RELU)
        folder.write("KernelBench/level1/helper.py", "x = 1\n")
        folder.gpu_mode()
        names = [task.name for task in tasks.find([folder.path])]
        self.assertEqual(names, ["gpu_mode/set/double", "kernelbench/level1/9_a", "kernelbench/level1/10_b"])
        self.assertEqual(len(tasks.find([folder.path], level4=True)), 4)

    def test_cases_and_modules_of_a_task_yml_are_read(self):
        folder = Folder()
        folder.gpu_mode()
        task = tasks.find([folder.path])[0]
        self.assertEqual(task.cases, [{"size": 100, "seed": 1}, {"size": 64, "on": True, "kind": "normal"},
                                      {"size": 300, "seed": 1}])
        self.assertEqual(sorted(task.files), ["reference.py", "task.py"])
        self.assertEqual(task.other_machine, "")

    def test_tasks_for_other_machines_are_marked(self):
        folder = Folder()
        folder.gpu_mode()
        folder.write("problems/set/double/task.yml", TASK_YML + "multi_gpu: true\n")
        self.assertEqual(tasks.find([folder.path])[0].other_machine, "needs several GPUs")

    def test_every_candidate_compiles(self):
        folder = Folder()
        folder.write("level1/1_a.py", RELU)
        folder.gpu_mode()
        for task in tasks.find([folder.path]):
            for kind in tasks.KINDS:
                compile(task.candidate(kind), kind, "exec")


def line_of(task, reference="ok", judged=True, other_machine="", **truths):
    candidates = {"reference": {"outcome": reference}}
    for kind, (outcome, truth) in truths.items():
        candidates[kind] = {"outcome": outcome, "truth": truth, "truth_figures": {}}
    return {"task": task, "group": "g", "judged": judged, "not_judged": "" if judged else "too large", "truth": "float64",
            "out_of_memory": False, "other_machine": other_machine, "seconds": 1.0, "preparation_seconds": 0.5,
            "device_seconds": 0.1, "truth_seconds": 0.1, "candidates": candidates}


class SummaryTest(unittest.TestCase):
    def judged(self, *lines):
        return summary.text_of({line["task"]: line for line in lines})

    def test_only_an_accepted_wrong_candidate_is_a_false_accept(self):
        text, met = self.judged(line_of("a", zeros=("wrong_result", "wrong"), mean=("ok", "right"), input=("ok", "near")))
        self.assertTrue(met)
        self.assertIn("false accepts: 0", text)
        text, met = self.judged(line_of("a", zeros=("ok", "wrong")))
        self.assertFalse(met)
        self.assertIn("false accepts: 1", text)
        self.assertIn("a zeros", text)

    def test_a_refused_reference_is_a_false_refusal(self):
        text, met = self.judged(line_of("a", reference="wrong_result"))
        self.assertFalse(met)
        self.assertIn("false refusals of references: 1", text)

    def test_tasks_without_verdict_lower_the_share_and_those_for_other_machines_do_not(self):
        many = [line_of(f"t{i}") for i in range(40)]
        self.assertTrue(self.judged(*many, line_of("o", judged=False, other_machine="is in NVFP4"))[1])
        self.assertTrue(self.judged(*many, line_of("u", judged=False))[1])
        text, met = self.judged(*many[:9], line_of("u", judged=False))
        self.assertFalse(met)
        self.assertIn("1: too large: u", text)

    def test_the_last_line_of_a_task_counts_and_a_cut_one_does_not(self):
        folder = Folder()
        lines = [json.dumps(line_of("a", judged=False)), json.dumps(line_of("a")), '{"task": "b']
        path = folder.write("state", "\n".join(lines))
        self.assertEqual(summary.read_state(path), {"a": line_of("a")})


class RunTest(unittest.TestCase):
    """With a stand-in for kernelcast and without PyTorch: processes of truths end at once."""

    def setUp(self):
        self.folder = Folder()
        for name in ("1_a", "2_refused", "3_c"):
            self.folder.write(f"tasks/level1/{name}.py", RELU)
        self.log = os.path.join(self.folder.path, "log")
        self.program = self.folder.write("kernelcast", KERNELCAST.format(python=sys.executable, log=self.log))
        os.chmod(self.program, os.stat(self.program).st_mode | stat.S_IXUSR)
        self.python = self.folder.write("no-pytorch", "#!/bin/sh\nexit 1\n")
        os.chmod(self.python, 0o755)
        self.state = os.path.join(self.folder.path, "state")

    def run_main(self, *more):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = main.main([os.path.join(self.folder.path, "tasks"), "--state", self.state, "--kernelcast", self.program,
                              "--python", self.python, "--reserve", "0", *more])
        return code, out.getvalue()

    def judged(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as file:
            return [os.path.basename(line.strip()) for line in file]

    def test_a_call_continues_where_the_last_one_ended(self):
        self.run_main("--limit", "1", "--at-once", "1")
        self.assertEqual(self.judged(), ["1_a.py"])
        # As if killed in the middle of a line.
        with open(self.state, "a", encoding="utf-8") as file:
            file.write('{"task": "kernelbench/level1/2_ref')
        code, out = self.run_main()
        self.assertEqual(sorted(self.judged()), ["1_a.py", "2_refused.py", "3_c.py"])
        self.assertEqual(len(summary.read_state(self.state)), 3)
        self.assertEqual(code, 1)
        self.assertIn("1: refused when it is read: kernelbench/level1/2_refused", out)
        self.assertIn("kernelbench/level1/1_a input", out)  # accepted, truth unknown

    def test_further_candidates_of_a_task_are_judged_alone_and_added(self):
        self.run_main("--kinds", "reference", "--only", "1_a")
        self.run_main("--kinds", "reference,zeros", "--only", "1_a")
        state = summary.read_state(self.state)["kernelbench/level1/1_a"]
        self.assertEqual({kind: one["outcome"] for kind, one in state["candidates"].items()},
                         {"reference": "ok", "zeros": "wrong_result"})
        self.run_main("--kinds", "reference,zeros", "--only", "1_a")
        self.assertEqual(self.judged(), ["1_a.py", "1_a.py"])

    def test_no_task_begins_after_the_time_is_over(self):
        self.run_main("--seconds", "0")
        self.assertEqual(self.judged(), [])


@unittest.skipIf(importlib.util.find_spec("torch") is None, "no PyTorch")
class TruthTest(unittest.TestCase):
    def classes(self, folder, **changed):
        import truth

        task = tasks.find([folder.path])[0]
        sources = {kind: folder.write(f"candidates/{kind}.py", changed.get(kind) or task.candidate(kind))
                   for kind in tasks.KINDS}
        made = truth.answer({"form": task.form, "path": task.path, "candidates": sources, "cases": task.cases,
                             "files": task.files, "limit_s": 60, "alone": True}, "cpu")
        self.assertNotIn("error", made)
        return {kind: one.get("class", "skipped") for kind, one in made["candidates"].items()}, made["truth"]

    def kernelbench(self, source, **changed):
        folder = Folder()
        folder.write("level1/1_a.py", source)
        return self.classes(folder, **changed)

    def test_mistakes_in_a_simple_task_are_wrong(self):
        found, truth = self.kernelbench(RELU)
        self.assertEqual(truth, "float64")
        self.assertEqual(found, {"reference": "right", "zeros": "wrong", "mean": "wrong", "input": "wrong", "last_tile": "wrong",
                                 "float16": "wrong", "previous": "wrong"})

    def test_trivial_answers_are_wrong_below_the_tolerance_and_a_small_error_is_not(self):
        found, _ = self.kernelbench(SOFTMAX)
        for kind in ("zeros", "mean", "input", "previous"):
            self.assertEqual(found[kind], "wrong", kind)
        for kind in ("reference", "last_tile", "float16"):
            self.assertEqual(found[kind], "right", kind)

    def test_zeros_are_right_where_the_answer_is_zero(self):
        self.assertEqual(self.kernelbench(NOTHING)[0]["zeros"], "right")

    def test_an_error_like_the_references_own_is_right_and_a_larger_one_is_not(self):
        head = CANCELLING + "\nclass ModelNew(Model):\n    def forward(self, x):\n        "
        found, _ = self.kernelbench(CANCELLING, reference=head + "return x.clone()\n", zeros=head + "return super().forward(x)\n",
                                    mean=head + "return (x + 65536.0) - 65536.0\n")
        self.assertEqual((found["reference"], found["zeros"], found["mean"]), ("right", "right", "wrong"))

    def test_the_tasks_checker_decides_for_gpu_mode(self):
        folder = Folder()
        folder.gpu_mode()
        found, truth = self.classes(folder)
        self.assertIn("checker, 3 of 3 cases", truth)
        self.assertEqual(found, {"reference": "right", "zeros": "wrong", "mean": "wrong", "input": "wrong", "last_tile": "wrong",
                                 "float16": "wrong", "previous": "wrong"})


if __name__ == "__main__":
    unittest.main()
