"""The card of a trained adapter."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Sequence

import kernelcast
from kernelcast.train._rows import Question


def digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def commit() -> str:
    """That of the working directory. Empty: it is not in a repository."""
    try:
        return subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--match="], capture_output=True,
                              text=True, check=False).stdout.strip()
    except OSError:
        return ""


def write(folder: Path, stage: str, settings: dict[str, Any], files: Sequence[str], questions: Sequence[Question],
          model: str, device: str, complete: bool) -> None:
    bins = Counter(question.target_bin for question in questions)
    packs = Counter(question.pack for question in questions)
    steps = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    first = questions[0]
    lines = [f"# Kernelcast forecaster, {stage}", "",
             "A LoRA adapter for a language model that forecasts the speedup of a kernel. `adapter` is for peft, "
             "`adapter.gguf` for llama.cpp, `prompt` is the prompt that it was trained on.", "",
             "| | |", "|---|---|", f"| base model | {Path(model).name}" +
             (f", sha256 {digest(model)}" if Path(model).is_file() else "") + " |"]
    lines += [f"| rows | {Path(file).name}, sha256 {digest(file)} |" for file in files]
    lines += [f"| prompt | {first.prompt_version}, hash {first.prompt_hash} |",
              f"| bins | {first.bin_scheme_id}: " + ", ".join(f"{n} of bin {number}" for number, n in sorted(bins.items())) + " |",
              "| problems | " + ", ".join(f"{name} {n}" for name, n in sorted(packs.items())) + " |"]
    lines += [f"| {name.replace('_', ' ')} | {value} |" for name, value in settings.items()]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "peft", "gguf"))
    lines += [f"| device | {device} |", f"| versions | kernelcast {kernelcast.__version__}, {versions} |",
              f"| commit | {commit() or 'unknown'} |",
              f"| steps | {steps[-1]['step'] if steps else 0}{'' if complete else ', not complete'}, "
              f"{sum(step['seconds'] for step in steps):.0f} s |", "", "## Metrics of training", ""]
    names = [name for name in (steps[0] if steps else {}) if name not in ("step", "seconds")]
    lines += ["| step | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    shown = steps[::max(1, len(steps) // 10)]
    lines += [f"| {step['step']} | " + " | ".join(f"{step[name]:.4g}" for name in names) + " |"
              for step in (shown if not steps or shown[-1] is steps[-1] else [*shown, steps[-1]])]
    lines += ["", "These are of the rows that it was trained on. `python -m kernelcast.train evaluate` has held-out ones.", ""]
    (folder / "README.md").write_text("\n".join(lines))
