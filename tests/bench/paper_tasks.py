#!/usr/bin/env python3
"""Judges a faster candidate for each of six tasks of gpu-mode/reference-kernels, and prints a table.

    tests/bench/paper_tasks.py REFERENCE_KERNELS [--kernelcast PATH] [--python PYTHON] [--target cuda] [--store FILE]

REFERENCE_KERNELS is a copy of that repository; nothing is fetched. `kernelcast` must be installed and be on PATH or named.
The candidates are in tests/gpu/candidates/gpu_mode. With --store, each task's result is kept in FILE as soon as it is
known, and another call continues with the tasks that are not judged yet. The exit code is 0 if all tasks are judged
and each candidate is right and faster than the reference beyond noise.

princeton/cross_entropy_py asks for two functions, and its eval.py calls them. Kernelcast judges one function that returns
both results, so this program adapts the task and its candidates: generate_input, ref_kernel and check_implementation are
made from the task's own functions, batch size and tolerances. All else is judged as it is.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CANDIDATES = os.path.join(ROOT, "tests/gpu/candidates/gpu_mode")
# The folder of candidates and that of the task under problems.
TASKS = {
    "fp8_quant": "helion/fp8_quant_py",
    "trimul": "bioml/trimul",
    "cross_entropy": "princeton/cross_entropy_py",
    "recompute_w_u": "helion/gated_deltanet_recompute_w_u_py",
    "chunk_fwd_h": "helion/gated_deltanet_chunk_fwd_h_py",
    "chunk_fwd_o": "helion/gated_deltanet_chunk_fwd_o_py",
}
OUTCOMES = ("ok", "wrong_result", "crash", "timeout", "exploit", "environment_unstable")

PAIR_REFERENCE = '''

def generate_input(batch_size, vocab_size, seed):
    return generate_inputs(batch_size, vocab_size, seed)


def ref_kernel(data):
    logits, targets, grad_output = data
    return reference_forward(logits, targets), reference_backward(logits, targets, grad_output)


def check_implementation(data, output):
    for name, found, expected in zip(("losses", "gradients"), output, ref_kernel(data)):
        if not torch.allclose(found, expected, atol=ATOL, rtol=RTOL):
            return False, f"{name}: the largest error is {float((found.float() - expected.float()).abs().max()):.3e}"
    return True, ""
'''
PAIR_CANDIDATE = '''

def custom_kernel(data):
    logits, targets, grad_output = data
    return cross_entropy_forward(logits, targets), cross_entropy_backward(logits, targets, grad_output)
'''


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write(text, *path):
    path = os.path.join(*path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def adapted_pair(task, candidates, folder):
    """Folders of the task with two functions, and of its candidates, as those with one."""
    batch = int(re.search(r"^B = ([0-9_]+)", read(task, "eval.py"), re.MULTILINE)[1])
    description = read(task, "task.yml")
    description = re.sub(r'(?m)^.*"eval\.py".*\n', "", description)
    description, cases = re.subn(r'\{"vocab_size"', f'{{"batch_size": {batch}, "seed": 0, "vocab_size"', description)
    if cases == 0:
        raise ValueError(f"{task}/task.yml has no cases with vocab_size")
    write(description, folder, "task", "task.yml")
    write(read(task, "reference.py") + PAIR_REFERENCE, folder, "task", "reference.py")
    for name in sorted(os.listdir(candidates)):
        if name.endswith(".py"):
            write(read(candidates, name) + PAIR_CANDIDATE, folder, "candidates", name)
    return os.path.join(folder, "task"), os.path.join(folder, "candidates")


def row_of(task, line):
    """What a line of `kernelcast evaluate --json` says about a candidate."""
    row = {"task": task, "candidate": line.get("name", ""), "judged": False, "verdict": "", "speedup": None, "reason": ""}
    if "error" in line:
        row["reason"] = line["error"].get("message", "")
        return row
    evaluation = line["evaluation"]
    row["reason"] = evaluation.get("text_feedback", "")
    measured = evaluation.get("measured", {})
    verdict = next((name for name in OUTCOMES if name in measured), None)
    if verdict is None and "compile_error" in evaluation.get("rejected", {}):
        verdict = "compile_error"
    row["judged"] = verdict not in (None, "environment_unstable")
    row["verdict"] = verdict or ""
    row["device"] = evaluation.get("device_model", "")
    if verdict == "ok":
        ok = measured["ok"]
        row["speedup"] = [ok["speedup"].get(part) for part in ("value", "low", "high")]
        row["faster"] = ok.get("comparison") == "COMPARISON_FASTER"
        row["reason"] = ok.get("rule", "")
    return row


def run(command, seconds):
    """The lines that a command prints, and why there may be too few."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    why = f"not done after {seconds:.0f} s. "
    try:
        printed, said = process.communicate(timeout=seconds)
        why = f"exit code {process.returncode}. "
    except subprocess.TimeoutExpired:
        process.terminate()  # it ends the services that it started
        try:
            printed, said = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, said = process.communicate()
    return printed.decode().splitlines(), why + said.decode(errors="replace").strip()[-500:]


def judge(name, options):
    """A row for each candidate of the task, or one that says why there is none."""
    task = os.path.join(options.folder, TASKS[name])
    candidates = os.path.join(options.candidates, name)
    with tempfile.TemporaryDirectory(prefix="paper-tasks-") as folder:
        try:
            if name == "cross_entropy":
                task, candidates = adapted_pair(task, candidates, folder)
            command = [options.kernelcast, "evaluate", task, "--candidates", candidates, "--mode", "measure", "--target",
                       options.target, "--python", options.python, "--json"]
            lines, why = run(command, options.seconds)
        except (OSError, ValueError, TypeError) as error:
            lines, why = [], str(error)
    rows = [row_of(name, json.loads(line)) for line in lines if line.startswith("{")]
    return rows or [row_of(name, {"error": {"message": why}})]


def passes(row):
    return row["judged"] and row["verdict"] == "ok" and row.get("faster", False)


def print_table(rows):
    print(f"{'task':<15}{'candidate':<12}{'judged':<8}{'verdict':<21}{'speedup':<26}reason")
    for row in rows:
        speedup = "{:.2f} ({:.2f} to {:.2f})".format(*row["speedup"]) if row["speedup"] else "-"
        reason = " ".join(row["reason"].split())[:160]
        print(f"{row['task']:<15}{row['candidate']:<12}{'yes' if row['judged'] else 'no':<8}{row['verdict'] or '-':<21}"
              f"{speedup:<26}{reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="REFERENCE_KERNELS")
    parser.add_argument("--candidates", default=CANDIDATES, help="a folder for each task, with candidates")
    parser.add_argument("--kernelcast", default="kernelcast")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch (default: this one)")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--task", action="append", choices=TASKS, help="only this task; may be repeated")
    parser.add_argument("--seconds", type=float, default=540, help="the longest time of a task (default: 540)")
    parser.add_argument("--store", metavar="FILE", help="keeps results of judged tasks, one a line")
    options = parser.parse_args()
    if os.path.isdir(os.path.join(options.folder, "problems")):
        options.folder = os.path.join(options.folder, "problems")
    known = {}
    if options.store and os.path.exists(options.store):
        for line in read(options.store).splitlines():
            row = json.loads(line)
            known.setdefault(row["task"], []).append(row)
    rows = []
    for name in options.task or TASKS:
        found = known.get(name)
        if found is None:
            print(f"{name} ...", file=sys.stderr, flush=True)
            found = judge(name, options)
            if options.store and all(row["judged"] for row in found):
                with open(options.store, "a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
        rows += found
    print_table(rows)
    good = {row["task"] for row in rows} == set(options.task or TASKS) and all(map(passes, rows))
    print(f"{len({row['task'] for row in rows if row['judged']})} of {len(options.task or TASKS)} tasks judged, "
          f"{sum(map(passes, rows))} of {len(rows)} candidates right and faster")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
