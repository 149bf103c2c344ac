"""Training of forecasters, as far as it needs no PyTorch: rows, targets, draws, rewards, the order of GGUF's rows."""

import json
import math
import random
import subprocess
import sys

import pytest
import recorded
from kernelcast import errors
from kernelcast._local import find_program
from kernelcast.train import _evaluate, _lora_gguf, _rows
from kernelcast.train._scoring import PARSED, Scorer, prompt_hash, request_of
from kernelcast.train.__main__ import _PROMPT, main

SPEEDUPS = [0.2, 0.4, 0.6, 0.9, 1.2, 1.7, 3.0, 9.0]  # one for each bin


def published(folder, count=24, packs=("row_softmax", "matmul", "transpose")):
    """Rows as of a publication."""
    file = folder / "pairs.jsonl"
    with file.open("w") as output:
        for i in range(count):
            output.write(json.dumps({
                "row_id": f"row-{i}", "pack": packs[i % len(packs)], "anchor_code": "__global__ void anchor() {}",
                "candidate_code": f"__global__ void candidate() {{}} // {i}", "hardware": "NVIDIA L40S",
                "aggregated_speedup": SPEEDUPS[i % 8], "relative_bin": max(1, min(8, math.floor(2 * math.log2(SPEEDUPS[i % 8])) + 4)),
                "pair_type": "pair", "source_id": i, "source_search": "s", "internal_experiment": "x"}) + "\n")
    return file


def export(*arguments):
    done = subprocess.run([find_program(None), "export", "--prompts", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_task_is_described_where_it_is_named(tmp_path):
    """Names of PyTorch tasks come from their descriptions, so they are not found by their names."""
    task = recorded.ROOT / "examples/tasks/gpu_mode/clamped_add"
    rows = published(tmp_path, 1, ["add_two_float32_matrices_and_clamp_the_sum_to___1__1_"])
    for name, options in (("unknown", []), ("named", ["--problem", task])):
        export("--rows", rows, "--prompt-directory", _PROMPT, "--bin-scheme", "sqrt2/1", "-o", tmp_path / name, *options)
    unknown, named = ("".join(message["content"] for message in _rows.read([tmp_path / name])[0].messages) for name in ("unknown", "named"))
    assert "clamp the sum" in named and "clamp the sum" not in unknown


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    export("--rows", published(folder), "--prompt-directory", _PROMPT, "--bin-scheme", "sqrt2/1", "-o", folder / "rows.jsonl")
    return folder / "rows.jsonl"


@pytest.fixture(scope="module")
def questions(rows):
    return _rows.read([rows])


@pytest.fixture(scope="module")
def scorer():
    with Scorer() as scorer:
        yield scorer


def test_rows_have_the_bins_and_the_fields_of_the_prompt(questions):
    first = questions[0]
    assert first.fields == ["reasoning", "p_failure", "p_severe_slowdown", "p_significant_slowdown", "p_moderate_slowdown",
                            "p_minor_slowdown", "p_minor_speedup", "p_significant_speedup", "p_high_speedup",
                            "p_extreme_speedup", "predicted_bin"]
    assert first.bounds[0] == (0, 0.25) and first.bounds[4] == (1, 1.4142) and first.bounds[7] == (4, math.inf)
    assert [question.target_bin for question in questions[:8]] == list(range(1, 9))
    assert first.prompt_hash == prompt_hash(_PROMPT)


def test_the_short_prompt_has_all_but_the_reference_and_compile_facts(tmp_path):
    """A recorded kernel, with the estimates of the virtual GPU."""
    records = recorded.ROOT / "data/measured/nvidia-h200/spaces/transpose.jsonl.gz"
    export("--records", records, "--format", "rl", "--per-bin", 1, "--prompt-directory", _PROMPT, "-o", tmp_path / "short.jsonl")
    export("--records", records, "--format", "rl", "--per-bin", 1, "-o", tmp_path / "long.jsonl")
    short, long = (_rows.read([tmp_path / name]) for name in ("short.jsonl", "long.jsonl"))
    assert [question.id for question in short] == [question.id for question in long]
    for question, other in zip(short, long):
        length, longer = (sum(len(message["content"]) for message in q.messages) for q in (question, other))
        assert length < 0.6 * longer
        for part in ("Matrix transposition", "time of the launch", "- Tunables: TEMPLATE=", "__global__"):
            assert part in question.messages[1]["content"]


def test_a_softened_target_has_the_mass_of_a_normal_distribution(questions):
    minor = next(question for question in questions if question.speedup == 1.2)
    exact = _rows.softened(minor, 0)
    assert exact == [0, 0, 0, 0, 1, 0, 0, 0]
    soft = _rows.softened(minor, 0.5)
    assert sum(soft) == pytest.approx(1)
    # log2 1.2 = 0.263; bin 5 is (0, 0.5): Phi(0.474) - Phi(-0.526). Bin 4 is (-0.5, 0): Phi(-0.526) - Phi(-1.526).
    assert soft[4] == pytest.approx(0.3828, abs=2e-4) and soft[3] == pytest.approx(0.2359, abs=2e-4)
    assert soft.index(max(soft)) == 4


def test_rows_may_have_targets_of_their_own(rows, tmp_path):
    row = json.loads(rows.read_text().splitlines()[0])
    row["bin_probabilities"] = [{"bin": 1, "p": 0.6}, {"bin": 2, "p": 0.2}]
    file = tmp_path / "soft.jsonl"
    file.write_text(json.dumps(row) + "\n")
    question, = _rows.read([file])
    assert _rows.softened(question, 0.5) == pytest.approx([0.75, 0.25, 0, 0, 0, 0, 0, 0])


def test_hundredths_sum_to_a_hundred():
    assert _rows.hundredths([1, 1, 1]) == [34, 33, 33]
    assert _rows.hundredths([0.005] * 8 + [0.96]) == [1, 1, 1, 1, 0, 0, 0, 0, 96]
    chance = random.Random(1)
    for _ in range(200):
        p = [chance.expovariate(1) for _ in range(8)]
        whole = _rows.hundredths(p)
        assert sum(whole) == 100 and all(abs(w - 100 * v / sum(p)) < 1 for w, v in zip(whole, p))


def test_an_answer_is_read_strictly_by_the_forecaster(questions, scorer):
    answers = [_rows.answer(question, _rows.softened(question, 0.5)) for question in questions]
    assert answers[4].startswith('{"reasoning":"","p_failure":0.05,"p_severe_slowdown":0.00,')
    assert answers[4].endswith(',"predicted_bin":5}')
    scores = scorer.score(questions, answers, "hit")
    assert all(score.parse_status in PARSED for score in scores)
    assert [score.hit for score in scores] == [1] * len(questions)
    probabilities, total, named = _rows.forecast_of(questions[4], answers[4])
    assert total == pytest.approx(1) and sum(probabilities) == pytest.approx(1) and named == 5


def test_rewards_are_those_of_the_service(questions, scorer):
    five = questions[4]
    sure = _rows.answer(five, [0, 0, 0, 0, 1, 0, 0, 0])
    near = _rows.answer(five, [0, 0, 0, 0.6, 0.4, 0, 0, 0])
    asked = [five, five, five]
    for reward, expected in (("hit", [1, 0, 0]), ("hit_brier", [2, 1 - 0.36, 0]), ("hit_crps", [2, 1 - 0.36 / 7, 0])):
        found = scorer.score(asked, [sure, near, "It is 5."], reward)
        assert [score.reward for score in found] == pytest.approx(expected), reward
    assert scorer.score(asked, [sure, near, "It is 5."], "hit")[2].parse_status not in PARSED


def test_a_request_has_the_label_and_the_group_of_each_answer(questions):
    request = request_of(questions[:2], ["a", "b"], "hit_crps")
    assert [(item.group_id, item.true_bin, item.answer) for item in request.items] == [("row-0", 1, b"a"), ("row-1", 2, b"b")]
    assert request.bin_scheme_id == "sqrt2/1"


def test_draws_are_balanced_over_bins_and_then_packs(questions):
    many = [q for q in questions for _ in range(3) if q.target_bin != 8] + [q for q in questions if q.target_bin == 8][:1]
    drawn = _rows.balanced(many, 16, random.Random(3))
    assert [sum(q.target_bin == number for q in drawn) for number in range(1, 9)] == [2] * 8
    for number in range(1, 8):
        assert len({q.pack for q in drawn if q.target_bin == number}) == 2
    assert [q.id for q in drawn] == [q.id for q in _rows.balanced(many, 16, random.Random(3))]
    assert [q.id for q in drawn] != [q.id for q in _rows.balanced(many, 16, random.Random(4))]


def test_advantages_are_relative_to_the_group():
    assert _rows.advantages([1, 0, 0, 1, 2, 2], 2) == [0.5, -0.5, -0.5, 0.5, 0, 0]


def test_families_are_apart(rows, tmp_path, capsys):
    assert main(["split", "--rows", str(rows), "--problems", str(recorded.ROOT / "examples/problems"), "--hold-out", "softmax",
                 "-o", str(tmp_path)]) == 0
    assert "held_out: 8 rows of softmax" in capsys.readouterr().out
    train, held_out = (_rows.read([tmp_path / f"{name}.jsonl"]) for name in ("train", "held_out"))
    assert {q.pack for q in held_out} == {"row_softmax"} and {q.pack for q in train} == {"matmul", "transpose"}
    family = _rows.families(["rmsnorm", "rmsnorm_bf16", "other"], recorded.ROOT / "examples/problems")
    assert family == {"rmsnorm": "normalization", "rmsnorm_bf16": "normalization", "other": "other"}


def test_a_drawn_split_holds_out_at_most_the_share(questions):
    family = {name: name for name in ("row_softmax", "matmul", "transpose")}
    for share, expected in ((0.1, 8), (0.4, 8), (0.7, 16)):
        train, held_out = _rows.split(questions, family, [], share, seed=1)
        assert len(held_out) == expected and len(train) == 24 - expected
    with pytest.raises(errors.InvalidArgument, match="--hold-out: relu is not one of matmul, row_softmax, transpose"):
        _rows.split(questions, family, ["relu"], 0.5, 1)


@pytest.mark.parametrize("change, message", [
    ({"target_bin": 9}, "target_bin: 9 is not a bin from 1 to 8"),
    ({"response_format": None}, "rows.jsonl:2"),
    ({"bin_probabilities": [{"bin": 0, "p": 1}]}, "bin_probabilities"),
    ({"prompt_hash": "other"}, "prompt_hash: rows have"),
])
def test_bad_rows_are_refused_with_file_line_and_field(rows, tmp_path, change, message):
    lines = rows.read_text().splitlines()[:2]
    file = tmp_path / "rows.jsonl"
    file.write_text(lines[0] + "\n" + json.dumps({**json.loads(lines[1]), **change}) + "\n")
    with pytest.raises(errors.InvalidArgument, match=message):
        _rows.read([file])
    file.write_text('{"group_id": "a"}\n')
    with pytest.raises(errors.InvalidArgument, match="rows.jsonl:1: response_format: is missing"):
        _rows.read([file])


def test_rows_of_query_and_key_alternate_between_the_halves_of_a_head():
    # Two heads of four rows: transformers has 0 1 | 2 3 as halves, llama.cpp pairs 0 with 2 and 1 with 3.
    assert _lora_gguf.permuted_rows(8, 2) == [0, 2, 1, 3, 4, 6, 5, 7]
    # As llama.cpp's converter writes it: reshape(heads, 2, size / 2), swap the last two axes.
    numpy = pytest.importorskip("numpy")
    for rows, heads in ((576, 9), (192, 3)):
        expected = numpy.arange(rows).reshape(heads, 2, rows // heads // 2).swapaxes(1, 2).reshape(-1)
        assert _lora_gguf.permuted_rows(rows, heads) == expected.tolist()


def test_only_query_and_key_of_llama_are_permuted():
    assert _lora_gguf.heads_of("blk.3.attn_q.weight", "llama", 9, 3) == 9
    assert _lora_gguf.heads_of("blk.3.attn_k.weight", "llama", 9, 3) == 3
    assert _lora_gguf.heads_of("blk.3.attn_v.weight", "llama", 9, 3) is None
    assert _lora_gguf.heads_of("blk.3.attn_q.weight", "qwen2", 9, 3) is None


def test_the_table_is_that_of_kernelcast_eval(questions, tmp_path):
    """Constant frequencies, and a forecaster that is right half of the time and unreadable otherwise."""
    share = _rows.frequencies(questions)
    assert share == [1 / 8] * 8
    (tmp_path / _evaluate.ROWS).write_text("".join(json.dumps(_rows.evaluation_row(q)) + "\n" for q in questions))
    predictions = [_rows.prediction_row(q, "constant", share, predicted_bin=1, raw_sum=1) for q in questions]
    for i, q in enumerate(questions):
        exact = None if i % 2 else _rows.softened(q, 0)
        predictions.append(_rows.prediction_row(q, "half", exact, predicted_bin=None if i % 2 else q.target_bin, raw_sum=1,
                                                input_tokens=100, output_tokens=50, elapsed_s=0.25))
    (tmp_path / _evaluate.PREDICTIONS).write_text("".join(json.dumps(value) + "\n" for value in predictions))
    lines = _evaluate.table(tmp_path).splitlines()
    assert lines[2].startswith("| constant | 24 | 0 | 0.125 ")
    # An unreadable answer counts as uniform, whose accuracy is 1/8: (1 + 1/8) / 2.
    assert lines[3].startswith("| half | 24 | 12 | 0.562 ") and lines[3].endswith("| 100, 50 | 250 |")
    assert json.loads((tmp_path / "metrics.json").read_text())["half"]["unparsable"] == 12


def test_a_missing_package_is_named(rows, tmp_path):
    program = ("import sys\nsys.modules['torch'] = None\nfrom kernelcast.train.__main__ import main\n"
               "sys.exit(main(['supervised', '--rows', sys.argv[1], '--model', 'm.gguf', '-o', sys.argv[2]]))")
    done = subprocess.run([sys.executable, "-B", "-c", program, rows, tmp_path], capture_output=True, text=True)
    assert done.returncode == 3 and "install the packages:" in done.stderr and "torch" in done.stderr


@pytest.mark.parametrize("arguments, message", [
    (["split", "--rows", "none.jsonl"], "none.jsonl: No such file"),
    (["supervised", "--rows", "rows", "--model", "m", "--soften", "-1"], "-1 is not a number of 0 or more"),
    (["grpo", "--rows", "rows", "--model", "m", "--group", "1"], "1 is not a whole number of 2 or more"),
    (["evaluate", "--rows", "rows", "--model", "m", "--adapter", "here"], "here is not LABEL=DIR"),
])
def test_bad_usage_ends_with_2(tmp_path, capsys, arguments, message):
    try:
        code = main([*arguments, "-o", str(tmp_path / "out")])
    except SystemExit as end:
        code = end.code
    assert code == 2 and message in capsys.readouterr().err
