"""The loop of docs/howto/rl.md against recorded measurements of an example problem."""

import importlib.util
import subprocess

import kernelcast
import pytest
import recorded
from conftest import SOFTMAX
from kernelcast._local import find_program

spec = importlib.util.spec_from_file_location("grpo", recorded.ROOT / "examples/python/grpo.py")
grpo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(grpo)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Measurements of the problem's whole template space, with the sources that the templates make."""
    folder = tmp_path_factory.mktemp("grpo")
    measured = recorded.ROOT / "data/measured/amd-epyc/spaces/row_softmax.jsonl.gz"
    subprocess.run([find_program(None), "export", "--sources", "--records", measured, "-o", folder / "records.jsonl"],
                   check=True, cwd=recorded.ROOT)
    return folder / "records.jsonl"


@pytest.mark.parametrize("seed", [1, 2])
def test_the_policy_learns_to_choose_faster_kernels(records, seed):
    points = grpo.read_points(records)
    assert len(points) > 100
    with kernelcast.local(replay=records) as client:
        problem = client.put_problem(SOFTMAX)
        means = list(grpo.train(client, problem, points, seed))
        best = max(result.reward.value for result in
                   client.evaluate_many(problem, points, mode="measure", reward=grpo.REWARD) if result.reward.value)
    first, last = sum(means[:5]) / 5, sum(means[-5:]) / 5
    print(f"mean reward {first:.3f} at first, {last:.3f} at last; the best kernel has {best:.3f}")
    assert last > first + 0.5 * (best - first)
