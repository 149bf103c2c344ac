"""A reward and metrics for tasks of `verifiers`, by their import path:

    vf.TaskConfig(rewards={"speedup": {"fn": "kernelcast.adapters.verifiers.speedup"}})
"""

from __future__ import annotations

from typing import Any

from kernelcast.adapters import Score, rewards


async def speedup(task: Any, trace: Any) -> float:
    """The speedup of the kernel in the last reply. `problem` of the task's data is a path, else KERNELCAST_PROBLEM is.

    Without a verdict it raises: verifiers records an error, and the trace has no reward.
    """
    score = await _score(task, trace)
    trace.info["feedback"] = score.feedback
    return rewards.default.value(score)


async def metrics(task: Any, trace: Any) -> dict[str, float]:
    """The numbers of the score. The kernel is not measured again."""
    return (await _score(task, trace)).metrics


async def _score(task: Any, trace: Any) -> Score:
    return await rewards.default.score_async(trace.last_reply, str(getattr(task, "problem", "")))
