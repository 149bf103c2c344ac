"""KernelAgent: components that verify and time kernels with Kernelcast.

    OptimizationManager(platform=register("path/to/problem", template=...), ...)
"""

from __future__ import annotations

import ast
import concurrent.futures
import math
from pathlib import Path
from typing import Any, Callable

from kernelcast.adapters import NO_VERDICT, Scorer


def kernels(code: str) -> str:
    """A file without its host code: without undecorated functions and classes, and without PyTorch."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return code  # the compiler says why
    tree.body = [node for node in tree.body if not (
        isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list
        or isinstance(node, (ast.Import, ast.ImportFrom)) and "torch" in ast.unparse(node))]
    return ast.unparse(tree) + "\n"


class Judge:
    """A verifier and a benchmarker. Times are in milliseconds, infinite for a kernel that fails."""

    def __init__(self, scorer: Scorer, source: Callable[[str], str] = kernels) -> None:
        self._scorer, self._source, self._reference_ms = scorer, source, math.inf

    def verify(self, kernel_code: str, problem_file: Path, test_code: list[str]) -> bool:
        """By the checks of the problem. KernelAgent's `problem_file` and tests are not used. Raises without a verdict."""
        return self._time_ms(kernel_code) < math.inf

    def benchmark_kernel(self, kernel_code: str, problem_file: Path) -> float:
        """The reference's time / the kernel's speedup."""
        try:
            return self._time_ms(kernel_code)
        except NO_VERDICT:
            return math.inf

    def benchmark_reference(self, problem_file: Path) -> float:
        """The problem's reference, timed next to the initial kernel."""
        return self._reference_ms

    def benchmark_reference_compiled(self, problem_file: Path) -> float:
        return math.inf  # a problem has one reference

    def _time_ms(self, code: str) -> float:
        unmeasured = math.isinf(self._reference_ms)
        score = self._scorer(self._source(code), "measure" if unmeasured else None)
        # One time of the reference for all kernels, so that the order of times is the order of speedups.
        if unmeasured and score.times_ms:
            self._reference_ms = score.times_ms[1]
        return self._reference_ms / score.value if score.correct else math.inf


class Runner:
    """Measures what another runner's workers made. A kernel that fails here has no success, whatever its worker said."""

    def __init__(self, judge: Judge, runner: Any) -> None:
        self._judge, self._runner = judge, runner

    def run_workers(self, **round: Any) -> list[dict[str, Any]]:
        def judged(result: dict[str, Any]) -> dict[str, Any]:
            code = result.get("kernel_code") if result.get("success") else None
            time_ms = self._judge.benchmark_kernel(code, round["problem_file"]) if code else math.inf
            return {**result, "success": time_ms < math.inf, "time_ms": time_ms}

        with concurrent.futures.ThreadPoolExecutor() as threads:
            return list(threads.map(judged, self._runner.run_workers(**round)))


def register(problem: str, address: str = "", *, workers: str = "nvidia", source: Callable[[str], str] = kernels,
             **options: Any) -> dict[str, str]:
    """Registers the components and returns them for `platform`. `workers` names the runner that improves kernels.

    `source` turns a file of KernelAgent into the source of a candidate. `options` are those of `Scorer`.
    """
    from triton_kernel_agent.platform.registry import registry

    judge = Judge(Scorer(problem, address, **options), source)
    registry.register("verifier", "kernelcast", lambda: judge)
    registry.register("benchmarker", "kernelcast", lambda: judge)
    registry.register("worker_runner", "kernelcast",
                      lambda **context: Runner(judge, registry.create("worker_runner", workers, **context)))
    return dict.fromkeys(("verifier", "benchmarker", "worker_runner"), "kernelcast")
