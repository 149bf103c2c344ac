"""Kernelcast as the evaluator of search programs and the reward of trainers. One module for each of them.

`Scorer` turns a source into a number and a text. A score is a measured speedup; a candidate that fails scores 0. A
forecast is a score only if the caller asks for forecasts. What says nothing about the candidate, such as a lost worker,
raises an Error, and the next call with the same source continues where this one ended.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from kernelcast import errors
from kernelcast._types import (Basis, Candidate, Evaluation, Forecast, Measurement, Mode, Problem, Reward,
                               RewardSpec)

if TYPE_CHECKING:
    from kernelcast._sync import Client

_ATTEMPTS = 3
# These say nothing about a candidate. Others, such as InvalidArgument, are mistakes of the set-up.
NO_VERDICT = (errors.Unavailable, errors.DeadlineExceeded, errors.ResourceExhausted)


@dataclass(frozen=True)
class Score:
    """`value` is the speedup over the reference, or 0 for a failure. `result` is missing for a malformed source."""

    value: float
    correct: bool
    feedback: str
    result: Evaluation | None = None

    @property
    def reward(self) -> Reward | None:
        """None for a malformed source, and where the scorer asks for no reward."""
        return self.result.reward if self.result else None

    @property
    def basis(self) -> Basis:
        """Of the reward if there is one, else of the value. Failures that need no measurement are "measured" too."""
        if self.reward and self.reward.basis:
            return self.reward.basis
        return "forecast" if isinstance(self.result, Forecast) else "measured"

    @property
    def propensity(self) -> float:
        """The probability with which the candidate was measured. 1 for a failure that needs no measurement."""
        if self.reward and self.reward.value is not None:
            return self.reward.propensity
        return self.result.decision.propensity if isinstance(self.result, (Measurement, Forecast)) else 1.0

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers for a search program's records. `measured` is 0 for a forecast, `estimated` is 1 for that basis."""
        metrics = {"speedup": self.value, "correct": float(self.correct),
                   "measured": float(not isinstance(self.result, Forecast)),
                   "estimated": float(self.basis == "estimated"), "propensity": self.propensity}
        if isinstance(self.result, Measurement) and self.result.speedup:
            metrics.update(speedup_low=self.result.speedup.low, speedup_high=self.result.speedup.high)
        if isinstance(self.result, Forecast):
            metrics["failure_probability"] = self.result.failure_probability
        if self.reward and self.reward.value is not None:
            metrics["reward"] = self.reward.value
        return metrics

    @property
    def times_ms(self) -> tuple[float, float] | None:
        """Medians of the candidate and of the reference, each summed over the bench shapes. None: not measured."""
        if not (isinstance(self.result, Measurement) and self.correct):
            return None
        shapes = self.result.message.measured.ok.shapes
        return sum(s.candidate.median_ns for s in shapes) / 1e6, sum(s.reference.median_ns for s in shapes) / 1e6


def score(result: Evaluation) -> Score | None:
    """The score of a result, or None if it says nothing about the candidate."""
    if isinstance(result, Measurement):
        if result.outcome == "environment_unstable":
            return None
        return Score(result.speedup.value if result.speedup else 0.0, result.speedup is not None, result.feedback, result)
    if isinstance(result, Forecast):
        correct = 1 - result.failure_probability
        return Score(result.expected_speedup * correct, correct > 0.5, result.feedback, result)
    return Score(0.0, False, result.feedback, result) if result.cause == "compile_error" else None


class Scorer:
    """Scores sources for one problem. Connects when it is first used. Thread-safe.

    `problem` is a path. `address` is an orchestrator's, by default from KERNELCAST_ORCHESTRATOR. `template` has the
    fields of each candidate apart from its source, such as target, flags and launches. With `forecasts` the policy
    decides what is measured, and a forecast is a score too; `search` is the search it belongs to. `device_model` is
    where to measure; by default the orchestrator chooses. With `reward` a score has a reward, and a candidate whose
    reward has no value is Unavailable. `timeout` is in seconds; set it below the caller's own limit. The same source has
    the same score; another `run` scores it anew.
    """

    def __init__(self, problem: str | os.PathLike[str], address: str = "", *, template: Candidate = Candidate(""),
                 mode: Mode = "measure", forecasts: bool = False, search: str = "", timeout: float = 240, run: str = "",
                 device_model: str = "", reward: RewardSpec | None = None, **connection: Any) -> None:
        if mode in ("route", "forecast") and not forecasts:
            raise errors.InvalidArgument(f"mode: {mode!r} may give forecasts; set forecasts=True to accept them as scores")
        self._path, self._address, self._connection = problem, address, connection
        self._template, self._search, self._timeout, self._run = template, search, timeout, run
        self._reward = reward
        self._device_model = device_model
        self._mode: Mode = "route" if forecasts and mode == "measure" else mode
        self._connected: tuple[Client, Problem] | None = None
        # By source: the number of attempts that were unstable.
        self._attempted: dict[str, int] = {}

    def connect(self) -> tuple[Client, Problem]:
        """The client and the problem."""
        if self._connected is None:
            from kernelcast import Client, _convert

            client = Client(self._address, **self._connection)
            problem = client.put_problem(self._path)
            _convert.target(self._template.target, problem)
            self._connected = client, problem
        return self._connected

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connected": None}

    def candidate(self, source: str, **fields: Any) -> Candidate:
        return replace(self._template, source=source, **fields)

    def __call__(self, source: str | bytes | Candidate, mode: Mode | None = None) -> Score:
        """Scores a source. Unavailable, DeadlineExceeded and other errors say nothing about it."""
        client, problem = self.connect()
        mode = mode or self._mode
        try:
            candidate = source if isinstance(source, Candidate) else self.candidate(
                source if isinstance(source, str) else source.decode())
            parts = asdict(candidate), problem.id, mode, self._search, self._run, *filter(None, [self._device_model])
            what = hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()
            end = time.monotonic() + self._timeout
            first = self._attempted.get(what, 0)
            for attempt in range(first, first + _ATTEMPTS):
                result = client.evaluate(problem, candidate, mode=mode, search=self._search, reward=self._reward,
                                         device_model=self._device_model,
                                         request_id=f"{what}-{attempt}", timeout=max(end - time.monotonic(), 0))
                if (settled := score(result)) is not None:
                    if result.reward and result.reward.value is None:
                        raise errors.Unavailable(result.reward.no_verdict, request_id=result.request_id)
                    return settled
                # Its identifier has this result for good.
                self._attempted[what] = attempt + 1
        except (errors.InvalidArgument, UnicodeDecodeError) as error:
            return Score(0.0, False, f"Not evaluated: {error}")
        raise errors.Unavailable(result.feedback or str(result), request_id=result.request_id)


__all__ = ["NO_VERDICT", "Score", "Scorer", "score"]
