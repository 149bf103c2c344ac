"""Converts between messages of the protocol and this package's types."""

from __future__ import annotations

from typing import Any, Mapping, cast

from kernelcast import errors
from kernelcast._types import (Candidate, Cause, Decision, Evaluation, Forecast, Kind, Measurement, Mode, Outcome,
                               Problem, Ratio, Rejection)
from kernelcast.v1 import kernel_pb2, orchestrator_pb2

MAX_SOURCE_BYTES = 1 << 20
MODES: Mapping[Mode, Any] = {
    "route": orchestrator_pb2.EVALUATE_MODE_ROUTE,
    "measure": orchestrator_pb2.EVALUATE_MODE_MEASURE,
    "final": orchestrator_pb2.EVALUATE_MODE_FINAL,
    "forecast": orchestrator_pb2.EVALUATE_MODE_FORECAST,
}
KINDS: Mapping[Kind, Any] = {
    "host_native": kernel_pb2.CANDIDATE_KIND_HOST_NATIVE,
    "device_cuda": kernel_pb2.CANDIDATE_KIND_DEVICE_CUDA,
    "device_triton": kernel_pb2.CANDIDATE_KIND_DEVICE_TRITON,
    "python": kernel_pb2.CANDIDATE_KIND_PYTHON,
}
_DECISIONS = {number: name.removeprefix("DECISION_KIND_").lower() for name, number in kernel_pb2.DecisionKind.items()}
_REASONS = {number: name.removeprefix("DECISION_REASON_").lower() for name, number in kernel_pb2.DecisionReason.items()}


def one_of(field: str, value: Any, allowed: Mapping[Any, Any]) -> Any:
    if value not in allowed:
        raise errors.InvalidArgument(f"{field}: {value!r} is none of {', '.join(map(repr, allowed))}")
    return allowed[value]


def problem(definition: kernel_pb2.ProblemDefinition) -> Problem:
    return Problem(definition.problem_id, definition.name, definition.title, tuple(definition.targets), definition)


def target(asked: str, of: Problem) -> str:
    if not asked:
        return "cpu" if "cpu" in of.targets else of.targets[0]
    if asked not in of.targets:
        raise errors.InvalidArgument(
            f"target: {of.name} has no reference for {asked!r}; it has: {', '.join(of.targets)}")
    return asked


def _constexpr(value: int | float | bool | str | None) -> str:
    # A string is an expression, a type, or a text in single quotes, as in the JSON next to a source.
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def candidate_message(candidate: Candidate, of: Problem) -> kernel_pb2.Candidate:
    try:
        source = candidate.source.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgument(f"candidate.source: not valid Unicode at character {error.start}") from None
    if len(source) > MAX_SOURCE_BYTES:
        raise errors.InvalidArgument(f"candidate.source: {len(source)} bytes; at most {MAX_SOURCE_BYTES} are allowed")
    kind = candidate.kind or (
        "python" if of.definition.task_format else "device_cuda" if candidate.launches else "host_native")
    return kernel_pb2.Candidate(
        problem_id=of.id, target=target(candidate.target, of), kind=one_of("candidate.kind", kind, KINDS), source=source,
        flags=candidate.flags,
        tunables=[kernel_pb2.Tunable(name=n, value=str(v)) for n, v in candidate.tunables.items()],
        launches=[kernel_pb2.Launch(kernel=launch.kernel, grid=map(str, launch.grid), block=map(str, launch.block),
                                    shared_memory_bytes=str(launch.shared_memory_bytes),
                                    arguments=launch.arguments, cluster=map(str, launch.cluster), when=launch.when,
                                    constexprs=[kernel_pb2.Constexpr(name=n, value=_constexpr(v))
                                                for n, v in launch.constexprs.items()],
                                    num_warps=launch.num_warps, num_stages=launch.num_stages)
                  for launch in candidate.launches],
        workspace_bytes=str(candidate.workspace_bytes), name=candidate.name, origin=candidate.origin,
        parent_candidate_id=candidate.parent_candidate_id)


def _decision(message: kernel_pb2.Decision) -> Decision:
    return Decision(_DECISIONS.get(message.kind, "unknown"), _REASONS.get(message.reason, "unknown"),
                    message.audit_propensity, message.win_probability)


def _ratio(message: kernel_pb2.Ratio) -> Ratio:
    return Ratio(message.value, message.low, message.high, message.confidence)


def _detail(rejection: kernel_pb2.CompileError | str) -> str:
    return rejection if isinstance(rejection, str) else rejection.log.decode(errors="replace")


def evaluation(message: orchestrator_pb2.Evaluation, candidate: Candidate) -> Evaluation:
    settled = (message.request_id, message.candidate_id, candidate, message.device_model, _decision(message.decision),
               message.text_feedback.decode(errors="replace"), message)
    kind = message.WhichOneof("result")
    if kind == "measured":
        ok = message.measured.HasField("ok")
        return Measurement(*settled, outcome=cast(Outcome, message.measured.WhichOneof("outcome")),
                           speedup=_ratio(message.measured.ok.speedup) if ok else None,
                           reused=message.reused)
    if kind == "forecast":
        forecast = message.forecast
        return Forecast(*settled, expected_speedup=2.0**forecast.expected_log2_speedup,
                        failure_probability=forecast.failure_probability, bin_scheme=forecast.bin_scheme_id,
                        bin_probabilities=tuple(forecast.bin_probabilities), backend=forecast.backend)
    cause = message.rejected.WhichOneof("cause") or "unavailable"
    return Rejection(*settled, cause=cast(Cause, cause.removesuffix("_of_request_id")),
                     detail=_detail(getattr(message.rejected, cause)))
