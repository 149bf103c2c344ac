"""Rewards as trainers call them. The trainers themselves need PyTorch, and are not installed here."""

import asyncio
import types

import pytest
from conftest import DOES_NOTHING, FASTER, SOFTMAX
from kernelcast import errors
from kernelcast.adapters import rewards, slime, trl, verl

GOOD = f"First an attempt:\n```cpp\nint x;\n```\nbetter:\n```cpp\n{FASTER}```\n"
BAD = f"```\n{DOES_NOTHING}```"


@pytest.fixture(autouse=True)
def default(client, monkeypatch):
    monkeypatch.setattr(rewards, "default", rewards.Reward(address=client.address))


def test_the_last_fenced_block_is_the_source():
    assert rewards.source_of(GOOD) == FASTER and rewards.source_of("plain") == "plain"


def test_trl():
    conversation = [{"role": "assistant", "content": GOOD}]
    given = trl.speedup(prompts=["p"] * 3, completions=[GOOD, BAD, conversation], completion_ids=[[1]] * 3,
                        trainer_state=None, log_extra=None, log_metric=None, problem=[str(SOFTMAX)] * 3)
    assert given[0] > 1 and given[1] == 0 and given[2] == given[0]


def test_trl_leaves_out_what_has_no_verdict(monkeypatch):
    monkeypatch.setattr(rewards, "default", rewards.Reward(str(SOFTMAX), address="127.0.0.1:1", patience=0))
    assert trl.speedup(prompts=["p"], completions=[GOOD]) == [None]
    with pytest.raises(errors.Unavailable):
        asyncio.run(verl.compute_score("kernels", GOOD, ""))


def test_verl():
    asked = dict(data_source="kernels", ground_truth=str(SOFTMAX), extra_info={"num_turns": 1})
    assert asyncio.run(verl.compute_score(solution_str=GOOD, **asked))["score"] > 1
    assert asyncio.run(verl.compute_score(solution_str=BAD, **asked)) == {"score": 0, "correct": 0, "measured": 1}
    with pytest.raises(errors.InvalidArgument, match="problem"):
        asyncio.run(verl.compute_score("kernels", GOOD, ""))


def test_slime():
    def sample(response):
        return types.SimpleNamespace(response=response, label=str(SOFTMAX), metadata={})

    assert asyncio.run(slime.reward(None, sample(GOOD))) > 1
    group = asyncio.run(slime.reward(None, [sample(GOOD), sample(BAD)]))
    assert group[0] > 1 and group[1] == 0


def test_a_shape_turns_scores_into_rewards(client):
    capped = rewards.Reward(str(SOFTMAX), address=client.address, shape=lambda score: min(score.value, 2.0))
    assert capped.shape(capped.score(GOOD)) == 2
