"""Rewards as trainers call them. The code that calls a reward is genuine, with Debian's PyTorch. Stand-ins replace what
else its packages import.
"""

import asyncio
import importlib.metadata
import importlib.util
import os
import pickle
import re
import subprocess
import sys
import types
from pathlib import Path

import kernelcast
import numpy
import pytest
import recorded
from conftest import DOES_NOTHING, FASTER, SOFTMAX
from kernelcast import RewardSpec, errors
from kernelcast.adapters import rewards, slime, tinker, trl, verifiers, verl

GOOD = f"First an attempt:\n```cpp\nint x;\n```\nbetter:\n```cpp\n{FASTER}```\n"
BAD = f"```\n{DOES_NOTHING}```"


@pytest.fixture(autouse=True)
def default(client, monkeypatch):
    monkeypatch.setattr(rewards, "default", rewards.Reward(address=client.address))


def test_the_last_fenced_block_is_the_source():
    assert rewards.source_of(GOOD) == FASTER and rewards.source_of("plain") == "plain"


def test_trl():
    conversation = [{"role": "assistant", "content": GOOD}]
    columns, figures = {}, {}
    given = trl.speedup(prompts=["p"] * 3, completions=[GOOD, BAD, conversation], completion_ids=[[1]] * 3,
                        trainer_state=None, log_extra=columns.__setitem__, log_metric=figures.__setitem__,
                        problem=[str(SOFTMAX)] * 3)
    assert given[0] > 1 and given[1] == 0 and given[2] == given[0]
    assert columns == {"basis": ["measured"] * 3, "propensity": [1.0] * 3}
    assert figures == {"kernelcast/measured": 1, "kernelcast/no_verdict": 0}


def test_trl_leaves_out_what_has_no_verdict(monkeypatch):
    monkeypatch.setattr(rewards, "default", rewards.Reward(str(SOFTMAX), address="127.0.0.1:1", patience=0))
    columns = {}
    assert trl.speedup(prompts=["p"], completions=[GOOD], log_extra=columns.__setitem__) == [None]
    assert columns == {"basis": [""], "propensity": [None]}
    with pytest.raises(errors.Unavailable):
        asyncio.run(verl.compute_score("kernels", GOOD, ""))


def test_verl():
    asked = dict(data_source="kernels", ground_truth=str(SOFTMAX), extra_info={"num_turns": 1})
    assert asyncio.run(verl.compute_score(solution_str=GOOD, **asked))["score"] > 1
    assert asyncio.run(verl.compute_score(solution_str=BAD, **asked)) == {
        "score": 0, "correct": 0, "measured": 1, "propensity": 1, "basis": "measured"}
    # verl stacks the entries of all samples, so each has the same ones.
    assert len(asyncio.run(verl.compute_score(solution_str="\ud800", **asked))) == 5
    with pytest.raises(errors.InvalidArgument, match="problem"):
        asyncio.run(verl.compute_score("kernels", GOOD, ""))


def test_the_genuine_reward_manager_of_verl(monkeypatch):
    """verl/experimental/reward_loop/reward_manager/naive.py, with stand-ins for the modules that need PyTorch and Ray."""
    root = Path(importlib.metadata.distribution("verl").locate_file("verl"))

    def stand_in(name, **values):
        module = types.ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)

    class Base:
        def __init__(self, config, tokenizer, compute_score):
            self.tokenizer, self.loop = tokenizer, asyncio.get_running_loop()

    manager = "verl.experimental.reward_loop.reward_manager"
    stand_in("verl", DataProto=object)
    stand_in(manager, register=lambda name: lambda cls: cls)
    stand_in(manager + ".base", RewardManagerBase=Base)
    stand_in("verl.utils.reward_score", default_compute_score=None)
    spec = importlib.util.spec_from_file_location("naive", root / "experimental/reward_loop/reward_manager/naive.py")
    naive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(naive)

    async def rewarded(answer):
        item = types.SimpleNamespace(
            batch={"responses": numpy.zeros(4, int), "attention_mask": numpy.ones(8, int)},
            non_tensor_batch={"data_source": "kernels", "reward_model": {"ground_truth": str(SOFTMAX)}, "extra_info": {}})
        tokenizer = types.SimpleNamespace(decode=lambda ids, skip_special_tokens: answer)
        return await naive.NaiveRewardManager(None, tokenizer, verl.compute_score).run_single([item])

    good, bad = (asyncio.run(rewarded(answer)) for answer in (GOOD, BAD))
    assert good["reward_score"] > 1 and bad["reward_score"] == 0
    assert good["reward_extra_info"].keys() == bad["reward_extra_info"].keys()
    assert (good["reward_extra_info"]["basis"], good["reward_extra_info"]["propensity"]) == ("measured", 1)


def test_slime():
    def sample(response):
        return types.SimpleNamespace(response=response, label=str(SOFTMAX), metadata={})

    one = sample(GOOD)
    assert asyncio.run(slime.reward(None, one)) == one.metadata["kernelcast"]["reward"] > 1
    assert (one.metadata["kernelcast"]["basis"], one.metadata["kernelcast"]["propensity"]) == ("measured", 1)
    group = asyncio.run(slime.reward(None, [sample(GOOD), sample(BAD)]))
    assert group[0] > 1 and group[1] == 0


def test_a_prompt_declares_the_problem_and_the_format():
    text = rewards.prompt(SOFTMAX, "int x;\n")
    assert "atol: 5.0e-7" in text and "```\nint x;\n```" in text and "one fenced block" in text
    with pytest.raises(errors.NotFound, match="problem.yaml"):
        rewards.prompt(SOFTMAX / "space", "")


def conversation(*answers):
    return [{"role": "user", "content": "a prompt"}, *({"role": "assistant", "content": answer} for answer in answers)]


def test_tinker():
    # As AgentToolMessageEnv._grade does (tinker_cookbook/tool_use/agent_tool_message_env.py): a history of messages, whose
    # content is a text or a list of parts (renderers/base.py).
    reward = pickle.loads(pickle.dumps(tinker.Reward(str(SOFTMAX))))
    parts = [{"type": "thinking", "thinking": BAD}, {"type": "text", "text": GOOD}]
    for history in (conversation(GOOD), conversation(BAD, parts)):
        value, metrics = asyncio.run(reward(history))
        assert value > 1 and metrics["correct"] == 1 and metrics["measured"] == 1
    for history in (conversation(BAD), conversation("no kernel"), conversation("\ud800"), conversation()):
        assert asyncio.run(reward(history))[0] == 0


def test_verifiers():
    # As Task.score does (verifiers/v1/task.py): `task` is the data, `trace` has the replies.
    task = types.SimpleNamespace(problem=str(SOFTMAX))
    good, bad = (types.SimpleNamespace(last_reply=reply, info={}) for reply in (GOOD, BAD))
    value = asyncio.run(verifiers.speedup(task=task, trace=good))
    assert value > 1 and asyncio.run(verifiers.metrics(task=task, trace=good))["speedup"] == value
    assert asyncio.run(verifiers.speedup(task=task, trace=bad)) == 0 and "wrong" in bad.info["feedback"].lower()
    with pytest.raises(errors.InvalidArgument, match="problem"):
        asyncio.run(verifiers.speedup(task=types.SimpleNamespace(), trace=good))


def run(client, tmp_path, program, *folders):
    """Runs a program with a genuine package. It finds completions in `GOOD` and `BAD`, and a problem in `PROBLEM`."""
    folders = str(Path(__file__).parent), *folders, "/usr/lib/python3/dist-packages"  # the last has PyTorch
    (tmp_path / "program.py").write_text(
        f"import sys\nsys.path += {folders!r}\n"
        f"GOOD, BAD, PROBLEM = {GOOD!r}, {BAD!r}, {str(SOFTMAX)!r}\n{program}")
    done = subprocess.run([sys.executable, tmp_path / "program.py"], text=True, cwd=tmp_path, capture_output=True,
                          check=False, env={**os.environ, "KERNELCAST_ORCHESTRATOR": client.address})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_genuine_tinker_cookbook(client, tmp_path):
    run(client, tmp_path, """
import asyncio
from kernelcast.adapters.tinker import Reward
from tinker_cookbook.tool_use import AgentToolMessageEnv

async def episode(answer):
    env = AgentToolMessageEnv(tools=[], initial_messages=[{"role": "user", "content": "a prompt"}], max_turns=1,
                              reward_fn=Reward(PROBLEM))
    await env.initial_observation()
    return await env.step({"role": "assistant", "content": answer})

good, bad = (asyncio.run(episode(answer)) for answer in (GOOD, BAD))
assert good.episode_done and good.reward > 1 and good.metrics["correct"] == 1, good
assert bad.episode_done and bad.reward == 0 and bad.metrics["correct"] == 0, bad
""")


def test_the_genuine_rm_hub_of_slime(client, tmp_path):
    checkout = os.environ.get("KERNELCAST_TEST_SLIME", "")
    if not checkout:
        pytest.skip("slime is not on PyPI: KERNELCAST_TEST_SLIME names no checkout of it")
    run(client, tmp_path, """
import asyncio
import types
import stand_ins
stand_ins.install("pylatexenc", "sympy")
from slime.rollout.rm_hub import async_rm, batched_async_rm
from slime.utils.types import Sample

def samples():
    return [Sample(prompt="p", response=GOOD, label=PROBLEM),
            Sample(prompt="p", response=BAD, metadata={"problem": PROBLEM}, label="another")]

args = types.SimpleNamespace(custom_rm_path="kernelcast.adapters.slime.reward")
group = samples()
good, bad = asyncio.run(batched_async_rm(args, group))
assert good > 1 and bad == 0, (good, bad)
assert [sample.metadata["kernelcast"]["basis"] for sample in group] == ["measured"] * 2
one = samples()[0]
one.custom_rm_path, args.custom_rm_path = args.custom_rm_path, None
assert asyncio.run(async_rm(args, one)) == good and one.metadata["kernelcast"]["speedup"] == good
""", checkout)


def test_the_genuine_trainer_of_trl(client, tmp_path):
    """Debian's PyTorch is older than TRL wants, so its distributed modules are stand-ins too."""
    run(client, tmp_path, """
import collections
import math
import types
import stand_ins
stand_ins.install("accelerate", "datasets", "huggingface_hub", "pandas", "pyarrow", "transformers",
                  *(f"torch.distributed.{name}" for name in ("_composable", "fsdp", "tensor")))
import accelerate.utils
import transformers
accelerate.utils.gather = lambda tensor: tensor  # of one process
transformers.TrainingArguments._VALID_DICT_FIELDS = []
from kernelcast.adapters import rewards
from kernelcast.adapters.trl import speedup
from trl.trainer.grpo_trainer import GRPOTrainer

trainer = object.__new__(GRPOTrainer)
vars(trainer).update(
    reward_funcs=[speedup], reward_processing_classes=[None], reward_func_names=["speedup"], environments=None,
    accelerator=types.SimpleNamespace(device="cpu", is_main_process=True), args=types.SimpleNamespace(report_to=[]),
    state=types.SimpleNamespace(global_step=1), _pending_extra_logs=collections.defaultdict(list),
    _pending_metrics=collections.defaultdict(list))

def rewarded(*completions):
    inputs = [{"prompt": "p", "problem": PROBLEM}] * len(completions)
    return trainer._calculate_rewards(inputs, ["p"] * len(completions), list(completions), [[1]] * len(completions))[:, 0]

good, bad = rewarded(GOOD, BAD).tolist()
assert good > 1 and bad == 0
assert trainer._pending_extra_logs == {"basis": ["measured"] * 2, "propensity": [1, 1]}
assert trainer._pending_metrics == {"kernelcast/measured": [1], "kernelcast/no_verdict": [0]}
rewards.default = rewards.Reward(address="127.0.0.1:1", patience=0)
assert math.isnan(rewarded(GOOD)), "None is no number"
""")


def test_the_genuine_verifiers(client, tmp_path):
    """Also runs the task set of docs/howto/adapters.md."""
    page = (recorded.ROOT / "docs/howto/adapters.md").read_text()
    (tmp_path / "my_kernels.py").write_text(re.search(r"`my_kernels.py`:\n\n```python\n(.*?)```", page, re.DOTALL)[1])
    (tmp_path / "examples").symlink_to(recorded.ROOT / "examples")
    run(client, tmp_path, """
import asyncio
import stand_ins
stand_ins.install("anthropic", "math_verify", "mcp", "prime_sandboxes", "renderers")
import verifiers.v1 as vf
from verifiers.v1.graph import MessageNode
from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

task, = load_taskset(taskset_config_type("my_kernels")(id="my_kernels"))
assert "kernelcast_run" in task.data.prompt

def scored(answer):
    node = MessageNode(message=vf.AssistantMessage(content=answer), sampled=True, parent=None)
    trace = vf.Trace(task=vf.TraceTask(type="KernelTask", data=task.data, hash=task.hash, key=task.key),
                     agent=vf.AgentInfo.model_construct(), nodes=[node])
    asyncio.run(task.score(trace))
    return trace

good, bad = scored(GOOD), scored(BAD)
assert good.reward > 1 and good.metrics["correct"] == 1 and good.metrics["speedup"] == good.reward, good
assert bad.reward == 0 and bad.metrics["correct"] == 0, bad
""")


def test_the_service_computes_the_reward_that_is_asked_for(client):
    spec = RewardSpec(limit=1, correctness=0.5, penalties={"wrong_result": 2, "exploit": 3})
    reward = rewards.Reward(str(SOFTMAX), address=client.address, spec=spec)
    good, bad = reward.score(GOOD), reward.score(BAD)
    assert reward.value(good) == 1.5 and good.reward.basis == "measured" and good.reward.rules == ()
    assert good.reward.version == "kernel-reward/1" and good.reward.measured == 1.5
    assert reward.value(bad) == -spec.penalties[bad.reward.rules[0]]
    assert reward.value(reward.score("\ud800")) == 0
    assert client.evaluate(client.put_problem(SOFTMAX), FASTER, mode="measure").reward is None


def test_a_malformed_specification_is_an_error_and_no_reward(client):
    with pytest.raises(errors.InvalidArgument, match="reward.shape: 'fast' is none of"):
        rewards.Reward(str(SOFTMAX), address=client.address, spec=RewardSpec(shape="fast"))
    with pytest.raises(errors.InvalidArgument, match="reward.penalties: 'slow' is none of"):
        rewards.Reward(str(SOFTMAX), address=client.address, spec=RewardSpec(penalties={"slow": 1}))
    problem = client.put_problem(SOFTMAX)
    with pytest.raises(errors.InvalidArgument, match="reward.baseline_speedup"):
        client.evaluate(problem, FASTER, reward=RewardSpec(baseline_speedup=-1))


def test_what_is_settled_on_a_forecast_has_a_reward_only_where_that_is_accepted(recording):
    folder, candidates, records = recording
    with kernelcast.local(replay=records) as client:
        problem = client.put_problem(folder)

        def rewarded(reward, mode, some):
            return [result.reward for result in client.evaluate_many(problem, some, mode=mode, reward=reward)]

        list(client.evaluate_many(problem, candidates[::20], mode="measure"))  # labels
        assert {r.value for r in rewarded(RewardSpec(), "forecast", candidates[1:20])} == {None}
        accepted = rewarded(RewardSpec(accept_forecasts=True), "forecast", candidates[1:20])
        assert {r.basis for r in accepted} == {"forecast"} and all(r.value == r.control for r in accepted)
        routed = rewarded(RewardSpec(), "route", candidates[21:400])
        assert "estimated" in {reward.basis for reward in routed}
        for reward in routed:
            if reward.basis == "estimated":
                error = 0 if reward.measured is None else (reward.measured - reward.control) / reward.propensity
                assert reward.value == pytest.approx(reward.control + error) and 0 < reward.propensity < 1
            elif reward.basis == "measured":
                assert reward.value == reward.measured and reward.propensity == 1
            else:
                assert reward.value is None and reward.no_verdict
