#!/usr/bin/env python3
"""Drives each dialect of the gateway by HTTP, with real services that measure on the cpu target.

    gateway_test.py --programs FOLDER [TEST ...]
"""

import base64
import concurrent.futures
import contextlib
import signal
import subprocess
import time

import served_gateway
from served_gateway import BROKEN, FAST, PYTHON, TASK_SECONDS, TASKS, ZEROS, has_torch


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


class GatewayTest(served_gateway.ServicesTest):
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

    def popcorn(self, source, mode, caller):
        def ask():
            status, accepted, _ = upload(self.gateway, source, mode, X_Popcorn_Cli_Id=caller)
            self.assertEqual((status, accepted["status"]), (202, "accepted"))
            path = f"/popcorn/user/submissions/{accepted['details']['id']}"
            deadline = time.monotonic() + TASK_SECONDS
            while True:
                details = self.gateway.get(path, X_Popcorn_Cli_Id=caller)
                if details["done"] or time.monotonic() > deadline:
                    return None if (details["job"]["error"] or "").startswith("no verdict") else details
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.gateway.process.wait(0.1)

        return self.judged(ask)

    def test_popcorn_checks_without_timing_in_mode_test(self):
        details = self.popcorn(FAST, "test", "tester")
        self.assertEqual(details["job"]["status"], "succeeded", details)
        self.assertEqual([(run["mode"], run["passed"]) for run in details["runs"]], [("test", True)])
        self.assertEqual(self.popcorn(ZEROS, "test", "tester")["job"]["status"], "failed")
        self.assertEqual(self.gateway.metric('tasks_total{dialect="popcorn",outcome="passed"}'), 1)

    def test_popcorn(self):
        self.assertEqual([board["name"] for board in self.gateway.get("/popcorn/leaderboards")], ["softmax", "silu", "test_scale"])
        self.assertEqual(self.gateway.get("/popcorn/gpus/softmax"), ["cpu"])
        details = self.popcorn(FAST, "leaderboard", "me")
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
        gateway = self.new_gateway("killed")
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
        made = subprocess.run([self.programs / "kernelcast", "token", "alice", "--role", "submit",
                               "--output", token], check=True, capture_output=True, text=True)
        (self.folder / "tokens.yaml").write_text("tokens:\n" + made.stdout)
        secret = token.read_text().strip()
        gateway = self.new_gateway("tokens", "--auth-tokens-file", self.folder / "tokens.yaml", "--max-pending", "1")
        self.assertEqual(gateway.ask("GET", "/popcorn/leaderboards")[0], 401)
        self.assertEqual(gateway.ask("GET", "/popcorn/leaderboards", X_Popcorn_Cli_Id="wrong")[0], 401)
        self.assertEqual(gateway.get("/health")["status"], "ok")
        basic = base64.b64encode(f"x:{secret}".encode()).decode()
        for headers in ({"X_Popcorn_Cli_Id": secret}, {"Authorization": f"Bearer {secret}"},
                        {"Authorization": f"Basic {basic}"}):
            self.assertEqual(len(gateway.get("/popcorn/leaderboards", **headers)), 3)
        # The second of two tasks is one too many.
        replies = [upload(gateway, f"{FAST}// {n}\n", X_Popcorn_Cli_Id=secret) for n in range(2)]
        self.assertEqual([status for status, *_ in replies], [202, 429])
        self.assertGreater(int(replies[1][2]["Retry-After"]), 0)
        self.assertIn("pending", replies[1][1]["detail"])
        # SIGTERM ends the gateway while a task is pending and a client waits.
        self.assertEqual(gateway.stop(), 0)


if __name__ == "__main__":
    served_gateway.main(__doc__)
