"""Tests the sizes at which tasks with definitions are checked besides their workloads.

    definition_task_test.py FOLDER

FOLDER is services/worker/python.
"""

import json
import math
import pathlib
import random
import sys
import unittest

try:
    import torch
except ImportError:
    print("skipped: there is no PyTorch")
    sys.exit(77)

FOLDER = pathlib.Path(sys.argv.pop(1))
for file in ("task_values", "definition_task"):
    exec((FOLDER / f"{file}.py").read_text(), globals())


def task(axes, workloads):
    definition = {
        "axes": axes,
        "inputs": {"x": {"shape": ["rows", "cols"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["rows"], "dtype": "float32"}},
    }
    cases = [{"axes": {"rows": rows, "cols": cols}, "inputs": {}, **more} for rows, cols, more in workloads]
    return SolExecBench({"details": json.dumps({"definition": definition, "cases": cases}), "task": ""})


WORKLOADS = [(3, 4, {"timed": False}), (5, 6, {"timed": False}), (4096, 4096, {})]


class HeldOut(unittest.TestCase):
    def test_sizes_are_drawn_from_their_ranges(self):
        ranged = task({"rows": {"type": "var", "held_out": [1, 70]}, "cols": {"type": "var", "held_out": [16, 96, 16]}}, WORKLOADS)
        drawn = [case["axes"] for seed in range(200) for case in ranged.held_out_cases(seed)]
        self.assertEqual(len(drawn), 400)
        self.assertEqual({axes["cols"] for axes in drawn}, {16, 32, 48, 64, 80, 96})
        self.assertTrue(all(1 <= axes["rows"] <= 70 for axes in drawn))
        self.assertGreater(len({axes["rows"] for axes in drawn}), 60)
        self.assertEqual(ranged.held_out_cases(7), ranged.held_out_cases(7))

    def test_other_axes_are_those_of_a_workload_that_is_not_timed(self):
        ranged = task({"rows": {"type": "var", "held_out": [1, 70]}, "cols": {"type": "var"}}, WORKLOADS)
        drawn = [case["axes"]["cols"] for seed in range(50) for case in ranged.held_out_cases(seed)]
        self.assertEqual(set(drawn), {4, 6})
        # The workloads themselves stay as they are.
        self.assertEqual([case["axes"]["rows"] for case in ranged.cases()], [3, 5, 4096])

    def test_a_definition_without_ranges_has_none(self):
        self.assertEqual(task({"rows": {"type": "var"}, "cols": {"type": "var"}}, WORKLOADS).held_out_cases(1), [])


if __name__ == "__main__":
    unittest.main()
