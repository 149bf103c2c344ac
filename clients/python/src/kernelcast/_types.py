"""What callers give and get: plain frozen values, independent of gRPC."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Mapping, Sequence, Union

if TYPE_CHECKING:
    from kernelcast.v1 import kernel_pb2, orchestrator_pb2

Mode = Literal["route", "measure", "final", "forecast"]
Kind = Literal["host_native", "device_cuda", "device_triton", "python"]
Outcome = Literal["ok", "wrong_result", "crash", "timeout", "exploit", "environment_unstable"]
Cause = Literal["compile_error", "duplicate", "budget", "unavailable", "cancelled"]


@dataclass(frozen=True)
class Ratio:
    """A ratio, with the interval that contains a later, independent measurement with probability `confidence`."""

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.value:.3g}x [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class Launch:
    """One launch of device code. Geometry holds expressions over the problem's axes and the integer tunables.

    Triton launches leave `block`, `shared_memory_bytes` and `cluster` empty, and have `constexprs`, `num_warps` and
    `num_stages` instead; 0 stands for Triton's default. Where `when` is set, the launch is left out at shapes where it
    is 0.
    """

    kernel: str
    grid: Sequence[int | str]
    block: Sequence[int | str] = ()
    arguments: Sequence[str] = ()
    shared_memory_bytes: int | str = ""
    cluster: Sequence[int | str] = ()
    when: str = ""
    constexprs: Mapping[str, int | float | bool | str | None] = field(default_factory=dict)
    num_warps: int = 0
    num_stages: int = 0


@dataclass(frozen=True)
class Candidate:
    """One kernel source.

    `target` is the problem's cpu target by default, or else its first. `kind` is "python" by default for a PyTorch
    task, "device_cuda" if there are launches, else "host_native". `tunables` inform the forecast; the source already
    contains their values. Fields after `workspace_bytes` do not change the candidate's identity.
    """

    source: str
    target: str = ""
    kind: Kind | None = None
    flags: Sequence[str] = ()
    tunables: Mapping[str, int | str] = field(default_factory=dict)
    launches: Sequence[Launch] = ()
    workspace_bytes: int | str = ""
    name: str = ""
    origin: str = ""
    parent_candidate_id: str = ""


@dataclass(frozen=True)
class Problem:
    """A problem that the orchestrator has stored. `definition` is its parsed form."""

    id: str
    name: str
    title: str
    targets: tuple[str, ...]
    definition: kernel_pb2.ProblemDefinition = field(repr=False, compare=False)

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(self.name)}</b> {html.escape(self.title)} <small>({', '.join(self.targets)})</small>"


@dataclass(frozen=True)
class Decision:
    """Why a candidate was measured, pruned or rejected. `propensity` is the probability of an audit, see the protocol."""

    kind: str
    reason: str
    propensity: float
    win_probability: float


@dataclass(frozen=True)
class _Settled:
    request_id: str
    candidate_id: str
    candidate: Candidate = field(repr=False)
    device_model: str
    decision: Decision
    # Text for a model that improves the candidate: errors, mismatches, times.
    feedback: str = field(repr=False)
    # The whole message, for fields that have no attribute here.
    message: orchestrator_pb2.Evaluation = field(repr=False, compare=False)

    def _repr_html_(self) -> str:
        name = html.escape(self.candidate.name or self.candidate_id)
        return f"<b>{name}</b>: {html.escape(str(self))}<pre>{html.escape(self.feedback)}</pre>"


@dataclass(frozen=True)
class Measurement(_Settled):
    """The candidate was run and verified. `speedup` over the reference is set exactly if `outcome` is "ok"."""

    outcome: Outcome
    speedup: Ratio | None
    # Made for an earlier evaluation of the same candidate.
    reused: bool

    def __str__(self) -> str:
        return f"measured {self.speedup}" if self.speedup else f"measured: {self.outcome.replace('_', ' ')}"


@dataclass(frozen=True)
class Forecast(_Settled):
    """The candidate was not run. There is no speedup here, only an expectation."""

    expected_speedup: float
    failure_probability: float
    bin_scheme: str
    bin_probabilities: tuple[float, ...]
    backend: str

    def __str__(self) -> str:
        return f"forecast {self.expected_speedup:.3g}x, P(failure) {self.failure_probability:.0%}"


@dataclass(frozen=True)
class Rejection(_Settled):
    """A fact settled the candidate, such as a compile error."""

    cause: Cause
    detail: str = field(repr=False)

    def __str__(self) -> str:
        return f"rejected: {self.cause.replace('_', ' ')}"


Evaluation = Union[Measurement, Forecast, Rejection]
