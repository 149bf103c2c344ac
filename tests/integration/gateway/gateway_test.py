#!/usr/bin/env python3
"""Drives each dialect of the gateway by HTTP, with real services that measure on the cpu target.

    gateway_test.py --programs FOLDER [TEST ...]
"""

import argparse
import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CANDIDATES = ROOT / "examples/candidates/row_softmax"
TASKS = ROOT / "examples/tasks/kernelbench"
FAST = (CANDIDATES / "two_rows.cc").read_text()
BROKEN = "this is not C++\n"
ZEROS = """#include <kernelcast/candidate.h>
extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) { return 0; }
"""
PYTHON = "/usr/bin/python3"  # Debian's, for which PyTorch is a package
START_SECONDS = 60
TASK_SECONDS = 120
# Other work on this machine can prevent a verdict for a while.
ATTEMPTS = 5
options = None


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0


class Gateway:
    """A gateway in its own process. A restart has the same port and state."""

    def __init__(self, folder, orchestrator, *arguments):
        self.folder, self.arguments = pathlib.Path(folder), [*arguments, "--orchestrator", orchestrator]
        self.folder.mkdir()
        self.address, self.process = "127.0.0.1:0", None
        serve = self.folder / "serve.yaml"
        serve.write_text(
            "serve:\n"
            "  - {name: softmax, problem: row_softmax, max_evaluations: 2}\n"
            f"  - {{name: silu, problem: {TASKS}/gated_silu.py}}\n")
        self.arguments += ["--serve", serve, "--problems", ROOT / "examples/problems"]

    def start(self):
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [os.path.join(options.programs, "kernelcast-gateway"), "--listen", self.address, "--state-dir",
                 self.folder, "--ready-file", ready, *self.arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self.folder / "log").read_text())
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


def solution(source, definition="softmax", **spec):
    return {"solution": {"name": "mine", "definition": definition, "author": "me", "sources":
                         [{"path": "main.cc", "content": source}],
                         "spec": {"language": "cpp", "target_hardware": ["cpu"], "entry_point": "main.cc::kernelcast_run",
                                  **spec}}}


def upload(gateway, source, mode="test", **headers):
    body = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="kernel.cpp"\r\n\r\n' + source.encode() +
            b"\r\n--b--\r\n")
    return gateway.ask("POST", f"/popcorn/submission/softmax/cpu/{mode}", body,
                       Content_Type="multipart/form-data; boundary=b", **headers)


class GatewayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-gateway-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        python = ["--python", PYTHON] if has_torch() else []
        with open(cls.folder / "up.log", "wb") as log:
            services = subprocess.Popen(  # pylint: disable=consider-using-with
                [os.path.join(options.programs, "kernelcast"), "up", "--json", "--listen", "127.0.0.1:0", "--state-dir",
                 cls.folder / "state", *python], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        cls.addClassCleanup(cls.end, services)
        ready = services.stdout.readline()
        if b'"orchestrator"' not in ready:
            raise AssertionError((cls.folder / "up.log").read_text())
        cls.orchestrator = json.loads(ready)["orchestrator"]
        cls.gateway = Gateway(cls.folder / "gateway", cls.orchestrator).start()
        cls.addClassCleanup(cls.gateway.stop)

    @staticmethod
    def end(process):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=START_SECONDS)

    def judged(self, ask):
        """What `ask` returns, once it is not None."""
        for _ in range(ATTEMPTS):
            found = ask()
            if found is not None:
                return found
        raise AssertionError((self.gateway.folder / "log").read_text()[-5000:])

    def flashinfer(self, source):
        def ask():
            status, accepted, _ = self.gateway.ask("POST", "/flashinfer/evaluate", solution(source))
            self.assertEqual(status, 200)
            task = self.gateway.get(f"/flashinfer/tasks/{accepted['task_id']}?timeout={TASK_SECONDS}")
            return task if task["status"] == "completed" else None

        return self.judged(ask)

    def test_flashinfer(self):
        workloads = self.gateway.get("/flashinfer/definitions/softmax/workloads")
        task = self.flashinfer(FAST)
        self.assertEqual([trace["workload"] for trace in task["traces"]], workloads)
        for trace in task["traces"]:
            self.assertEqual(trace["evaluation"]["status"], "PASSED")
            performance = trace["evaluation"]["performance"]
            self.assertGreater(performance["latency_ms"], 0)
            self.assertGreater(performance["reference_latency_ms"], 0)
        self.assertEqual(self.gateway.ask("POST", "/flashinfer/tasks/batch", {"task_ids": [task["task_id"]]})[1], [task])
        broken = self.flashinfer(BROKEN)["traces"][0]["evaluation"]
        self.assertEqual(broken["status"], "COMPILE_ERROR")
        self.assertIn("error", broken["log"])
        wrong = self.flashinfer(ZEROS)["traces"][0]["evaluation"]
        self.assertEqual(wrong["status"], "INCORRECT_NUMERICAL")

    def test_popcorn(self):
        self.assertEqual([board["name"] for board in self.gateway.get("/popcorn/leaderboards")], ["softmax", "silu"])
        self.assertEqual(self.gateway.get("/popcorn/gpus/softmax"), ["cpu"])

        def ask():
            status, accepted, _ = upload(self.gateway, FAST, "leaderboard", X_Popcorn_Cli_Id="me")
            self.assertEqual((status, accepted["status"]), (202, "accepted"))
            path = f"/popcorn/user/submissions/{accepted['details']['id']}"
            deadline = time.monotonic() + TASK_SECONDS
            while True:
                details = self.gateway.get(path, X_Popcorn_Cli_Id="me")
                if details["done"] or time.monotonic() > deadline:
                    return details if details["runs"] else None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.gateway.process.wait(0.1)

        details = self.judged(ask)
        self.assertEqual(details["job"]["status"], "succeeded", details)
        self.assertEqual([run["mode"] for run in details["runs"]], ["test", "benchmark", "leaderboard"])
        self.assertGreater(details["runs"][2]["score"], 0)
        self.assertLess(details["runs"][2]["score"], 1)
        mine = self.gateway.get("/popcorn/user/submissions", X_Popcorn_Cli_Id="me")
        self.assertEqual(mine[0]["id"], details["id"])
        self.assertEqual(self.gateway.get("/popcorn/user/submissions"), [])

    def test_kernelgym(self):
        if not has_torch():
            self.skipTest(f"no PyTorch in {PYTHON} (install python3-torch)")
        reference = (TASKS / "gated_silu.py").read_text()

        def result(task_id, kernel):
            def ask():
                task = {"task_id": task_id, "reference_code": reference, "kernel_code": kernel}
                status, body, _ = self.gateway.ask("POST", "/kernelgym/evaluate", task)
                self.assertEqual(status, 200, body)
                return body if body["status"] == "completed" else None

            return self.judged(ask)

        good = result("good", (TASKS / "candidates/gated_silu/in_place.py").read_text())
        self.assertTrue(good["compiled"] and good["correctness"], good)
        self.assertGreater(good["kernel_runtime"], 0)
        self.assertEqual(self.gateway.get("/kernelgym/status/good")["status"], "completed")
        self.assertEqual(self.gateway.get("/kernelgym/results/good"), good)
        wrong = result("wrong", (TASKS / "candidates/gated_silu/wrong_gate.py").read_text())
        self.assertEqual((wrong["compiled"], wrong["correctness"]), (True, False), wrong)
        broken = result("broken", "class ModelNew(:\n    pass\n")
        self.assertEqual((broken["compiled"], broken["correctness"]), (False, False), broken)

    def test_slime_joins_the_requests_of_impatient_clients(self):
        before = self.gateway.metric("tasks_total")
        sample = {"prompt": "", "response": f"Faster:\n```cpp\n{FAST}// slime\n```\n", "label": "softmax"}

        def reward(_):
            def ask():
                status, body, _ = self.gateway.ask("POST", "/slime", sample)
                return body if status == 200 else None

            return self.judged(ask)

        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            rewards = set(clients.map(reward, range(8)))
        self.assertEqual(len(rewards), 1)
        self.assertGreater(rewards.pop(), 0)
        ended = self.gateway.metric("tasks_total") - before
        unsettled = self.gateway.metric('tasks_total{dialect="slime",outcome="no_verdict"}')
        self.assertEqual(ended - unsettled, 1)
        self.assertEqual(self.gateway.ask("POST", "/slime/softmax", {"response": BROKEN})[:2], (200, 0.0))

    def test_gepa_ends_with_its_budget(self):
        for source in (BROKEN + "// a", BROKEN + "// b", BROKEN + "// a"):
            status, body, _ = self.gateway.ask("POST", "/gepa/softmax/evaluate", {"candidate": source})
            self.assertEqual((status, body["score"]), (200, 0.0), body)
            self.assertIn("error", body["info"]["feedback"])
        status, body, _ = self.gateway.ask("POST", "/gepa/softmax/evaluate", {"candidate": FAST})
        self.assertEqual((status, body["error"], body["budget"]["used"]), (429, "Budget exhausted", 2))

    def test_tasks_survive_a_killed_gateway(self):
        gateway = Gateway(self.folder / "killed", self.orchestrator).start()
        self.addCleanup(lambda: gateway.process.poll() is None and gateway.stop())
        source = FAST + "// killed\n"
        status, accepted, _ = gateway.ask("POST", "/flashinfer/evaluate", solution(source))
        self.assertEqual(status, 200)
        path = f"/flashinfer/tasks/{accepted['task_id']}?timeout={TASK_SECONDS}"
        gateway.stop(signal.SIGKILL)
        gateway.start()

        def ask():
            task = gateway.get(path)
            if task["status"] != "completed":
                gateway.ask("POST", "/flashinfer/evaluate", solution(source))
                return None
            return task

        task = self.judged(ask)
        self.assertEqual(task["traces"][0]["evaluation"]["status"], "PASSED")
        gateway.stop(signal.SIGKILL)
        gateway.start()
        # The same measurement, with its time: nothing was measured again.
        self.assertEqual(gateway.get(path), task)
        self.assertEqual(gateway.ask("POST", "/flashinfer/evaluate", solution(source))[1], accepted)

    def test_bad_input_is_refused(self):
        for path, body, expected in (
                ("/flashinfer/evaluate", b"{", 400), ("/flashinfer/evaluate", b"[" * 100_000, 400),
                ("/popcorn/submission/softmax/cpu/test", b"--b", 400), ("/kernelgym/evaluate", b"{}", 400),
                ("/slime", b'{"response": 1}', 400), ("/gepa/softmax/evaluate", b'{"candidate": []}', 400),
                ("/gepa/none/evaluate", b"{}", 404), ("/nothing", b"", 404), ("/slime/softmax?%zz", b"{}", 400)):
            self.assertEqual(self.gateway.ask("POST", path, body)[0], expected, path)
        status, body, _ = self.gateway.ask("POST", "/slime/softmax", b"x" * (9 << 20))
        self.assertEqual(status, 413, body)
        self.assertEqual(self.gateway.get("/health")["status"], "ok")

    def test_tokens_and_limits(self):
        token = self.folder / "token"
        made = subprocess.run([os.path.join(options.programs, "kernelcast"), "token", "alice", "--role", "submit",
                               "--output", token], check=True, capture_output=True, text=True)
        (self.folder / "tokens.yaml").write_text("tokens:\n" + made.stdout)
        secret = token.read_text().strip()
        gateway = Gateway(self.folder / "tokens", self.orchestrator, "--auth-tokens-file", self.folder / "tokens.yaml",
                          "--max-pending", "1").start()
        self.addCleanup(lambda: gateway.process.poll() is None and gateway.stop())
        self.assertEqual(gateway.ask("GET", "/popcorn/leaderboards")[0], 401)
        self.assertEqual(gateway.ask("GET", "/popcorn/leaderboards", X_Popcorn_Cli_Id="wrong")[0], 401)
        self.assertEqual(gateway.get("/health")["status"], "ok")
        basic = base64.b64encode(f"x:{secret}".encode()).decode()
        for headers in ({"X_Popcorn_Cli_Id": secret}, {"Authorization": f"Bearer {secret}"},
                        {"Authorization": f"Basic {basic}"}):
            self.assertEqual(len(gateway.get("/popcorn/leaderboards", **headers)), 2)
        # The second of two tasks is one too many.
        replies = [upload(gateway, f"{FAST}// {n}\n", X_Popcorn_Cli_Id=secret) for n in range(2)]
        self.assertEqual([status for status, *_ in replies], [202, 429])
        self.assertGreater(int(replies[1][2]["Retry-After"]), 0)
        self.assertIn("pending", replies[1][1]["detail"])
        # SIGTERM ends the gateway while a task is pending and a client waits.
        self.assertEqual(gateway.stop(), 0)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    options, rest = parser.parse_known_args()
    options.programs = os.path.abspath(options.programs)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
