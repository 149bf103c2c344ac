"""Kernel Tuner's files: spaces in the T1 format, and results in the T4 format and as a cache."""

from __future__ import annotations

import ast
import itertools
import json
import os
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence

from kernelcast._types import Evaluation, Measurement, Rejection
from kernelcast.adapters._expressions import holds

_INVALIDITY = {"ok": "correct", "wrong_result": "correctness", "timeout": "timeout"}  # all others: runtime
_ERRORS = {"compile": "CompilationFailedConfig", "runtime": "RuntimeFailedConfig", "timeout": "RuntimeFailedConfig",
           "correctness": "RuntimeFailedConfig"}


def configurations(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The configurations of a T1 file that its conditions admit. Use them as `tunables` of candidates."""
    space = json.loads(Path(path).read_text(encoding="utf-8-sig"))["ConfigurationSpace"]
    values = {p["Name"]: ast.literal_eval(p["Values"]) for p in space["TuningParameters"]}
    for point in itertools.product(*values.values()):
        configuration = dict(zip(values, point))
        if all(holds(condition["Expression"], configuration) for condition in space.get("Conditions", [])):
            yield configuration


def t4(results: Iterable[Evaluation]) -> dict[str, Any]:
    """A T4 document of results with a verdict, measured or not compiled. Forecasts are left out."""
    return {"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"},
            "results": [_t4_result(result, invalidity) for result, invalidity in _judged(results)]}


def cache(results: Iterable[Evaluation], kernel_name: str, problem_size: Sequence[int] = ()) -> dict[str, Any]:
    """A cache file's content, for `simulation_mode`. All candidates need the same tunables."""
    judged = list(_judged(results))
    names = list(judged[0][0].candidate.tunables) if judged else []
    rows = {}
    for result, invalidity in judged:
        times = _times_ms(result)
        row = {**result.candidate.tunables, "time": sum(times) if times else _ERRORS[invalidity], "times": times,
               "compile_time": 0, "verification_time": 0, "benchmark_time": 0, "strategy_time": 0, "framework_time": 0,
               "timestamp": result.message.settled_at.ToJsonString()}
        rows[",".join(str(result.candidate.tunables[name]) for name in names)] = row
    values = {name: sorted({row[name] for row in rows.values()}, key=str) for name in names}
    return {"device_name": judged[0][0].device_model if judged else "", "kernel_name": kernel_name,
            "problem_size": list(problem_size), "tune_params_keys": names, "tune_params": values, "objective": "time",
            "cache": rows}


def _judged(results: Iterable[Evaluation]) -> Iterator[tuple[Measurement | Rejection, str]]:
    for result in results:
        if isinstance(result, Rejection) and result.cause == "compile_error":
            yield result, "compile"
        elif isinstance(result, Measurement) and result.outcome != "environment_unstable":
            yield result, _INVALIDITY.get(result.outcome, "runtime")


def _times_ms(result: Evaluation) -> list[float]:
    """The median time at each shape, in milliseconds."""
    return [shape.candidate.median_ns / 1e6 for shape in result.message.measured.ok.shapes]


def _t4_result(result: Measurement | Rejection, invalidity: str) -> dict[str, Any]:
    speedup = result.speedup if isinstance(result, Measurement) else None
    measurements = [{"name": "speedup", "value": speedup.value, "unit": ""},
                    {"name": "time", "value": sum(_times_ms(result)), "unit": "ms"}] if speedup else []
    return {"timestamp": result.message.settled_at.ToJsonString(), "configuration": dict(result.candidate.tunables),
            "objectives": ["time"], "times": {"runtimes": _times_ms(result)}, "invalidity": invalidity,
            "correctness": float(speedup is not None), "measurements": measurements}
