#!/usr/bin/env python3
"""Runs model_searches.py on real services, the target cpu and a scripted model.

    model_searches_test.py --programs FOLDER
"""

import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients/python/tests"))
from scripted_model import scripted_model  # noqa: E402

CANDIDATES = ROOT / "examples/candidates/row_softmax"
options = None


class ModelSearchesTest(unittest.TestCase):
    def run_script(self, output, url, *more):
        return subprocess.run(
            [sys.executable, "-B", ROOT / "tests/bench/experiments/model_searches.py", "--programs", options.programs,
             "--llm", url, "--llm-model", "scripted", "--output", output, "--target", "cpu",
             "--problems", ROOT / "examples/problems/row_softmax", "--strategies", "puct",
             "--forecasts", "none", "--device-seconds", "60", "--kernels", "2", *more],
            capture_output=True, text=True, timeout=900)

    def test_it_records_each_search_once_and_skips_it_later(self):
        asked = []
        answers = [f"```cpp\n{(CANDIDATES / name).read_text()}```\n" for name in ("two_rows.cc", "reciprocal.cc")]
        with tempfile.TemporaryDirectory(prefix="kernelcast-models-") as folder, scripted_model(answers, asked.append) as url:
            output = Path(folder) / "searches.jsonl"
            done = self.run_script(output, url, "--seeds", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in output.read_text().splitlines()]
            self.assertEqual([row["strategy"] for row in rows], ["puct"])
            for row in rows:
                self.assertGreater(row["kernels"], 0)
                self.assertGreater(row["tokens"], 0)
                self.assertGreater(row["device_seconds"], 0)
            self.assertIn("| `puct` | none | 1 |", done.stdout)
            requests = len(asked)
            again = self.run_script(output, url, "--seeds", "1")
            self.assertEqual((again.returncode, again.stdout), (0, done.stdout), again.stderr)
            self.assertEqual(len(asked), requests)

    def test_a_failed_search_is_an_error_with_what_it_printed(self):
        with tempfile.TemporaryDirectory(prefix="kernelcast-models-") as folder:
            output = Path(folder) / "searches.jsonl"
            done = self.run_script(output, "http://127.0.0.1:1/v1", "--seeds", "1")
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot be reached", done.stderr)
            self.assertFalse(output.exists())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
