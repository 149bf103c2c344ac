#!/usr/bin/env python3
"""Evaluates candidates of a KernelBench task with KernelBench's own eval_kernel_against_ref.

    kernelbench_eval.py KERNELBENCH TASK CANDIDATE ... [--trials 100] [--processes N] [--limit-s 60] [--explain]

KERNELBENCH is a clone of KernelBench's repository; its evaluation needs pydantic, requests, python-dotenv and tqdm.
Settings are those of its eval_from_generations.py: 5 checks, 100 timed calls of each side. All candidates run in this
process, one after the other, after the task itself has run. Tasks are loaded from a file, not with exec. With
--processes, each candidate runs in a new process that has imported PyTorch and Triton, N at a time. Prints a line of
JSON for each candidate: `candidate` (its number from 0), `seconds`, and `compiled`, `correct`, `mean_ns`, `median_ns`,
`min_ns`, `reference_ns` and `error` where there is one. --explain works without --processes. It adds
`empty_median_ns`, which KernelBench's loop measures if nothing is called, and `ahead_median_ns`, the candidate's time in
the same loop without the wait for the device before each call.
"""

import argparse
import contextlib
import json
import os
import runpy
import select
import signal
import statistics
import sys
import tempfile
import time
import types

import torch
import triton

CHECKS = 5


def import_task(source):
    """The names of a task. Unlike with exec, its functions have a file, which Triton requires of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "task.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        return runpy.run_path(path)


def load_task(source, context):
    context.update(import_task(source))
    return context["Model"], context["get_init_inputs"], context["get_inputs"]


def import_evaluation(folder, explain=False):
    # For model endpoints, which evaluating does not need.
    for name, member in (("openai", "OpenAI"), ("litellm", "completion")):
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], member, None)
    sys.path.insert(0, os.path.join(folder, "src"))
    from kernelbench import eval as evaluation, timing

    rounded = timing.get_timing_stats

    def exact(times_ms, device=None):
        return {**rounded(times_ms, device), "mean": statistics.mean(times_ms), "median": statistics.median(times_ms)}

    timing.get_timing_stats = exact
    evaluation.load_original_model_and_inputs = load_task
    if not explain:
        return evaluation
    harness = timing.time_execution_with_cuda_event

    def explained(kernel_fn, args, num_trials=10, device=None, **options):
        times_ms = harness(kernel_fn, args, num_trials=num_trials, device=device, **options)
        if type(kernel_fn).__name__ == "ModelNew":
            empty_ms = harness(lambda *_: None, [], num_trials=num_trials, device=device, **options)
            explanation["empty_median_ns"] = 1e6 * statistics.median(empty_ms)
            ahead_ms = time_ahead(timing, kernel_fn, args, num_trials, device)
            explanation["ahead_median_ns"] = 1e6 * statistics.median(ahead_ms)
        return times_ms

    timing.time_execution_with_cuda_event = explained
    return evaluation


explanation = {}  # of the last candidate


def time_ahead(timing, kernel_fn, args, trials, device):
    torch.cuda.synchronize(device)
    events = []
    for _ in range(trials + 1):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        # Takes the device longer than a launch takes the host.
        for _ in range(3):
            timing.clear_l2_cache(device=device)
        start.record()
        kernel_fn(*args)
        end.record()
        events.append((start, end))
    torch.cuda.synchronize(device)
    return [start.elapsed_time(end) for start, end in events[1:]]


def precision_of(task):
    """KernelBench converts all tensors to one dtype: here that of the task's first floating-point input."""
    floats = [x.dtype for x in import_task(task)["get_inputs"]() if isinstance(x, torch.Tensor) and x.is_floating_point()]
    return floats[0] if floats else torch.float32


def evaluate(evaluation, task, source, precision, trials):
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = evaluation.eval_kernel_against_ref(
            task,
            source,
            num_correct_trials=CHECKS,
            num_perf_trials=trials,
            measure_performance=True,
            build_dir=folder,
            device=torch.device("cuda:0"),
            backend="triton" if "import triton" in source else "cuda",
            precision=precision,
        )
    made = {"seconds": time.monotonic() - start}
    if result is None:
        return {**made, "error": "no result"}
    made |= {"compiled": result.compiled, "correct": result.correctness}
    if result.correctness and result.runtime_stats:
        stats = result.runtime_stats
        made |= {f"{name}_ns": 1e6 * stats[name] for name in ("mean", "median", "min")}
        made |= explanation
        made["reference_ns"] = 1e6 * result.ref_runtime_stats["mean"]
    errors = [str(value) for name, value in result.metadata.items() if name not in ("hardware", "device")]
    return {**made, "error": "; ".join(errors)[:300]} if errors else made


def attempt(function):
    try:
        return function()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def in_process(function, limit_s):
    """What the function returns in a copy of this process, which has no CUDA context yet.

    The copy and all that it started are killed afterwards: candidates stop themselves, hang, and start programs."""
    reading, writing = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        os.write(writing, json.dumps(attempt(function)).encode() + b"\n")
        os._exit(0)
    os.close(writing)
    text = b""
    while not text.endswith(b"\n"):
        left_s = start + limit_s - time.monotonic()
        if left_s <= 0 or not select.select([reading], [], [], left_s)[0]:
            break
        part = os.read(reading, 1 << 16)
        if not part:
            break
        text += part
    os.close(reading)
    late = time.monotonic() - start >= limit_s
    for kill in (os.killpg, os.kill):  # it may not have a group yet
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    error = f"did not end within {limit_s} s" if late else f"the process ended with wait status {status}"
    return json.loads(text) if text.endswith(b"\n") else {"seconds": time.monotonic() - start, "error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernelbench")
    parser.add_argument("task")
    parser.add_argument("candidates", nargs="+")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--limit-s", type=int, default=60)
    parser.add_argument("--explain", action="store_true")
    arguments = parser.parse_args()
    # KernelBench and candidates print, too.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    task = read(arguments.task)
    sources = [read(path) for path in arguments.candidates]

    def answer(number, result):
        # After what a process has left of a line.
        answers.write("\n" + json.dumps({"candidate": number, **result}) + "\n")
        answers.flush()

    if arguments.processes == 0:
        evaluation = import_evaluation(arguments.kernelbench, arguments.explain)
        precision = precision_of(task)
        # Warms up; where it fails, so do the candidates, which report it.
        itself = task.replace("class Model(", "class ModelNew(")
        attempt(lambda: evaluate(evaluation, task, itself, precision, arguments.trials))
        for number, source in enumerate(sources):
            answer(number, attempt(lambda: evaluate(evaluation, task, source, precision, arguments.trials)))
        return

    def run(source):
        evaluation = import_evaluation(arguments.kernelbench)
        return evaluate(evaluation, task, source, precision_of(task), arguments.trials)

    shards = []
    for shard in range(arguments.processes):
        child = os.fork()
        if child == 0:
            for number in range(shard, len(sources), arguments.processes):
                answer(number, in_process(lambda: run(sources[number]), arguments.limit_s))
            os._exit(0)
        shards.append(child)
    for child in shards:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
