#!/usr/bin/env python3
"""Times candidates of a KernelBench task as KernelBench does.

    harness_times.py TASK CANDIDATE ... [--trials 100]

Follows time_execution_with_cuda_event of KernelBench's src/kernelbench/timing.py (423217d). It makes three calls first.
For each trial, it waits until the device is idle, overwrites the second-level cache, and records events around one call.
It leaves out the first trial. KernelBench reports the mean. Tensors keep the dtypes of the task, which KernelBench converts. Prints a line
of JSON for each candidate, in their order: `mean_ns`, `median_ns` and `min_ns`, or `error`.
"""

import argparse
import importlib.util
import json
import statistics

import torch

WARM_UP = 3
DISCARDED = 1
# Larger than the second-level cache of any GPU so far.
FLUSHED = (32, 1024, 1024)


def load(path, name):
    """The module of a file. Triton needs the source of kernels in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_gpu(values):
    return [value.cuda() if isinstance(value, torch.Tensor) else value for value in values]


def time_calls(model, inputs, trials):
    for _ in range(WARM_UP):
        model(*inputs)
        torch.cuda.synchronize()
    torch.cuda.empty_cache()
    times_ns = []
    for trial in range(trials + DISCARDED):
        torch.cuda.synchronize()
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        flushed = torch.empty(FLUSHED, dtype=torch.int64, device="cuda")
        flushed.fill_(42)
        del flushed
        start.record()
        model(*inputs)
        end.record()
        torch.cuda.synchronize()
        if trial >= DISCARDED:
            times_ns.append(1e6 * start.elapsed_time(end))
    return times_ns


def time_candidate(task, path, trials):
    made = load(path, "candidate")
    torch.manual_seed(42)
    inputs = on_gpu(task.get_inputs())
    torch.manual_seed(42)
    model = made.ModelNew(*on_gpu(task.get_init_inputs())).cuda()
    times_ns = time_calls(model, inputs, trials)
    return {"mean_ns": statistics.mean(times_ns), "median_ns": statistics.median(times_ns), "min_ns": min(times_ns)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("candidates", nargs="+")
    parser.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args()
    task = load(arguments.task, "task")
    for path in arguments.candidates:
        try:
            with torch.no_grad():
                result = time_candidate(task, path, arguments.trials)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
