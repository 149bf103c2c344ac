"""slime's custom reward: `--custom-rm-path kernelcast.adapters.slime.reward`, also with `--group-rm`."""

from __future__ import annotations

import asyncio
from typing import Any

from kernelcast.adapters import rewards


async def reward(args: Any, sample: Any, **_: Any) -> float | list[float]:
    """The speedup of the kernel in `sample.response`. `problem` in its metadata, or its label, is a problem's path.

    The metadata gets an entry `kernelcast` with the score's metrics and its basis.
    """
    if isinstance(sample, list):
        return list(await asyncio.gather(*(_reward(one) for one in sample)))
    return await _reward(sample)


async def _reward(sample: Any) -> float:
    problem = (getattr(sample, "metadata", None) or {}).get("problem") or getattr(sample, "label", None) or ""
    score = await rewards.default.score_async(sample.response, str(problem))
    if isinstance(getattr(sample, "metadata", None), dict):
        sample.metadata["kernelcast"] = {**score.metrics, "basis": score.basis}
    return rewards.default.value(score)
