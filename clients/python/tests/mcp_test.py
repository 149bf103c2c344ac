"""The server for coding agents, with the SDK's client, over standard input and output and over HTTP.

The services measure on the cpu target, except in the test of many sessions, where a worker answers from records.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import httpx2
import kernelcast
import pytest
import recorded
from conftest import CANDIDATES, DOES_NOTHING, FASTER, SAME, SOFTMAX
from kernelcast._local import find_program
from kernelcast.mcp.__main__ import main
from kernelcast.v1 import orchestrator_pb2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

# Slow enough to be cancelled while it is measured.
SLOW = SAME.replace("#include <math.h>", "#include <math.h>\n#include <time.h>").replace("  const float* x", """
  timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_sec - start.tv_sec < 2);
  const float* x""", 1)
_NUMBERS = itertools.count()
SERVER = [sys.executable, "-B", "-m", "kernelcast.mcp"]


def another(source):
    """The same kernel as a candidate that was not measured before."""
    return f"{source}// {os.getpid()} {next(_NUMBERS)}\n"


def environment(client):
    return {**os.environ, "KERNELCAST_ORCHESTRATOR": client.address}


def over_stdio(client, *options, task=SOFTMAX):
    return Client(StdioServerParameters(command=SERVER[0], args=[*SERVER[1:], str(task), *options],
                                        env=environment(client)))


@contextlib.contextmanager
def http_server(client, *options, task=SOFTMAX):
    """The process of a server and its URL."""
    process = subprocess.Popen([*SERVER, task, "--http", "127.0.0.1:0", *options], stdout=subprocess.PIPE, text=True,
                               env=environment(client))
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), url
        yield process, url
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


@contextlib.asynccontextmanager
async def over_http(url, mode="auto", **headers):
    async with httpx2.AsyncClient(headers=headers, timeout=600) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as agent:
            yield agent


@pytest.fixture(scope="module")
def url(client):
    with http_server(client) as (_, url):
        yield url


async def ask(agent, tool, /, **arguments):
    """The structured content and the text of a result."""
    result = await agent.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content, result.content[0].text


async def refused(agent, tool, /, **arguments):
    result = await agent.call_tool(tool, arguments)
    assert result.is_error and result.structured_content is None
    return result.content[0].text


async def measure(agent, source, **arguments):
    """A measurement with a verdict. Other work on this machine can prevent one for a while."""
    for _ in range(10):
        value, text = await ask(agent, "evaluate", source=source, mode="measure", **arguments)
        if value["outcome"] != "environment_unstable":
            return value, text
    raise AssertionError(text)


async def use_each_tool(agent):
    tools = (await agent.list_tools()).tools
    assert {tool.name for tool in tools} == {"describe_task", "evaluate", "simulate", "profile", "history", "best"}
    assert all(tool.description and tool.output_schema for tool in tools)

    task, text = await ask(agent, "describe_task")
    assert task["task"] == "row_softmax" and task["default_target"] == "cpu" and task["tasks"] == ["row_softmax"]
    assert task["inputs"][0] == {"name": "x", "dtype": "float32", "shape": ["rows", "cols"], "tolerance": {}}
    assert task["outputs"][0]["tolerance"]["atol"] == 5e-7 and task["bench_shapes"] == [{"cols": 1024, "rows": 128}]
    assert task["files"]["reference.cc"] == (SOFTMAX / "reference.cc").read_text()
    assert "kernelcast_run" in task["how_to_write_a_candidate"] and "reference.cc" in text

    nothing, _ = await ask(agent, "best")
    assert not nothing["found"]

    fast = another(FASTER)
    simulation, text = await ask(agent, "simulate", source=fast, details=True)
    assert simulation["verdict"] == "compiles" and simulation["expected_speedup"] > 0 and not simulation["shapes"]
    assert simulation["facts"]["text_bytes"] > 0 and "Forecast: " in text
    broken, text = await ask(agent, "simulate", source="this is not C++")
    assert broken["verdict"] == "compile_error" and "error" in broken["compile_log"] and "error" in text

    measured, text = await measure(agent, fast, name="two rows")
    assert measured["kind"] == "measured" and measured["outcome"] == "ok" and not measured["reused"]
    assert 1 < measured["speedup"]["low"] < measured["speedup"]["value"] and measured["device_seconds"] > 0
    assert measured["shapes"][0]["shape"] == {"cols": 1024, "rows": 128}
    assert measured["shapes"][0]["candidate_us"] < measured["shapes"][0]["reference_us"]
    assert "measured" in text and "device seconds" in text
    again, _ = await ask(agent, "evaluate", source=fast, mode="measure")
    assert again["reused"] and again["device_seconds"] == 0 and again["speedup"] == measured["speedup"]
    wrong, text = await measure(agent, another(DOES_NOTHING))
    assert wrong["outcome"] == "wrong_result" and wrong["speedup"] is None and "Wrong result" in text
    checked, _ = await ask(agent, "evaluate", source=another(SAME), mode="check")
    assert checked["outcome"] == "passed" and checked["speedup"] is None
    forecast, text = await ask(agent, "evaluate", source=another(SAME), mode="forecast")
    assert forecast["kind"] == "forecast" and forecast["speedup"] is None and "not measured" in text
    routed, _ = await ask(agent, "evaluate", source=another(DOES_NOTHING), name="routed")
    assert routed["kind"] in ("measured", "forecast") and routed["decision"] != "requested"

    profile, text = await ask(agent, "profile", source=fast)
    # Measured again, although it was measured before.
    assert profile["kind"] == "measured" and not profile["reused"] and profile["device_seconds"] > 0
    assert bool(profile["profiles"]) != bool(profile["counters_unavailable"])
    assert "counters" in text

    best, text = await ask(agent, "best")
    assert best["found"] and best["candidate"]["source"] == fast and fast in text and best["level"] == "screen"
    assert best["name"] == "two rows" and best["speedup"]["value"] > 1
    judged, _ = await ask(agent, "evaluate", **best["candidate"], mode="measure")
    assert judged["candidate_id"] == best["candidate_id"]

    history, text = await ask(agent, "history", limit=3)
    assert history["total"] >= 10 and len(history["attempts"]) == 3 and len(text.splitlines()) == 3
    assert [attempt["tool"] for attempt in history["attempts"]] == ["evaluate", "profile", "evaluate"]
    used = history["budget"]
    assert used["evaluations_used"] >= 8 and used["device_seconds_used"] > 0 and used["evaluations_left"] is None


def test_faults_are_found_without_a_gpu(client, url):
    """The compiler and the simulator need no GPU."""
    targets = [target for worker in client.describe().workers for target in worker.description.targets]
    if not any(target.target == "cuda" and target.can_compile for target in targets):
        pytest.skip("no CUDA compiler is installed")
    source = (SOFTMAX / "reference.cu").read_text()
    launches = [{"kernel": "row_softmax", "grid": ["rows"], "block": [256], "arguments": ["x", "y", "cols"]}]

    async def work():
        async with over_http(url, "legacy") as agent:
            right, text = await ask(agent, "simulate", source=source, target="cuda", launches=launches, details=True)
            assert right["verdict"] == "outputs_agree" and right["faults"] == [] and right["estimated_us"] > 0
            shape, = right["shapes"]
            assert shape["shape"] == {"cols": 1024, "rows": 128} and shape["outputs"] == "agree"
            assert shape["launches"][0]["estimated_ns"] == pytest.approx(right["estimated_us"] * 1e3)
            assert "outputs agree" in text and "Estimated time" in text and right["facts"]["registers"] > 0
            wrong, text = await ask(agent, "simulate", source=source.replace("y[", "y[1 + ", 1), target="cuda",
                                    launches=launches)
            assert wrong["verdict"] == "faults" and wrong["failure_probability"] > right["failure_probability"]
            assert "global_out_of_bounds" in {fault["kind"] for fault in wrong["faults"]} and "bytes" in text
            assert "no verdict" in await refused(agent, "evaluate", source=source, target="cuda", launches=launches)

    asyncio.run(work())


def test_each_tool_over_stdio(client):
    async def work():
        async with over_stdio(client) as agent:
            await use_each_tool(agent)

    asyncio.run(work())


def test_a_kernel_is_found_over_http(url):
    async def work():
        async with over_http(url, "legacy") as agent:
            assert (await ask(agent, "describe_task"))[0]["task"] == "row_softmax"
            assert (await ask(agent, "simulate", source="not C++"))[0]["verdict"] == "compile_error"
            fast = another(FASTER)
            assert (await measure(agent, fast))[0]["speedup"]["low"] > 1
            assert (await ask(agent, "best"))[0]["candidate"]["source"] == fast
            assert [a["tool"] for a in (await ask(agent, "history"))[0]["attempts"]][:2] == ["simulate", "evaluate"]

    asyncio.run(work())


def test_bad_input_is_refused_with_what_is_allowed(url):
    async def work():
        async with over_http(url, "legacy") as agent:
            assert "'route', 'measure'" in await refused(agent, "evaluate", source=SAME, mode="fast")
            assert "source" in await refused(agent, "evaluate")
            assert "task: 'matmul' is none of 'row_softmax'" in await refused(agent, "evaluate", source=SAME, task="matmul")
            assert "no reference for 'cuba'; it has: cpu, cuda" in await refused(agent, "simulate", source=SAME, target="cuba")
            assert "at most 1048576" in await refused(agent, "evaluate", source="x" * (2 << 20))
            assert "flags" in await refused(agent, "evaluate", source=SAME, flags=[{"-O3": 1}])
            assert "kernel" in await refused(agent, "profile", source=SAME, launches=[{"grid": [1]}])
            assert "less than or equal to 200" in await refused(agent, "history", limit=1000)
            assert "flag" in (await ask(agent, "evaluate", source=SAME, flags=["-fplugin=x.so"]))[1]
            assert "Unknown tool" in await refused(agent, "delete_everything")
            # What is refused costs nothing.
            assert (await ask(agent, "history"))[0]["budget"]["evaluations_used"] == 1

    asyncio.run(work())


@pytest.fixture(scope="module")
def replayed(recording):
    """A client of services whose worker answers from records, the problem, and its candidates as arguments of tools."""
    problem, candidates, records = recording
    with kernelcast.local(replay=records) as client:
        yield client, problem, [{"source": candidate.source, "tunables": dict(candidate.tunables), "name": candidate.name}
                                for candidate in candidates]


def test_a_session_keeps_its_budget(replayed):
    client, problem, candidates = replayed

    async def work():
        # Each recorded measurement took 0.5 s.
        async with over_stdio(client, "--max-evaluations", "3", "--max-device-seconds", "0.9", task=problem) as agent:
            assert "cuba" in await refused(agent, "evaluate", source="x", target="cuba")
            for left, candidate in zip((0.4, 0), candidates):
                value, text = await ask(agent, "evaluate", **candidate, mode="measure")
                assert value["budget"]["device_seconds_left"] == left
            assert value["budget"]["evaluations_left"] == 1 and "Left: 1 evaluations, 0 device seconds" in text
            for tool in ("evaluate", "profile"):
                text = await refused(agent, tool, **candidates[2])
                assert "the client's device seconds are spent. Left: 1 evaluations, 0 device seconds" in text
            assert (await ask(agent, "simulate", **candidates[3]))[0]["verdict"] == "compiles"
        async with over_stdio(client, "--max-evaluations", "1", task=problem) as agent:
            await ask(agent, "evaluate", **candidates[4], mode="measure")
            text = await refused(agent, "evaluate", **candidates[5])
            assert "the client's evaluations are spent. Left: 0 evaluations, any number of device seconds" in text

    asyncio.run(work())


def test_sessions_over_http_have_budgets_of_their_own(client, tmp_path):
    async def used(url, mode="auto", **headers):
        async with over_http(url, mode, Authorization="Bearer secret", **headers) as agent:
            before = (await ask(agent, "history"))[0]["budget"]["evaluations_used"]
            await ask(agent, "evaluate", source="not C++")
            return before

    async def work():
        (tmp_path / "token").write_text("secret\n")
        with http_server(client, "--http-token-file", tmp_path / "token") as (_, url):
            for token in ("", "Bearer", "Bearer wrong"):
                async with httpx2.AsyncClient() as http:
                    reply = await http.post(url, headers={"Authorization": token}, json={})
                    assert reply.status_code == 401 and "expected the bearer token" in reply.text
            assert await used(url, "legacy") == 0 and await used(url, "legacy") == 0
            # A named session continues when its client connects again.
            alice = {"Kernelcast-Session": "alice"}
            assert await used(url, **alice) == 0 and await used(url, "legacy", **alice) == 1
            assert await used(url, **{"Kernelcast-Session": "bob"}) == 0
            # The sessionless protocol: clients without a name share a session, and with it the budget.
            assert await used(url) == 0 and await used(url) == 1

    asyncio.run(work())


async def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def free(client, search_id):
    """Whether nothing of a search is in progress, at the orchestrator or at a worker."""
    workers = client.describe().workers
    return client.get_search(search_id).counts.live == 0 and all(w.description.measures_in_flight == 0 for w in workers)


def cancelled(client, search_id):
    return [record for record in client.export(search_id) if record.evaluation.rejected.HasField("cancelled")]


@pytest.mark.parametrize("mode", ["stdio", "legacy", "auto"])
def test_a_cancelled_call_frees_what_it_held(client, url, mode):
    async def work():
        said = []

        async def progress(step, total, message):
            assert total is None and step == len(said)
            said.append(message)

        agents = over_stdio(client) if mode == "stdio" else over_http(url, mode, **{"Kernelcast-Session": f"cancel {mode}"})
        async with agents as agent:
            search_id = (await ask(agent, "evaluate", source="not C++"))[0]["search_id"]
            call = asyncio.create_task(agent.call_tool(
                "evaluate", {"source": another(SLOW), "mode": "measure"}, progress_callback=progress))
            await until(lambda: call.done() or any(text.startswith("measuring") for text in said))
            assert not call.done() and said[:2] == ["compiling", "accepted"]
            assert client.get_search(search_id).counts.live == 1
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: free(client, search_id))
            assert len(cancelled(client, search_id)) == 1
            # The session goes on, and the call cost nothing.
            value, _ = await ask(agent, "evaluate", source="not C++ either")
            assert value["search_id"] == search_id and value["budget"]["evaluations_used"] == 2
        if mode == "stdio":
            assert client.get_search(search_id).status == orchestrator_pb2.SEARCH_STATUS_DONE

    asyncio.run(work())


KILLED_CLIENT = """
import asyncio, sys
import mcp_test
from mcp import Client, StdioServerParameters

async def work(where, slow):
    server = mcp_test.over_http(where, "legacy") if where.startswith("http") else Client(StdioServerParameters(
        command=sys.executable, args=["-B", "-m", "kernelcast.mcp", where], env=dict(mcp_test.os.environ)))
    async def progress(step, total, message):
        print(message, flush=True)
    async with server as agent:
        value, _ = await mcp_test.ask(agent, "evaluate", source="not C++")
        print(value["search_id"], flush=True)
        await agent.call_tool("evaluate", {"source": slow, "mode": "measure"}, progress_callback=progress)

asyncio.run(work(*sys.argv[1:]))
"""


@contextlib.contextmanager
def client_that_measures(client, where):
    """The process of a client while its kernel is measured, and its search."""
    process = subprocess.Popen([sys.executable, "-B", "-c", KILLED_CLIENT, where, another(SLOW)], stdout=subprocess.PIPE,
                               text=True, env=environment(client), cwd=os.path.dirname(__file__))
    try:
        search_id = process.stdout.readline().strip()
        while not (line := process.stdout.readline()).startswith("measuring"):
            assert line, "the client has ended"
        assert client.get_search(search_id).counts.live == 1
        yield process, search_id
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_killed_client_frees_what_it_held(client):
    with client_that_measures(client, str(SOFTMAX)) as (process, search_id):
        process.kill()
        # Its server ends with it.
        asyncio.run(until(lambda: client.get_search(search_id).status == orchestrator_pb2.SEARCH_STATUS_DONE))
        asyncio.run(until(lambda: free(client, search_id)))
        assert len(cancelled(client, search_id)) == 1

    with http_server(client, "--session-idle-seconds", "0.5") as (server, url):
        with client_that_measures(client, url) as (process, search_id):
            process.kill()
            asyncio.run(until(lambda: free(client, search_id)))
            assert len(cancelled(client, search_id)) == 1
            asyncio.run(until(lambda: client.get_search(search_id).status == orchestrator_pb2.SEARCH_STATUS_DONE))
        with client_that_measures(client, url) as (_, search_id):
            server.kill()
            asyncio.run(until(lambda: free(client, search_id)))


def test_a_scripted_agent_finds_a_faster_kernel_within_its_device_budget(client):
    seconds = 60

    async def work():
        async with over_stdio(client, "--max-device-seconds", str(seconds)) as agent:
            await ask(agent, "describe_task")
            ideas = {"broken": "not C++", "lazy": DOES_NOTHING, "same": SAME}
            ideas |= {path.stem: path.read_text() for path in sorted(CANDIDATES.glob("*.cc"), reverse=True)}
            for name, source in ideas.items():
                # Where a model reads why, the script goes on to the next idea.
                simulation, _ = await ask(agent, "simulate", source=another(source), name=name)
                if simulation["verdict"] == "compile_error":
                    continue
                await ask(agent, "evaluate", source=another(source), name=name)
                best, _ = await ask(agent, "best")
                if best["found"] and best["speedup"]["low"] > 1:
                    break
            attempts = (await ask(agent, "history", limit=200))[0]["attempts"]
            return best, attempts

    best, attempts = asyncio.run(work())
    assert best["found"] and best["speedup"]["low"] > 1
    costs = [attempt["device_seconds"] for attempt in attempts]
    # The last measurement may exceed the limit.
    assert best["budget"]["device_seconds_used"] == pytest.approx(sum(costs), abs=0.01) and sum(costs) < seconds + max(costs)
    by_name = {attempt["name"]: attempt for attempt in attempts if attempt["tool"] == "evaluate"}
    assert by_name["lazy"]["speedup"] is None and "broken" not in by_name


def test_the_command_runs_the_server(client, tmp_path):
    program = find_program(None)
    named = {**environment(client), "KERNELCAST_PYTHON": sys.executable}

    def run(*arguments):
        return subprocess.run([program, "mcp", *arguments], capture_output=True, text=True, env=named, check=False)

    async def work():
        server = StdioServerParameters(command=program, args=["mcp", "row_softmax", "--max-evaluations", "7"],
                                       env={**named, "KERNELCAST_PROBLEMS": str(SOFTMAX.parent)}, cwd=tmp_path)
        async with Client(server) as agent:
            assert (await ask(agent, "describe_task"))[0]["budget"]["evaluations_left"] == 7

    asyncio.run(work())
    shown = run("--help")
    assert shown.returncode == 0 and "--max-device-seconds" in shown.stdout
    named["KERNELCAST_PYTHON"] = str(tmp_path / "python")
    done = run(SOFTMAX)
    assert done.returncode == 3 and "KERNELCAST_PYTHON names another one" in done.stderr


@pytest.mark.parametrize("arguments, code, message", [
    (["no_such_problem"], 2, "TASK: no problem 'no_such_problem' in"),
    ([SOFTMAX, "--max-evaluations", "0"], 2, "0 is not a whole number of 1 or more"),
    ([SOFTMAX, "--max-device-seconds", "inf"], 2, "inf is not a number above 0"),
    ([SOFTMAX, "--http", "8000"], 2, "--http: '8000' is not HOST:PORT"),
    ([SOFTMAX, "--http", "0.0.0.0:0"], 2, "give --http-token-file"),
    ([SOFTMAX, "--http", "127.0.0.1:0", "--http-token-file", "/dev/null"], 2, "'/dev/null' is empty"),
    ([SOFTMAX, "--http", "127.0.0.1:0", "--http-token-file", "/no/such"], 2, "cannot read '/no/such'"),
    ([SOFTMAX, "--http", "192.0.2.1:1", "--http-token-file", __file__], 3, "cannot listen on 192.0.2.1:1"),
    ([SOFTMAX, SOFTMAX], 2, "has the name 'row_softmax' of an earlier one"),
    ([SOFTMAX, "--target", "cuba"], 2, "no reference for 'cuba'")])
def test_wrong_arguments_are_refused(client, monkeypatch, capsys, arguments, code, message):
    monkeypatch.setenv("KERNELCAST_ORCHESTRATOR", client.address)
    try:
        assert main(list(map(str, arguments))) == code
    except SystemExit as usage:
        assert usage.code == code
    assert message in capsys.readouterr().err


def run_sessions(replayed, count, evaluations):
    """Many agents at once, each with its session, on one server."""
    client, problem, candidates = replayed
    speedups = {candidate["source"]: float(candidate["name"]) for candidate in candidates}

    async def session(url, number):
        own = [candidates[(number * evaluations + i) % len(candidates)] for i in range(evaluations)]
        async with over_http(url, "legacy" if number % 2 else "auto", **{"Kernelcast-Session": str(number)}) as agent:
            for candidate in own:
                value, _ = await ask(agent, "evaluate", **candidate, mode="measure")
                assert value["speedup"]["value"] == speedups[candidate["source"]]
            assert "evaluations are spent" in await refused(agent, "evaluate", source="x")
            best, _ = await ask(agent, "best")
            assert best["speedup"]["value"] == max(speedups[candidate["source"]] for candidate in own)
            history, _ = await ask(agent, "history", limit=200)
            assert [a["speedup"] for a in history["attempts"]] == [speedups[candidate["source"]] for candidate in own]
            return best["search_id"]

    async def work(url):
        return await asyncio.gather(*(session(url, number) for number in range(count)))

    with http_server(client, "--max-evaluations", str(evaluations), task=problem) as (_, url):
        searches = asyncio.run(work(url))
    # The server has ended them.
    assert len(set(searches)) == count
    for search_id in searches:
        search = client.get_search(search_id)
        assert search.status == orchestrator_pb2.SEARCH_STATUS_DONE and search.counts.confirmations == 0
        assert search.counts.measurements == evaluations and search.counts.live == 0


def test_sessions_do_not_see_each_other(replayed):
    run_sessions(replayed, count=4, evaluations=3)


def test_a_hundred_parallel_sessions(replayed):
    run_sessions(replayed, count=100, evaluations=10)
