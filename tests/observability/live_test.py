#!/usr/bin/env python3
"""Runs searches with the three services under a real Prometheus, and checks that every query of every board has data.
Two more orchestrators share a log in a real PostgreSQL, which goes away, and so does one of them.

    live_test.py --programs FOLDER [TEST ...]
"""

import argparse
import collections
import contextlib
import glob
import http.client
import http.server
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import postgresql  # noqa: E402
from prometheus import START_SECONDS, fetch, free_port, query, query_range, wait_for  # noqa: E402

BOARDS = os.path.join(ROOT, "deploy/grafana/dashboards")
RULES = os.path.join(ROOT, "deploy/prometheus/rules")
SCRAPE_SECONDS = 1
SHARDS = 4
SEARCH_SECONDS = 600
EVALUATIONS = 4
OTHER_PROBLEMS = ("layernorm", "prefix_sum", "rmsnorm", "transpose", "stencil2d", "cross_entropy")
options = None

# Panels whose data may be 0 all the time on a machine without a GPU or in normal operation. Every other panel must show
# a value other than 0.
NEEDS_GPU = "needs a GPU: NVML tells it"
WELL = "is 0 while all is well"
MAY_BE_ZERO = {
    ("overview", "Alerts"): WELL,
    ("worker", "Temperature"): NEEDS_GPU,
    ("worker", "Power"): NEEDS_GPU,
    ("worker", "Throttled measurements"): NEEDS_GPU,
    ("worker", "Clock"): "virtual machines may not tell their clock",
    ("worker", "Failed measurements"): WELL,
    ("orchestrator", "Threshold"): "is 0 until a hundred candidates have proven the forecasts",
    ("orchestrator", "Pending labels"): WELL,
    ("orchestrator", "Repeated calls to workers"): WELL,
    ("orchestrator", "Worker ejections"): WELL,
    ("orchestrator", "Breaker"): WELL,
    ("orchestrator", "Answers without usage"): WELL,
    ("forecaster", "Breaker"): WELL,
    ("forecaster", "Answers without usage"): WELL,
    ("forecaster", "Pending writes"): WELL,
    ("orchestrator", "Calls by status"): WELL,
    ("forecaster", "Calls by status"): WELL,
    ("worker", "Calls by status"): WELL,
    ("gateway", "Tasks without a verdict"): WELL,
    ("gateway", "Repeated calls to the orchestrator"): WELL,
    ("gateway", "Failed requests"): WELL,
}


def boards():
    """(board, panel) of all panels except rows."""
    for path in sorted(glob.glob(os.path.join(BOARDS, "*.json"))):
        with open(path, encoding="utf-8") as file:
            board = json.load(file)
        name = os.path.basename(path)[len("kernelcast-"):-len(".json")]
        for panel in board["panels"]:
            if panel["type"] != "row":
                yield name, panel


def substituted(expression):
    """Substitutes variables like Grafana, with all jobs and instances selected."""
    for name, value in (("$__rate_interval", f"{4 * SCRAPE_SECONDS}s"), ("$__range", "10m"), ("$job", ".+"),
                        ("$instance", ".+")):
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def series(page):
    """The metrics that a service exposes, by name and labels as written."""
    return {name: float(value) for name, value in re.findall(r"^(kernelcast_\S+) (\S+)$", page, re.MULTILINE)}


class Collector(http.server.BaseHTTPRequestHandler):
    """Accepts spans and ignores them."""

    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Stack:
    """The services, two LLM endpoints, two more orchestrators on one database, and a Prometheus."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.database = self.spans = None

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def spawn(self, name, *arguments, **more):
        log = open(self.path(name + ".log"), "wb")  # pylint: disable=consider-using-with
        with log:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=log, cwd=ROOT,
                                       **{"stdout": log, **more})
        self.processes.append(process)
        return process

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def program(self, name):
        return os.path.join(options.programs, name)

    def endpoint(self, answers, latency_ms, *faults):
        """An endpoint, as a file for --llm-config."""
        process = self.spawn(f"endpoint-{answers}", self.program("fake-llm-endpoint"), "--answers", answers, "--latency-ms",
                             latency_ms, *faults, stdout=subprocess.PIPE)
        with process.stdout:
            port = int(process.stdout.readline())
        config = self.path(f"{answers}.yaml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"endpoints": [{"name": answers, "url": f"http://127.0.0.1:{port}/v1", "model": "fake",
                                      "prices": {"prompt": 1, "cached_prompt": 0.1, "completion": 4}}],
                       "retry": {"backoff_base_ms": 20, "backoff_cap_ms": 50}, "hedge": {"min_delay_ms": 20}}, file)
        return config

    def collector(self):
        """The address for spans. trace_test.py checks the spans sent there."""
        self.spans = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=self.spans.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.spans.server_address[1]}"

    def service(self, name, *arguments):
        """The addresses it serves: {"grpc": ..., "metrics": ...}. A suffix after a dash distinguishes several."""
        ready = self.path(f"{name}.ready")
        process = self.spawn(name, self.program(f"kernelcast-{name.split('-')[0]}"), "--listen=127.0.0.1:0",
                             "--metrics=127.0.0.1:0", f"--ready-file={ready}", *arguments)
        try:
            wait_for(name, lambda: os.path.exists(ready), process)
        except AssertionError as error:
            raise AssertionError(self.log(name)) from error
        with open(ready, encoding="utf-8") as file:
            return {**json.load(file), "process": process}

    def start_database(self):
        process = self.spawn("database", *self.database.server())
        wait_for("the database", self.database.answers, process)
        return process

    def up(self):
        # The model is asked about 15 times, so a call must last long enough to be scraped, and faults must be frequent.
        forecasts = self.endpoint("forecast", "300", "--fault", "server_error=0.25", "--fault", "no_tool=0.25", "--fault",
                                  "sum_low=0.1")
        kernels = self.endpoint("kernel", "1200", "--fault", "no_tool=0.2", "--fault", "server_error=0.2")
        self.forecaster = self.service("forecaster", "--state-dir", self.path("forecaster"), "--backend", "pool",
                                       "--llm-config", forecasts)
        self.worker = self.service("worker", "--cache-dir", self.path("cache"), "--lease-file", self.path("lease"))
        self.orchestrator = self.service(
            "orchestrator", "--state-dir", self.path("orchestrator"), "--worker", self.worker["grpc"], "--forecaster",
            self.forecaster["grpc"], "--forecast-timeout-seconds", "20", "--confirm", "1", "--llm-config",
            kernels, "--otlp-endpoint", self.collector(), "--trace-ratio", "1")
        self.services = {"forecaster": self.forecaster, "worker": self.worker, "orchestrator": self.orchestrator}
        serve = self.path("serve.yaml")
        with open(serve, "w", encoding="utf-8") as file:
            file.write("serve:\n  - {name: softmax, problem: row_softmax, target: cpu}\n")
        self.services["gateway"] = self.service("gateway", "--state-dir", self.path("gateway"), "--serve", serve,
                                                "--problems", os.path.join(ROOT, "examples/problems"), "--orchestrator",
                                                self.orchestrator["grpc"])
        self.database = postgresql.PostgresqlServer()
        self.database_process = self.start_database()
        # orchestrator-b requires a token, which orchestrator-a holds.
        token, tokens = self.path("token"), self.path("tokens.yaml")
        made = subprocess.run([self.program("kernelcast"), "token", "first", "--role", "submit", "--role", "measure",
                               "--output", token], check=True, capture_output=True, text=True)
        with open(tokens, "w", encoding="utf-8") as file:
            file.write("tokens:\n" + made.stdout)
        for name, more in (("orchestrator-a", ()), ("orchestrator-b", ("--auth-tokens-file", tokens))):
            self.services[name] = self.service(
                name, "--state-dir", self.path(name), "--store", self.database.uri(), "--store-shards", str(SHARDS),
                "--lease-seconds", "2", "--worker", self.worker["grpc"], "--forecaster", self.forecaster["grpc"],
                "--status", "", "--client-token-file", token, *more)

    def submit(self, response):
        """The reward for a response, through the gateway, in the form of slime."""
        connection = http.client.HTTPConnection(self.services["gateway"]["http"], timeout=SEARCH_SECONDS)
        try:
            connection.request("POST", "/slime/softmax", json.dumps({"response": response}), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def submissions(self):
        """Gives the gateway's board data: a candidate that is measured, and one that two clients submit and that does not compile."""
        with open(os.path.join(ROOT, "examples/candidates/row_softmax/two_rows.cc"), encoding="utf-8") as file:
            measured = file.read()
        for _ in range(2):
            assert self.submit("not C++") == (200, 0.0)
        # On a busy machine it may end without a verdict, which the board shows, too.
        self.submit(measured)

    def metric(self, service, name):
        return series(fetch(self.services[service]["metrics"], "/metrics"))[f"kernelcast_orchestrator_{name}"]

    def wait_metric(self, service, name, condition):
        wait_for(f"{name} of {service}", lambda: condition(self.metric(service, name)),
                 self.services[service]["process"])

    def trouble(self):
        """Gives the panels of several orchestrators data: forwarded calls, a database that is away, and an
        orchestrator that sleeps through its leases."""
        both = ("orchestrator-a", "orchestrator-b")
        for name in both:
            self.wait_metric(name, "shards_held", lambda held: held == SHARDS / 2)
        for name, code in (("orchestrator-a", 0), ("orchestrator-b", 2)):
            listed = subprocess.run([self.program("kernelcast"), "searches", "--orchestrator",
                                     self.services[name]["grpc"], "--state-dir", self.path("cli")], cwd=ROOT,
                                    check=False, capture_output=True, text=True)
            assert listed.returncode == code, listed
        assert self.metric("orchestrator-a", "forwarded_calls_total") > 0

        self.database_process.send_signal(signal.SIGINT)
        self.database_process.wait(START_SECONDS)
        for name in both:
            self.wait_metric(name, "shards_unserved", lambda unserved: unserved > 0)
        self.database_process = self.start_database()
        for name in both:
            self.wait_metric(name, "shards_unserved", lambda unserved: unserved == 0)

        sleeper = self.services["orchestrator-a"]["process"]
        sleeper.send_signal(signal.SIGSTOP)
        try:
            self.wait_metric("orchestrator-b", "shards_held", lambda held: held == SHARDS)
        finally:
            sleeper.send_signal(signal.SIGCONT)
        self.wait_metric("orchestrator-a", "shards_lost_total", lambda lost: lost > 0)
        self.wait_metric("orchestrator-a", "shards_held", lambda held: held == SHARDS / 2)

    def scrape(self):
        config = self.path("prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({
                "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"},
                "rule_files": [f"{RULES}/*.yml"],
                "scrape_configs": [
                    {"job_name": job, "static_configs": [{"targets": [
                        one["metrics"] for name, one in self.services.items() if name.split("-")[0] == job]}]}
                    for job in ("forecaster", "worker", "orchestrator", "gateway")],
            }, file)
        # It does not report the port it picked, so another process may take a reserved one. Then retry.
        for attempt in range(3):
            self.prometheus = f"127.0.0.1:{free_port()}"
            process = self.spawn("prometheus", "prometheus", f"--config.file={config}",
                                 f"--storage.tsdb.path={self.path(f'data{attempt}')}",
                                 f"--web.listen-address={self.prometheus}", "--log.level=warn")
            try:
                wait_for("Prometheus", lambda: len(query(self.prometheus, "up == 1")) == len(self.services),
                         process)
                self.prometheus_process = process
                return
            except AssertionError:
                process.kill()
                process.wait()
                if attempt == 2:
                    raise

    def search(self, *arguments):
        return self.spawn("search", self.program("kernelcast"), "search", *arguments, "--orchestrator",
                          self.orchestrator["grpc"], "--no-report", "--quiet", "--json", "--state-dir", self.path("cli"))

    def evaluate(self, name, count):
        """Candidates one after the other, of several kinds. Once a few have labels, others are deferred, because no
        forecast says whether they are faster."""
        candidates = self.path(name)
        os.mkdir(candidates)
        kinds = [os.path.join(ROOT, "examples/problems/row_softmax/reference.cc"),
                 *sorted(glob.glob(os.path.join(ROOT, "examples/candidates/row_softmax/*.cc")))]
        for number in range(count):
            kind = kinds[number % len(kinds)]
            copy = os.path.join(candidates, f"copy{number}")
            with open(kind, encoding="utf-8") as file, open(f"{copy}.cc", "w", encoding="utf-8") as to:
                to.write(f"// Copy {number} of {name}.\n{file.read()}")
            if os.path.exists(kind.replace(".cc", ".json")):
                shutil.copy(kind.replace(".cc", ".json"), f"{copy}.json")
        return self.spawn(name, self.program("kernelcast"), "evaluate", "row_softmax", "--candidates", candidates,
                          "--mode", "route", "--in-flight", "1", "--orchestrator", self.orchestrator["grpc"], "--quiet",
                          "--json", "--state-dir", self.path("cli"))

    def deferred(self):
        """How many candidates were measured because their forecast was unsure."""
        page = series(fetch(self.orchestrator["metrics"], "/metrics"))
        return sum(value for name, value in page.items() if name.startswith("kernelcast_orchestrator_decisions_total{")
                   and re.search(r'reason="(low_confidence|declined)"', name))

    def down(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.database:
            self.database.remove()
        if self.spans:
            self.spans.shutdown()
            self.spans.server_close()


class Watch:
    """What the boards have shown so far."""

    def __init__(self, prometheus):
        self.prometheus = prometheus
        self.started = time.time()
        self.queries = {(name, panel["title"], target["refId"]): target
                        for name, panel in boards() for target in panel["targets"]}
        self.with_data = set()
        self.telling = set(MAY_BE_ZERO)  # panels that may stay zero are done from the start

    def values(self, target):
        """The result of a query, as Grafana would show it now."""
        expression = substituted(target["expr"])
        if target["instant"]:
            return [float(series["value"][1]) for series in query(self.prometheus, expression)]
        found = query_range(self.prometheus, expression, self.started, time.time(), SCRAPE_SECONDS)
        return [float(value) for series in found for _, value in series["values"]]

    def look(self):
        """True once every query has had data, and every panel a value."""
        missing = 0
        for key, target in self.queries.items():
            if key in self.with_data and key[:2] in self.telling:
                continue
            values = [value for value in self.values(target) if math.isfinite(value)]
            if values:
                self.with_data.add(key)
            if any(values):
                self.telling.add(key[:2])
            missing += key not in self.with_data or key[:2] not in self.telling
        return missing == 0

    def complaints(self):
        silent = {key[:2] for key in self.queries} - self.telling
        return [f"{key} has no data: {substituted(target['expr'])}" for key, target in self.queries.items()
                if key not in self.with_data] + [f"{key} shows nothing but 0" for key in sorted(silent)]


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("prometheus") or not postgresql.program_folder():
            raise unittest.SkipTest("prometheus or postgresql is missing; scripts/setup.sh --test installs them")
        folder = tempfile.TemporaryDirectory(prefix="kernelcast-live-")
        cls.addClassCleanup(folder.cleanup)
        cls.stack = stack = Stack(folder.name)
        cls.addClassCleanup(stack.down)
        stack.up()
        stack.scrape()
        cls.watch = Watch(stack.prometheus)
        stack.trouble()
        stack.submissions()
        # A measurement on a busy machine may end without a label, and without labels nothing is deferred.
        for attempt in range(EVALUATIONS):
            cls.follow(stack.evaluate(f"evaluate{attempt}", 12), f"evaluate{attempt}")
            if stack.deferred() > 0:
                break
        else:
            raise AssertionError(stack.log(f"evaluate{EVALUATIONS - 1}"))
        # One search over a space, and one with kernels generated by a model.
        for arguments in (
                ("row_softmax", "--budget-measurements", "10", "--policy-parameter", "bootstrap_share=0.1",
                 "audit_min=0.3", "audit_scale=1", "audit_share=0.5"),
                ("column_sum", "--generator", "llm", "--generator-requests", "10", "--budget-measurements", "2")):
            cls.follow(stack.search(*arguments), "search")

    @classmethod
    def follow(cls, process, name):
        """Polls the boards until a command ends."""
        deadline = time.monotonic() + SEARCH_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            cls.watch.look()
            # The command gets the machine in between.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
        if process.poll() not in (0, 1):
            raise AssertionError(cls.stack.log(name))

    def test_every_query_of_every_board_has_data(self):
        watch = self.watch
        self.assertGreater(len(watch.queries), 100)
        self.assertEqual(set(MAY_BE_ZERO) - {key[:2] for key in watch.queries}, set())
        # The model is asked where little is known, so what it seldom does may need searches of other problems.
        for problem in (None, *OTHER_PROBLEMS):
            if problem:
                self.follow(self.stack.search(problem, "--budget-measurements", "6"), "search")
            time.sleep(2 * SCRAPE_SECONDS)
            if watch.look():
                return
        self.fail("\n".join(watch.complaints()))

    def test_rules_evaluate_without_fault(self):
        groups = json.loads(fetch(self.stack.prometheus, "/api/v1/rules"))["data"]["groups"]
        faults = [(rule["name"], rule["lastError"]) for group in groups for rule in group["rules"]
                  if rule.get("lastError")]
        self.assertEqual([], faults)
        names = collections.Counter(rule["type"] for group in groups for rule in group["rules"])
        self.assertGreater(names["recording"], 10)
        self.assertGreater(names["alerting"], 10)

    def test_the_document_says_what_is_exposed(self):
        """Compares names, kinds and labels of docs/reference/metrics.md with those exposed by the services."""
        with open(os.path.join(ROOT, "docs/reference/metrics.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| `(kernelcast_\w+)` \| (\w+) \| ([^|]*)\|(.*)", file.read(), re.MULTILINE)
        # These services have no certificates; common/rpc's tests check services that do.
        documented = {name: (kind, tuple(sorted(re.findall(r"`(\w+)`", labels)))) for name, kind, labels, meaning in rows
                      if "only with TLS" not in meaning}
        exposed = {}
        for service in self.stack.services.values():
            page = fetch(service["metrics"], "/metrics")
            kinds = dict(re.findall(r"^# TYPE (kernelcast_\w+) (\w+)$", page, re.MULTILINE))
            for name, kind in kinds.items():
                suffix = "_count" if kind == "histogram" else ""
                series = re.findall(rf"^{name}{suffix}(?:\{{(.*)\}})? \S+$", page, re.MULTILINE)
                labels = {tuple(sorted(re.findall(r'(\w+)="', one))) for one in series}
                self.assertEqual(len(labels), 1, f"{name}: {labels}")
                exposed[name] = (kind, labels.pop())
        # Series without an instance on this page may come from another service, such as those of gRPC.
        self.assertEqual(documented, exposed)

    def test_prometheus_finds_no_fault_with_what_is_exposed(self):
        for name, service in self.stack.services.items():
            page = fetch(service["metrics"], "/metrics")
            # Help texts have no rule for their ending.
            checked = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True,
                                     check=False)
            self.assertEqual((checked.stdout, checked.stderr), ("", ""), name)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    options, rest = parser.parse_known_args()
    options.programs = os.path.abspath(options.programs)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
