"""A reward function for TRL's GRPOTrainer: `reward_funcs=[speedup]`."""

from __future__ import annotations

from typing import Any, Sequence

from kernelcast.adapters import rewards


def speedup(prompts: Sequence[Any], completions: Sequence[Any], problem: Sequence[str] | None = None,
            **_: Any) -> list[float | None]:
    """The speedup of the kernel in each completion, a text or a conversation. The column `problem` has problems' paths.

    None is no verdict, which TRL leaves out of the reward.
    """
    texts = [c if isinstance(c, str) else str(c[-1]["content"]) for c in completions]
    scores = rewards.default.score_all(texts, problem or [""] * len(texts))
    return [None if score is None else rewards.default.value(score) for score in scores]
