#!/usr/bin/env python3
"""Measures all candidates of some PyTorch tasks, then routes the same candidates, and compares device time and result.

Each mode has services and a state folder of its own, so that routing begins without labels. The candidates of a task are
sent in the same random order in both. Beside them: a random half, over 20 seeds. Forecasts are those before any label.
Exit codes: 0 the goals hold (half of the device time saved at 0.99 of the best, no task below a random half), 1 they
do not, 2 bad usage, 3 a command failed.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import figures
import pool

GOAL_SAVED, GOAL_FOUND = 0.5, 0.99
MODES = ("measure", "route")
SOURCE = pathlib.Path(__file__).resolve().parents[3]


class Failed(Exception):
    """A command failed."""


def arguments_of(given):
    parser = argparse.ArgumentParser(prog="python_routing", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="FOLDER", help="only write the tasks and their candidates there")
    parser.add_argument("--tasks", default=",".join(pool.TASKS), help="[%(default)s]")
    parser.add_argument("--only", metavar="TEXT", default="", help="only candidates whose name contains this")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N candidates of a task, the first of the random order")
    parser.add_argument("--rows", type=int, metavar="N", help="of the inputs, for a quick trial [by task]")
    parser.add_argument("--target", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seed", type=int, default=1, help="of the order of candidates [%(default)s]")
    parser.add_argument("--seconds", type=float, default=140, help="begin no task later than this [%(default)g]")
    parser.add_argument("--in-flight", type=int, default=64, metavar="N", help="as for evaluate [%(default)s]")
    parser.add_argument("--kernelcast", default="kernelcast", metavar="PROGRAM", help="[%(default)s in PATH]")
    parser.add_argument("--python", default=os.environ.get("KERNELCAST_PYTHON", ""),
                        help="interpreter with PyTorch and Triton [KERNELCAST_PYTHON]")
    parser.add_argument("--json", metavar="FILE", help="append a line for each task")
    arguments = parser.parse_args(given)
    arguments.tasks = arguments.tasks.split(",")
    unknown = [name for name in arguments.tasks if name not in pool.TASKS]
    if unknown:
        parser.error(f"--tasks: unknown task '{unknown[0]}'; there are: {', '.join(pool.TASKS)}")
    if not arguments.write and not arguments.python:
        parser.error("--python is missing, and KERNELCAST_PYTHON is not set")
    if not arguments.write and shutil.which(arguments.kernelcast) is None:
        parser.error(f"--kernelcast: there is no program '{arguments.kernelcast}'")
    return arguments


class Services:
    """`kernelcast up` with a state folder of its own."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.state = str(folder)
        folder.mkdir()
        self.log = open(folder / "up.log", "w")
        self.process = subprocess.Popen(
            [arguments.kernelcast, "up", "--json", "--listen", "127.0.0.1:0", "--python", arguments.python, "--state-dir",
             self.state], stdout=subprocess.PIPE, stderr=self.log, text=True)

    def ready(self):
        # Its only line comes when all services answer.
        if not self.process.stdout.readline():
            raise Failed(f"the services did not start: {open(self.log.name).read()[-2000:]}")

    def command(self, *more):
        """The lines that a command prints with --json."""
        command = [self.arguments.kernelcast, *more, "--json", "--quiet", "--target", self.arguments.target, "--state-dir",
                   self.state]
        ended = subprocess.run(command, capture_output=True, text=True)
        # 1: a candidate failed.
        if ended.returncode not in (0, 1):
            raise Failed(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr[-2000:]}{ended.stdout[-500:]}")
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def seconds(duration):
    """Of protobuf's JSON: "1.5s"."""
    return float(duration[:-1]) if duration else 0.0


def row(line):
    """One candidate, from a line of `evaluate --json`."""
    evaluation = line.get("evaluation", {})
    measured = evaluation.get("measured", {})
    decided_on = evaluation.get("decided_on", {})
    return {
        "decision": evaluation.get("decision", {}).get("kind", "none").removeprefix("DECISION_KIND_").lower(),
        "reason": evaluation.get("decision", {}).get("reason", "").removeprefix("DECISION_REASON_").lower(),
        "speedup": measured.get("ok", {}).get("speedup", {}).get("value"),
        "interval": [measured.get("ok", {}).get("speedup", {}).get(end) for end in ("low", "high")],
        "outcome": next((key for key in ("ok", "wrong_result", "crash", "timeout", "exploit", "environment_unstable")
                         if key in measured), None),
        "forecast": decided_on.get("expected_log2_speedup", 0.0) if decided_on else None,
        "basis": decided_on.get("basis", "").removeprefix("FORECAST_BASIS_").lower(),
        "device_seconds": seconds(measured.get("device_time")) + seconds(evaluation.get("unstable_device_time")),
        "not_simulated": line.get("not_simulated", ""),
        "device": measured.get("device", {}),
        "error": line.get("error", {}).get("message", "") or json.dumps(evaluation.get("rejected", "")).strip('"'),
    }


def shuffled(folder, name, arguments):
    """A folder with the candidates, whose names begin with their place in the order."""
    found = sorted(file for file in (folder / "pool" / name).glob("*.py") if arguments.only in file.stem)
    random.Random(arguments.seed).shuffle(found)
    order = folder / "order" / name
    order.mkdir(parents=True)
    for place, file in enumerate(found[:arguments.limit]):
        shutil.copy(file, order / f"{place:02}_{file.name}")
    return order


def plain(name):
    return pathlib.PurePath(name).stem.split("_", 1)[1]


def evaluate(services, mode, folder, name, order, arguments):
    start = time.monotonic()
    lines = services.command("evaluate", str(folder / "pool" / f"{name}.py"), "--candidates", str(order), "--mode", mode,
                             "--in-flight", str(arguments.in_flight))
    return {plain(line["name"]): row(line) for line in lines if "name" in line}, time.monotonic() - start


def forecast(services, folder, name, order):
    start = time.monotonic()
    lines = services.command("forecast", str(folder / "pool" / f"{name}.py"), "--candidates", str(order))
    found = {plain(line["name"]): line["forecast"].get("expected_log2_speedup", 0.0) for line in lines if "forecast" in line}
    return found, time.monotonic() - start


def text_of(number, form="{:.2f}"):
    return "-" if number is None else form.format(number)


def show(name, task):
    spent = task["device_seconds"]
    print(f"{name:14} {task['measured']:>5} of {task['candidates']:<3} {spent['measure']:9.1f} {spent['route']:7.1f} "
          f"{100 * task['saved']:5.0f}% {task['found']:7.3f} {task['random_half']:8.3f} {text_of(task['spearman']):>9} "
          f"{text_of(task['median_error_octaves']):>7} {task['not_simulated']:>4}", flush=True)


def version_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def run(arguments, folder):
    pool.write(folder / "pool", arguments.tasks, arguments.rows)
    start = time.monotonic()
    services = {mode: Services(arguments, folder / mode) for mode in MODES}
    common = {
        "bench": "python_routing",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": version_of(["git", "-C", str(SOURCE), "rev-parse", "--short=8", "HEAD"]),
        "kernelcast": version_of([arguments.kernelcast, "--version"]),
        "packages": version_of([arguments.python, "-c", "import torch\nprint('PyTorch', torch.__version__)\n"
                                "import triton\nprint('Triton', triton.__version__)"]).replace("\n", ", "),
        "target": arguments.target,
        "seed": arguments.seed,
    }
    done = []
    try:
        for service in services.values():
            service.ready()
        print(f"services ready after {time.monotonic() - start:.1f} s; {common['packages']}")
        print("device time in s, saved share, speedup found over the best, best of a random half over the best, Spearman and "
              "median error\n(octaves) of the forecasts before labels, candidates not simulated\n"
              "task           measured    measure   route  saved   found   random  Spearman   error  not", flush=True)
        for name in arguments.tasks:
            if time.monotonic() - start > arguments.seconds:
                print(f"{name}: not begun, because {arguments.seconds:g} s are over")
                continue
            order = shuffled(folder, name, arguments)
            measured, measure_s = evaluate(services["measure"], "measure", folder, name, order, arguments)
            forecasts, forecast_s = forecast(services["route"], folder, name, order)
            routed, route_s = evaluate(services["route"], "route", folder, name, order, arguments)
            for candidate, one in measured.items():
                if not one["speedup"]:
                    print(f"{name}/{candidate}: {one['outcome'] or one['error']}")
            for candidate, one in routed.items():
                if one["not_simulated"]:
                    print(f"{name}/{candidate}: not simulated: {one['not_simulated']}")
            task = figures.of_task(measured, routed, forecasts)
            if task is None:
                print(f"{name}: no candidate is ok")
                continue
            show(name, task)
            done.append(task)
            device = next((one["device"] for one in measured.values() if one["device"]), {})
            line = {**common, "task": name, "device": device.get("model", ""), "driver": device.get("driver_version", ""), **task,
                    "wall_seconds": {"measure": measure_s, "forecast": forecast_s, "route": route_s},
                    "rows": [{"candidate": one, "forecast": forecasts.get(one), "speedup": measured[one]["speedup"],
                              **{key: value for key, value in routed.get(one, {}).items() if key not in ("device", "forecast", "speedup", "interval")},
                              "interval": measured[one]["interval"],
                              "decided_on": routed.get(one, {}).get("forecast"), "routed_speedup": routed.get(one, {}).get("speedup"),
                              "routed_interval": routed.get(one, {}).get("interval")}
                             for one in measured]}
            if arguments.json:
                with open(arguments.json, "a") as file:
                    file.write(json.dumps(line) + "\n")
    finally:
        for service in services.values():
            service.end()
    if not done:
        raise Failed("no task was measured")
    whole = figures.of_all(done)
    spent = whole["device_seconds"]
    print(f"all {len(done)} tasks: device time {spent['measure']:.1f} s measured, {spent['route']:.1f} s routed, "
          f"{100 * whole['saved']:.0f}% saved; found {whole['found']:.3f} of the best in the mean, {whole['worst_found']:.3f} at "
          f"worst; random half {whole['random_half']:.3f}; {whole['below_random']} tasks below it; Spearman "
          f"{text_of(whole['spearman'])} in the median; {time.monotonic() - start:.0f} s")
    return whole["saved"] >= GOAL_SAVED and whole["found"] >= GOAL_FOUND and whole["below_random"] == 0


def main():
    arguments = arguments_of(sys.argv[1:])
    if arguments.write:
        pool.write(arguments.write, arguments.tasks, arguments.rows)
        return 0
    with tempfile.TemporaryDirectory(prefix="python-routing-") as folder:
        try:
            return 0 if run(arguments, pathlib.Path(folder)) else 1
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 3


if __name__ == "__main__":
    sys.exit(main())
