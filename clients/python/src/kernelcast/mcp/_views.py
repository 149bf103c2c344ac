"""What the tools return: the schemas that agents see, and how results of the package become such values."""

from __future__ import annotations

from typing import Any, Iterable, Literal, Mapping

from pydantic import BaseModel, Field

from kernelcast import Evaluation, Forecast, Measurement, Problem
from kernelcast._types import Ratio, word
from kernelcast.v1 import kernel_pb2, orchestrator_pb2

# An agent's context is small.
_MAX_TEXT = 6_000
_MAX_FINDINGS = 20
_MAX_COUNTERS = 40
_MAX_FILES_TEXT = 48_000

_FINDING = kernel_pb2.Finding
_WRONG_OUTPUT = {_FINDING.KIND_WRONG_VALUE, _FINDING.KIND_NOT_WRITTEN}
# The first version did not compare outputs.
_COMPARES_OUTPUTS = "cuda-findings/2"
_ESTIMATE = "estimated_ns"


class Budget(BaseModel):
    """What the client has used, and what is left. None: no limit."""

    evaluations_used: int
    evaluations_left: int | None
    device_seconds_used: float
    device_seconds_left: float | None


class Speedup(BaseModel):
    """Over the reference, with the interval that contains a later measurement with the probability `confidence`."""

    value: float
    low: float
    high: float
    confidence: float


class ShapeTime(BaseModel):
    shape: dict[str, int]
    candidate_us: float
    reference_us: float
    speed_of_light_us: float | None = Field(description="The fastest that the device's memory and arithmetic allow")
    bound: str = Field(description="memory or compute, if known")


class Result(BaseModel):
    kind: Literal["measured", "forecast", "rejected"] = Field(
        description="A forecast is an expectation: the kernel was not run")
    outcome: str = Field(description="measured: ok, passed, wrong_result, crash, timeout, exploit, environment_unstable; "
                         "rejected: compile_error, duplicate")
    candidate_id: str
    request_id: str
    search_id: str
    device_model: str
    speedup: Speedup | None = Field(description="Set if it was measured and is right")
    expected_speedup: float | None = Field(description="Of a forecast")
    failure_probability: float | None
    decision: str = Field(description="Why it was measured or not")
    shapes: list[ShapeTime]
    notes: list[str] = Field(description="Reasons in the task to doubt the speedup")
    reused: bool = Field(description="Measured before; took no device time")
    device_seconds: float
    feedback: str
    best_speedup: float | None = Field(description="Of the client on this task")
    budget: Budget


class KernelTime(BaseModel):
    name: str
    launches: float
    time_us: float
    registers: int
    shared_bytes: int


class ShapeProfile(BaseModel):
    shape: dict[str, int]
    kernels: list[KernelTime]
    counters: dict[str, float]
    stalls: dict[str, float] = Field(description="Shares of the time in which warps waited, by reason")


class Profile(Result):
    profiles: list[ShapeProfile]
    counters_unavailable: str = Field(description="Why there are no counters")


class Fault(BaseModel):
    kernel: str
    kind: str
    source_line: int | None
    ptx_line: int | None
    count: int
    detail: str


class SimulatedShape(BaseModel):
    shape: dict[str, int]
    gpu: str
    estimated_us: float | None
    outputs: Literal["agree", "wrong", "not compared"]
    not_covered: list[str]
    launches: list[dict[str, float]] = Field(description="Facts by name, with details=true")


class Simulation(BaseModel):
    verdict: Literal["compile_error", "faults", "outputs_agree", "compiles"] = Field(
        description="compiles: it compiles, and the simulator has not seen its outputs")
    compile_log: str
    faults: list[Fault]
    estimated_us: float | None = Field(description="All bench shapes; None if the simulator does not cover a launch")
    shapes: list[SimulatedShape]
    expected_speedup: float | None
    failure_probability: float | None
    forecast_rests_on: str
    facts: dict[str, float] = Field(description="Of the compiled code, with details=true")
    candidate_id: str
    device_model: str
    budget: Budget


class Attempt(BaseModel):
    number: int
    tool: str
    name: str
    candidate_id: str
    kind: str
    outcome: str
    speedup: float | None
    expected_speedup: float | None
    device_seconds: float


class History(BaseModel):
    task: str
    total: int
    attempts: list[Attempt] = Field(description="The latest last")
    budget: Budget


class Best(BaseModel):
    found: bool
    task: str
    candidate_id: str
    name: str
    speedup: Speedup | None
    level: str = Field(description="screen, or final for a measurement that is precise enough to publish")
    search_id: str
    candidate: dict[str, Any] = Field(description="Arguments of evaluate that give this kernel")
    budget: Budget


class Tensor(BaseModel):
    name: str
    dtype: str
    shape: list[str]
    tolerance: dict[str, float | str]


class Task(BaseModel):
    task: str
    tasks: list[str] = Field(description="All tasks of this server")
    title: str
    description: str
    targets: list[str]
    default_target: str
    how_to_write_a_candidate: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    bench_shapes: list[dict[str, int]] = Field(description="Timed. The speedup is their weighted geometric mean")
    check_shapes: list[dict[str, int]]
    held_out: dict[str, list[int]] = Field(description="Ranges of the axes from which more shapes are drawn to check")
    files: dict[str, str] = Field(description="Of the task: its definition, references and oracles")
    budget: Budget


def cut(text: str, limit: int = _MAX_TEXT) -> str:
    """The beginning of a long text: the first errors of a compiler are the most useful."""
    return text if len(text) <= limit else text[:limit] + f"\n... {len(text) - limit} more characters"


def speedup_of(ratio: Ratio | None) -> Speedup | None:
    if ratio is None:
        return None
    return Speedup(value=ratio.value, low=ratio.low, high=ratio.high, confidence=ratio.confidence)


def device_seconds(result: Evaluation) -> float:
    """Device time that was spent for this evaluation."""
    spent = result.message.unstable_device_time.ToNanoseconds()
    if isinstance(result, Measurement) and not result.reused:
        spent += result.message.measured.device_time.ToNanoseconds()
    return float(spent) / 1e9


def result_fields(result: Evaluation, best: float | None, budget: Budget) -> dict[str, Any]:
    measured = result if isinstance(result, Measurement) else None
    forecast = result if isinstance(result, Forecast) else None
    decided_on = result.message.decided_on if result.message.HasField("decided_on") else None
    return {
        "kind": "measured" if measured else "forecast" if forecast else "rejected",
        "outcome": result.outcome if isinstance(result, Measurement) else
                   "forecast" if isinstance(result, Forecast) else result.cause,
        "candidate_id": result.candidate_id, "request_id": result.request_id,
        "search_id": result.message.search_id, "device_model": result.device_model,
        "speedup": speedup_of(measured.speedup if measured else None),
        "expected_speedup": forecast.expected_speedup if forecast else None,
        "failure_probability": forecast.failure_probability if forecast else
                               decided_on.failure_probability if decided_on else None,
        "decision": result.decision.reason,
        "shapes": _shape_times(measured) if measured else [],
        "notes": list(measured.notes) if measured else [],
        "reused": bool(measured and measured.reused),
        "device_seconds": device_seconds(result),
        "feedback": cut(result.feedback),
        "best_speedup": best, "budget": budget,
    }


def _axes(shape: kernel_pb2.AxisValues) -> dict[str, int]:
    return dict(sorted(shape.values.items()))


def _shape_times(measured: Measurement) -> list[ShapeTime]:
    bounds = {kernel_pb2.Roofline.BOUND_MEMORY: "memory", kernel_pb2.Roofline.BOUND_COMPUTE: "compute"}
    return [ShapeTime(shape=_axes(shape.shape), candidate_us=shape.candidate.median_ns / 1e3,
                      reference_us=shape.reference.median_ns / 1e3,
                      speed_of_light_us=shape.roofline.time_ns / 1e3 if shape.HasField("roofline") else None,
                      bound=bounds.get(shape.roofline.bound, ""))
            for shape in measured.message.measured.ok.shapes]


def profiles_of(result: Evaluation) -> tuple[list[ShapeProfile], str]:
    """The profiles of a result, and why it has no counters."""
    if not (isinstance(result, Measurement) and result.outcome == "ok"):
        return [], "only a kernel that was measured to be right is profiled"
    ok = result.message.measured.ok
    profiles = [ShapeProfile(
        shape=_axes(shape.shape),
        kernels=[KernelTime(name=kernel.name, launches=kernel.launches, time_us=kernel.median_ns / 1e3,
                            registers=kernel.registers,
                            shared_bytes=kernel.static_shared_bytes + kernel.dynamic_shared_bytes)
                 for kernel in shape.profile.kernels],
        counters=dict(sorted(shape.profile.counters.items())[:_MAX_COUNTERS]),
        stalls={stall.reason: stall.share for stall in shape.profile.stall_reasons})
        for shape in ok.shapes if shape.HasField("profile")]
    return profiles, ok.environment.counters_unavailable_reason


def simulation_of(result: Evaluation, problem: Problem, details: bool, budget: Budget) -> Simulation:
    message = result.message
    compile_error = message.rejected.compile_error if message.rejected.HasField("compile_error") else None
    names = {schema.schema: list(schema.names) for schema in message.fact_schemas}
    shapes = [_simulated(simulation, names.get(simulation.schema, []), details)
              for simulation in message.facts.simulations]
    for shape, axes in zip(shapes, problem.definition.bench_shapes):
        shape.shape = _axes(axes)
    faults = list(_faults(message.facts.simulations))
    estimates = [shape.estimated_us for shape in shapes]
    known = [estimate for estimate in estimates if estimate is not None]
    forecast = result if isinstance(result, Forecast) else None
    agrees = shapes and all(shape.outputs == "agree" for shape in shapes)
    return Simulation(
        verdict="compile_error" if compile_error else "faults" if faults else "outputs_agree" if agrees else "compiles",
        compile_log=cut(compile_error.log.decode(errors="replace")) if compile_error else "",
        faults=faults[:_MAX_FINDINGS],
        estimated_us=sum(known) if known and len(known) == len(estimates) else None,
        shapes=shapes,
        expected_speedup=forecast.expected_speedup if forecast else None,
        failure_probability=forecast.failure_probability if forecast else None,
        forecast_rests_on=forecast.basis if forecast else "",
        facts=_named(names.get(message.facts.schema, []), message.facts.values) if details else {},
        candidate_id=result.candidate_id, device_model=result.device_model, budget=budget)


def _named(names: list[str], values: Iterable[float]) -> dict[str, float]:
    return dict(zip(names, values))


def _simulated(simulation: kernel_pb2.ShapeSimulation, names: list[str], details: bool) -> SimulatedShape:
    launches = [_named(names, launch.values) for launch in simulation.launches]
    covered = bool(launches) and all(_ESTIMATE in launch for launch in launches)
    wrong = any(finding.kind in _WRONG_OUTPUT for launch in simulation.launches for finding in launch.findings)
    compared = simulation.findings_schema == _COMPARES_OUTPUTS and not simulation.not_compared
    return SimulatedShape(
        shape={}, gpu=simulation.gpu, estimated_us=sum(launch[_ESTIMATE] for launch in launches) / 1e3 if covered else None,
        outputs="wrong" if wrong else "agree" if compared else "not compared",
        not_covered=sorted({launch.not_covered for launch in simulation.launches if launch.not_covered}),
        launches=launches if details else [])


def _faults(simulations: Iterable[kernel_pb2.ShapeSimulation]) -> Iterable[Fault]:
    """Each place once, although it repeats at other shapes."""
    seen = set()
    for simulation in simulations:
        for launch in simulation.launches:
            for found in launch.findings:
                if (place := (launch.kernel, found.kind, found.ptx_line)) not in seen:
                    seen.add(place)
                    kind = _FINDING.DESCRIPTOR.enum_types_by_name["Kind"].values_by_number.get(found.kind)
                    yield Fault(kernel=launch.kernel, source_line=found.source_line or None,
                                kind=kind.name.removeprefix("KIND_").lower() if kind else "unknown",
                                ptx_line=found.ptx_line or None, count=found.count, detail=cut(found.detail, 500))


_HOW_TO_WRITE = {
    "host_native": "C++ that includes <kernelcast/candidate.h> and defines: extern \"C\" int32_t kernelcast_run("
                   "const DLTensor* inputs, int32_t num_inputs, const DLTensor* outputs, int32_t num_outputs, "
                   "void* stream). It returns 0. kc_data<T>(tensor) points to the elements, which are dense and "
                   "row-major. Single-threaded and without state between calls.",
    "device_cuda": "CUDA C++ with __global__ kernels declared extern \"C\". The argument `launches` says how they are "
                   "launched: kernel, grid, block, arguments (names of tensors, axes and tunables), "
                   "shared_memory_bytes. Grid and block are lists of numbers or expressions over the axes. The "
                   "reference in problem.yaml is an example. Without launches the source is host code, as for the "
                   "target cpu, and launches its kernels on `stream`.",
    "python": "Python with a class ModelNew, or the function that the task names. It may contain Triton kernels or "
              "CUDA sources.",
}


def task_of(problem: Problem, files: Mapping[str, bytes], tasks: list[str], name: str, budget: Budget) -> Task:
    of = problem.definition
    kinds = ["python"] if of.task_format else [
        kind for target, kind in (("cpu", "host_native"), ("cuda", "device_cuda")) if target in problem.targets]
    texts, room = {}, _MAX_FILES_TEXT
    for path, content in sorted(files.items(), key=lambda file: len(file[1])):
        text = content.decode(errors="replace")
        # Templates of a search space are no part of the task.
        if path.endswith(".safetensors") or path.startswith("space/") or len(text) > room:
            continue
        texts[path] = text
        room -= len(text)
    return Task(
        task=name, tasks=tasks, title=problem.title, description=of.description, targets=list(problem.targets),
        default_target=problem.default_target,
        how_to_write_a_candidate="\n".join(_HOW_TO_WRITE[kind] for kind in kinds),
        inputs=[_tensor(tensor) for tensor in of.inputs], outputs=[_tensor(tensor) for tensor in of.outputs],
        bench_shapes=[_axes(shape) for shape in of.bench_shapes],
        check_shapes=[_axes(shape) for shape in of.check_shapes],
        held_out={axis.name: [axis.held_out_low, axis.held_out_high] for axis in of.axes}, files=texts, budget=budget)


def _tensor(tensor: kernel_pb2.TensorSpec) -> Tensor:
    tolerance = tensor.tolerance
    limits: dict[str, float | str] = {}
    for limit in ("atol", "rtol", "normwise") if tensor.HasField("tolerance") else ():
        limits[limit] = getattr(tolerance, f"{limit}_expression") or getattr(tolerance, limit)
    return Tensor(name=tensor.name, dtype=kernel_pb2.DataType.Name(tensor.dtype).removeprefix("DATA_TYPE_").lower(),
                  shape=list(tensor.shape), tolerance=limits)


def progress_of(event: orchestrator_pb2.SearchEvent) -> str:
    """What an event says about an evaluation. Empty: nothing that is worth a message."""
    if event.HasField("forecast"):
        return f"compiled; forecast {2 ** event.forecast.forecast.expected_log2_speedup:.3g}x"
    if event.HasField("decided"):
        decision = event.decided.decision
        kind = {kernel_pb2.DECISION_KIND_MEASURE: "measuring", kernel_pb2.DECISION_KIND_PRUNE: "not measured"}
        return f"{kind.get(decision.kind, 'rejected')}: {word(decision, 'reason', 'DECISION_REASON_')}"
    return "accepted" if event.HasField("proposed") else ""
