"""Questions with the right answers: reading, splitting, drawing, and the text of an answer. Needs no PyTorch."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Sequence

from kernelcast import errors

# Rows have no failures. A model that never sees another value gives this one, that of the prompt's example.
_FAILURE = 0.05
_INTERVAL = re.compile(r"\((\d[\d.]*), (\d[\d.]*|inf)[\])]")
_FAMILY = re.compile(r"^family:\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    """A prompt and its label. `bounds` are those of the bins that the prompt shows, as speedups."""

    id: str
    pack: str
    hardware: str
    messages: list[dict[str, str]]
    fields: list[str]
    bounds: list[tuple[float, float]]
    bin_scheme_id: str
    prompt_version: str
    prompt_hash: str
    target_bin: int
    speedup: float
    probabilities: list[float] | None = None
    row: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def _question(row: dict[str, Any]) -> Question:
    if "response_format" not in row:
        raise ValueError("response_format: is missing; use a prompt whose first rung is json_schema")
    schema = row["response_format"]["json_schema"]["schema"]
    names = list(schema["properties"])
    bounds = []
    for name in bin_fields(names):
        match = _INTERVAL.search(schema["properties"][name]["description"])
        if not match:
            raise ValueError(f"response_format: the description of {name} has no interval")
        bounds.append((float(match[1]), float(match[2])))
    target = int(row["target_bin"])
    if not 1 <= target <= len(bounds):
        raise ValueError(f"target_bin: {target} is not a bin from 1 to {len(bounds)}")
    probabilities = None
    if row.get("bin_probabilities"):
        probabilities = [0.0] * len(bounds)
        for entry in row["bin_probabilities"]:
            if not 1 <= entry["bin"] <= len(bounds) or not 0 <= entry["p"] <= 1:
                raise ValueError(f"bin_probabilities: {entry} is not a bin from 1 to {len(bounds)} with a p from 0 to 1")
            probabilities[entry["bin"] - 1] += entry["p"]
        total = sum(probabilities)
        if not 0 < total < math.inf:
            raise ValueError(f"bin_probabilities: sum to {total}, not to 1")
        probabilities = [p / total for p in probabilities]
    return Question(id=row["group_id"], pack=row["pack"], hardware=row["hardware"], messages=row["messages"],
                    fields=names, bounds=bounds, bin_scheme_id=row["bin_scheme_id"],
                    prompt_version=row["prompt_version"], prompt_hash=row["prompt_hash"], target_bin=target,
                    speedup=float(row["speedup"]), probabilities=probabilities, row=row)


def read(files: Iterable[str | Path]) -> list[Question]:
    """The rows that `kernelcast export --prompts` writes."""
    questions: list[Question] = []
    for file in files:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise errors.NotFound(f"{file}: {error.strerror}") from None
        for number, line in enumerate(lines, 1):
            try:
                questions.append(_question(json.loads(line)))
            except KeyError as error:
                raise errors.InvalidArgument(f"{file}:{number}: {error.args[0]}: is missing; rows are those of "
                                             "kernelcast export --prompts") from None
            except (ValueError, TypeError, AttributeError) as error:
                raise errors.InvalidArgument(f"{file}:{number}: {error}") from None
    if not questions:
        raise errors.InvalidArgument(f"{', '.join(map(str, files))}: no rows")
    for name in ("bin_scheme_id", "prompt_hash", "fields"):
        values = {str(getattr(question, name)) for question in questions}
        if len(values) > 1:
            raise errors.InvalidArgument(f"{name}: rows have {', '.join(sorted(values))}; all rows must have one")
    return questions


def bin_fields(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith("p_") and name != "p_failure"]


def softened(question: Question, octaves: float) -> list[float]:
    """The target over the bins: the row's own, or a normal distribution around log2 of the speedup. 0 octaves: the
    right bin alone."""
    if question.probabilities is not None:
        return question.probabilities
    if octaves == 0:
        return [float(number == question.target_bin) for number in range(1, len(question.bounds) + 1)]
    centre = math.log2(question.speedup)

    def below(bound: float) -> float:
        if bound in (0, math.inf):
            return float(bound > 0)
        return 0.5 * (1 + math.erf((math.log2(bound) - centre) / octaves / math.sqrt(2)))

    return [below(high) - below(low) for low, high in question.bounds]


def hundredths(probabilities: Sequence[float]) -> list[int]:
    """Whole hundredths that sum to 100, each less than one from its probability."""
    scaled = [100 * p / sum(probabilities) for p in probabilities]
    whole = [int(value) for value in scaled]
    by_rest = sorted(range(len(scaled)), key=lambda i: (whole[i] - scaled[i], i))
    for i in by_rest[:100 - sum(whole)]:
        whole[i] += 1
    return whole


def answer(question: Question, probabilities: Sequence[float]) -> str:
    """The JSON object that the prompt asks for, with its fields in the order of the schema, which servers enforce."""
    whole = hundredths(probabilities)
    values = dict(zip(bin_fields(question.fields), (f"{share / 100:.2f}" for share in whole)))
    values |= {"reasoning": '""', "defer": "false", "p_failure": f"{_FAILURE:.2f}",
               "predicted_bin": str(whole.index(max(whole)) + 1)}
    missing = [name for name in question.fields if name not in values]
    if missing:
        raise errors.InvalidArgument(f"response_format: {missing[0]} is not a field of a forecast")
    return "{" + ",".join(f'"{name}":{values[name]}' for name in question.fields) + "}"


def families(packs: Iterable[str], problems: str | Path | None) -> dict[str, str]:
    """The family of each pack, from the problem of this name. A pack without one is its own family."""
    found = {}
    for pack in packs:
        path = Path(problems, pack, "problem.yaml") if problems else None
        match = _FAMILY.search(path.read_text(encoding="utf-8")) if path and path.is_file() else None
        found[pack] = re.sub(r"isation$", "ization", match[1]) if match else pack
    return found


def split(questions: Sequence[Question], family: dict[str, str], held_out: Sequence[str], share: float, seed: int,
          ) -> tuple[list[Question], list[Question]]:
    """Training rows and held-out rows. No family has rows in both. Without `held_out`, families are drawn that together
    have at most this share of the rows, or else the smallest."""
    counts = Counter(family[question.pack] for question in questions)
    unknown = [name for name in held_out if name not in counts]
    if unknown:
        raise errors.InvalidArgument(f"--hold-out: {unknown[0]} is not one of {', '.join(sorted(counts))}")
    chosen = set(held_out)
    if not chosen:
        order = sorted(counts)
        random.Random(seed).shuffle(order)
        for name in order:
            if counts[name] + sum(counts[other] for other in chosen) <= share * len(questions):
                chosen.add(name)
        chosen = chosen or {min(order, key=lambda name: counts[name])}
    apart: tuple[list[Question], list[Question]] = ([], [])
    for question in questions:
        apart[family[question.pack] in chosen].append(question)
    if not all(apart):
        raise errors.InvalidArgument(f"--hold-out: {', '.join(sorted(chosen))} of {', '.join(sorted(counts))} leaves no "
                                     "rows to train on")
    return apart


def balanced(questions: Sequence[Question], count: int, chance: random.Random) -> list[Question]:
    """Draws rows: bins in turn, and within a bin packs in turn. A row is drawn again only when its bin has no other."""
    by_bin: dict[int, dict[str, list[Question]]] = defaultdict(lambda: defaultdict(list))
    for question in questions:
        by_bin[question.target_bin][question.pack].append(question)
    queues = {}
    for number, packs in sorted(by_bin.items()):
        for rows in packs.values():
            chance.shuffle(rows)
        order = sorted(packs)
        chance.shuffle(order)
        queues[number] = [packs[name][turn] for turn in range(max(map(len, packs.values())))
                          for name in order if turn < len(packs[name])]
    bins = sorted(queues)
    chance.shuffle(bins)
    return [queues[bins[i % len(bins)]][i // len(bins) % len(queues[bins[i % len(bins)]])] for i in range(count)]


def advantages(rewards: Sequence[float], group: int) -> list[float]:
    """Each reward less the mean of its group. Not divided by the deviation: that would weight prompts by how much their
    answers agree."""
    values: list[float] = []
    for start in range(0, len(rewards), group):
        of_group = rewards[start:start + group]
        mean = sum(of_group) / len(of_group)
        values += [reward - mean for reward in of_group]
    return values


def frequencies(questions: Sequence[Question]) -> list[float]:
    """The share of each bin."""
    counts = Counter(question.target_bin for question in questions)
    return [counts[number] / len(questions) for number in range(1, len(questions[0].bounds) + 1)]


def evaluation_row(question: Question) -> dict[str, Any]:
    """For `kernelcast eval`, which needs no sources."""
    return {"comparison_id": question.id, "pack": question.pack, "anchor_code": "", "candidate_code": "",
            "hardware": question.hardware, "aggregated_speedup": question.speedup, "true_bin": question.target_bin,
            "bin_scheme_id": question.bin_scheme_id, "source_id": None, "source_search": None, "internal_experiment": None}


def prediction_row(question: Question, label: str, probabilities: Sequence[float] | None, *, predicted_bin: int | None = None,
                   input_tokens: int = 0, output_tokens: int = 0, elapsed_s: float = 0, raw_sum: float | None = None,
                   answer_text: str = "") -> dict[str, Any]:
    """`probabilities` is None where the answer was not a forecast; `answer_text` is then the answer."""
    parsed = probabilities is not None
    return {"comparison_id": question.id, "pack": question.pack, "surrogate_label": label, "repeat": 0,
            "predicted_bin": predicted_bin,
            "bin_probabilities": [{"bin": i, "p": p} for i, p in enumerate(probabilities or [], 1)],
            "reasoning": "" if parsed else answer_text, "raw_probability_sum": raw_sum, "parse_failed": not parsed,
            "parse_error": None if parsed else "unparsable", "input_tokens": input_tokens, "output_tokens": output_tokens,
            "elapsed_s": elapsed_s, "bin_scheme_id": question.bin_scheme_id}


def forecast_of(question: Question, text: str) -> tuple[list[float], float, int]:
    """Probabilities, their sum before scaling, and the named bin of an answer that the service could parse."""
    value = json.loads(text)
    raw = [float(value.get(name, 0)) for name in bin_fields(question.fields)]
    total = sum(raw)
    probabilities = [p / total for p in raw]
    return probabilities, total, int(value.get("predicted_bin") or probabilities.index(max(probabilities)) + 1)
