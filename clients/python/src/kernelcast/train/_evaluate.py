"""Forecasts of held-out rows by each model, and their table by `kernelcast eval`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from kernelcast import errors
from kernelcast._local import find_program
from kernelcast.train import _rows
from kernelcast.train._scoring import PARSED, Scorer

if TYPE_CHECKING:
    from kernelcast.train._models import Model
    from kernelcast.train._stages import Example

CONSTANT, UNTRAINED = "constant", "untrained"
PREDICTIONS, ROWS, TABLE = "predictions.jsonl", "rows.jsonl", "table.md"
_COLUMNS = {"accuracy": "accuracy", "off_by_one_accuracy": "within one", "expected_calibration_error": "ECE",
            "half_brier": "half-Brier", "crps": "CRPS", "spearman": "Spearman"}


def predict(model: Model, rows: Sequence[Example], adapters: Mapping[str, str | None], folder: Path, scorer: Scorer,
            constant: Sequence[float] | None, *, answer_tokens: int, temperature: float, batch: int, seed: int) -> None:
    """Appends what has no prediction in the folder yet. `adapters` are folders by label; None: the model alone."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    (folder / ROWS).write_text("".join(json.dumps(_rows.evaluation_row(row.question)) + "\n" for row in rows))
    file = folder / PREDICTIONS
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    whole = [line for line in lines if line.endswith("\n")]  # a killed run may have left a part of a line
    file.write_text("".join(whole))
    done = {(value["surrogate_label"], value["comparison_id"]) for value in map(json.loads, whole)}
    with file.open("a") as output:
        if constant is not None:
            for row in rows:
                if (CONSTANT, row.question.id) not in done:
                    output.write(json.dumps(_rows.prediction_row(
                        row.question, CONSTANT, constant, predicted_bin=constant.index(max(constant)) + 1, raw_sum=1)) + "\n")
        for label, adapter in adapters.items():
            # Prompts of about the same length, which need little padding.
            left = sorted((row for row in rows if (label, row.question.id) not in done), key=lambda row: len(row.prompt))
            if not left:
                continue
            model.remove_adapter()
            if adapter is not None:
                model.load_adapter(adapter)
            for start in range(0, len(left), batch):
                part = left[start:start + batch]
                torch.manual_seed(seed * 1_000_003 + start)
                samples = model.sample([row.prompt for row in part], answer_tokens, temperature, batch)
                scores = scorer.score([row.question for row in part], [sample.text for sample in samples], "hit")
                for row, sample, score in zip(part, samples, scores, strict=True):
                    usage: dict[str, Any] = {"input_tokens": len(row.prompt), "output_tokens": len(sample.tokens),
                                             "elapsed_s": sample.seconds}
                    if score.parse_status in PARSED:
                        probabilities, total, named = _rows.forecast_of(row.question, sample.text)
                        value = _rows.prediction_row(row.question, label, probabilities, predicted_bin=named, raw_sum=total,
                                                     **usage)
                    else:
                        value = _rows.prediction_row(row.question, label, None, answer_text=sample.text, **usage)
                    output.write(json.dumps(value) + "\n")
                output.flush()
                print(f"{label}: {min(start + batch, len(left))} of {len(left)}", flush=True)


def table(folder: Path, bundle: str | None = None) -> str:
    """The table of a folder with predictions, as Markdown. Also writes what `kernelcast eval` reports, metrics.json."""
    done = subprocess.run([find_program(bundle), "eval", folder / ROWS, folder / PREDICTIONS, "--by", "backend", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise errors.Error(f"kernelcast eval: {done.stderr.strip()}")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    groups = {value["group"]: value for value in found if "group" in value}
    (folder / "metrics.json").write_text(json.dumps(groups, indent=1) + "\n")
    predictions: dict[str, list[dict[str, Any]]] = {}
    for line in (folder / PREDICTIONS).read_text().splitlines():
        value = json.loads(line)
        predictions.setdefault(value["surrogate_label"], []).append(value)
    lines = ["| forecaster | rows | unparsable | " + " | ".join(_COLUMNS.values()) + " | tokens in, out | ms |",
             "|---|---|---|" + "---|" * (len(_COLUMNS) + 2)]
    for label, rows in predictions.items():
        figures = groups[label]
        cells = [label, str(len(rows)), str(figures["unparsable"])]
        for name in _COLUMNS:
            metric = figures.get(name)
            cells.append(f"{metric['value']:.3f} [{metric['low']:.3f}, {metric['high']:.3f}]"
                         if metric and metric.get("value") is not None else "")
        tokens = [sum(row[name] for row in rows) / len(rows) for name in ("input_tokens", "output_tokens")]
        milliseconds = 1000 * sum(row["elapsed_s"] for row in rows) / len(rows)
        cells += [f"{tokens[0]:.0f}, {tokens[1]:.0f}", f"{milliseconds:.0f}"] if tokens[0] else ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    (folder / TABLE).write_text(text)
    return text
