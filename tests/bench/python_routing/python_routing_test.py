"""Tests the pool and the figures of python_routing, and runs it with a program that answers like kernelcast."""

import ast
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import figures
import pool

# Answers for candidates whose speedup is 1, 2, ... in the order of their names without their place.
PROGRAM = '''#!{python}
import json, pathlib, signal, sys
arguments = sys.argv[1:]
if arguments[0] == "up":
    print(json.dumps({{"orchestrator": "here"}}), flush=True)
    signal.pause()
if arguments[0] == "--version":
    print("kernelcast 1")
    sys.exit()
files = sorted(pathlib.Path(arguments[arguments.index("--candidates") + 1]).glob("*.py"))
names = sorted(file.stem.split("_", 1)[1] for file in files)
for file in files:
    speedup = 1 + names.index(file.stem.split("_", 1)[1])
    forecast = {{"expected_log2_speedup": speedup / 8, "basis": "FORECAST_BASIS_RECORDING"}}
    line = {{"name": file.name}}
    if arguments[0] == "forecast":
        line["forecast"] = forecast
    elif arguments[arguments.index("--mode") + 1] == "route" and speedup < len(names) - 1:
        line["evaluation"] = {{"decision": {{"kind": "DECISION_KIND_PRUNE"}}, "forecast": forecast, "decided_on": forecast}}
    else:
        line["evaluation"] = {{"decision": {{"kind": "DECISION_KIND_MEASURE"}}, "decided_on": forecast, "measured": {{
            "ok": {{"speedup": {{"value": speedup}}}}, "device_time": "0.5s", "device": {{"model": "some GPU"}}}}}}
    print(json.dumps(line))
'''


class Tests(unittest.TestCase):
    def test_pool(self):
        self.assertEqual(len(pool.TASKS), 6)
        for name, make in pool.TASKS.items():
            source, candidates = make()
            self.assertEqual(len(candidates), 14, name)
            self.assertEqual(len(set(candidates.values())), 14, name)
            self.assertIn("class Model(", source)
            for candidate, text in candidates.items():
                ast.parse(text, candidate)
                self.assertEqual("@triton.jit" in text, not candidate.startswith("torch_"), candidate)
            self.assertNotEqual(source, make(16)[0])

    def test_figures(self):
        self.assertEqual(figures.ranks([3, 1, 3, 0]), [2.5, 1.0, 2.5, 0.0])
        self.assertEqual(figures.spearman([1, 2, 3], [4, 5, 9]), 1.0)
        self.assertIsNone(figures.spearman([1, 2, 3], [4, 4, 4]))
        self.assertTrue(0.5 < figures.random_half([1.0, 2.0, 3.0, 4.0]) < 1)
        row = {"device_seconds": 2.0, "decision": "measure", "not_simulated": ""}
        measured = {"a": {**row, "speedup": 1.0}, "b": {**row, "speedup": 4.0}, "c": {**row, "speedup": None}}
        # The second measurement of "a" is off; its first one counts.
        routed = {"a": {**row, "speedup": 5.0}, "b": {**row, "speedup": 4.0},
                  "c": {**row, "speedup": None, "device_seconds": 0.0, "decision": "prune"}}
        task = figures.of_task(measured, routed, {"a": 0.0, "b": 1.0})
        self.assertEqual(task["found"], 0.25)
        self.assertEqual(task["device_seconds"], {"measure": 6.0, "route": 4.0})
        self.assertEqual((task["measured"], task["ok"], task["median_error_octaves"]), (2, 2, 0.5))
        self.assertIsNone(figures.of_task({"c": measured["c"]}, routed, {}))

    def test_run(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "kernelcast"
            program.write_text(PROGRAM.format(python=sys.executable))
            program.chmod(0o755)
            results = pathlib.Path(folder) / "results.jsonl"
            main = [sys.executable, "-B", str(pathlib.Path(__file__).parent / "main.py")]
            ended = subprocess.run([*main, "--kernelcast", str(program), "--python", sys.executable, "--json", str(results),
                                    "--tasks", "rmsnorm,layernorm"], capture_output=True, text=True)
            self.assertEqual(ended.returncode, 0, ended.stderr + ended.stdout)
            lines = [json.loads(line) for line in results.read_text().splitlines()]
            self.assertEqual([line["task"] for line in lines], ["rmsnorm", "layernorm"])
            for line in lines:
                self.assertEqual((line["candidates"], line["measured"], line["device"]), (14, 2, "some GPU"))
                self.assertEqual((line["found"], line["spearman"]), (1.0, 1.0))
                self.assertEqual(line["device_seconds"], {"measure": 7.0, "route": 1.0})
            self.assertIn("86% saved", ended.stdout)
            wrong = subprocess.run([*main, "--tasks", "softmaxx"], capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 2)
            self.assertIn("unknown task 'softmaxx'; there are: row_softmax", wrong.stderr)
            missing = subprocess.run([*main, "--kernelcast", str(program), "--python", "/nothing", "--write", folder],
                                     env={**os.environ, "KERNELCAST_PYTHON": ""}, capture_output=True, text=True)
            self.assertEqual(missing.returncode, 0, missing.stderr)
            self.assertEqual(len(list(pathlib.Path(folder).glob("*/*.py"))), 6 * 14)


if __name__ == "__main__":
    unittest.main()
