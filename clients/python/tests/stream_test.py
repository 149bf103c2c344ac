"""Streams of candidates, with a worker that replays recorded measurements."""

import asyncio
import itertools
import json
import subprocess
import sys
import threading

import kernelcast
import pytest
import recorded


@pytest.fixture(scope="module")
def replay(recording):
    folder, candidates, records = recording
    with kernelcast.local(replay=records) as client:
        yield client, client.put_problem(folder), candidates


def test_all_candidates_are_answered_once(replay):
    client, problem, candidates = replay
    results = list(client.evaluate_many(problem, candidates, mode="measure"))
    assert {r.candidate.name for r in results} == {c.name for c in candidates} and len(results) == len(candidates)
    assert all(f"{r.speedup.value:.6f}" == r.candidate.name for r in results)


def test_candidates_are_taken_as_results_arrive(replay):
    client, problem, candidates = replay
    taken = itertools.count(1)
    latest = 0

    def endless():
        nonlocal latest
        for candidate in itertools.cycle(candidates):
            latest = next(taken)
            yield candidate

    results = client.evaluate_many(problem, endless(), mode="measure", in_flight=8)
    for settled, _ in enumerate(itertools.islice(results, 200), 1):
        assert latest - settled <= 8
    results.close()


def test_a_slow_source_does_not_delay_results(replay):
    client, problem, candidates = replay

    async def work():
        settled = asyncio.Event()

        async def source():
            yield candidates[0]
            await settled.wait()  # for the result of the first one
            yield candidates[1]

        async with kernelcast.AsyncClient(client.address) as other:
            results = []
            async for result in other.evaluate_many(problem, source(), mode="measure"):
                settled.set()
                results.append(result.candidate)
            return results

    assert asyncio.run(asyncio.wait_for(work(), 60)) == candidates[:2]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_error_of_the_source_reaches_the_caller(replay, count):
    client, problem, candidates = replay

    def source():
        yield from candidates[:count]
        raise KeyError("no more")

    async def work():
        async with kernelcast.AsyncClient(client.address) as other:
            return [r async for r in other.evaluate_many(problem, source(), mode="measure")]

    with pytest.raises(KeyError):
        list(client.evaluate_many(problem, source(), mode="measure"))
    with pytest.raises(KeyError):
        asyncio.run(work())


def test_no_candidates_no_results(replay):
    client, problem, _ = replay
    assert list(client.evaluate_many(problem, [])) == []


def test_a_progress_bar_counts_results(replay, capsys):
    client, problem, candidates = replay
    assert len(list(client.evaluate_many(problem, candidates[:50], progress=True))) == 50
    assert "50/50" in capsys.readouterr().err


def test_an_interrupt_leaves_the_client_usable(replay):
    client, problem, candidates = replay
    for result in client.evaluate_many(problem, candidates, mode="measure"):
        assert isinstance(result, kernelcast.Measurement)
        break
    assert isinstance(client.evaluate(problem, candidates[0], mode="measure"), kernelcast.Measurement)
    assert threading.active_count() < 10


def test_the_example_evaluates_a_thousand_candidates(recording):
    folder, candidates, records = recording
    lines = folder.parent / "candidates.jsonl"
    lines.write_text("".join(json.dumps({"name": c.name, "source": c.source, "tunables": c.tunables}) + "\n"
                             for c in candidates))
    example = recorded.ROOT / "examples/python/evaluate_many.py"
    assert len([line for line in example.read_text().splitlines() if line]) <= 15
    run = subprocess.run([sys.executable, example, folder, lines, records], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert {line.split()[0] for line in run.stdout.splitlines() if " measured " in line} == {c.name for c in candidates}
