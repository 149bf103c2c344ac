"""K-Search: a problem as its task.

    generator = KernelGenerator(model_name=..., language="python")
    best = generator.generate(Task("path/to/problem", initial_source), max_opt_rounds=20)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping, Sequence

from k_search.tasks.task_base import EvalResult, Solution, load_ksearch_solution_json, solution_from_json_dict

from kernelcast._types import Mode
from kernelcast.adapters import NO_VERDICT, Score, Scorer, rewards


class Task:
    """A task whose score is the speedup. `initial` is the source that the first prompt shows.

    `options` are those of `Scorer`. `artifacts_dir` has the solutions to continue from. A bad kernel is a failed round.
    A round without a verdict has the status "unknown".
    """

    def __init__(self, problem: str, initial: str, address: str = "", *, artifacts_dir: str | None = None,
                 **options: Any) -> None:
        self.name, self._problem, self._artifacts_dir = Path(problem).name, problem, artifacts_dir
        self._scorer, self._prompt = Scorer(problem, address, **options), rewards.prompt(problem, initial)
        self._last = Score(0.0, False, "")

    def run_benchmark(self, *, solution: Solution, **_: Any) -> EvalResult:
        return self._evaluate(solution)

    def seed_eval_for_base_solution(self, *, base_solution: Solution, **_: Any) -> EvalResult:
        return self._evaluate(base_solution)

    def run_final_evaluation(self, *, solutions: Sequence[Solution], **_: Any) -> dict[str, Any]:
        """Measures more precisely than the rounds did."""
        return {"task": self.name, "solutions": [
            {"solution": s.name, **self._evaluate(s, "final").to_dict(include_log_excerpt=True)} for s in solutions]}

    def _evaluate(self, solution: Solution, mode: Mode | None = None) -> EvalResult:
        try:
            score = self._scorer(_source(solution), mode)
            status, metrics = "passed" if score.correct else "failed", score.metrics
        except NO_VERDICT as error:
            score, status, metrics = Score(0.0, False, f"Not evaluated: {error}"), "unknown", {}
        self._last = score
        speedup = score.value if score.correct else None
        candidate_ms, reference_ms = score.times_ms or (None, None)
        return EvalResult(status, candidate_ms, reference_ms, speedup, speedup, score.feedback,
                          {**metrics, "score_name": "speedup", "score": speedup})

    def get_definition_text(self, language: str | None = None) -> str:
        return self._prompt

    def get_generation_prompt(self, **_: Any) -> str:
        return self._prompt

    def get_code_format_text(self, **_: Any) -> str:
        return rewards.FORMAT

    def get_optimization_prompt(self, *, trace_logs: str, current_code: str, current_best: str | None = None,
                                previous_round_summary: str | None = None, **_: Any) -> str:
        parts = {"Last answer": current_code, "Its result": trace_logs, "Summary": previous_round_summary,
                 "Best": current_best}
        texts = [f"{title}:\n\n{text}" for title, text in parts.items() if text]
        return "\n\n".join([self._prompt, *texts, rewards.FORMAT])

    def get_solution(self, solution_name: str) -> Solution | None:
        try:
            return solution_from_json_dict(load_ksearch_solution_json(
                solution_ref=solution_name, definition_name=self.name, artifacts_dir=self._artifacts_dir))
        except FileNotFoundError:
            return None

    def code_for_world_model_from_raw(self, *, raw: Any, language: str) -> str:
        return str(raw.get("kernel.cu", raw) if isinstance(raw, Mapping) else raw)

    def get_config_for_logging(self) -> dict[str, Any]:
        return {"task_type": "kernelcast", "task_name": self.name, "problem": self._problem}

    def get_last_round_trace_logs_for_prompt(self) -> str:
        return self._last.feedback

    def get_last_round_passed_count(self) -> int:
        return int(self._last.correct)

    def get_last_round_total_workloads(self) -> int:
        return 1


def _source(solution: Solution) -> str:
    """Device code with its header in place for the language "cuda", else the source in the model's answer."""
    files = {file.path: file.content for file in solution.sources}
    if "kernel.cu" not in files:
        return rewards.source_of(files.get(solution.get_entry_path(), ""))
    return re.sub(r'#include "([^"]+)"', lambda match: files.get(match[1], match[0]), files["kernel.cu"])
