#!/usr/bin/env python3
"""Runs tests/bench/paper/reproduce.py with the real services.

    paper_test.py --programs FOLDER [--training-python PYTHON] [--torch-python PYTHON] PaperTest.test_...
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/bench/paper/reproduce.py"
SUBMISSIONS = ROOT / "examples/tasks/gpu_mode/clamped_add/submissions"
CHARTS = ("Reliability of forecasts", "Risk against coverage")
CHARTS_OF_SEARCHES = ("Best found against the share measured", "Best so far against device seconds")
sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "clients/python/tests")]
sys.dont_write_bytecode = True
import paper_tasks  # noqa: E402
from scripted_model import scripted_model  # noqa: E402

options = None


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@contextlib.contextmanager
def forecasting_model(name):
    """An endpoint that answers with forecasts."""
    process = subprocess.Popen([options.programs / "fake-llm-endpoint", "--model", name], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def imports(python, *modules):
    return bool(python) and shutil.which(python) and subprocess.run(
        [python, "-c", "import " + ", ".join(modules)], capture_output=True).returncode == 0


class PaperTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-paper-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.output = self.folder / "paper"

    def reproduce(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-B", PROGRAM, "-o", self.output, "--programs", options.programs, *arguments],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout[-4000:] + done.stderr[-4000:])
        return done.stdout + done.stderr

    def tasks(self, names):
        """A folder in which each of the tasks is a small one."""
        for name in names:
            task = self.folder / "kernels/problems" / paper_tasks.TASKS[name]
            shutil.copytree(ROOT / "examples/tasks/gpu_mode/clamped_add", task)
            shutil.copy(ROOT / "examples/tasks/gpu_mode/utils.py", task.parent)
            # Problems of their own.
            text = (task / "task.yml").read_text()
            (task / "task.yml").write_text(text.replace("Add two", f"{name}: add two", 1))
            assert text != (task / "task.yml").read_text()
        return self.folder / "kernels"

    def check_figures(self):
        for name in ("surrogates", "discovery", "searches"):
            page = (self.output / f"figures/{name}.html").read_text()
            for chart in CHARTS + (CHARTS_OF_SEARCHES if name == "searches" else ()):
                self.assertTrue(f'aria-label="{chart}"' in page, f"{name}: {chart}")

    def test_steps_at_debug_size_continue_where_they_ended(self):
        steps = ("search", "score", "score-trained", "compare", "discovery", "figures")
        with forecasting_model("small") as url:
            printed = self.reproduce(*steps, "--debug", "--llm", url)
            held_out, predictions = lines(self.output / "rows/held_out.jsonl"), lines(self.output / "predictions.jsonl")
            self.assertEqual({row["pack"] for row in held_out}, {"gather"})
            self.assertEqual({row["pack"] for row in lines(self.output / "rows/train.jsonl")}, {"transpose", "column_sum"})
            self.assertEqual(sorted(row["comparison_id"] for row in predictions), sorted(row["row_id"] for row in held_out))
            searches = lines(self.output / "compare/searches.jsonl")
            self.assertEqual([row["forecasts"] for row in searches], ["none", "embedded", "llm", "pool"])
            for row in searches:
                self.assertGreater(row["device_seconds"], 1)
                self.assertLess(row["device_seconds"], 10)
                self.assertEqual(row["pruned"] > 0, row["forecasts"] != "none")
            self.assertGreater(searches[2]["tokens"], 0)
            pairs = lines(self.output / "rows/pairs.jsonl")
            self.assertEqual(len(pairs), 3)
            self.assertEqual(len(lines(self.output / "discovery.jsonl")), 3)
            self.assertIn("| `puct` | llm | 1 |", printed)
            self.check_figures()
            # Nothing is searched or asked again.
            again = self.reproduce(*steps, "--debug", "--llm", url)
            self.assertIn("0 questions", again)
            self.assertEqual(lines(self.output / "compare/searches.jsonl"), searches)
            self.assertEqual(lines(self.output / "predictions.jsonl"), predictions)

    def test_the_full_size_has_the_papers_figures(self):
        tasks = self.tasks(paper_tasks.TASKS)
        printed = self.reproduce("search", "score", "train", "score-trained", "compare", "discovery", "figures", "--dry-run", "--tasks",
                                 tasks, "--writer", "http://w/v1", "--model", "small.gguf")
        for path in paper_tasks.TASKS.values():
            self.assertIn(path, printed)
        for size in ("--kernels 320 ", "--kernels 1280 ", "--seeds 10 ", "--forecasts none embedded llm pool "):
            self.assertIn(size, printed)
        self.assertIn("--generator-llm http://w/v1", printed)
        self.assertEqual(printed.count("== "), 7)
        self.assertFalse(self.output.exists())
        self.assertIn("is missing; give a copy of gpu-mode/reference-kernels", self.reproduce(
            "search", "--tasks", self.folder, "--writer", "http://w/v1", code=1))
        self.assertIn("--hold-out: name some of", self.reproduce(
            "figures", "--tasks", tasks, "--only", "trimul", code=1))

    def test_tasks_of_a_folder_are_searched_with_two_models(self):
        """Two tasks, with a writer and another model that forecasts, on the cpu target."""
        if not imports(options.torch_python, "torch"):
            self.skipTest("PyTorch is missing")
        names = ["fp8_quant", "trimul"]
        kernels = [f"```python\n{path.read_text()}```\n" for path in sorted(SUBMISSIONS.glob("*.py"))]
        kernels.append(kernels[0].replace("def custom_kernel", "TRIES = 2\n\n\ndef custom_kernel"))
        asked = []
        common = ("--tasks", self.tasks(names), "--only", *names, "--target", "cpu", "--python", options.torch_python)
        with scripted_model(kernels, asked.append) as writer, forecasting_model("small") as url:
            self.reproduce("search", *common, "--writer", writer, "--kernels", "3")
            rows = lines(self.output / "rows/all.jsonl")
            self.assertTrue(all(row["anchor_code"] and row["candidate_code"] for row in rows))
            self.assertTrue(lines(self.output / "rows/train.jsonl"))
            writes = len(asked)
            self.reproduce("score", "compare", *common, "--writer", writer, "--llm", url, "--kernels", "3", "--seeds", "1",
                           "--device-seconds", "60")
            self.assertGreater(len(asked), writes)
            self.assertEqual(len(lines(self.output / "predictions.jsonl")), len(lines(self.output / "rows/held_out.jsonl")))
            self.assertEqual({row["forecasts"] for row in lines(self.output / "compare/searches.jsonl")},
                             {"none", "embedded", "llm", "pool"})

    def test_all_steps_with_a_genuine_model(self):
        """Without the packages that training needs, all but the steps train and score-trained."""
        if not all((ROOT / ".setup" / name).exists() for name in ("llama", "smollm2")):
            self.skipTest("llama.cpp's server or SmolLM2 is missing")
        trains = imports(options.training_python, "torch", "transformers", "peft", "gguf", "kernelcast")
        steps = ["search", "score", *(["train", "score-trained"] if trains else []), "compare", "discovery", "figures"]
        printed = self.reproduce(*steps, "--debug", *(["--python", options.training_python] if trains else []))
        print(printed)
        predictions = lines(self.output / "predictions.jsonl")
        models = {row["surrogate_label"].split()[0] for row in predictions}
        self.assertEqual(models, {"model", "hit_crps"} if trains else {"model"})
        self.assertTrue(all(row["output_tokens"] > 0 for row in predictions))
        self.assertGreater(lines(self.output / "compare/searches.jsonl")[2]["tokens"], 0)
        self.check_figures()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True, type=Path)
    parser.add_argument("--training-python")
    parser.add_argument("--torch-python", default="/usr/bin/python3")
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
