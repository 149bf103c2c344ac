"""ShinkaEvolve's evaluation script, in two lines:

    from kernelcast.adapters.shinkaevolve import main
    main("path/to/problem")
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from kernelcast import errors
from kernelcast.adapters import Scorer


def evaluate(scorer: Scorer, program_path: str, results_dir: str) -> None:
    """Scores a program and writes `metrics.json` and `correct.json`. `combined_score` is the speedup.

    Without a verdict there is no `combined_score`, and `correct` is false: ShinkaEvolve then gives the program no
    fitness and does not choose it as a parent.
    """
    try:
        score = scorer(Path(program_path).read_bytes())
        metrics: dict[str, Any] = {"combined_score": score.value, "public": score.metrics,
                                   "text_feedback": score.feedback}
        correct = {"correct": score.correct, "error": None if score.correct else score.feedback}
    except errors.Error as error:
        metrics = {"public": {"no_verdict": 1.0}, "text_feedback": "Not evaluated. This says nothing about the program."}
        correct = {"correct": False, "error": f"Not evaluated: {error}"}
    folder = Path(results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps({"private": {}, **metrics}))
    (folder / "correct.json").write_text(json.dumps(correct))


def main(problem: str, address: str = "", **options: Any) -> None:
    """The script's command line. Takes the arguments of `Scorer`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True)
    flags, _ = parser.parse_known_args()
    evaluate(Scorer(problem, address, **options), flags.program_path, flags.results_dir)
