"""Judges the tasks of KernelBench and GPU MODE with Kernelcast, and counts wrong verdicts.

DIR is a folder with clones of KernelBench and of gpu-mode/reference-kernels, or one of them. Nothing is fetched. Each
task is judged with its reference as a candidate, and with generated ones: zeros, the mean of the right answer, an input,
the last tile missing, inputs rounded to float16, and the answer of the previous call. Which of them are wrong is found
without Kernelcast (field/truth.py).

Each task is a line of the state file, and its truth a line of FILE.truth. A call skips the
tasks that have one, and ends after --seconds. Exit codes: 0 the goals hold for the tasks in the state file, 1 they do
not, 2 bad usage, 3 the services did not start.
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
    parser = argparse.ArgumentParser(prog="field_tasks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="DIR")
    parser.add_argument("--state", default="field_tasks.jsonl", metavar="FILE", help="results so far [%(default)s]")
    parser.add_argument("--summary", metavar="FILE", help="also write the table here")
    parser.add_argument("--seconds", type=float, default=540, help="time of this call [%(default)g]")
    parser.add_argument("--reserve", type=float, default=30, metavar="S",
                        help="begin no task in the last S seconds [%(default)g]")
    parser.add_argument("--task-seconds", type=float, default=240, metavar="S", help="limit of one task [%(default)g]")
    parser.add_argument("--truth-seconds", type=float, default=90, metavar="S", help="limit of one task's truth [%(default)g]")
    parser.add_argument("--target", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--python", default=os.environ.get("KERNELCAST_PYTHON") or shutil.which("python3") or sys.executable,
                        help="interpreter with PyTorch, for the judge and the truth [KERNELCAST_PYTHON or python3]")
    parser.add_argument("--kernelcast", default="kernelcast", metavar="PROGRAM", help="[%(default)s in PATH]")
    parser.add_argument("--at-once", type=int, default=1, metavar="N",
                        help="tasks in the worker's queue. With 2, one loads while the other is measured, and the worker may "
                             "alternate between them [%(default)s]")
    parser.add_argument("--truths-at-once", type=int, default=2, metavar="N", help="processes that find truths [%(default)s]")
    parser.add_argument("--batch", type=int, default=60, metavar="N",
                        help="tasks whose truths are found before the services start [%(default)s]")
    parser.add_argument("--only-truths", action="store_true", help="find truths, which FILE.truth keeps, and judge nothing")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="tasks whose name contains this or matches it as a shell pattern; may be repeated")
    parser.add_argument("--kinds", default=",".join(tasks.KINDS),
                        help="candidates, also further ones of tasks in the state [%(default)s]")
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
    both = dict(line, judged=earlier["judged"] and line["judged"],
                out_of_memory=earlier["out_of_memory"] or line["out_of_memory"],
                candidates={**earlier["candidates"], **line["candidates"]})
    for name in line:
        if name.endswith("seconds"):
            both[name] = round(earlier[name] + line[name], 3)
    return both


class Lanes:
    """Threads that take tasks from a list until it is empty or the time is over."""

    def __init__(self, items, count, done):
        self.left, self.done = iter(items), done
        self.lock = threading.Lock()
        self.ended = threading.Barrier(count)
        self.error = None

    def next(self):
        with self.lock:
            return None if self.error or self.done() else next(self.left, None)

    def work(self, function):
        try:
            while (item := self.next()) is not None:
                function(item)
        except Exception as error:
            self.error = error
        # A process that a thread started ends with the thread.
        self.ended.wait()

    def run(self, function):
        threads = [threading.Thread(target=self.work, args=(function,)) for _ in range(self.ended.parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.error is not None:
            raise self.error


class Run:
    """A call. Truths come first, without Kernelcast's services, because both may need the whole memory of the device."""

    def __init__(self, arguments, state, truths):
        self.arguments = arguments
        self.state, self.truths = state, truths
        self.start = time.monotonic()
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.total = self.done = self.lost = 0
        self.spent = {"truth": 0.0, "start": 0.0, "judge": 0.0}

    def late(self, reserve=0.0):
        return self.stop.is_set() or time.monotonic() - self.start >= self.arguments.seconds - reserve

    def write(self, path, line):
        with open(path, "a+b") as file:
            # A killed run may have left the start of a line.
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            cut = file.read() not in (b"", b"\n")
            file.write((b"\n" if cut else b"") + json.dumps(line).encode() + b"\n")

    def known(self, task, kinds):
        known = self.truths.get(task.name, {}).get("kinds", ())
        return all(kind == "reference" or kind in known for kind in kinds)

    def candidates(self, task, kinds, folder):
        paths = {kind: os.path.join(folder, f"{kind}.py") for kind in kinds}
        for kind, path in paths.items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(task.candidate(kind))
        return paths

    def find_truths(self, batch):
        """For the tasks of the batch that have none."""
        wanted = [(task, kinds) for task, kinds, _ in batch if not self.known(task, kinds) and not task.other_machine]
        if not wanted or self.late(self.arguments.reserve):
            return
        start = time.monotonic()
        gate = judge.Gate()
        count = max(1, min(self.arguments.truths_at_once, len(wanted)))
        idle = [judge.Truth(self.arguments.python, self.arguments.target, 0.9 / count) for _ in range(count)]
        every = list(idle)

        def find(item):
            task, kinds = item
            kinds = [kind for kind in kinds if kind != "reference"]
            with tempfile.TemporaryDirectory(prefix="field-candidates-") as folder:
                paths = self.candidates(task, kinds, folder)
                for alone in (False, True) if count > 1 else (True,):
                    with gate.use(alone):
                        with self.lock:
                            truth = idle.pop()
                        try:
                            found = truth.ask(task, paths, self.arguments.truth_seconds, alone, self.late)
                        finally:
                            with self.lock:
                                idle.append(truth)
                    if not found.get("out_of_memory"):
                        break
            if self.late():
                return
            line = {"task": task.name, "kinds": kinds, "date": time.strftime("%Y-%m-%d"),
                    "target": self.arguments.target, **found}
            with self.lock:
                self.truths[task.name] = line
                self.write(self.arguments.state + ".truth", line)

        try:
            Lanes(wanted, count, lambda: self.late(self.arguments.reserve)).run(find)
        finally:
            for truth in every:
                truth.close()
        self.spent["truth"] += time.monotonic() - start

    def evaluate(self, services, gate, queue, task, kinds):
        """Verdicts, why some are missing, whether memory was short, whether it was alone, and seconds."""
        for alone in (False, True) if self.arguments.at_once > 1 else (True,):
            with tempfile.TemporaryDirectory(prefix="field-candidates-") as folder:
                paths = self.candidates(task, kinds, folder)
                with gate.use(alone):
                    start = time.monotonic()
                    # All candidates of a task are in the worker's queue before the next task's: changing the task costs
                    # the worker another process.
                    with queue:
                        running = judge.Evaluation(services, task, paths, self.arguments.target)
                        running.wait_for_first(start + self.arguments.task_seconds, self.late)
                    verdicts, why = running.finish(start + self.arguments.task_seconds, self.late)
                    seconds = time.monotonic() - start
            no_memory = any(judge.NO_MEMORY.search(text) for text in [why or ""] + [
                one.get("detail", "") + one.get("cause", "") for one in verdicts.values()])
            # Others may have had the memory.
            if not no_memory or self.late():
                break
        return verdicts, why, no_memory, alone, seconds

    def judge(self, services, gate, queue, task, kinds):
        """The line of a task with these candidates, or None if the call ended before it was known."""
        truth = self.truths.get(task.name, {"error": "not asked for"})
        of_kind = truth.get("candidates", {})
        asked = [kind for kind in kinds if "skipped" not in of_kind.get(kind, ())]
        verdicts, why, no_memory, alone, seconds = self.evaluate(services, gate, queue, task, asked)
        if self.late():
            return None
        missing = [kind for kind in asked if verdicts.get(kind, {}).get("outcome", "not_judged") == "not_judged"]
        details = [verdicts.get(kind, {}).get("detail", "") for kind in missing]
        devices = [one.pop("device") for one in verdicts.values() if one.get("device")]
        for kind in kinds:
            one = verdicts.setdefault(kind, {"outcome": "not_judged"})
            if kind not in asked:
                verdicts[kind] = of_kind[kind]
            elif kind != "reference":
                figures = {name: value for name, value in of_kind.get(kind, {}).items() if name != "class"}
                one |= {"truth": of_kind.get(kind, {}).get("class", "unknown"), "truth_figures": figures}
        return {
            "bench": "field_tasks", "task": task.name, "group": task.group, "commit": self.arguments.commit,
            "date": time.strftime("%Y-%m-%d"), "target": self.arguments.target, "device": devices[0] if devices else "",
            "other_machine": task.other_machine, "judged": not missing,
            "not_judged": (why or next(filter(None, details), "no verdict")) if missing else "",
            "out_of_memory": no_memory, "alone": alone, "truth": truth.get("truth") or f"unknown: {truth.get('error', '')}",
            "seconds": round(seconds, 3), "truth_seconds": round(truth.get("seconds", 0.0), 3),
            "preparation_seconds": round(sum(one.get("preparation_seconds", 0.0) for one in verdicts.values()), 3),
            "device_seconds": round(sum(one.get("device_seconds", 0.0) for one in verdicts.values()), 3),
            "candidates": verdicts,
        }

    def tell(self, line):
        outcomes = " ".join(f"{kind}={one.get('outcome', 'skipped')}" for kind, one in line["candidates"].items())
        why = "" if line["judged"] else f"not judged: {line['not_judged'].strip()[-200:]} "
        bad = summary.accepted(line, "wrong")
        print(f"{self.done}/{self.total} {time.monotonic() - self.start:.0f} s {line['task']}: {line['seconds']:.1f} s {why}"
              f"{outcomes}{' FALSE ACCEPTS: ' + ', '.join(bad) if bad else ''}", flush=True)

    def judge_batch(self, batch):
        ready = [item for item in batch if self.known(*item[:2]) or item[0].other_machine]
        if not ready or self.late(self.arguments.reserve):
            return
        start = time.monotonic()
        services = judge.Services(self.arguments.target, self.arguments.python, self.arguments.kernelcast)
        self.spent["start"] += time.monotonic() - start
        start = time.monotonic()
        gate, queue = judge.Gate(), threading.Lock()

        def judge_one(item):
            task, kinds, earlier = item
            line = self.judge(services, gate, queue, task, kinds)
            with self.lock:
                if line is None:
                    self.lost += 1
                    return
                line = merged(earlier, line) if earlier else line
                self.done += 1
                self.write(self.arguments.state, line)
                self.tell(line)

        try:
            count = max(1, min(self.arguments.at_once, len(ready)))
            Lanes(ready, count, lambda: self.late(self.arguments.reserve)).run(judge_one)
        finally:
            services.close()
        self.spent["judge"] += time.monotonic() - start

    def run(self, todo):
        self.total = len(todo)
        if self.arguments.again or self.arguments.retry:
            for task, _, earlier in todo:
                if earlier is None and (self.arguments.again or "error" in self.truths.get(task.name, ())):
                    self.truths.pop(task.name, None)
        for first in range(0, len(todo), self.arguments.batch):
            batch = todo[first : first + self.arguments.batch]
            self.find_truths(batch)
            if not self.arguments.only_truths:
                self.judge_batch(batch)


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
        run = Run(arguments, state, summary.read_state(arguments.state + ".truth"))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: run.stop.set())
        try:
            run.run(todo)
        except RuntimeError as error:
            print(f"field_tasks: {error}", file=sys.stderr)
            return 3
        took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in run.spent.items())
        print(f"judged {run.done} tasks in {time.monotonic() - run.start:.0f} s ({took}); {run.lost} lost at the end of "
              "the call", flush=True)
        state = summary.read_state(arguments.state)
    text, met = summary.text_of(state, len(found))
    print("\n" + text, end="")
    if arguments.summary:
        with open(arguments.summary, "w", encoding="utf-8") as file:
            file.write(text)
    return 0 if met else 1
