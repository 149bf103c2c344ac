"""The two stages of training, as steps that a checkpoint repeats."""

from __future__ import annotations

import json
import math
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

import torch

from kernelcast import errors
from kernelcast.train import _rows
from kernelcast.train._models import Model
from kernelcast.train._rows import Question
from kernelcast.train._scoring import PARSED, Scorer

CHECKPOINT, LOG = "checkpoint.pt", "log.jsonl"


@dataclass(frozen=True)
class Example:
    question: Question
    prompt: list[int]


def examples(model: Model, questions: Sequence[Question], limit: int) -> list[Example]:
    """Those whose prompts have at most `limit` tokens."""
    encoded = [Example(question, model.encode(question)) for question in questions]
    fitting = [example for example in encoded if len(example.prompt) <= limit]
    if not fitting:
        shortest = min(len(example.prompt) for example in encoded)
        raise errors.InvalidArgument(f"--prompt-tokens: {limit} leaves no row; the shortest prompt has {shortest}")
    return fitting


class Run:
    """Steps of an optimizer in a folder, with a checkpoint and a line of the log for each step or several.

    A step is a function of its number and the weights, and draws only from the seed and its number. So a run that was
    killed and resumed computes what it would have computed without."""

    def __init__(self, model: Model, folder: Path, settings: dict[str, Any], rate: float, resume: bool) -> None:
        self._model, self._folder, self._settings = model, folder, settings
        self._optimizer = torch.optim.AdamW(model.weights(), lr=rate, weight_decay=0.0)
        self._rate = rate
        self.step = 0
        file = folder / CHECKPOINT
        if file.exists():
            if not resume:
                raise errors.FailedPrecondition(f"--output: {folder} has a checkpoint; continue with --resume, or give another folder")
            state = torch.load(file, map_location=model.device, weights_only=True)
            for name, value in settings.items():
                if state["settings"].get(name) != value:
                    raise errors.InvalidArgument(f"--{name.replace('_', '-')}: is {value}, but the run in {folder} began with "
                                                 f"{state['settings'].get(name)}")
            model.set_adapter(state["adapter"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / LOG
        lines = log.read_text().splitlines() if log.exists() else []
        # Steps after the checkpoint are repeated.
        log.write_text("".join(line + "\n" for line in lines if json.loads(line)["step"] <= self.step))

    def descend(self, scale: float = 1.0) -> float:
        """Takes a step against the gradients. Returns their norm."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate * scale
        norm = torch.nn.utils.clip_grad_norm_(self._model.weights(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def _save(self) -> None:
        temporary = self._folder / (CHECKPOINT + ".new")
        torch.save({"step": self.step, "settings": self._settings, "adapter": self._model.adapter(),
                    "optimizer": self._optimizer.state_dict()}, temporary)
        os.replace(temporary, self._folder / CHECKPOINT)

    def each(self, steps: int, step: Callable[[int], dict[str, Any]], every: int, minutes: float | None) -> bool:
        """Runs the steps that are left. False: the time was over first."""
        begin, saved = time.monotonic(), self.step
        while self.step < steps:
            over = minutes is not None and time.monotonic() - begin > 60 * minutes
            if not over:
                start = time.monotonic()
                line = {"step": self.step + 1, **step(self.step)}
                line["seconds"] = round(time.monotonic() - start, 3)
                self.step += 1
                with (self._folder / LOG).open("a") as log:
                    log.write(json.dumps(line) + "\n")
                print(" ".join(f"{name} {value:.4g}" for name, value in line.items()), flush=True)
            if over or self.step == steps or self.step - saved >= every:
                self._save()
                saved = self.step
            if over:
                return False
        return True


def supervised(model: Model, rows: Sequence[Example], run: Run, *, steps: int, batch: int, micro_batch: int, seed: int,
               soften: float, every: int, minutes: float | None) -> bool:
    """Learns the answers' texts. Each row is used once before any is used again."""
    answers = [model.encode_answer(_rows.answer(row.question, _rows.softened(row.question, soften))) for row in rows]

    def drawn(number: int) -> int:
        order = list(range(len(rows)))
        random.Random(f"{seed}/{number // len(rows)}").shuffle(order)
        return order[number % len(rows)]

    def step(number: int) -> dict[str, Any]:
        chosen = [drawn(number * batch + i) for i in range(batch)]
        tokens = sum(len(answers[i]) for i in chosen)
        loss = 0.0
        for start in range(0, batch, micro_batch):
            part = chosen[start:start + micro_batch]
            found, mask = model.log_probabilities([rows[i].prompt for i in part], [answers[i] for i in part])
            share = -(found * mask).sum() / tokens
            share.backward()
            loss += float(share.detach())
        # Rises over the first tenth, then falls as a cosine.
        progress = number / steps
        scale = min(1.0, (number + 1) / max(1.0, 0.1 * steps)) * 0.5 * (1 + math.cos(math.pi * progress))
        return {"loss": loss, "gradient": run.descend(scale)}

    return run.each(steps, step, every, minutes)


def grpo(model: Model, rows: Sequence[Example], run: Run, scorer: Scorer, *, reward: str, iterations: int, groups: int,
         group: int, updates: int, clip: float, kl: float, temperature: float, answer_tokens: int, sample_batch: int,
         micro_batch: int, seed: int, reference: str | None, minutes: float | None) -> bool:
    """Group-relative policy optimisation. `reference` is the folder of the adapter that `kl` holds on to; None: the base
    model."""
    by_id = {row.question.id: row for row in rows}

    def reference_log_probabilities(prompts: list[list[int]], answers: list[list[int]]) -> Any:
        with torch.no_grad():
            if reference is None:
                with model.model.disable_adapter():
                    return model.log_probabilities(prompts, answers, temperature)[0]
            model.model.set_adapter("reference")
            try:
                return model.log_probabilities(prompts, answers, temperature)[0]
            finally:
                model.model.set_adapter("default")

    def step(number: int) -> dict[str, Any]:
        chosen = _rows.balanced([row.question for row in rows], groups, random.Random(f"{seed}/{number}"))
        questions = [question for question in chosen for _ in range(group)]
        torch.manual_seed(seed * 1_000_003 + number)
        samples = model.sample([by_id[question.id].prompt for question in questions], answer_tokens, temperature, sample_batch)
        scores = scorer.score(questions, [sample.text for sample in samples], reward)
        rewards = [score.reward for score in scores]
        values = _rows.advantages(rewards, group)
        # A group whose answers have the same reward says nothing.
        used = [i for i, value in enumerate(values) if abs(value) > 1e-9]
        tokens = sum(len(samples[i].tokens) for i in used)
        parts = [used[start:start + micro_batch] for start in range(0, len(used), micro_batch)]
        old: list[Any] = []
        references: list[Any] = []
        divergence = norm = 0.0
        for update in range(updates if used else 0):
            divergence = 0.0
            for index, part in enumerate(parts):
                prompts = [by_id[questions[i].id].prompt for i in part]
                answers = [samples[i].tokens for i in part]
                found, mask = model.log_probabilities(prompts, answers, temperature)
                if update == 0:
                    old.append(found.detach())
                    references.append(reference_log_probabilities(prompts, answers) if kl else None)
                advantage = torch.tensor([values[i] for i in part], device=model.device).unsqueeze(1)
                ratio = (found - old[index]).exp()
                loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
                if kl:
                    apart = references[index] - found
                    estimate = apart.exp() - apart - 1
                    divergence += float((estimate * mask).sum().detach()) / tokens
                    loss = loss + kl * estimate
                ((loss * mask).sum() / tokens).backward()
            norm = run.descend()
        return {"reward": sum(rewards) / len(rewards), "hit": sum(score.hit for score in scores) / len(scores),
                "parsed": sum(score.parse_status in PARSED for score in scores) / len(scores),
                "tokens": sum(len(sample.tokens) for sample in samples) / len(samples),
                "used": len(used) / len(samples), "kl": divergence, "gradient": norm}

    if kl and reference is not None:
        model.model.load_adapter(os.path.join(reference, "adapter"), "reference")
        model.model.set_adapter("default")
    return run.each(iterations, step, 1, minutes)
