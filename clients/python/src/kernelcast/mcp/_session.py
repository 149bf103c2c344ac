"""What a session of an agent holds: its budget, its searches, and what it has tried."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Iterator

from mcp.server.mcpserver.exceptions import ToolError

from kernelcast import Candidate, Evaluation, Measurement, Problem
from kernelcast._types import Ratio
from kernelcast.mcp._views import Attempt, Budget, device_seconds

_MAX_ATTEMPTS = 1000
# Sources that are kept per task: the final measurement of the best kernel may show that another one is better.
_MAX_LEADERS = 8


@dataclass(frozen=True)
class Limits:
    """Of one session. None: no limit."""

    evaluations: int | None = None
    device_seconds: float | None = None


@dataclass
class Leader:
    """A kernel that was measured and is right."""

    candidate: Candidate
    result: Measurement
    speedup: Ratio
    final: bool


@dataclass
class TaskState:
    """What a session knows about one problem on one target."""

    problem: Problem
    target: str
    search_id: str = ""
    leaders: dict[str, Leader] = field(default_factory=dict)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def best(self) -> Leader | None:
        return max(self.leaders.values(), key=lambda leader: leader.speedup.value, default=None)

    def add(self, candidate: Candidate, result: Measurement, final: bool) -> None:
        """Of several measurements the first counts, since the best would be a lucky one; or the first final one."""
        known = self.leaders.get(result.candidate_id)
        if result.speedup is None or (known is not None and (known.final or not final)):
            return
        self.leaders[result.candidate_id] = Leader(known.candidate if known else candidate, result, result.speedup, final)
        if len(self.leaders) > _MAX_LEADERS:
            slowest = min(self.leaders, key=lambda candidate_id: self.leaders[candidate_id].speedup.value)
            del self.leaders[slowest]


class Session:
    """Used on one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._evaluations = 0
        self._device_seconds = 0.0
        self._measured = 0
        self._in_flight = 0
        self._attempts = 0
        self.attempts: deque[tuple[str, Attempt]] = deque(maxlen=_MAX_ATTEMPTS)
        self.states: dict[tuple[str, str], TaskState] = {}
        self.calls = 0  # in progress
        self.used_at = time.monotonic()

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Keeps the session from being idle."""
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1
            self.used_at = time.monotonic()

    def budget(self) -> Budget:
        limits = self._limits
        return Budget(
            evaluations_used=self._evaluations, device_seconds_used=round(self._device_seconds, 3),
            evaluations_left=None if limits.evaluations is None else max(limits.evaluations - self._evaluations, 0),
            device_seconds_left=None if limits.device_seconds is None else
            round(max(limits.device_seconds - self._device_seconds, 0), 3))

    def seconds_left(self) -> float:
        """0: no limit. Never 0 otherwise, which the orchestrator would take for that."""
        left = self.budget().device_seconds_left
        return 0 if left is None else max(left, 1e-3)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Takes one evaluation of the budget. An evaluation that raises costs none.

        Those in flight are expected to take as long as earlier ones, so that parallel calls do not spend the same
        seconds.
        """
        expected = self._in_flight * self._device_seconds / self._measured if self._measured else 0.0
        budget = self.budget()
        if budget.evaluations_left == 0:
            raise self.spent("evaluations")
        if budget.device_seconds_left is not None and budget.device_seconds_left <= expected:
            raise self.spent("device seconds")
        self._evaluations += 1
        self._in_flight += 1
        try:
            yield
        except BaseException:
            self._evaluations -= 1
            raise
        finally:
            self._in_flight -= 1

    def spent(self, what: str) -> ToolError:
        left = self.budget()

        def text(amount: float | None, unit: str) -> str:
            return f"any number of {unit}" if amount is None else f"{amount:.6g} {unit}"

        in_flight = f" ({self._in_flight} evaluations in flight)" if self._in_flight else ""
        return ToolError(
            f"budget: the client's {what} are spent. Left: {text(left.evaluations_left, 'evaluations')}, "
            f"{text(left.device_seconds_left, 'device seconds')}{in_flight}. simulate, history, best and describe_task "
            "cost nothing")

    def charge(self, result: Evaluation) -> None:
        if isinstance(result, Measurement) and not result.reused:
            self._measured += 1
        self._device_seconds += device_seconds(result)

    def record(self, tool: str, task: str, candidate: Candidate, result: Evaluation, kind: str, outcome: str,
               expected_speedup: float | None) -> None:
        self._attempts += 1
        speedup = result.speedup if isinstance(result, Measurement) else None
        self.attempts.append((task, Attempt(
            number=self._attempts, tool=tool, name=candidate.name, candidate_id=result.candidate_id, kind=kind,
            outcome=outcome, speedup=speedup.value if speedup else None, expected_speedup=expected_speedup,
            device_seconds=device_seconds(result))))

    def attempts_of(self, task: str) -> list[Attempt]:
        return [attempt for of, attempt in self.attempts if of == task]
