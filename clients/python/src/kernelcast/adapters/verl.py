"""verl's custom reward function: `path` is a file that imports this function, `name` is `compute_score`."""

from __future__ import annotations

from typing import Any, Mapping

from kernelcast.adapters import rewards


async def compute_score(data_source: str, solution_str: str, ground_truth: str,
                        extra_info: Mapping[str, Any] | None = None, **_: Any) -> dict[str, float | str]:
    """The speedup of the kernel in `solution_str`. `ground_truth`, or `problem` in `extra_info`, is a problem's path."""
    problem = str((extra_info or {}).get("problem") or ground_truth or "")
    score = await rewards.default.score_async(solution_str, problem)
    return {"score": rewards.default.value(score), "correct": float(score.correct),
            "measured": score.metrics["measured"], "propensity": score.propensity, "basis": score.basis}
