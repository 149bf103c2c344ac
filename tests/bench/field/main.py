"""Judges the tasks of KernelBench and GPU MODE with Kernelcast, and counts wrong verdicts.

DIR is a folder with clones of KernelBench and of gpu-mode/reference-kernels, or one of them. Nothing is fetched. Each
task is judged with its reference as a candidate, and with generated ones: zeros, the mean of the right answer, an input,
the last tile missing, inputs rounded to float16, and the answer of the previous call. Which of them are wrong is found
without Kernelcast (field/truth.py).

Each task is a line of the state file. A call skips the tasks that have one, and ends after --seconds. Exit codes: 0 the
goals hold for the tasks in the state file, 1 they do not, 2 bad usage, 3 the services did not start.
"""

import argparse
import fnmatch
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

import judge
import summary
import tasks


def arguments_of(given):
    parser = argparse.ArgumentParser(prog="field_tasks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--state", default="field_tasks.jsonl", metavar="FILE", help="results so far [%(default)s]")
    parser.add_argument("--summary", metavar="FILE", help="also write the table here")
    parser.add_argument("--seconds", type=float, default=540, help="time of this call [%(default)g]")
    parser.add_argument("--reserve", type=float, default=30, metavar="S", help="begin no task in the last S seconds [%(default)g]")
    parser.add_argument("--task-seconds", type=float, default=240, metavar="S", help="limit of one task [%(default)g]")
    parser.add_argument("--truth-seconds", type=float, default=90, metavar="S", help="limit of one task's truth [%(default)g]")
    parser.add_argument("--target", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--python", default=os.environ.get("KERNELCAST_PYTHON") or shutil.which("python3") or sys.executable,
                        help="interpreter with PyTorch, for the judge and the truth [KERNELCAST_PYTHON or python3]")
    parser.add_argument("--kernelcast", default="kernelcast", metavar="PROGRAM", help="[%(default)s in PATH]")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="tasks in work [%(default)s]")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="tasks whose name contains this or matches it as a shell pattern; may be repeated")
    parser.add_argument("--kinds", default=",".join(tasks.KINDS), help="candidates, also further ones of tasks in the state [%(default)s]")
    parser.add_argument("--level4", action="store_true", help="also level 4 of KernelBench, which needs the models' files")
    parser.add_argument("--order", choices=("name", "random"), default="name")
    parser.add_argument("--seed", type=int, default=1, help="of the random order [%(default)s]")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N tasks in this call")
    parser.add_argument("--retry", action="store_true", help="also tasks in the state that were not judged, or judged wrongly")
    parser.add_argument("--again", action="store_true", help="also tasks in the state")
    parser.add_argument("--commit", default="", help="of Kernelcast, for the lines of the state")
    parser.add_argument("--list", action="store_true", help="print the tasks and end")
    parser.add_argument("--only-summary", action="store_true", help="judge nothing")
    arguments = parser.parse_args(given)
    arguments.kinds = arguments.kinds.split(",")
    for kind in arguments.kinds:
        if kind not in tasks.KINDS:
            parser.error(f"--kinds: {kind} is none of {', '.join(tasks.KINDS)}")
    for folder in arguments.folders:
        if not os.path.isdir(folder):
            parser.error(f"{folder} is not a folder")
    return arguments


def chosen(found, arguments):
    return [task for task in found if not arguments.only
            or any(pattern in task.name or fnmatch.fnmatch(task.name, pattern) for pattern in arguments.only)]


def failed(line):
    return (not line["judged"] or line["out_of_memory"] or summary.reference_refused(line)
            or bool(summary.accepted(line, "wrong")))


def plan(found, state, arguments):
    """What is left to judge: tasks, the candidates of each, and the line that others of its candidates have."""
    for task in found:
        line = state.get(task.name)
        if line is None or arguments.again or (arguments.retry and failed(line)):
            yield task, arguments.kinds, None
        elif line["judged"] and (kinds := [kind for kind in arguments.kinds if kind not in line["candidates"]]):
            yield task, kinds, line


def merged(earlier, line):
    """A line for all candidates of two lines."""
    both = dict(line, judged=earlier["judged"] and line["judged"], out_of_memory=earlier["out_of_memory"] or line["out_of_memory"],
                candidates={**earlier["candidates"], **line["candidates"]})
    for name in line:
        if name.endswith("seconds"):
            both[name] = round(earlier[name] + line[name], 3)
    return both


class Run:
    def __init__(self, arguments, found):
        self.arguments = arguments
        self.start = time.monotonic()
        self.left = iter(found)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.gate = judge.Gate()
        self.done = self.lost = 0
        self.total = len(found)
        self.error = None
        self.ended = threading.Barrier(max(1, arguments.at_once))
        # PyTorch is imported while the services start.
        self.truth = judge.Truth(arguments.python, arguments.target)
        try:
            self.services = judge.Services(arguments.target, arguments.python, arguments.kernelcast)
        except BaseException:
            self.truth.close()
            raise

    def late(self):
        return self.stop.is_set() or time.monotonic() - self.start >= self.arguments.seconds

    def next(self):
        with self.lock:
            if self.stop.is_set() or time.monotonic() - self.start >= self.arguments.seconds - self.arguments.reserve:
                return None
            return next(self.left, None)

    def judge_once(self, task, sources, alone):
        truth_limit = self.arguments.truth_seconds
        start = time.monotonic()
        with self.gate.use(alone):
            truth = self.truth.ask(task, {k: v for k, v in sources.items() if k != "reference"}, truth_limit, alone, self.late)
        truth_wall_s = time.monotonic() - start
        if truth.get("out_of_memory") and not alone:
            return truth, {}, None, truth_wall_s, 0.0
        for kind, one in truth.get("candidates", {}).items():
            if "skipped" in one and kind in sources:
                os.remove(sources.pop(kind))
        start = time.monotonic()
        with self.gate.use(alone):
            verdicts, why = judge.evaluate(self.services, task, sources, self.arguments.target,
                                           time.monotonic() + self.arguments.task_seconds, self.late)
        return truth, verdicts, why, truth_wall_s, time.monotonic() - start

    def judge(self, task, kinds):
        """The line of a task with these candidates, or None if the call ended before it was known."""
        start = time.monotonic()
        truth, verdicts, why, alone = {}, {}, None, False
        for alone in (False, True) if self.arguments.at_once > 1 else (True,):
            with tempfile.TemporaryDirectory(prefix="field-candidates-") as folder:
                sources = {}
                for kind in kinds:
                    sources[kind] = os.path.join(folder, f"{kind}.py")
                    with open(sources[kind], "w", encoding="utf-8") as file:
                        file.write(task.candidate(kind))
                truth, verdicts, why, truth_wall_s, judge_s = self.judge_once(task, sources, alone)
            if self.late():
                return None
            no_memory = any(judge.NO_MEMORY.search(text) for text in [why or ""] + [
                one.get("detail", "") + one.get("cause", "") for one in verdicts.values()])
            # Others may have had the memory.
            if not no_memory and not truth.get("out_of_memory"):
                break
        missing = [kind for kind in sources if verdicts.get(kind, {}).get("outcome", "not_judged") == "not_judged"]
        for kind in sources:
            verdicts.setdefault(kind, {"outcome": "not_judged"})
        for kind, one in truth.get("candidates", {}).items():
            if "skipped" in one:
                verdicts[kind] = one
            else:
                figures = {name: value for name, value in one.items() if name != "class"}
                verdicts[kind] |= {"truth": one["class"], "truth_figures": figures}
        for kind in sources:
            if kind != "reference" and "truth" not in verdicts[kind]:
                verdicts[kind] |= {"truth": "unknown", "truth_figures": {"why": truth.get("error", "")}}
        details = [verdicts[kind].get("detail", "") for kind in missing]
        devices = [one["device"] for one in verdicts.values() if one.get("device")]
        for one in verdicts.values():
            one.pop("device", None)
        return {
            "bench": "field_tasks", "task": task.name, "group": task.group, "commit": self.arguments.commit,
            "date": time.strftime("%Y-%m-%d"), "target": self.arguments.target, "device": devices[0] if devices else "",
            "other_machine": task.other_machine, "judged": not missing,
            "not_judged": (why or next(filter(None, details), "no verdict")) if missing else "",
            "out_of_memory": no_memory, "alone": alone, "truth": truth.get("truth") or f"unknown: {truth.get('error', '')}",
            "seconds": round(time.monotonic() - start, 3), "judge_seconds": round(judge_s, 3),
            "truth_seconds": round(truth.get("seconds", 0.0), 3), "truth_wall_seconds": round(truth_wall_s, 3),
            "preparation_seconds": round(sum(one.get("preparation_seconds", 0.0) for one in verdicts.values()), 3),
            "device_seconds": round(sum(one.get("device_seconds", 0.0) for one in verdicts.values()), 3),
            "truth_memory_bytes": truth.get("memory_bytes", 0), "candidates": verdicts,
        }

    def write(self, line):
        with open(self.arguments.state, "a+b") as file:
            # A killed run may have left the start of a line.
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            cut = file.read() not in (b"", b"\n")
            file.write((b"\n" if cut else b"") + json.dumps(line).encode() + b"\n")

    def tell(self, line):
        outcomes = " ".join(f"{kind}={one.get('outcome', 'skipped')}" for kind, one in line["candidates"].items())
        why = "" if line["judged"] else f"not judged: {line['not_judged'].strip()[-200:]} "
        bad = summary.accepted(line, "wrong")
        print(f"{self.done}/{self.total} {time.monotonic() - self.start:.0f} s {line['task']}: {line['seconds']:.1f} s {why}"
              f"{outcomes}{' FALSE ACCEPTS: ' + ', '.join(bad) if bad else ''}", flush=True)

    def judge_all(self):
        while (following := self.next()) is not None:
            task, kinds, earlier = following
            line = self.judge(task, kinds)
            with self.lock:
                if line is None:
                    self.lost += 1
                    return
                self.done += 1
                line = merged(earlier, line) if earlier else line
                self.write(line)
                self.tell(line)

    def work(self):
        try:
            self.judge_all()
        except Exception as error:
            self.error = error
            self.stop.set()
        # A process that a thread started ends with the thread.
        self.ended.wait()

    def run(self):
        threads = [threading.Thread(target=self.work) for _ in range(self.ended.parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def close(self):
        self.stop.set()
        self.truth.close()
        self.services.close()


def main(given=None):
    arguments = arguments_of(given)
    found = tasks.find(arguments.folders, arguments.level4)
    state = summary.read_state(arguments.state)
    todo = list(plan(chosen(found, arguments), state, arguments))
    if arguments.order == "random":
        random.Random(arguments.seed).shuffle(todo)
    if arguments.limit is not None:
        todo = todo[: arguments.limit]
    if arguments.list:
        for task, _, _ in todo:
            print(task.name + (f" ({task.other_machine})" if task.other_machine else ""))
        print(f"{len(todo)} tasks to judge, {len(found)} found, {len(state)} in {arguments.state}")
        return 0
    if not found:
        print(f"field_tasks: no tasks in {' '.join(arguments.folders)}", file=sys.stderr)
        return 2
    if todo and not arguments.only_summary:
        if shutil.which(arguments.kernelcast) is None:
            print(f"field_tasks: there is no program {arguments.kernelcast}", file=sys.stderr)
            return 2
        try:
            run = Run(arguments, todo)
        except RuntimeError as error:
            print(f"field_tasks: {error}", file=sys.stderr)
            return 3
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: run.stop.set())
        begun = time.monotonic() - run.start
        try:
            run.run()
        finally:
            run.close()
        print(f"started in {begun:.1f} s; judged {run.done} tasks in {time.monotonic() - run.start:.0f} s; "
              f"{run.lost} lost at the end of the call", flush=True)
        state = summary.read_state(arguments.state)
    text, met = summary.text_of(state, len(found))
    print("\n" + text, end="")
    if arguments.summary:
        with open(arguments.summary, "w", encoding="utf-8") as file:
            file.write(text)
    return 0 if met else 1
