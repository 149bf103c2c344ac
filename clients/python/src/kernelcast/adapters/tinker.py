"""A reward for the Tinker cookbook: `build_agent_tool_env(..., reward_fn=Reward("path/to/problem"))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from kernelcast.adapters import rewards


@dataclass(frozen=True)
class Reward:
    """The speedup of the kernel in the last answer of an episode. `problem` is a path, by default KERNELCAST_PROBLEM.

    Can be pickled, as builders of environments must be. Without a verdict it raises, which fails the rollout.
    """

    problem: str = ""

    async def __call__(self, history: Sequence[Mapping[str, Any]]) -> tuple[float, dict[str, float]]:
        answers = [_text(message["content"]) for message in history if message["role"] == "assistant"]
        score = await rewards.default.score_async(answers[-1] if answers else "", self.problem)
        return rewards.default.value(score), score.metrics


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    """Without the thoughts, which are parts of another type."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content if part["type"] == "text")
