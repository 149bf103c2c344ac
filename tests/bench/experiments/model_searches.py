#!/usr/bin/env python3
"""Compares search strategies with kernels that a model writes, at equal device time.

    model_searches.py --llm URL [--llm-model NAME] [--llm-key-file FILE] --output FILE.jsonl
                      [--programs DIR] [--target TARGET] [--problems PROBLEM ...] [--strategies NAME ...]
                      [--forecasts none embedded llm] [--seeds N] [--device-seconds S] [--kernels N]
                      [-- SEARCH_OPTION ...]

Runs `kernelcast search` for each problem, strategy, source of forecasts and seed, one after the other, each with services and
state of its own. Every ended search is a line of FILE.jsonl. The same command later skips these, and continues the one that was
interrupted. Then prints for each strategy and source of forecasts: the best speedup relative to the best of the problem (mean with
a 95% interval, problems and seeds resampled), device seconds, and tokens.
"""

import argparse
import itertools
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

FORECASTS = {"none": ["--measure-everything"], "embedded": ["--forecaster", "embedded"], "llm": ["--forecaster", "llm"]}
RESAMPLES = 2000


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key_of(row):
    return row["problem"], row["strategy"], row["forecasts"], row["seed"]


def search(flags, problem, strategy, forecasts, seed, more):
    """The row of one search. Raises RuntimeError with what the program printed if the search fails."""
    name = Path(problem).stem
    search_id = f"s_{name}_{strategy}_{forecasts}_{seed}".replace("-", "_")
    state = flags.output.with_suffix(".state") / search_id
    command = [
        str(flags.programs / "kernelcast"), "search", problem, "--generator", "llm", "--llm", flags.llm,
        "--strategy", strategy, *FORECASTS[forecasts], "--seed", str(seed), "--target", flags.target,
        "--budget-device-seconds", str(flags.device_seconds), "--generator-requests", str(flags.kernels),
        "--search-id", search_id, "--state-dir", str(state), "--no-report", "--json", "--quiet", *more,
    ]  # fmt: skip
    for option in ("llm_model", "llm_key_file"):
        if value := getattr(flags, option):
            command += ["--" + option.replace("_", "-"), value]
    done = subprocess.run(command, capture_output=True, text=True)
    # 1: nothing faster was found.
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout)
    shutil.rmtree(state, ignore_errors=True)
    # In protobuf's JSON, where 64-bit integers are strings and zeros are left out.
    counts = found["search"]["counts"]
    generation = counts.get("generation", {})
    forecasting = counts.get("model_use", {}).get("token_usage", {})
    best = found.get("best") or {}
    return {
        "problem": problem, "strategy": strategy, "forecasts": forecasts, "seed": seed,
        "speedup": best.get("speedup", {}).get("value", 1.0), "end_reason": found["end_reason"],
        "measured": found["counts"]["measured"], "pruned": found["counts"]["pruned"],
        "device_seconds": found["device_seconds_spent"] - found["device_seconds_confirming"],
        "device_model": found["device_model"], "kernels": int(generation.get("written", 0)),
        "tokens": sum(int(of.get(kind, 0)) for of in (generation, forecasting) for kind in ("input_tokens", "output_tokens")),
        "llm": flags.llm_model or flags.llm,
    }  # fmt: skip


def interval(by_problem):
    """95% interval of the mean over problems."""
    draw = random.Random(1)
    means = []
    for _ in range(RESAMPLES):
        problems = draw.choices(by_problem, k=len(by_problem))
        means.append(statistics.fmean(statistics.fmean(draw.choices(seeds, k=len(seeds))) for seeds in problems))
    means.sort()
    return means[RESAMPLES // 40], means[RESAMPLES - 1 - RESAMPLES // 40]


def table(rows):
    best = {}
    for row in rows:
        best[row["problem"]] = max(best.get(row["problem"], 1.0), row["speedup"])
    lines = ["| strategy | forecasts | searches | best found | geometric mean speedup | device seconds | tokens |",
             "|---|---|---|---|---|---|---|"]
    groups = sorted(rows, key=lambda row: (row["strategy"], row["forecasts"], row["problem"]))
    for (strategy, forecasts), group in itertools.groupby(groups, lambda row: (row["strategy"], row["forecasts"])):
        group = list(group)
        by_problem = [[max(1.0, row["speedup"]) / best[problem] for row in of]
                      for problem, of in itertools.groupby(group, lambda row: row["problem"])]
        low, high = interval(by_problem)
        mean = statistics.fmean(statistics.fmean(seeds) for seeds in by_problem)
        speedup = math.exp(statistics.fmean(math.log(max(1.0, row["speedup"])) for row in group))
        lines.append(f"| `{strategy}` | {forecasts} | {len(group)} | {mean:.3f} [{low:.3f}, {high:.3f}] | {speedup:.2f}x "
                     f"| {statistics.fmean(row['device_seconds'] for row in group):.1f} "
                     f"| {statistics.fmean(row['tokens'] for row in group):.0f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", required=True)
    parser.add_argument("--llm-model")
    parser.add_argument("--llm-key-file")
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--programs", type=Path, default=Path(__file__).resolve().parents[3] / "build/ci/bin")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--problems", nargs="+", default=["row_softmax", "layernorm", "matmul_bf16"])
    parser.add_argument("--strategies", nargs="+", default=["selection", "puct", "islands", "map_elites", "beam", "random"])
    parser.add_argument("--forecasts", nargs="+", choices=FORECASTS, default=list(FORECASTS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--device-seconds", type=float, default=20)
    parser.add_argument("--kernels", type=int, default=100)
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    flags = parser.parse_args(arguments[:split])
    flags.output.parent.mkdir(parents=True, exist_ok=True)
    ended = {key_of(row) for row in read(flags.output)}
    # All strategies get a seed before any gets the next, so that an early end leaves a fair comparison.
    for seed, problem, strategy, forecasts in itertools.product(
            range(1, flags.seeds + 1), flags.problems, flags.strategies, flags.forecasts):
        if (problem, strategy, forecasts, seed) in ended:
            continue
        row = search(flags, problem, strategy, forecasts, seed, arguments[split + 1:])
        with flags.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{problem} {strategy} {forecasts} {seed}: {row['speedup']:.3f}x, {row['end_reason']}", file=sys.stderr)
    print(table(read(flags.output)))


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(str(error))
