"""Checks and times a submission: eval.py test|benchmark FILE. Reports to the descriptor POPCORN_FD."""

import os
import statistics
import sys
import time

import torch

from reference import expected, make_inputs


def read_cases(path):
    with open(path) as file:
        lines = [line for line in file.read().splitlines() if line]
    return [(line, {k.strip(): int(v) for k, v in (part.split(":") for part in line.split(";"))}) for line in lines]


def run(submission, x, weight, gradient):
    y, inverse = submission.rms_norm_forward(x, weight)
    return y, inverse, submission.rms_norm_backward(x, weight, inverse, gradient)


def difference(submission, case):
    inputs = make_inputs(**case)
    for name, found, wanted in zip(("y", "inverse", "backward"), run(submission, *inputs), expected(*inputs)):
        if found.shape != wanted.shape or found.dtype != torch.float32:
            return f"{name} has the wrong form"
        error = (found.double() - wanted).abs().max().item()
        if not error <= 1e-4:
            return f"{name} is off by {error:.3g}"
    return None


def test(report, cases):
    import submission

    passed = True
    for i, (text, case) in enumerate(cases):
        why = difference(submission, case)
        passed = passed and why is None
        report(f"test.{i}.spec", text)
        report(f"test.{i}.status", "pass" if why is None else "fail")
        if why is not None:
            report(f"test.{i}.error", why)
    report("check", "pass" if passed else "fail")
    return 0 if passed else 112


def benchmark(report, cases):
    import submission

    for i, (text, case) in enumerate(cases):
        times = []
        for seed in range(50):
            inputs = make_inputs(**case, seed=seed)
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            run(submission, *inputs)
            torch.cuda.synchronize()
            times.append(time.perf_counter_ns() - start)
        report(f"benchmark.{i}.spec", text)
        report(f"benchmark.{i}.runs", len(times))
        report(f"benchmark.{i}.mean", statistics.mean(times))
    report("check", "pass")
    return 0


def main():
    if not torch.cuda.is_available():
        sys.exit("a GPU is needed")
    with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as file:

        def report(key, value):
            print(f"{key}: {value}", file=file, flush=True)

        return (test if sys.argv[1] == "test" else benchmark)(report, read_cases(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
