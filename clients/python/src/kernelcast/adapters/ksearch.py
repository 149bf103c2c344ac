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
from kernelcast.adapters import NO_VERDICT, Scorer, rewards


class Task:
    """A task whose score is the speedup. A bad kernel is a failed round, one without a verdict has the status "unknown".

    `initial` is the source in the first prompt, `artifacts_dir` has the solutions to continue from, `options` are `Scorer`'s.
    """

    def __init__(self, problem: str, initial: str, address: str = "", *, artifacts_dir: str | None = None,
                 **options: Any) -> None:
        self.name, self._problem, self._artifacts_dir = Path(problem).name, problem, artifacts_dir
        self._scorer, self._prompt, self._feedback = Scorer(problem, address, **options), rewards.prompt(problem, initial), ""

    def run_benchmark(self, *, solution: Solution, mode: Mode | None = None, **_: Any) -> EvalResult:
        try:
            score = self._scorer(_source(solution), mode)
        except NO_VERDICT as error:
            self._feedback = f"Not evaluated: {error}"
            return EvalResult("unknown", log_excerpt=self._feedback)
        self._feedback, speedup = score.feedback, score.value if score.correct else None
        return EvalResult("passed" if score.correct else "failed", *(score.times_ms or (None, None)), speedup, speedup,
                          score.feedback, {**score.metrics, "score_name": "speedup", "score": speedup})

    def seed_eval_for_base_solution(self, *, base_solution: Solution, **_: Any) -> EvalResult:
        return self.run_benchmark(solution=base_solution)

    def run_final_evaluation(self, *, solutions: Sequence[Solution], **_: Any) -> dict[str, Any]:
        """Measures more precisely than the rounds did."""
        return {"task": self.name, "solutions": [{"solution": s.name, **self.run_benchmark(solution=s, mode="final").to_dict(
            include_log_excerpt=True)} for s in solutions]}

    def get_definition_text(self, language: str | None = None, **_: Any) -> str:
        return self._prompt

    get_generation_prompt = get_definition_text

    def get_code_format_text(self, **_: Any) -> str:
        return rewards.FORMAT

    def get_optimization_prompt(self, **parts: Any) -> str:
        names = "current_code", "trace_logs", "previous_round_summary", "current_best"
        texts = [f"{name.replace('_', ' ').capitalize()}:\n\n{parts[name]}" for name in names if parts.get(name)]
        return "\n\n".join([self._prompt, *texts, rewards.FORMAT])

    def get_last_round_trace_logs_for_prompt(self) -> str:
        return self._feedback

    def get_solution(self, solution_name: str) -> Solution:
        return solution_from_json_dict(load_ksearch_solution_json(
            solution_ref=solution_name, definition_name=self.name, artifacts_dir=self._artifacts_dir))

    def code_for_world_model_from_raw(self, *, raw: Any, language: str) -> str:
        return str(raw.get("kernel.cu", raw) if isinstance(raw, Mapping) else raw)

    def get_config_for_logging(self) -> dict[str, Any]:
        return {"task_type": "kernelcast", "task_name": self.name, "problem": self._problem}


def _source(solution: Solution) -> str:
    """Device code with its header in place for the language "cuda", else the source in the model's answer."""
    files = {file.path: file.content for file in solution.sources}
    if "kernel.cu" not in files:
        return rewards.source_of(files.get(solution.get_entry_path(), ""))
    return re.sub(r'#include "([^"]+)"', lambda match: files.get(match[1], match[0]), files["kernel.cu"])
