"""What callers give and get: plain frozen values, independent of gRPC."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Mapping, Sequence, Union, cast

if TYPE_CHECKING:
    from kernelcast.v1 import kernel_pb2, orchestrator_pb2

Mode = Literal["route", "measure", "final", "forecast", "check", "profile"]
Kind = Literal["host_native", "device_cuda", "device_triton", "device_tilelang", "python"]
Outcome = Literal["ok", "wrong_result", "crash", "timeout", "exploit", "environment_unstable", "passed"]
Cause = Literal["compile_error", "duplicate", "budget", "unavailable", "cancelled"]
Shape = Literal["speedup", "log2_speedup", "speed_of_light"]
Estimator = Literal["doubly_robust", "inverse_propensity"]
Basis = Literal["measured", "estimated", "forecast"]


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
class RewardSpec:
    """What a kernel is rewarded for. docs/reference/scoring.md has the formulas.

    `baseline_speedup` is that of the kernel to beat over the reference. The value of `shape` is cut to [-`limit`,
    `limit`] where `limit` is set, and `correctness` is added for a correct kernel. `penalties` are subtracted, by rule:
    compile_error, wrong_result, crash, timeout, exploit, not_faster. With `accept_forecasts`, candidates that could not
    be measured are rewarded by their forecast, which is biased.
    """

    shape: Shape = "speedup"
    estimator: Estimator = "doubly_robust"
    baseline_speedup: float = 1.0
    limit: float = 0.0
    correctness: float = 0.0
    penalties: Mapping[str, float] = field(default_factory=dict)
    accept_forecasts: bool = False


@dataclass(frozen=True)
class Reward:
    """The reward of an evaluation.

    Without a `value` the evaluation says nothing about the kernel, for the reason in `no_verdict`: do not train on it.
    An "estimated" value has the value of measuring as its expectation over the audit draw.
    """

    value: float | None
    basis: Basis | None
    propensity: float
    measured: float | None
    control: float | None
    rules: tuple[str, ...]
    no_verdict: str
    version: str


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

    `target` is the problem's `default_target` by default. `kind` is "device_cuda" by default if there
    are launches, "python" for a PyTorch task, else "host_native". `tunables` inform the forecast; the source already
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
    """A problem that the orchestrator has stored. `definition` is its parsed form.

    `default_target` is cpu, or else the first target. For a PyTorch task it is cuda if a worker judged such tasks on a
    GPU when the problem was stored.
    """

    id: str
    name: str
    title: str
    targets: tuple[str, ...]
    definition: kernel_pb2.ProblemDefinition = field(repr=False, compare=False)
    default_target: str = field(compare=False)

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(self.name)}</b> {html.escape(self.title)} <small>({', '.join(self.targets)})</small>"


@dataclass(frozen=True)
class Decision:
    """Why a candidate was measured, pruned or rejected. `propensity` is the probability of an audit, see the protocol."""

    kind: str
    reason: str
    propensity: float
    win_probability: float


@dataclass(frozen=True, repr=False)
class _Settled:
    """A view of the protocol's message. Fields are read from it when they are used, since streams bring thousands."""

    candidate: Candidate
    # The whole message, for fields that have no attribute here.
    message: orchestrator_pb2.Evaluation

    @property
    def request_id(self) -> str:
        return self.message.request_id

    @property
    def candidate_id(self) -> str:
        return self.message.candidate_id

    @property
    def device_model(self) -> str:
        return self.message.device_model

    @property
    def decision(self) -> Decision:
        decision = self.message.decision
        return Decision(word(decision, "kind", "DECISION_KIND_"), word(decision, "reason", "DECISION_REASON_"),
                        decision.audit_propensity, decision.win_probability)

    @property
    def feedback(self) -> str:
        """Text for a model that improves the candidate: errors, mismatches, times."""
        return self.message.text_feedback.decode(errors="replace")

    @property
    def reward(self) -> Reward | None:
        """None unless the evaluation was asked for with a `RewardSpec`."""
        if not self.message.HasField("reward"):
            return None
        reward = self.message.reward

        def given(name: Literal["value", "measured", "control"]) -> float | None:
            return float(getattr(reward, name)) if reward.HasField(name) else None

        return Reward(given("value"), cast(Basis, word(reward, "basis", "BASIS_")) if reward.HasField("value") else None,
                      reward.propensity, given("measured"), given("control"), tuple(reward.rules), reward.no_verdict,
                      reward.reward_version)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.candidate_id} {self}>"

    def _repr_html_(self) -> str:
        name = html.escape(self.candidate.name or self.candidate_id)
        return f"<b>{name}</b>: {html.escape(str(self))}<pre>{html.escape(self.feedback)}</pre>"


@dataclass(frozen=True, repr=False)
class Measurement(_Settled):
    """The candidate was run and verified. The outcome of a right one is "ok", or "passed" if nothing was timed (mode "check")."""

    @property
    def outcome(self) -> Outcome:
        return cast(Outcome, self.message.measured.WhichOneof("outcome"))

    @property
    def speedup(self) -> Ratio | None:
        """Over the reference. Set exactly if `outcome` is "ok"."""
        if not self.message.measured.HasField("ok"):
            return None
        ratio = self.message.measured.ok.speedup
        return Ratio(ratio.value, ratio.low, ratio.high, ratio.confidence)

    @property
    def deterministic(self) -> bool | None:
        """Whether the outputs were the same bytes in several processes. None: not compared, as in a screening."""
        return {1: True, 2: False}.get(int(self.message.measured.ok.determinism))

    @property
    def notes(self) -> tuple[str, ...]:
        """What limits the trust in the speedup, such as "inputs_never_change". About the task, not the candidate."""
        measured = self.message.measured
        ok = measured.passed if measured.HasField("passed") else measured.ok
        kinds = ok.DESCRIPTOR.fields_by_name["notes"].enum_type
        values = kinds.values_by_number if kinds is not None else {}
        names = [values[note].name if note in values else "unknown" for note in ok.notes]
        return tuple(name.removeprefix("MEASUREMENT_NOTE_").lower() for name in names)

    @property
    def reused(self) -> bool:
        """Made for an earlier evaluation of the same candidate."""
        return self.message.reused

    def __str__(self) -> str:
        return f"measured {self.speedup}" if self.speedup else f"measured: {self.outcome.replace('_', ' ')}"


@dataclass(frozen=True, repr=False)
class Forecast(_Settled):
    """The candidate was not run. There is no speedup here, only an expectation."""

    @property
    def expected_speedup(self) -> float:
        return float(2.0**self.message.forecast.expected_log2_speedup)

    @property
    def failure_probability(self) -> float:
        return self.message.forecast.failure_probability

    @property
    def basis(self) -> str:
        """What the forecast rests on, such as "simulation". "prior_only": nothing is known about the candidate."""
        return word(self.message.forecast, "basis", "FORECAST_BASIS_")

    @property
    def bin_scheme(self) -> str:
        return self.message.forecast.bin_scheme_id

    @property
    def bin_probabilities(self) -> tuple[float, ...]:
        return tuple(self.message.forecast.bin_probabilities)

    @property
    def backend(self) -> str:
        return self.message.forecast.backend

    def __str__(self) -> str:
        return f"forecast {self.expected_speedup:.3g}x, P(failure) {self.failure_probability:.0%}"


@dataclass(frozen=True, repr=False)
class Rejection(_Settled):
    """A fact settled the candidate, such as a compile error."""

    @property
    def cause(self) -> Cause:
        cause = self.message.rejected.WhichOneof("cause") or "unavailable"
        return cast(Cause, cause.removesuffix("_of_request_id"))

    @property
    def detail(self) -> str:
        rejected = self.message.rejected
        if rejected.HasField("compile_error"):
            return rejected.compile_error.log.decode(errors="replace")
        cause = rejected.WhichOneof("cause")
        return str(getattr(rejected, cause)) if cause else ""

    def __str__(self) -> str:
        return f"rejected: {self.cause.replace('_', ' ')}"


Evaluation = Union[Measurement, Forecast, Rejection]


def word(message: Any, field_name: str, prefix: str) -> str:
    """The name of an enumeration's value, without its prefix. A later version may have other values."""
    value = message.DESCRIPTOR.fields_by_name[field_name].enum_type.values_by_number.get(getattr(message, field_name))
    return str(value.name).removeprefix(prefix).lower() if value else "unknown"
