"""OpenEvolve's evaluator file, in two lines:

    from kernelcast.adapters.openevolve import Evaluator
    evaluate = Evaluator("path/to/problem")

With `cascade_evaluation`, add `evaluate_stage1, evaluate_stage2 = evaluate.compiles, evaluate`.
"""

from __future__ import annotations

from pathlib import Path

from openevolve.evaluation_result import EvaluationResult

from kernelcast._types import Forecast
from kernelcast.adapters import Score, Scorer


class Evaluator(Scorer):
    """Scores program files: `combined_score` is the speedup, and the artifact `feedback` goes into the next prompt.

    Takes the arguments of `Scorer`. Keep `timeout` below OpenEvolve's (300 s by default), because OpenEvolve continues
    while an evaluator that it gave up still runs. A bad program never raises. An error says that there was no verdict:
    OpenEvolve then calls again, which asks for the same evaluation.
    """

    def __call__(self, program_path: str) -> EvaluationResult:  # type: ignore[override]
        return _result(super().__call__(Path(program_path).read_bytes()))

    def compiles(self, program_path: str) -> EvaluationResult:
        """A first stage of the cascade: passes what compiles, without measuring."""
        score = super().__call__(Path(program_path).read_bytes(), "forecast")
        return EvaluationResult({"compiles": 1.0}) if isinstance(score.result, Forecast) else _result(score)


def _result(score: Score) -> EvaluationResult:
    return EvaluationResult({"combined_score": score.value, **score.metrics}, {"feedback": score.feedback})
