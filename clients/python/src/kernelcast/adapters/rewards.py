"""Rewards for trainers: the source in a completion, scored. `verl`, `trl`, `slime`, `tinker` and `verifiers` fit it to
theirs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import re
from typing import Any, Sequence

from kernelcast import _convert, errors
from kernelcast._types import RewardSpec
from kernelcast.adapters import NO_VERDICT, Score, Scorer

# The columns that `source_of` reads.
FORMAT = "Answer with the whole source in one fenced block. Keep the names and parameters of its functions."
_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)


def source_of(completion: str) -> str:
    """The last fenced block of a completion, or all of it if it has none."""
    blocks = _FENCED.findall(completion)
    return str(blocks[-1]) if blocks else completion


def prompt(problem: str | os.PathLike[str], source: str) -> str:
    """Asks for a kernel that is faster than `source`. Contains the declaration of the problem at this path."""
    from kernelcast._problems import read_problem

    declaration = read_problem(problem).files[0].content.decode()
    return ("Make this kernel faster. Its results must stay correct at all shapes.\n\n"
            f"Problem:\n\n```yaml\n{declaration}```\n\nKernel:\n\n```\n{source}```\n\n{FORMAT}\n")


class Reward:
    """Rewards completions as `spec` says, up to `in_flight` at once. The service computes the rewards.

    `problem` is used for completions that name none. `options` are those of `Scorer`.
    """

    def __init__(self, problem: str = "", *, spec: RewardSpec = RewardSpec(), in_flight: int = 64, **options: Any) -> None:
        self._problem, self._spec, self._in_flight = problem, spec, in_flight
        self._options = {**options, "reward": spec}
        _convert.reward_message(spec)  # raises for a malformed one

    @functools.cached_property
    def _threads(self) -> concurrent.futures.ThreadPoolExecutor:
        return concurrent.futures.ThreadPoolExecutor(self._in_flight, thread_name_prefix="kernelcast-reward")

    @functools.cached_property
    def _scorers(self) -> dict[str, Scorer]:
        return {}

    def score(self, completion: str, problem: str = "") -> Score:
        path = problem or self._problem
        if not path:
            raise errors.InvalidArgument("problem: neither the sample nor the reward names one")
        return self._scorers.setdefault(path, Scorer(path, **self._options))(source_of(completion))

    def value(self, score: Score) -> float:
        """The reward. A malformed source counts as one that does not compile."""
        if score.reward is None or score.reward.value is None:
            return -self._spec.penalties.get("compile_error", 0.0)
        return score.reward.value

    def score_all(self, completions: Sequence[str], problems: Sequence[str]) -> list[Score | None]:
        """In their order. None is no verdict: such a completion should not be trained on."""

        def score(completion: str, problem: str) -> Score | None:
            try:
                return self.score(completion, problem)
            except NO_VERDICT:
                return None

        return list(self._threads.map(score, completions, problems))

    async def score_async(self, completion: str, problem: str = "") -> Score:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.score, completion, problem)


default = Reward(os.environ.get("KERNELCAST_PROBLEM", ""))
