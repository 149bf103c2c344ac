"""KernelAgent: components that verify and time kernels with Kernelcast.

    OptimizationManager(platform=register("path/to/problem", template=...), ...)
"""

from __future__ import annotations

import ast
import concurrent.futures
import functools
import math
import types
from pathlib import Path
from typing import Any, Callable

from kernelcast.adapters import NO_VERDICT, Scorer


def kernels(code: str) -> str:
    """A file without its host code: without undecorated functions and classes, and without PyTorch."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return code  # the compiler says why
    tree.body = [node for node in tree.body if getattr(node, "decorator_list", True) and not (
        isinstance(node, (ast.Import, ast.ImportFrom)) and "torch" in ast.unparse(node))]
    return ast.unparse(tree) + "\n"


class Judge:
    """Verifies and times kernels by the problem, not by KernelAgent's `problem_file` and tests. Times are in
    milliseconds, and infinite for a kernel that fails."""

    def __init__(self, scorer: Scorer, source: Callable[[str], str] = kernels) -> None:
        self._scorer, self._source, self._reference_ms = scorer, source, math.inf

    def verify(self, kernel_code: str, problem_file: Path, test_code: list[str]) -> bool:
        return self._time_ms(kernel_code) < math.inf  # raises without a verdict

    def benchmark_kernel(self, kernel_code: str, problem_file: Path) -> float:
        try:
            return self._time_ms(kernel_code)
        except NO_VERDICT:
            return math.inf

    def benchmark_reference(self, problem_file: Path) -> float:
        return self._reference_ms  # timed next to the initial kernel

    def benchmark_reference_compiled(self, problem_file: Path) -> float:
        return math.inf  # a problem has one reference

    def run_workers(self, runner: Any, problem_file: Path, **round: Any) -> list[dict[str, Any]]:
        """Measures what a runner's workers made. A kernel that fails here has no success, whatever its worker said."""
        results = runner.run_workers(problem_file=problem_file, **round)
        codes = [result.get("kernel_code") if result.get("success") else None for result in results]
        with concurrent.futures.ThreadPoolExecutor() as threads:
            times = threads.map(lambda code: self.benchmark_kernel(code, problem_file) if code else math.inf, codes)
        return [{**result, "success": time_ms < math.inf, "time_ms": time_ms} for result, time_ms in zip(results, times)]

    def _time_ms(self, code: str) -> float:
        score = self._scorer(self._source(code), "measure" if math.isinf(self._reference_ms) else None)
        # One time of the reference for all kernels, so that the order of times is the order of speedups.
        if math.isinf(self._reference_ms) and score.times_ms:
            self._reference_ms = score.times_ms[1]
        return self._reference_ms / score.value if score.correct else math.inf


def register(problem: str, address: str = "", *, workers: str = "nvidia", source: Callable[[str], str] = kernels,
             **options: Any) -> dict[str, str]:
    """Registers the components and returns them for `platform`. `workers` names the runner that improves kernels, and
    `source` makes a candidate's source from a file of KernelAgent. `options` are those of `Scorer`."""
    from triton_kernel_agent.platform.registry import registry

    judge = Judge(Scorer(problem, address, **options), source)
    for component in ("verifier", "benchmarker"):
        registry.register(component, "kernelcast", lambda: judge)
    registry.register("worker_runner", "kernelcast", lambda **context: types.SimpleNamespace(run_workers=functools.partial(
        judge.run_workers, registry.create("worker_runner", workers, **context))))
    return dict.fromkeys(("verifier", "benchmarker", "worker_runner"), "kernelcast")
