#!/usr/bin/env python3
"""Compares search strategies and sources of forecasts at equal device time.

    model_searches.py --output FILE.jsonl [--generator llm|template] [--llm URL] [--llm-model NAME] [--llm-key-file FILE]
                      [--llm-max-tokens N] [--prompt-directory DIR] [--generator-llm URL] [--generator-llm-model NAME]
                      [--generator-llm-key-file FILE] [--programs DIR] [--target TARGET] [--replay DIR] [--records DIR]
                      [--problems PROBLEM ...] [--strategies NAME ...] [--forecasts none embedded llm pool] [--seeds N]
                      [--device-seconds S] [--kernels N] [-- SEARCH_OPTION ...]

Runs `kernelcast search` for each problem, strategy, source of forecasts and seed, one after the other, each with services and
state of its own. With the generator llm a model writes the kernels: that of --generator-llm, or else that of --llm. With the
generator template they are points of the problem's space. --replay names a folder of recorded spaces, PROBLEM.jsonl.gz, from which
the worker answers. Every ended search is a line of FILE.jsonl, and its records are added to a file of --records for each strategy
and source of forecasts, from which `kernelcast eval` draws curves. The same command later skips ended searches, and continues the
one that was interrupted. Then prints for each strategy and source of forecasts: the best speedup relative to the best of the
problem and the candidates (measured or pruned) for each measurement, with 95% intervals (problems and seeds resampled), device
seconds, and tokens.
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

FORECASTS = {"none": ["--measure-everything"], "embedded": ["--forecaster", "embedded"], "llm": ["--forecaster", "llm"],
             "pool": ["--forecaster", "pool"]}
OF_THE_MODEL = ("llm", "llm_model", "llm_key_file", "llm_max_tokens", "prompt_directory")
OF_THE_WRITER = ("generator_llm", "generator_llm_model", "generator_llm_key_file")
RESAMPLES = 2000


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key_of(row):
    return row["problem"], row["strategy"], row["forecasts"], row["seed"]


def run(command):
    """Raises RuntimeError with what the program printed if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    # 1: nothing faster was found.
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


def keep_records(flags, strategy, forecasts, search_id, state):
    file = flags.records / f"{strategy}-{forecasts}.jsonl"
    if file.exists() and f'"{search_id}"' in file.read_text():
        return
    records = run([str(flags.programs / "kernelcast"), "export", search_id, "--sources", "--state-dir", str(state)])
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as output:
        output.write(records)


def search(flags, problem, strategy, forecasts, seed, more):
    """The row of one search."""
    name = Path(problem).stem
    search_id = f"s_{name}_{strategy}_{forecasts}_{seed}".replace("-", "_")
    state = flags.output.with_suffix(".state") / search_id
    command = [
        str(flags.programs / "kernelcast"), "search", problem, "--generator", flags.generator,
        "--strategy", strategy, *FORECASTS[forecasts], "--seed", str(seed), "--target", flags.target,
        "--budget-device-seconds", str(flags.device_seconds), "--search-id", search_id, "--state-dir", str(state),
        "--no-report", "--json", "--quiet", *more,
    ]  # fmt: skip
    writes = flags.generator == "llm"
    if writes:
        command += ["--generator-requests", str(flags.kernels)]
    if flags.replay:
        command += ["--replay", str(flags.replay / f"{name}.jsonl.gz")]
    options = OF_THE_WRITER if writes else ()
    if forecasts in ("llm", "pool") or (writes and not flags.generator_llm):
        options += OF_THE_MODEL
    for option in options:
        if (value := getattr(flags, option)) is not None:
            command += ["--" + option.replace("_", "-"), str(value)]
    found = json.loads(run(command))
    if flags.records:
        keep_records(flags, strategy, forecasts, search_id, state)
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


def mean_found(by_problem):
    return statistics.fmean(statistics.fmean(found for found, _, _ in seeds) for seeds in by_problem)


def candidates_per_measurement(by_problem):
    measured = sum(measured for seeds in by_problem for _, measured, _ in seeds)
    return 1 + sum(pruned for seeds in by_problem for _, _, pruned in seeds) / max(1, measured)


def with_interval(by_problem, figure, digits):
    """A figure of the searches of each problem, with its 95% interval."""
    draw = random.Random(1)
    values = []
    for _ in range(RESAMPLES):
        problems = draw.choices(by_problem, k=len(by_problem))
        values.append(figure([draw.choices(seeds, k=len(seeds)) for seeds in problems]))
    values.sort()
    low, high = values[RESAMPLES // 40], values[RESAMPLES - 1 - RESAMPLES // 40]
    return f"{figure(by_problem):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(rows):
    best = {}
    for row in rows:
        best[row["problem"]] = max(best.get(row["problem"], 1.0), row["speedup"])
    lines = ["| strategy | forecasts | searches | best found | geometric mean speedup | candidates / measurement | device seconds "
             "| tokens |",
             "|---|---|---|---|---|---|---|---|"]
    groups = sorted(rows, key=lambda row: (row["strategy"], row["forecasts"], row["problem"]))
    for (strategy, forecasts), group in itertools.groupby(groups, lambda row: (row["strategy"], row["forecasts"])):
        group = list(group)
        by_problem = [[(max(1.0, row["speedup"]) / best[problem], row["measured"], row["pruned"]) for row in of]
                      for problem, of in itertools.groupby(group, lambda row: row["problem"])]
        speedup = math.exp(statistics.fmean(math.log(max(1.0, row["speedup"])) for row in group))
        lines.append(f"| `{strategy}` | {forecasts} | {len(group)} | {with_interval(by_problem, mean_found, 3)} | {speedup:.2f}x "
                     f"| {with_interval(by_problem, candidates_per_measurement, 1)} "
                     f"| {statistics.fmean(row['device_seconds'] for row in group):.1f} "
                     f"| {statistics.fmean(row['tokens'] for row in group):.0f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", choices=["llm", "template"], default="llm")
    for option in OF_THE_MODEL + OF_THE_WRITER:
        parser.add_argument("--" + option.replace("_", "-"))
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--programs", type=Path, default=Path(__file__).resolve().parents[3] / "build/ci/bin")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--problems", nargs="+", default=["row_softmax", "layernorm", "matmul_bf16"])
    parser.add_argument("--strategies", nargs="+", default=["selection", "puct", "islands", "map_elites", "beam", "random"])
    parser.add_argument("--forecasts", nargs="+", choices=FORECASTS, default=["none", "embedded", "llm"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--device-seconds", type=float, default=20)
    parser.add_argument("--kernels", type=int, default=100)
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    flags = parser.parse_args(arguments[:split])
    if not flags.llm and ({"llm", "pool"} & set(flags.forecasts) or (flags.generator == "llm" and not flags.generator_llm)):
        parser.error("a model is wanted: --llm URL")
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
