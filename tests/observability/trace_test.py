#!/usr/bin/env python3
"""Runs a search through the three services under one trace, whose spans a collector receives.

    trace_test.py --programs FOLDER [TEST ...]

Posts are parsed with the OTLP definitions of the Python package opentelemetry-proto, which scripts/setup.sh puts
into .setup/otlp; without it the test is skipped.
"""

import argparse
import base64
import collections
import http.client
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
sys.path.insert(0, os.path.join(ROOT, ".setup/otlp"))
import postgresql  # noqa: E402
from prometheus import fetch, wait_for  # noqa: E402

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
except ImportError:
    trace_service_pb2 = None

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ROOT_SPAN = "00f067aa0ba902b7"
SEARCH_SECONDS = 600
options = None


def as_protobuf_has_it(value):
    """OTLP's JSON with ids as protobuf's JSON encodes bytes: base64 instead of hexadecimal."""
    if isinstance(value, list):
        return [as_protobuf_has_it(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64encode(bytes.fromhex(item)).decode()
            if key in ("traceId", "spanId", "parentSpanId") else as_protobuf_has_it(item)
            for key, item in value.items()}


class Collector:
    """Accepts POST /v1/traces like a collector."""

    def __init__(self):
        self.lock = threading.Lock()
        self.mistakes = []
        self.spans = []  # (service, span)
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Handles one post."""

            def do_POST(self):  # pylint: disable=invalid-name
                """Answers as specified."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, self.headers.get("Content-Type"), body)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):  # pylint: disable=arguments-differ
                """Logs nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def take(self, path, kind, body):
        """Keeps valid spans and reports invalid ones."""
        with self.lock:
            try:
                assert path == "/v1/traces", path
                assert kind == "application/json", kind
                request = trace_service_pb2.ExportTraceServiceRequest()
                json_format.ParseDict(as_protobuf_has_it(json.loads(body)), request)  # refuses unknown fields
                for resource in request.resource_spans:
                    names = {item.key: item.value.string_value for item in resource.resource.attributes}
                    for scope in resource.scope_spans:
                        self.spans += [(names["service.name"], span) for span in scope.spans]
            except (AssertionError, KeyError, ValueError, json_format.ParseError) as error:
                self.mistakes.append(f"{error!r}: {body[:500]}")

    def close(self):
        """Ends the thread."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Services:
    """The three services, all tracing."""

    def __init__(self, folder, collector, *more, forecasts=(), kernels=(), store=None):
        """`forecasts` and `kernels` are flags of the services that query a model for them. With `store`, the URI of a
        shared log, another orchestrator holds its only shard, and the one that is asked forwards every call."""
        self.folder = folder
        self.processes = {}
        common = ["--otlp-endpoint", collector, *more]
        forecaster = self.start("forecaster", "--state-dir", self.path("forecaster"), *common, *forecasts)
        worker = self.start("worker", "--cache-dir", self.path("cache"), "--lease-file", self.path("lease"), *common)
        peers = ["--worker", worker["grpc"], "--forecaster", forecaster["grpc"], "--confirm", "1", *common, *kernels]
        if store:
            peers += ["--store", store, "--store-shards", "1", "--lease-seconds", "2"]
            holder = self.start("holder", "--state-dir", self.path("holder"), *peers, program="orchestrator")
            wait_for("the shard", lambda: "kernelcast_orchestrator_shards_held 1" in fetch(holder["metrics"], "/metrics"),
                     self.processes["holder"])
        self.orchestrator = self.start("orchestrator", "--state-dir", self.path("orchestrator"), *peers)

    def path(self, *parts):
        """A path in the test's folder."""
        return os.path.join(self.folder, *parts)

    def start(self, name, *arguments, program=None):
        """The address it serves."""
        ready = self.path(f"{name}.ready")
        with open(self.path(f"{name}.log"), "wb") as log:
            process = subprocess.Popen([os.path.join(options.programs, f"kernelcast-{program or name}"),
                                        "--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", f"--ready-file={ready}", *arguments],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT)
        self.processes[name] = process
        wait_for(name, lambda: os.path.exists(ready), process)
        with open(ready, encoding="utf-8") as file:
            return json.load(file)

    def stop(self):
        """Lets them drain, which exports pending spans. Returns their exit codes."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in self.processes.values()]

    def kill(self):
        """Kills the remaining processes."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def search(self, environment, *more):
        """Runs a small search to its end."""
        search(environment, "--orchestrator", self.orchestrator["grpc"], "--budget-candidates", "6", *more)


def search(environment, *more):
    """Runs a small search to its end. With three measurements it may find no kernel that is faster than the reference."""
    ran = subprocess.run(
        [os.path.join(options.programs, "kernelcast"), "search", os.path.join(ROOT, "examples/problems/row_softmax"),
         "--budget-measurements", "3", "--json", *more],
        env={**os.environ, **environment}, cwd=ROOT, check=False, capture_output=True, timeout=SEARCH_SECONDS)
    assert ran.returncode in (0, 1), ran.stderr.decode()


def start_endpoint(answers):
    """A process that serves a model, and its address."""
    process = subprocess.Popen([os.path.join(options.programs, "fake-llm-endpoint"), "--answers", answers],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    with process.stdout:
        return process, f"127.0.0.1:{int(process.stdout.readline())}"


def end(process):
    """Kills the process if it is still running."""
    if process.poll() is None:
        process.kill()
    process.wait()


@unittest.skipIf(trace_service_pb2 is None, "no definitions of OTLP: scripts/setup.sh --test")
class TraceTest(unittest.TestCase):
    """With real processes, a real problem and its real measurements."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kernelcast-trace-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def services(self, *more, collector=None, **models):
        """Started, and ended with the test."""
        services = Services(self.folder, collector or self.collector.url, *more, **models)
        self.addCleanup(services.kill)
        return services

    def test_a_search_is_one_connected_trace(self):
        self.check_one_trace(self.services("--trace-ratio", "0"), log="orchestrator.log")

    @unittest.skipIf(postgresql.program_folder() is None, "PostgreSQL is not installed")
    def test_a_forwarded_search_of_a_shared_log_is_one_connected_trace(self):
        database = postgresql.PostgresqlServer()
        self.addCleanup(database.remove)
        server = subprocess.Popen(database.server(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, cwd="/")
        self.addCleanup(end, server)
        wait_for("database", database.answers, server)
        self.check_one_trace(self.services("--trace-ratio", "0", store=database.uri()), log="holder.log")
        # The forwarded call links the two orchestrators.
        kinds = collections.Counter(span.SpanKind.Name(span.kind) for _, span in self.collector.spans
                                    if span.name == "kernelcast.v1.Orchestrator/StartSearch")
        self.assertEqual(kinds, {"SPAN_KIND_SERVER": 2, "SPAN_KIND_CLIENT": 1})

    def check_one_trace(self, services, log):
        """Runs a search under one trace. `log`: the file with the log of the orchestrator that drives it."""
        services.search({"TRACEPARENT": f"00-{TRACE}-{ROOT_SPAN}-01", "TRACESTATE": "vendor=42"})
        self.assertEqual(set(services.stop()), {0})

        self.assertEqual(self.collector.mistakes, [])
        spans = {span.span_id: (service, span) for service, span in self.collector.spans}
        self.assertEqual(len(spans), len(self.collector.spans), "a span id occurs twice")
        for service, span in spans.values():
            where = f"{service} {span.name}"
            self.assertEqual(span.trace_id.hex(), TRACE, where)
            self.assertEqual(span.trace_state, "vendor=42", where)
            self.assertTrue(span.parent_span_id.hex() == ROOT_SPAN or span.parent_span_id in spans, where)
            self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano, where)

        names = collections.Counter((service, span.name) for service, span in spans.values())
        for service, name in (
                ("kernelcast-orchestrator", "kernelcast.v1.Orchestrator/StartSearch"),
                ("kernelcast-orchestrator", "kernelcast.search"),
                ("kernelcast-orchestrator", "kernelcast.evaluate"),
                ("kernelcast-orchestrator", "kernelcast.accept"),
                ("kernelcast-orchestrator", "kernelcast.compile"),
                ("kernelcast-orchestrator", "kernelcast.forecast"),
                ("kernelcast-orchestrator", "kernelcast.decide"),
                ("kernelcast-orchestrator", "kernelcast.measure"),
                ("kernelcast-orchestrator", "kernelcast.commit"),
                ("kernelcast-orchestrator", "kernelcast.v1.Worker/Compile"),
                ("kernelcast-orchestrator", "kernelcast.v1.Forecaster/Forecast"),
                ("kernelcast-worker", "kernelcast.v1.Worker/Compile"),
                ("kernelcast-worker", "kernelcast.v1.Worker/Measure"),
                ("kernelcast-worker", "kernelcast.queue"),
                ("kernelcast-worker", "kernelcast.compile"),
                ("kernelcast-worker", "kernelcast.measure"),
                ("kernelcast-forecaster", "kernelcast.v1.Forecaster/Forecast")):
            self.assertGreater(names[(service, name)], 0, (service, name, names))

        # Each served call of a worker or forecaster is the child of the call that was made.
        for service, span in spans.values():
            if span.kind == span.SPAN_KIND_SERVER and service != "kernelcast-orchestrator":
                caller, parent = spans[span.parent_span_id]
                self.assertEqual((caller, parent.name, parent.kind),
                                 ("kernelcast-orchestrator", span.name, span.SPAN_KIND_CLIENT))
                attributes = {item.key: item.value for item in span.attributes}
                self.assertEqual(attributes["rpc.system"].string_value, "grpc")
                self.assertEqual(f"{attributes['rpc.service'].string_value}/{attributes['rpc.method'].string_value}",
                                 span.name)
                self.assertIn("rpc.grpc.status_code", attributes)

        # Log lines carry their trace.
        with open(services.path(log), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.startswith("{")]
        started = [line for line in lines if line["message"] == "search started"]
        self.assertEqual([line.get("trace_id") for line in started], [TRACE])

    def test_requests_to_models_are_spans_of_the_search_and_carry_them(self):
        addresses = {}
        for answers in ("forecast", "kernel"):
            process, addresses[answers] = start_endpoint(answers)
            self.addCleanup(end, process)

        def asking(answers):
            return ["--llm", f"http://{addresses[answers]}/v1", "--llm-model", "fake"]

        services = self.services("--trace-ratio", "0", forecasts=["--backend", "llm", *asking("forecast")],
                                 kernels=["--forecast-timeout-seconds", "20", *asking("kernel")])
        # Kernels of other problems are useless here; candidates of a space are forecast.
        for more in ([], ["--generator", "llm", "--generator-requests", "3"]):
            services.search({"TRACEPARENT": f"00-{TRACE}-{ROOT_SPAN}-01"}, *more)
        seen = {answers: json.loads(fetch(address, "/admin/seen"))["traceparents"]
                for answers, address in addresses.items()}
        self.assertEqual(services.stop(), [0, 0, 0])

        self.assertEqual(self.collector.mistakes, [])
        spans = {span.span_id: (service, span) for service, span in self.collector.spans}
        for answers, service, parent in (("forecast", "kernelcast-forecaster", "kernelcast.v1.Forecaster/Forecast"),
                                         ("kernel", "kernelcast-orchestrator", "kernelcast.search")):
            asked = [span for of_service, span in spans.values() if (of_service, span.name) == (service, "chat fake")]
            answered = set()
            for span in asked:
                self.assertEqual(span.kind, span.SPAN_KIND_CLIENT)
                caller, of_caller = spans[span.parent_span_id]
                self.assertEqual((caller, of_caller.name), (service, parent))
                attributes = {item.key: item.value for item in span.attributes}
                self.assertEqual(attributes["gen_ai.request.model"].string_value, "fake")
                if "error.type" not in attributes:
                    self.assertGreater(attributes["gen_ai.usage.output_tokens"].int_value, 0)
                    answered.add(span.span_id.hex())
            self.assertGreater(len(answered), 0, service)
            # A call abandoned before sending was not seen.
            sent = {traceparent.split("-")[2] for traceparent in seen[answers]}
            self.assertEqual(set(seen[answers]), {f"00-{TRACE}-{span_id}-01" for span_id in sent})
            self.assertLessEqual(answered, sent)
            self.assertLessEqual(sent, {span.span_id.hex() for span in asked})

    def test_services_that_the_command_line_starts_send_their_spans(self):
        state = os.path.join(self.folder, "state")
        up = subprocess.Popen([os.path.join(options.programs, "kernelcast"), "up", "--json", "--listen", "127.0.0.1:0",
                               "--state-dir", state, "--otlp-endpoint", self.collector.url, "--trace-ratio", "1"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
        self.addCleanup(end, up)
        with up.stdout:
            ready = json.loads(up.stdout.readline())
            search({}, "--orchestrator", ready["orchestrator"], "--budget-candidates", "6")
            up.send_signal(signal.SIGTERM)
            self.assertEqual(up.wait(SEARCH_SECONDS), 0)
        self.assertEqual(self.collector.mistakes, [])
        names = {(service, span.name) for service, span in self.collector.spans}
        for one in (("kernelcast-orchestrator", "kernelcast.search"), ("kernelcast-worker", "kernelcast.measure"),
                    ("kernelcast-forecaster", "kernelcast.v1.Forecaster/Forecast")):
            self.assertIn(one, names)

    def test_a_request_to_the_gateway_is_one_trace_with_its_evaluation(self):
        services = self.services("--trace-ratio", "0")
        gateway = services.start("gateway", "--orchestrator", services.orchestrator["grpc"], "--problems",
                                 os.path.join(ROOT, "examples/problems"), "--state-dir", self.folder, "--otlp-endpoint",
                                 self.collector.url, "--trace-ratio", "0")
        connection = http.client.HTTPConnection(gateway["http"], timeout=SEARCH_SECONDS)
        self.addCleanup(connection.close)
        connection.request("POST", "/slime/row_softmax", json.dumps({"response": "```cpp\nnot C++\n```"}), {
            "Content-Type": "application/json", "traceparent": f"00-{TRACE}-{ROOT_SPAN}-01", "tracestate": "vendor=42"})
        reply = connection.getresponse()
        self.assertEqual((reply.status, json.loads(reply.read())), (200, 0.0))
        self.assertEqual(services.stop(), [0, 0, 0, 0])
        self.assertEqual(self.collector.mistakes, [])
        spans = {span.span_id: (service, span) for service, span in self.collector.spans}
        for service, span in spans.values():
            where = f"{service} {span.name}"
            self.assertEqual((span.trace_id.hex(), span.trace_state), (TRACE, "vendor=42"), where)
            self.assertTrue(span.parent_span_id.hex() == ROOT_SPAN or span.parent_span_id in spans, where)

        def parents(span):
            while span.parent_span_id in spans:
                service, span = spans[span.parent_span_id]
                yield service, span.name
        compiled, = [span for service, span in spans.values() if (service, span.name) == ("kernelcast-worker", "kernelcast.compile")]
        above = list(parents(compiled))
        self.assertEqual(above[-1], ("kernelcast-gateway", "POST /slime"))
        self.assertEqual(above[-2], ("kernelcast-gateway", "kernelcast.v1.Orchestrator/Evaluate"))
        self.assertEqual(above[-3], ("kernelcast-orchestrator", "kernelcast.v1.Orchestrator/Evaluate"))

    def test_what_is_not_sampled_is_not_exported(self):
        services = self.services("--trace-ratio", "0")
        for environment in ({}, {"TRACEPARENT": f"00-{TRACE}-{ROOT_SPAN}-00"}, {"TRACEPARENT": "nonsense"}):
            services.search(environment)
        self.assertEqual(services.stop(), [0, 0, 0])
        self.assertEqual(self.collector.mistakes, [])
        self.assertEqual(self.collector.spans, [])

    def test_a_collector_that_is_away_is_counted_and_harms_nobody(self):
        services = self.services("--trace-ratio", "1", collector="http://127.0.0.1:9")
        services.search({})
        failed = 'kernelcast_tracing_spans_total{outcome="export_failed"}'

        def dropped():
            page = fetch(services.orchestrator["metrics"], "/metrics")
            return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(failed))

        wait_for("spans that were dropped", lambda: dropped() > 0, services.processes["orchestrator"])
        self.assertEqual(services.stop(), [0, 0, 0])


def main():
    """Runs the named tests, or all."""
    global options  # pylint: disable=global-statement
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    options, rest = parser.parse_known_args()
    if trace_service_pb2 is None:
        print("skipped: no definitions of OTLP (scripts/setup.sh --test)")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
