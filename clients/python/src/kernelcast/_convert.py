"""Converts between messages of the protocol and this package's types."""

from __future__ import annotations

from typing import Any, Mapping, get_args

from kernelcast import errors
from kernelcast._types import (Candidate, Estimator, Evaluation, Forecast, Kind, Launch, Measurement, Mode, Problem,
                               Rejection, RewardSpec, Shape)
from kernelcast.v1 import kernel_pb2, orchestrator_pb2

MAX_SOURCE_BYTES = 1 << 20
MODES: Mapping[Mode, Any] = {
    "route": orchestrator_pb2.EVALUATE_MODE_ROUTE,
    "measure": orchestrator_pb2.EVALUATE_MODE_MEASURE,
    "final": orchestrator_pb2.EVALUATE_MODE_FINAL,
    "forecast": orchestrator_pb2.EVALUATE_MODE_FORECAST,
    "check": orchestrator_pb2.EVALUATE_MODE_CHECK,
    "profile": orchestrator_pb2.EVALUATE_MODE_PROFILE,
}
KINDS: Mapping[Kind, Any] = {
    kind: kernel_pb2.CandidateKind.Value(f"CANDIDATE_KIND_{kind.upper()}") for kind in get_args(Kind)}
_RULES = ("compile_error", "wrong_result", "crash", "timeout", "exploit", "not_faster")
_Spec = orchestrator_pb2.KernelRewardSpec
SHAPES: Mapping[Shape, Any] = {
    "speedup": _Spec.SHAPE_SPEEDUP,
    "log2_speedup": _Spec.SHAPE_LOG2_SPEEDUP,
    "speed_of_light": _Spec.SHAPE_SPEED_OF_LIGHT,
}
ESTIMATORS: Mapping[Estimator, Any] = {
    "doubly_robust": _Spec.ESTIMATOR_DOUBLY_ROBUST,
    "inverse_propensity": _Spec.ESTIMATOR_INVERSE_PROPENSITY,
}


def one_of(field: str, value: Any, allowed: Mapping[Any, Any]) -> Any:
    if value not in allowed:
        raise errors.InvalidArgument(f"{field}: {value!r} is none of {', '.join(map(repr, allowed))}")
    return allowed[value]


def problem(reply: kernel_pb2.PutProblemReply) -> Problem:
    of = reply.definition
    return Problem(of.problem_id, of.name, of.title, tuple(of.targets), of, reply.default_target)


def target(asked: str, of: Problem) -> str:
    if not asked:
        return of.default_target
    if asked not in of.targets:
        raise errors.InvalidArgument(
            f"target: {of.name} has no reference for {asked!r}; it has: {', '.join(of.targets)}")
    return asked


def _constexpr(value: int | float | bool | str | None) -> str:
    # A string is an expression, a type, or a text in single quotes, as in the JSON next to a source.
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


class CandidateWriter:
    """Serialises candidates of a problem."""

    def __init__(self, of: Problem) -> None:
        self._of = of
        self._beginnings: dict[tuple[str, Kind | None, bool], bytes] = {}

    def __call__(self, candidate: Candidate) -> bytes:
        if isinstance(candidate.flags, str):
            raise errors.InvalidArgument(
                f"candidate.flags: expected a list of flags, such as ['-O3'], got the str {candidate.flags!r:.60}")
        if not isinstance(candidate.source, str):
            raise errors.InvalidArgument(f"candidate.source: expected a str, got {candidate.source!r:.60}")
        try:
            source = candidate.source.encode()
        except UnicodeEncodeError as error:
            raise errors.InvalidArgument(f"candidate.source: not valid Unicode at character {error.start}") from None
        if len(source) > MAX_SOURCE_BYTES:
            raise errors.InvalidArgument(f"candidate.source: {len(source)} bytes; at most {MAX_SOURCE_BYTES} are allowed")
        key = candidate.target, candidate.kind, bool(candidate.launches)
        if (beginning := self._beginnings.get(key)) is None:
            beginning = self._beginnings[key] = self._beginning(*key)
        message = kernel_pb2.Candidate(source=source, name=candidate.name)
        # Most candidates have few of these, and an empty one costs as much as a short one.
        if candidate.flags:
            message.flags.extend(candidate.flags)
        for name, value in candidate.tunables.items():
            message.tunables.add(name=name, value=str(value))
        if candidate.launches:
            message.launches.extend(map(_launch, candidate.launches))
        if candidate.workspace_bytes != "":
            message.workspace_bytes = str(candidate.workspace_bytes)
        if candidate.origin:
            message.origin = candidate.origin
        if candidate.parent_candidate_id:
            message.parent_candidate_id = candidate.parent_candidate_id
        return beginning + message.SerializeToString()

    def _beginning(self, asked: str, kind: Kind | None, has_launches: bool) -> bytes:
        kind = kind or ("device_cuda" if has_launches else "python" if self._of.definition.task_format else "host_native")
        return kernel_pb2.Candidate(problem_id=self._of.id, target=target(asked, self._of),
                                    kind=one_of("candidate.kind", kind, KINDS)).SerializeToString()


def _launch(launch: Launch) -> kernel_pb2.Launch:
    return kernel_pb2.Launch(
        kernel=launch.kernel, grid=map(str, launch.grid), block=map(str, launch.block),
        shared_memory_bytes=str(launch.shared_memory_bytes), arguments=launch.arguments,
        cluster=map(str, launch.cluster), when=launch.when,
        constexprs=[kernel_pb2.Constexpr(name=n, value=_constexpr(v)) for n, v in launch.constexprs.items()],
        num_warps=launch.num_warps, num_stages=launch.num_stages)


def reward_message(spec: RewardSpec | None) -> orchestrator_pb2.KernelRewardSpec | None:
    if spec is None:
        return None
    for rule in spec.penalties:
        one_of("reward.penalties", rule, dict.fromkeys(_RULES))
    return _Spec(shape=one_of("reward.shape", spec.shape, SHAPES),
                 estimator=one_of("reward.estimator", spec.estimator, ESTIMATORS),
                 baseline_speedup=spec.baseline_speedup, limit=spec.limit, correctness=spec.correctness,
                 penalties=spec.penalties, accept_forecasts=spec.accept_forecasts)


def evaluation(message: orchestrator_pb2.Evaluation, candidate: Candidate) -> Evaluation:
    kind = message.WhichOneof("result")
    if kind == "measured":
        return Measurement(candidate, message)
    return Forecast(candidate, message) if kind == "forecast" else Rejection(candidate, message)
