"""Real services that measure on the cpu target, behind a gateway, for tests of the gateway."""

import argparse
import contextlib
import http.client
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TASKS = ROOT / "examples/tasks/kernelbench"
DEFINITIONS = ROOT / "tests/integration/gateway/flashinfer"
FAST = (ROOT / "examples/candidates/row_softmax/two_rows.cc").read_text()
BROKEN = "this is not C++\n"
ZEROS = """#include <kernelcast/candidate.h>
extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) { return 0; }
"""
PYTHON = "/usr/bin/python3"  # Debian's, for which PyTorch is a package
START_SECONDS = 60
TASK_SECONDS = 120
# Other work on this machine can prevent a verdict for a while.
ATTEMPTS = 5


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def services(programs, folder):
    """Starts `kernelcast up` with its state in `folder`, and yields the orchestrator's address."""
    python = ["--python", PYTHON] if has_torch() else []
    with open(folder / "up.log", "wb") as log, subprocess.Popen(
            [programs / "kernelcast", "up", "--json", "--listen", "127.0.0.1:0", "--state-dir", folder / "state",
             *python], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            ready = process.stdout.readline()
            if b'"orchestrator"' not in ready:
                raise AssertionError((folder / "up.log").read_text())
            yield json.loads(ready)["orchestrator"]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=START_SECONDS)


class Gateway:
    """A gateway in its own process. A restart has the same port and state."""

    def __init__(self, programs, folder, orchestrator, *arguments):
        self.folder, self.address, self.process = pathlib.Path(folder), "127.0.0.1:0", None
        self.folder.mkdir()
        self.log = self.folder / "log"
        serve = self.folder / "serve.yaml"
        serve.write_text(
            "serve:\n"
            "  - {name: softmax, problem: row_softmax, max_evaluations: 2}\n"
            f"  - {{name: silu, problem: {TASKS}/gated_silu.py}}\n"
            f"  - {{name: test_scale, problem: {DEFINITIONS}/test_scale.json}}\n")
        self.command = [programs / "kernelcast-gateway", "--orchestrator", orchestrator, "--serve", serve, "--problems",
                        ROOT / "examples/problems", "--state-dir", self.folder, *arguments]

    def start(self):
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [*self.command, "--listen", self.address, "--ready-file", ready], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(self.log.read_text())
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)
        served = json.loads(ready.read_text())
        self.address, self.metrics = served["http"], served["metrics"]
        return self

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(START_SECONDS)

    def ask(self, method, path, body=None, **headers):
        """(status, JSON, headers) of a request."""
        connection = http.client.HTTPConnection(self.address, timeout=TASK_SECONDS)
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        try:
            connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read()), reply.headers
        finally:
            connection.close()

    def get(self, path, **headers):
        status, body, _ = self.ask("GET", path, **headers)
        assert status == 200, (status, body)
        return body

    def metric(self, name):
        connection = http.client.HTTPConnection(self.metrics, timeout=TASK_SECONDS)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"kernelcast_gateway_{name}"))


class ServicesTest(unittest.TestCase):
    """Has services and a gateway for all tests of a class."""

    programs = None  # folder

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-gateway-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.orchestrator = cls.enterClassContext(services(cls.programs, cls.folder))
        cls.gateway = cls.new_gateway("gateway")

    @classmethod
    def new_gateway(cls, name, *arguments):
        gateway = Gateway(cls.programs, cls.folder / name, cls.orchestrator, *arguments).start()
        cls.addClassCleanup(lambda: gateway.process.poll() is None and gateway.stop())
        return gateway

    def judged(self, ask):
        """What `ask` returns, once it is not None."""
        for _ in range(ATTEMPTS):
            found = ask()
            if found is not None:
                return found
        raise AssertionError(self.gateway.log.read_text()[-5000:])


def main(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    options, rest = parser.parse_known_args()
    ServicesTest.programs = options.programs.resolve()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
