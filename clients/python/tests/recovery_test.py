"""Evaluations outlive the processes that work on them."""

import itertools
import os
import signal
import threading

import kernelcast
import pytest
from conftest import SAME, SOFTMAX, process_of


def test_evaluations_survive_a_killed_worker_and_orchestrator(tmp_path):
    sources = [SAME + f"// {i}\n" for i in range(3)]
    with kernelcast.local(state_dir=tmp_path) as client:
        problem = client.put_problem(SOFTMAX)
        results = []
        for result in client.evaluate_many(problem, sources, mode="measure"):
            if not results:
                for service in ("worker", "orchestrator"):
                    os.kill(process_of(service, tmp_path), signal.SIGKILL)
            results.append(result)
        assert sorted(r.candidate.source for r in results) == sources
        assert all(isinstance(r, kernelcast.Measurement) and r.outcome in ("ok", "environment_unstable") for r in results)


def test_a_process_forks_while_its_clients_are_in_use(client, softmax):
    with pytest.raises(kernelcast.errors.NotFound) as failed:  # an error that is kept must not keep its call
        client.get_search("missing")
    forked = threading.Event()
    answers = {"calls": 0, "stream": 0}

    def call():
        while not forked.is_set():
            client.describe()
            answers["calls"] += 1

    def stream():
        endless = (SAME + f"// fork {i}\n" for i in itertools.takewhile(lambda _: not forked.is_set(), itertools.count()))
        for result in client.evaluate_many(softmax, endless, mode="forecast", in_flight=4):
            assert isinstance(result, kernelcast.Forecast)
            answers["stream"] += 1

    threads = [threading.Thread(target=work) for work in (call, call, stream)]
    for thread in threads:
        thread.start()
    try:
        for i in range(8):
            if (child := os.fork()) == 0:
                signal.alarm(60)
                # Inherited and new clients.
                (client if i % 2 else kernelcast.Client(client.address)).describe()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            before = dict(answers)
            while all(thread.is_alive() for thread in threads) and any(answers[k] == before[k] for k in answers):
                client.describe()
    finally:
        forked.set()
        for thread in threads:
            thread.join()
    assert min(answers.values()) >= 8 and failed.value.code == "NOT_FOUND"
