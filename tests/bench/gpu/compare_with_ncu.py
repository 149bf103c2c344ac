#!/usr/bin/env python3
"""Compares bench_gpu_warm_times with Nsight Compute, kernel by kernel.

  compare_with_ncu.py BENCH [--ncu PATH] [--runs N] [--jsonl FILE] [ARGUMENT ...]

Runs BENCH by itself, for our times, and under ncu, which launches each kernel a few times, in turn
N times; ARGUMENTs go to both. The clocks are left alone, and so is the cache. Compared are the
medians over the runs. Events see the launch of a kernel besides its execution: how much that is
can be seen from the shortest kernel, and the last line takes that off. Needs the permission to
read counters.
"""

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys
import tempfile

FEW = 14
WARM_UP = 4  # of them
LEAST_US = 20
LIMIT = 0.01


def our_times(bench, arguments):
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as file:
        subprocess.run([bench, "--csv", file.name, *arguments], check=True)
        return list(csv.DictReader(file))


def ncu_times(ncu, bench, arguments):
    """Durations of all launches in their order, as (kernel, microseconds)."""
    command = [ncu, "--target-processes", "application-only", "--clock-control", "none",
               "--cache-control", "none", "--metrics", "gpu__time_duration.sum", "--csv",
               "--print-units", "base", bench, "--few", str(FEW), *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = run.stdout.splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith('"ID"')]
    if run.returncode != 0 or not heads:
        sys.exit("ncu failed: " + run.stdout[-2000:])
    rows = csv.DictReader(io.StringIO("\n".join(lines[heads[0]:])))
    return [(row["Kernel Name"].split("(")[0], float(row["Metric Value"].replace(",", "")) / 1000)
            for row in rows]


def compare_once(options, arguments):
    """Our time and ncu's for each kernel."""
    ours = our_times(options.bench, arguments)
    launches = ncu_times(options.ncu, options.bench, arguments)
    compared = []
    at = 0
    for i, row in enumerate(ours):
        if row["launch"] == "0":  # a reference: one call of all its kernels comes first
            at += next((j for j, other in enumerate(ours[i + 1:], 1) if other["launch"] == "0"),
                       len(ours) - i)
        taken = launches[at:at + FEW]
        at += FEW
        if len(taken) < FEW or any(name != row["kernel"] for name, _ in taken):
            sys.exit(f"ncu saw {taken} where {row['kernel']} was launched {FEW} times")
        compared.append({"problem": row["problem"], "kernel": row["kernel"],
                         "ours_us": float(row["ours_us"]),
                         "activity_us": float(row["activity_us"]),
                         "ncu_us": statistics.median(us for _, us in taken[WARM_UP:])})
    return compared


def merged(rows):
    """The medians of one kernel's rows, and how far each clock's runs lie apart."""
    merged_row = {"problem": rows[0]["problem"], "kernel": rows[0]["kernel"]}
    for clock in ("ours_us", "activity_us", "ncu_us"):
        values = [row[clock] for row in rows]
        merged_row[clock] = statistics.median(values)
        merged_row[clock.replace("_us", "_spread_us")] = max(values) - min(values)
    merged_row["difference"] = merged_row["ours_us"] / merged_row["ncu_us"] - 1
    return merged_row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bench")
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jsonl")
    options, arguments = parser.parse_known_args()
    runs = [compare_once(options, arguments) for _ in range(options.runs)]
    compared = [merged(rows) for rows in zip(*runs)]

    print(f"{'problem':18} {'kernel':26} {'ours us':>10} {'+-':>6} {'activity':>10} {'ncu':>10} "
          f"{'+-':>6} {'us':>7} {'ours/ncu':>9}")
    for row in compared:
        print(f"{row['problem']:18} {row['kernel']:26} {row['ours_us']:10.2f} "
              f"{row['ours_spread_us'] / 2:6.2f} {row['activity_us']:10.2f} {row['ncu_us']:10.2f} "
              f"{row['ncu_spread_us'] / 2:6.2f} {row['ours_us'] - row['ncu_us']:7.2f} "
              f"{row['difference']:+9.2%}")
    long = [row for row in compared if row["ncu_us"] >= LEAST_US]
    if long:
        shortest = min(compared, key=lambda row: row["ncu_us"])
        launch_us = shortest["ours_us"] - shortest["ncu_us"]
        for what, off_us in (("as they are", 0),
                             (f"less the {launch_us:.2f} us of {shortest['kernel']}", launch_us)):
            differences = [(row["ours_us"] - off_us) / row["ncu_us"] - 1 for row in long]
            within = sum(abs(difference) <= LIMIT for difference in differences)
            print(f"{what}: {within} of {len(long)} kernels of {LEAST_US} us and more within "
                  f"{LIMIT:.0%}; median difference {statistics.median(differences):+.2%}, "
                  f"at most {max(differences, key=abs):+.2%}")
    else:
        print("no kernel is long enough")
    if options.jsonl:
        with open(options.jsonl, "w", encoding="utf-8") as file:
            for row in compared:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
