#!/usr/bin/env python3
"""Compares bench_gpu_warm_times with Nsight Compute, kernel by kernel.

    compare_with_ncu.py BENCH [--ncu PATH] [--runs N] [--jsonl FILE] [ARGUMENT ...]

Runs BENCH alone for our times, and under ncu, which launches each kernel a few times,
alternating N times. ARGUMENTs go to both. Clocks and cache are not controlled. Compares medians
over the runs: raw event times, and event times minus the launch time, which BENCH also measures.
ncu also counts cycles, which give its clock. Needs permission to read counters.
"""

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys
import tempfile

FEW = 24
WARM_UP = 4  # launches
LEAST_US = 20
LIMIT = 0.01
PATTERNS = ("busy", "idle")
OURS = ("busy_us", "idle_us", "activity_us")
NCU = {"gpu__time_duration.sum": "ncu_us", "smsp__cycles_elapsed.max": "ncu_kilocycles"}


def our_times(bench, arguments):
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as file:
        subprocess.run([bench, "--csv", file.name, *arguments], check=True)
        return list(csv.DictReader(file))


def ncu_times(ncu, bench, arguments):
    """All launches in order: kernel, microseconds and thousands of cycles."""
    command = [ncu, "--target-processes", "application-only", "--clock-control", "none",
               "--cache-control", "none", "--metrics", ",".join(NCU), "--csv",
               "--print-units", "base", bench, "--few", str(FEW), *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = run.stdout.splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith('"ID"')]
    if run.returncode != 0 or not heads:
        sys.exit("ncu failed: " + run.stdout[-2000:])
    launches = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[heads[0]:]))):
        launch = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"].split("(")[0]})
        launch[NCU[row["Metric Name"]]] = float(row["Metric Value"].replace(",", "")) / 1000
    return list(launches.values())


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
        if len(taken) < FEW or any(launch["kernel"] != row["kernel"] for launch in taken):
            sys.exit(f"ncu saw {taken} where {row['kernel']} was launched {FEW} times")
        compared.append({"problem": row["problem"], "kernel": row["kernel"],
                         **{clock: float(row[clock]) for clock in OURS},
                         **{figure: statistics.median(one[figure] for one in taken[WARM_UP:])
                            for figure in NCU.values()}})
    return compared


def merged(rows):
    """The medians of one kernel's rows, and the spread between runs."""
    row = {"problem": rows[0]["problem"], "kernel": rows[0]["kernel"], "runs": len(rows)}
    for figure in (*OURS, *NCU.values()):
        values = [one[figure] for one in rows]
        row[figure] = statistics.median(values)
        if figure.endswith("_us"):
            row[figure.replace("_us", "_spread_us")] = max(values) - min(values)
    return row


def difference(row, pattern, launch_us):
    """Error of event times for calls in that pattern, minus the launch time, relative to ncu's
    duration."""
    return (row[f"{pattern}_us"] - launch_us) / row["ncu_us"] - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bench")
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jsonl")
    options, arguments = parser.parse_known_args()
    runs = [compare_once(options, arguments) for _ in range(options.runs)]
    compared = [merged(rows) for rows in zip(*runs)]

    nothing = compared[0]
    launch_us = {pattern: nothing[f"{pattern}_us"] - nothing["ncu_us"] for pattern in PATTERNS}

    print(f"{'problem':18} {'kernel':18} {'busy us':>9} {'+-':>5} {'idle us':>9} {'+-':>5} "
          f"{'activity':>9} {'ncu us':>9} {'+-':>5} {'busy':>7} {'-launch':>7} {'idle':>7} "
          f"{'-launch':>7} {'ncu GHz':>7}")
    for row in compared:
        print(f"{row['problem']:18} {row['kernel']:18} {row['busy_us']:9.2f} "
              f"{row['busy_spread_us'] / 2:5.2f} {row['idle_us']:9.2f} "
              f"{row['idle_spread_us'] / 2:5.2f} {row['activity_us']:9.2f} {row['ncu_us']:9.2f} "
              f"{row['ncu_spread_us'] / 2:5.2f} " + " ".join(
                  f"{difference(row, pattern, off_us):+7.2%}"
                  for pattern in PATTERNS for off_us in (0, launch_us[pattern])) +
              f" {row['ncu_kilocycles'] / row['ncu_us']:7.3f}")
    long = [row for row in compared if row["ncu_us"] >= LEAST_US]
    for pattern in PATTERNS:
        for off_us in (0, launch_us[pattern]):
            differences = [difference(row, pattern, off_us) for row in long]
            within = sum(abs(value) <= LIMIT for value in differences)
            if differences:
                print(f"{pattern}{f' less {off_us:.2f} us' if off_us else ''}: {within} of "
                      f"{len(long)} kernels of {LEAST_US} us and more within {LIMIT:.0%}; median "
                      f"difference {statistics.median(differences):+.2%}, at most "
                      f"{max(differences, key=abs):+.2%}")
    if options.jsonl:
        with open(options.jsonl, "w", encoding="utf-8") as file:
            for row in compared:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
