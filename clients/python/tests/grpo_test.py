"""The loop of docs/howto/rl.md against recorded measurements of an example problem."""

import importlib.util
import json
import random
import statistics
import subprocess

import kernelcast
import pytest
import recorded
from conftest import SOFTMAX
from kernelcast._local import find_program

spec = importlib.util.spec_from_file_location("grpo", recorded.ROOT / "examples/python/grpo.py")
grpo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(grpo)

EDGES = (-2, -1, -0.5, 0, 0.5, 1, 2)  # log2 of the edges of sqrt2/1, docs/reference/protocol.md


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Measurements of the problem's whole template space, with the sources that the templates make."""
    folder = tmp_path_factory.mktemp("grpo")
    measured = recorded.ROOT / "data/measured/amd-epyc/spaces/row_softmax.jsonl.gz"
    subprocess.run([find_program(None), "export", "--sources", "--records", measured, "-o", folder / "records.jsonl"],
                   check=True, cwd=recorded.ROOT)
    return folder / "records.jsonl"


@pytest.fixture(scope="module")
def points(records):
    return grpo.read_points(records)


@pytest.fixture(scope="module")
def asked(records, points):
    """The reward of each point by its measurement, and a file of forecasts of a forecaster without labels."""
    path = records.with_name("asked.jsonl")
    with kernelcast.local(replay=records, arguments=["--record-forecasts", path]) as client:
        problem = client.put_problem(SOFTMAX)
        list(client.evaluate_many(problem, points, mode="forecast"))
        results = client.evaluate_many(problem, points, mode="measure", reward=grpo.REWARD)
        return {result.candidate.name: result.reward.value for result in results}, path


@pytest.fixture(scope="module")
def truth(asked):
    return asked[0]


@pytest.fixture
def routing(records, asked, tmp_path):
    """A client of services with recorded forecasts, which are off by half an octave and scatter as much."""
    path = tmp_path / "forecasts.jsonl"
    with open(path, "w") as file:
        for record in filter(lambda one: one["time"] == "1", map(json.loads, asked[1].read_text().splitlines())):
            candidate_id = record["candidate_id"]
            noise = random.Random(candidate_id)
            guess = asked[0][candidate_id] + 0.5 + noise.gauss(0, 0.5)
            predicted = sum(guess > edge for edge in EDGES)
            weights = [1 / (1 + 9 * (i - predicted) ** 2) for i in range(len(EDGES) + 1)]
            record["forecast"].update(predicted_bin=predicted + 1, bin_probabilities=[w / sum(weights) for w in weights],
                                      basis="FORECAST_BASIS_FACTS", evidence_id=candidate_id)
            # Within a bin they tell candidates apart, but not which is faster.
            record["forecast"]["expected_log2_speedup"] = (record["forecast"].get("expected_log2_speedup", 0)
                                                           + noise.gauss(0, 0.2))
            file.write(json.dumps(record) + "\n")
    with kernelcast.local(replay=records, arguments=["--forecaster", "replay", "--replay-forecasts", path]) as client:
        yield client


def value(step, points, truth):
    """The expected reward of the policy, by measurements alone."""
    return sum(p * truth[point.name] for p, point in zip(step.probabilities, points))


def learns(steps, points, truth):
    first, last, best = value(steps[0], points, truth), value(steps[-1], points, truth), max(truth.values())
    print(f"expected reward {first:.3f} at first, {last:.3f} at last; the best kernel has {best:.3f}")
    return last > first + 0.5 * (best - first)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_policy_learns_to_choose_faster_kernels(records, points, truth, seed):
    assert len(points) > 100
    with kernelcast.local(replay=records) as client:
        assert learns(list(grpo.train(client, client.put_problem(SOFTMAX), points, seed)), points, truth)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_policy_learns_where_only_a_share_is_measured(routing, points, truth, seed):
    # One at a time, so that each decision knows all earlier measurements and each run is the same.
    steps = list(grpo.train(routing, routing.put_problem(SOFTMAX), points, seed, group=64, mode="route", in_flight=1))
    results = [result for step in steps for result in step.results]
    share = sum(isinstance(result, kernelcast.Measurement) for result in results) / len(results)
    print(f"{share:.1%} of {len(results)} measured")
    assert share < 0.5 and learns(steps, points, truth)


def test_the_mean_of_the_estimates_is_that_of_measurements(routing, points, truth):
    problem = routing.put_problem(SOFTMAX)
    passes = [list(routing.evaluate_many(problem, points, mode="route", reward=grpo.REWARD, in_flight=1,
                                         request_id=lambda point: f"{number}-{point.name}")) for number in range(12)]
    results = [result for one in passes for result in one]
    means = [statistics.mean(result.reward.value for result in one) for one in passes]
    error = statistics.mean(means) - statistics.mean(truth.values())
    deviation = statistics.stdev(means) / len(means) ** 0.5
    # The bias of rewards that use a forecast instead of the truth where another reason than the draw prevented
    # measuring.
    bias = statistics.mean((result.reward.control if result.reward.basis == "estimated" else result.reward.value)
                           - truth[result.candidate.name] for result in results)
    share = sum(isinstance(result, kernelcast.Measurement) for result in results) / len(results)
    print(f"{share:.1%} measured; error {error:.3f}, standard error {deviation:.3f}; forecasts alone err by {bias:.3f}")
    assert abs(error) < 2 * deviation and 3 * deviation < abs(bias) and share < 0.25
    assert all(0 < result.reward.propensity < 1 for result in results if result.reward.basis == "estimated")
    assert all(result.reward.measured in (None, truth[result.candidate.name]) for result in results)
