"""Processes of a run: Kernelcast's services, one evaluation of a task's candidates, and the one that knows the truth."""

import contextlib
import ctypes
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time

OUTCOMES = ("ok", "wrong_result", "crash", "timeout", "exploit", "environment_unstable")
# Of a judge or a truth that had too little memory.
NO_MEMORY = re.compile(
    r"out of memory|allocate memory|memory.limit|bytes of memory, and the reference needs|bytes of device memory",
    re.IGNORECASE)


def end_with_parent():
    """Runs in a child: it ends when its parent does, however that ends."""
    os.setsid()
    pr_set_pdeathsig = 1
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def kill(process, grace_s=0.0):
    """Ends a process and all that it started."""
    if process.poll() is None and grace_s > 0:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for file in (process.stdin, process.stdout):
        if file is not None:
            with contextlib.suppress(BrokenPipeError):
                file.close()


class Gate:
    """Several may use the device at once, or one alone."""

    def __init__(self):
        self.changed = threading.Condition()
        self.users, self.waiting_alone, self.alone = 0, 0, False

    @contextlib.contextmanager
    def use(self, alone=False):
        with self.changed:
            if alone:
                self.waiting_alone += 1
                self.changed.wait_for(lambda: self.users == 0 and not self.alone)
                self.waiting_alone -= 1
                self.alone = True
            else:
                self.changed.wait_for(lambda: not self.alone and not self.waiting_alone)
                self.users += 1
        try:
            yield
        finally:
            with self.changed:
                if alone:
                    self.alone = False
                else:
                    self.users -= 1
                self.changed.notify_all()


class Lines:
    """Lines of a process's standard output, with a time limit for each."""

    def __init__(self, process):
        self.file = process.stdout
        os.set_blocking(self.file.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.file, selectors.EVENT_READ)
        self.text = b""

    def next(self, deadline, stopped=lambda: False):
        """A line; None when the time is over or the process ended."""
        while b"\n" not in self.text:
            left = deadline - time.monotonic()
            if left <= 0 or stopped():
                return None
            if not self.selector.select(min(left, 0.5)):
                continue
            part = self.file.read()
            if not part:
                return None
            self.text += part
        line, self.text = self.text.split(b"\n", 1)
        return line


class Services:
    """`kernelcast up` with a state of its own, until close()."""

    def __init__(self, target, python, program="kernelcast", arguments=()):
        self.folder = tempfile.TemporaryDirectory(prefix="field-tasks-")
        self.program = program
        command = [program, "up", "--listen", "127.0.0.1:0", "--json", "--python", python, "--state-dir", self.folder.name,
                   "--drain-seconds", "1", *(["--gpus", "none"] if target == "cpu" else []), *arguments]
        with open(os.path.join(self.folder.name, "up.log"), "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            preexec_fn=end_with_parent)
        line = Lines(self.process).next(time.monotonic() + 120)
        if line is None:
            with open(os.path.join(self.folder.name, "up.log"), errors="replace") as log:
                said = log.read()[-2000:]
            self.close()
            raise RuntimeError(f"kernelcast up did not start: {said}")
        self.orchestrator = json.loads(line)["orchestrator"]

    def close(self):
        kill(self.process, grace_s=3)
        self.folder.cleanup()


def seconds_of(text):
    return float((text or "0s").rstrip("s"))


def verdict_of(line):
    """What the state says about one candidate, from a line of `kernelcast evaluate --json`."""
    if "error" in line:
        return {"outcome": "not_judged", "detail": line["error"].get("message", "")}
    evaluation = line["evaluation"]
    feedback = evaluation.get("text_feedback", "")
    rejected = evaluation.get("rejected", {})
    if rejected:
        if "compile_error" in rejected:
            log = rejected["compile_error"].get("log", "")
            return {"outcome": "compile_error", "detail": (feedback or log)[-600:]}
        return {"outcome": "not_judged", "detail": str(next(iter(rejected.values())))[:600]}
    measured = evaluation.get("measured", {})
    outcome = next((name for name in OUTCOMES if name in measured), "not_judged")
    made = {"outcome": outcome, "device_seconds": seconds_of(measured.get("device_time")),
            "preparation_seconds": seconds_of(measured.get("preparation_time")),
            "device": measured.get("device", {}).get("model")}
    if outcome == "ok":
        ok = measured["ok"]
        made["speedup"] = ok["speedup"]["value"]
        made["rule"] = ok.get("rule", "")
        if ok.get("notes"):
            made["notes"] = ok["notes"]
    else:
        made["detail"] = feedback[:600]
        made["cause"] = measured.get(outcome, {}).get("cause", "")
    return made


class Evaluation:
    """`kernelcast evaluate` of a task's candidates {kind: path}, which are in one folder."""

    def __init__(self, services, task, paths, target):
        command = [services.program, "evaluate", task.path, "--candidates", os.path.dirname(next(iter(paths.values()))),
                   "--mode", "measure", "--json", "--quiet", "--target", target, "--orchestrator", services.orchestrator]
        self.paths = paths
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors,
                                        preexec_fn=end_with_parent)
        self.lines = Lines(self.process)

    def wait_for_first(self, deadline, stopped):
        """Returns at the first verdict, or when the time is over. Then all candidates have been compiled, or nearly."""
        while not self.lines.selector.select(0.2) and time.monotonic() < deadline and not stopped():
            pass

    def finish(self, deadline, stopped=lambda: False):
        """The verdicts by kind. Some may be missing; then the second result says why."""
        verdicts, why = {}, None
        try:
            while (text := self.lines.next(deadline, stopped)) is not None:
                line = json.loads(text)
                if "name" in line:
                    verdicts[line["name"]] = verdict_of(line)
                elif "error" in line:
                    why = line["error"].get("message", "")
            late = time.monotonic() >= deadline
        finally:
            kill(self.process)
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip()
            self.errors.close()
        if len(verdicts) < len(self.paths) and why is None:
            why = "took too long" if late else said[-600:] or f"kernelcast evaluate ended with {self.process.returncode}"
        return verdicts, why


class Truth:
    """The process that knows which candidates are wrong. Starts again after it has died."""

    def __init__(self, python, target, memory_share):
        self.memory_share = memory_share
        self.command = [python, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "truth.py"), target]
        self.lock = threading.Lock()
        self.start()

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        preexec_fn=end_with_parent)
        self.lines = Lines(self.process)

    def ask(self, task, sources, limit_s, alone, stopped=lambda: False):
        request = {"form": task.form, "path": task.path, "candidates": sources, "cases": task.cases, "files": task.files,
                   "limit_s": limit_s, "alone": alone, "memory_share": 0.95 if alone else self.memory_share}
        with self.lock:
            start = time.monotonic()
            line = None
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write((json.dumps(request) + "\n").encode())
                self.process.stdin.flush()
                line = self.lines.next(start + limit_s, stopped)
            if line is not None:
                return json.loads(line)
            late = self.process.poll() is None
            kill(self.process)
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip()[-300:]
            self.errors.close()
            if not stopped():
                self.start()
            return {"error": f"no answer within {limit_s:.0f} s" if late else f"its process ended: {said}",
                    "seconds": time.monotonic() - start}

    def close(self):
        kill(self.process)
        self.errors.close()
