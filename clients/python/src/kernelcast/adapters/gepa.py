"""GEPA: an evaluator for `optimize_anything` and an adapter for `optimize`."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from gepa.core.adapter import EvaluationBatch

from kernelcast import errors
from kernelcast.adapters import Score, Scorer


class Evaluator(Scorer):
    """For `optimize_anything(source, evaluator=Evaluator("path/to/problem"))`. Takes the arguments of `Scorer`.

    A candidate is a source, or a mapping whose entry `component` is one.
    """

    component = "kernel"

    def __call__(self, candidate: str | Mapping[str, str], example: object = None,  # type: ignore[override]
                 ) -> tuple[float, dict[str, Any]]:
        score = _score(super().__call__, candidate if isinstance(candidate, str) else candidate[self.component])
        return score.value, {"Feedback": score.feedback, "scores": score.metrics}


class Adapter:
    """For `gepa.optimize({"kernel": source}, adapter=Adapter(Scorer("path/to/problem")), ...)`.

    One source is the answer to every item of a batch, so it is scored once for all.
    """

    propose_new_texts = None

    def __init__(self, scorer: Scorer, component: str = "kernel") -> None:
        self._scorer, self._component = scorer, component

    def evaluate(self, batch: list[Any], candidate: dict[str, str],
                 capture_traces: bool = False) -> EvaluationBatch[Score, Score]:
        scores = [_score(self._scorer, candidate[self._component])] * len(batch)
        return EvaluationBatch(scores, [score.value for score in scores], scores if capture_traces else None,
                               num_metric_calls=1)

    def make_reflective_dataset(self, candidate: dict[str, str], eval_batch: EvaluationBatch[Score, Score],
                                components_to_update: list[str]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        score = eval_batch.outputs[0]
        row = {"Inputs": "", "Generated Outputs": candidate[self._component], "Feedback": score.feedback}
        return {component: [row] for component in components_to_update}


def _score(scorer: Any, source: str) -> Score:
    """GEPA stops at exceptions and does not retry, so one more attempt is made here."""
    try:
        score: Score = scorer(source)
    except errors.Error:
        score = scorer(source)
    return score
