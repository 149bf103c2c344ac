"""Results, errors and retries, with services that compile and measure on the cpu target."""

import asyncio
import dataclasses
import hashlib
import html
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import kernelcast
import pytest
from conftest import DOES_NOTHING, FASTER, SAME, SOFTMAX, judged
from kernelcast import errors
from kernelcast._local import find_program


def test_results_are_measurements_forecasts_or_rejections(client, softmax):
    sources = {"faster": FASTER, "wrong": DOES_NOTHING, "broken": "this is not C++"}
    candidates = [kernelcast.Candidate(source, name=name) for name, source in sources.items()]
    results = {r.candidate.name: r for r in client.evaluate_many(softmax, candidates, mode="measure")}
    wrong, broken = results["wrong"], results["broken"]
    faster = results["faster"] = judged(client, softmax, FASTER)
    assert isinstance(faster, kernelcast.Measurement) and faster.outcome == "ok"
    assert faster.speedup.low > 1 and faster.speedup.low < faster.speedup.value < faster.speedup.high
    assert faster.deterministic is None  # a screening
    assert faster.notes == ()
    assert faster.device_model and faster.decision.reason == "requested"
    assert isinstance(wrong, kernelcast.Measurement) and wrong.outcome == "wrong_result" and wrong.speedup is None
    assert isinstance(broken, kernelcast.Rejection) and broken.cause == "compile_error"
    assert "error" in broken.detail
    for result in results.values():
        assert result.feedback and html.escape(result.feedback) in result._repr_html_()
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.feedback = ""

    forecast = client.evaluate(softmax, FASTER + "// another\n", mode="forecast")
    assert isinstance(forecast, kernelcast.Forecast)
    assert forecast.basis in ("facts", "labels", "prior_only")
    assert forecast.expected_speedup > 0 and abs(sum(forecast.bin_probabilities) - 1) < 1e-6
    assert not hasattr(forecast, "speedup") and not isinstance(forecast, kernelcast.Measurement)
    assert "forecast" in str(forecast) and "measured" not in str(forecast)


def test_feedback_says_what_a_model_needs(client, softmax):
    good = judged(client, softmax, FASTER)
    verdict = re.search(r"Correct in \d+ cases\. Runs ([\d.]+) times as fast as the reference "
                        r"\(95% interval ([\d.]+) to ([\d.]+)\)", good.feedback)
    given = good.speedup.value, good.speedup.low, good.speedup.high
    assert [float(number) for number in verdict.groups()] == pytest.approx(given, rel=1e-3)
    shape, = good.message.measured.ok.shapes
    times = re.search(r"At cols=1024, rows=128 a call takes ([\d.]+) (\ws), the reference ([\d.]+) (\ws)", good.feedback)
    unit_ns = {"ns": 1, "us": 1e3, "ms": 1e6}
    assert [float(times[i]) * unit_ns[times[i + 1]] for i in (1, 3)] == pytest.approx(
        [shape.candidate.median_ns, shape.reference.median_ns], rel=1e-2)

    # One element of the shape with 5 columns is 2 too large.
    wrong = judged(client, softmax, SAME.replace("  return 0;", "  if (cols == 5) y[3] += 2;\n  return 0;"))
    assert "Wrong result in output 'y' at cols=5, rows=" in wrong.feedback and "1 of " in wrong.feedback
    got, expected = re.search(r"the first, at flat index 3, is (\S+) instead of (\S+)\.", wrong.feedback).groups()
    assert float(got) == pytest.approx(float(expected) + 2, abs=2e-3) and 0 <= float(expected) <= 1

    lines = SAME.splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "float sum = 0;" in text)
    broken = client.evaluate(softmax, SAME.replace("float sum = 0;", "float sum = zero;"), mode="measure")
    assert broken.feedback.startswith("Does not compile:\n")
    assert re.search(rf"kernel\.cc:{line}:\d+: error: 'zero' was not declared in this scope", broken.feedback)
    assert "float sum = zero;" in broken.feedback  # the compiler quotes the line


def test_the_command_is_found_in_the_path(monkeypatch, tmp_path):
    program = find_program(None)
    monkeypatch.delenv("KERNELCAST_BUNDLE")
    monkeypatch.setenv("PATH", os.path.dirname(program) + os.pathsep + os.environ["PATH"])
    assert find_program(None) == program
    with kernelcast.local() as client:
        assert client.describe().version == kernelcast.__version__
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.FailedPrecondition, match="no kernelcast command in PATH"):
        find_program(None)


def test_a_request_id_names_one_evaluation(client, softmax):
    first = client.evaluate(softmax, SAME, mode="measure", request_id="once")
    again = client.evaluate(softmax, SAME, mode="measure", request_id="once")
    assert (again.request_id, again.speedup, again.message) == ("once", first.speedup, first.message)
    with pytest.raises(errors.AlreadyExists):
        client.evaluate(softmax, DOES_NOTHING, mode="measure", request_id="once")


def test_a_deadline_leaves_an_id_to_ask_again(client, softmax):
    slow = SAME + "// not measured before\n"
    with pytest.raises(errors.DeadlineExceeded) as raised:
        client.evaluate(softmax, slow, mode="measure", timeout=0.05)
    assert isinstance(raised.value, TimeoutError)
    result = client.evaluate(softmax, slow, mode="measure", request_id=raised.value.request_id)
    assert isinstance(result, kernelcast.Measurement) and result.request_id == raised.value.request_id


def test_arguments_of_a_wrong_type_are_refused_with_what_is_expected(client, softmax):
    with pytest.raises(errors.InvalidArgument, match=r"candidate.flags: expected a list of flags, such as .*, got the str '-O3'"):
        client.evaluate(softmax, kernelcast.Candidate(SAME, flags="-O3"))
    with pytest.raises(errors.InvalidArgument, match="candidate.source: expected a str, got b'int x;'"):
        client.evaluate(softmax, kernelcast.Candidate(b"int x;"))
    with pytest.raises(errors.InvalidArgument, match="candidate: expected a Candidate or its source as a str, got 42"):
        client.evaluate(softmax, 42)
    with pytest.raises(errors.InvalidArgument, match="problem: expected what put_problem returns, got 'row_softmax'"):
        client.evaluate("row_softmax", SAME)
    for one in (SAME, kernelcast.Candidate(SAME)):
        with pytest.raises(errors.InvalidArgument, match="candidates: expected an iterable, such as"):
            next(client.evaluate_many(softmax, one))


def test_errors_name_the_field(client, softmax, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="target: row_softmax has no reference for 'cuba'; it has: cpu, cuda"):
        client.evaluate(softmax, kernelcast.Candidate(SAME, target="cuba"))
    with pytest.raises(errors.InvalidArgument, match="mode: 'fast' is none of 'route', 'measure'"):
        client.evaluate(softmax, SAME, mode="fast")
    with pytest.raises(errors.InvalidArgument, match="candidate.source: 2097152 bytes; at most 1048576"):
        client.evaluate(softmax, "x" * (2 << 20))
    with pytest.raises(errors.InvalidArgument, match="in_flight: 0"):
        next(client.evaluate_many(softmax, [SAME], in_flight=0))
    with pytest.raises(errors.NotFound, match="search"):
        next(client.evaluate_many(softmax, [SAME], search="nowhere"))
    with pytest.raises(errors.NotFound, match="is not a folder with problem.yaml"):
        client.put_problem(tmp_path)
    (tmp_path / "problem.yaml").write_text("schema: 1\nname: a b\n")
    with pytest.raises(errors.InvalidArgument, match="problem.yaml:1: missing key 'title'"):
        client.put_problem(tmp_path)
    monkeypatch.delenv("KERNELCAST_ORCHESTRATOR", raising=False)
    with pytest.raises(errors.InvalidArgument, match="KERNELCAST_ORCHESTRATOR"):
        kernelcast.Client()
    with pytest.raises(errors.InvalidArgument, match="over TLS only"):
        kernelcast.Client("kernels.example:50051", token_file=tmp_path / "token")


def test_an_orchestrator_that_stays_away_is_unavailable():
    with kernelcast.Client("127.0.0.1:1", patience=0.2) as client, pytest.raises(ConnectionError):
        client.describe()


def test_a_search_keeps_its_budget(client, softmax):
    search = client.start_search(softmax, max_measurements=1)
    results = list(client.evaluate_many(softmax, [FASTER, SAME], search=search, mode="route", in_flight=1))
    assert [type(r) for r in results] == [kernelcast.Measurement, kernelcast.Forecast]
    assert client.get_search(search).counts.measured == 1
    client.stop_search(search)
    exported = {record.evaluation.request_id for record in client.export(search)}
    assert exported >= {r.request_id for r in results}


def test_a_check_and_a_profile_are_modes(client, softmax):
    checked = client.evaluate(softmax, SAME, mode="check")
    assert checked.outcome == "passed" and checked.speedup is None
    profiled = client.evaluate(softmax, DOES_NOTHING, mode="profile")
    assert profiled.outcome == "wrong_result" and not profiled.reused


def test_facts_come_with_their_names_where_they_are_asked_for(client, softmax):
    source = SAME + "// facts\n"
    message = client.evaluate(softmax, source, mode="forecast", include_facts=True).message
    schema, = message.fact_schemas
    assert schema.schema == message.facts.schema and len(schema.names) == len(message.facts.values) == len(schema.meanings)
    assert dict(zip(schema.names, message.facts.values))["text_bytes"] > 0
    assert not client.evaluate(softmax, source, mode="forecast").message.HasField("facts")


def test_a_search_is_watched_and_abandoned(client, softmax):
    search = client.start_search(softmax, max_wall_seconds=3600)
    first = client.evaluate(softmax, FASTER, mode="measure", search=search)
    assert client.stop_search(search, abandon=True).end_reason == "stopped"
    events = list(client.watch_search(search))
    assert [event.WhichOneof("event") for event in events if event.HasField("settled")] == ["settled"]
    assert events[0].HasField("started") and events[-1].HasField("ended")
    assert any(event.settled.request_id == first.request_id for event in events)
    assert client.get_search(search).counts.confirmations == 0
    rest = list(client.watch_search(search, from_sequence=events[-1].sequence))
    assert [event.sequence for event in rest] == [events[-1].sequence]


def test_local_services_end_with_the_context_and_the_process(tmp_path):
    with kernelcast.local(state_dir=tmp_path / "kept") as client:
        address = client.address
    assert (tmp_path / "kept/orchestrator").is_dir()
    with kernelcast.Client(address, patience=0) as client, pytest.raises(errors.Unavailable):
        client.describe()

    program = ("import kernelcast, os, signal\nclient = kernelcast.local().__enter__()\nprint(client.address)\n"
               "os.kill(os.getpid(), signal.SIGKILL)\n")
    run = subprocess.run([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert run.returncode == -signal.SIGKILL
    end = time.monotonic() + 30
    with kernelcast.Client(run.stdout.strip(), patience=0) as client, pytest.raises(errors.Unavailable):
        while time.monotonic() < end:  # the kernel ends them one after the other
            client.describe()


def test_local_says_why_services_do_not_start(tmp_path):
    with pytest.raises(errors.NotFound, match="bundle: .* has no kernelcast"):
        kernelcast.local(tmp_path).__enter__()
    with pytest.raises(errors.Unavailable, match="--no-such-flag"):
        kernelcast.local(arguments=["--no-such-flag"]).__enter__()


def test_a_token_is_sent(tmp_path):
    secret = os.urandom(32).hex()
    (tmp_path / "token").write_text(secret + "\n")
    (tmp_path / "tokens.yaml").write_text(
        f"tokens:\n  - name: test\n    roles: [submit]\n    sha256: {hashlib.sha256(secret.encode()).hexdigest()}\n")
    ready = tmp_path / "ready.json"
    orchestrator = subprocess.Popen(
        [os.path.join(os.path.dirname(find_program(None)), "kernelcast-orchestrator"), "--listen", "127.0.0.1:0",
         "--ready-file", ready, "--state-dir", tmp_path / "state", "--worker", "127.0.0.1:1", "--forecaster", "127.0.0.1:1",
         "--auth-tokens-file", tmp_path / "tokens.yaml"], stderr=subprocess.DEVNULL)
    try:
        while not ready.exists():
            assert orchestrator.poll() is None
            time.sleep(0.02)
        address = json.loads(ready.read_text())["grpc"]
        with kernelcast.Client(address) as client, pytest.raises(errors.Unauthenticated):
            client.put_problem(SOFTMAX)
        with kernelcast.Client(address, token_file=tmp_path / "token") as client:
            assert client.put_problem(SOFTMAX).name == "row_softmax"
            with pytest.raises(errors.PermissionDenied):  # needs the role admin
                client.describe()
    finally:
        orchestrator.kill()
        orchestrator.wait()


def test_a_client_serves_many_threads(client, softmax):
    results = []
    threads = [threading.Thread(target=lambda: results.append(client.evaluate(softmax, SAME, mode="measure")))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({r.candidate_id for r in results}) == 1 and len({r.request_id for r in results}) == 4


def test_both_clients_have_the_same_shape():
    methods = {name for name in vars(kernelcast.Client) if not name.startswith("_")}
    assert methods == {name for name in vars(kernelcast.AsyncClient) if not name.startswith("_")}
    for name in methods - {"address"}:
        ours, theirs = (inspect.signature(getattr(c, name)) for c in (kernelcast.Client, kernelcast.AsyncClient))
        assert list(ours.parameters) == list(theirs.parameters), name
        for parameter in set(ours.parameters) - {"candidates"}:  # the asyncio client also takes asynchronous ones
            assert ours.parameters[parameter] == theirs.parameters[parameter], name
        assert getattr(kernelcast.Client, name).__doc__


def test_the_asyncio_client_evaluates(client, softmax):
    async def work():
        async with kernelcast.AsyncClient(client.address) as other:
            assert (await other.describe()).version == client.describe().version
            one = await other.evaluate(softmax, DOES_NOTHING, mode="measure")
            many = [r async for r in other.evaluate_many(softmax, [SAME, DOES_NOTHING], mode="measure")]
            return one, many

    one, many = asyncio.run(work())
    assert one.outcome == "wrong_result" and {r.candidate.source for r in many} == {SAME, DOES_NOTHING}
    assert all(isinstance(r, kernelcast.Measurement) for r in many)
