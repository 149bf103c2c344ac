"""A reward function for TRL's GRPOTrainer: `reward_funcs=[speedup]`."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from kernelcast.adapters import rewards


def speedup(prompts: Sequence[Any], completions: Sequence[Any], problem: Sequence[str] | None = None,
            log_extra: Callable[[str, list[Any]], None] | None = None,
            log_metric: Callable[[str, float], None] | None = None, **_: Any) -> list[float | None]:
    """The speedup of the kernel in each completion, a text or a conversation. The column `problem` has problems' paths.

    None is no verdict, which TRL leaves out of the reward. The table of completions gets the columns `basis` and
    `propensity`, and the log the shares `kernelcast/measured` and `kernelcast/no_verdict`.
    """
    texts = [c if isinstance(c, str) else str(c[-1]["content"]) for c in completions]
    scores = rewards.default.score_all(texts, problem or [""] * len(texts))
    if log_extra:
        log_extra("basis", [score.basis if score else "" for score in scores])
        log_extra("propensity", [score.propensity if score else None for score in scores])
    if log_metric and scores:
        log_metric("kernelcast/measured", sum(s.metrics["measured"] for s in scores if s) / len(scores))
        log_metric("kernelcast/no_verdict", scores.count(None) / len(scores))
    return [None if score is None else rewards.default.value(score) for score in scores]
