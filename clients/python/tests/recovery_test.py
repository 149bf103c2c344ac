"""Evaluations outlive the processes that work on them."""

import os
import signal

import kernelcast
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
