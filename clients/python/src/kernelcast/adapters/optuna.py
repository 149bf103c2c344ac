"""Optuna over a problem's template space, by ask and tell.

    search(study, client, "path/to/problem", trials=100)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import yaml

from kernelcast import Client, Mode
from kernelcast._types import Candidate, Launch
from kernelcast.adapters import score
from kernelcast.adapters._expressions import holds


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig")


class Space:
    """The templates of a target and their tunables, from `space/TARGET.yaml`."""

    def __init__(self, problem: str | Path, target: str = "cpu") -> None:
        declared = yaml.safe_load(_text(Path(problem) / "problem.yaml"))["targets"][target]["space"]
        self._folder = (Path(problem) / declared).parent
        self._target = target
        self._templates = {t["name"]: t for t in yaml.safe_load(_text(Path(problem) / declared))["templates"]}

    def suggest(self, trial: optuna.Trial) -> Candidate | None:
        """The candidate of a trial, or None if it breaks a constraint of its template."""
        name = trial.suggest_categorical("TEMPLATE", list(self._templates))
        template = self._templates[name]
        values = {n: trial.suggest_categorical(f"{name}.{n}", v) for n, v in template.get("tunables", {}).items()}
        flag_sets = template.get("flags", [[]])
        flags = trial.suggest_categorical(f"{name}.FLAGS", list(range(len(flag_sets))))
        numbers = {n: v for n, v in values.items() if isinstance(v, int)}
        if not all(holds(constraint, numbers) for constraint in template.get("constraints", [])):
            return None
        source = "".join(f"#define {n} {v}\n" for n, v in values.items()) + f'#line 1 "{template["file"]}"\n'
        return Candidate(source + _text(self._folder / template["file"]), target=self._target, flags=flag_sets[flags],
                         launches=[Launch(**launch) for launch in template.get("launches", [])],
                         workspace_bytes=template.get("workspace_bytes", ""),
                         tunables={"TEMPLATE": name, **values, **({"FLAGS": flags} if "flags" in template else {})})


def search(study: optuna.Study, client: Client, problem: str | Path, trials: int, *, target: str = "cpu",
           mode: Mode = "measure", in_flight: int = 8, **options: Any) -> None:
    """Runs trials, `in_flight` at a time. A trial's value is the measured speedup: create the study with
    direction="maximize". Failed kernels, forecasts and trials without a verdict are failed trials: the user attribute `failure`
    gives the reason, and `verdict` is "failed", "forecast" or "none"."""
    space, stored, running = Space(problem, target), client.put_problem(problem), {}

    def ask() -> Any:
        for _ in range(trials):
            trial = study.ask()
            if (candidate := space.suggest(trial)) is None:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                running[str(trial.number)] = trial
                yield replace(candidate, name=str(trial.number))

    for result in client.evaluate_many(stored, ask(), mode=mode, in_flight=in_flight, **options):
        trial, settled = running.pop(result.candidate.name), score(result)
        trial.set_user_attr("candidate_id", result.candidate_id)
        measured = settled is not None and settled.metrics["measured"] == 1
        if settled is not None and settled.correct and measured:
            study.tell(trial, settled.value)
        else:
            trial.set_user_attr("failure", str(result))
            trial.set_user_attr("verdict", "none" if settled is None else "failed" if measured else "forecast")
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
