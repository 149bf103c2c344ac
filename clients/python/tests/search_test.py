"""Search programs run small searches on the cpu target, with a worker that is killed in the middle.

The programs are the genuine packages. A scripted endpoint is their model: its first kernels do not compile or compute
nothing, a later one is faster than the reference.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import kernelcast
import pytest
from conftest import DOES_NOTHING, FASTER, SAME, SOFTMAX, process_of
from scripted_model import scripted_model

ANSWERS = [f"```cpp\n{source}```\n" for source in ("not C++\n", DOES_NOTHING, FASTER)]


@pytest.fixture
def services(tmp_path, monkeypatch):
    """The address of services in the environment, and a function that kills their worker."""
    with kernelcast.local(state_dir=tmp_path / "state") as client:
        monkeypatch.setenv("KERNELCAST_ORCHESTRATOR", client.address)
        yield lambda: os.kill(process_of("worker", tmp_path / "state"), signal.SIGKILL)


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=500, check=False, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


def python_path(*folders):
    """The environment with further folders of modules, such as that of the stand-ins."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(Path(__file__).parent), *folders])}


def test_openevolve(services, tmp_path):
    pytest.importorskip("openevolve", reason="openevolve is not installed")
    (tmp_path / "evaluator.py").write_text(
        "from kernelcast.adapters.openevolve import Evaluator\n"
        f"evaluate = Evaluator({str(SOFTMAX)!r})\nevaluate_stage1, evaluate_stage2 = evaluate.compiles, evaluate\n")
    (tmp_path / "initial.cc").write_text(SAME)
    with scripted_model(ANSWERS, lambda number: number == 3 and services()) as url:
        (tmp_path / "config.yaml").write_text(json.dumps({
            "max_iterations": 4, "language": "cpp", "file_suffix": ".cc", "diff_based_evolution": False, "random_seed": 1,
            "llm": {"api_base": url, "api_key": "none", "models": [{"name": "scripted", "weight": 1.0}]},
            "database": {"num_islands": 1}, "evaluator": {"cascade_thresholds": [0.5, 0.75]}}))
        run(sys.executable, "-m", "openevolve.cli", tmp_path / "initial.cc", tmp_path / "evaluator.py",
            "--config", tmp_path / "config.yaml", "--output", tmp_path / "out")
    best = json.loads((tmp_path / "out/best/best_program_info.json").read_text())["metrics"]
    assert best["combined_score"] > 1 and best["speedup_low"] > 1 and best["measured"] == 1
    assert (tmp_path / "out/best/best_program.cc").read_text().strip() == FASTER.strip()


def test_gepa(services):
    gepa = pytest.importorskip("gepa", reason="gepa is not installed")
    from gepa.optimize_anything import EngineConfig, GEPAConfig, ReflectionConfig, optimize_anything
    from kernelcast.adapters import Scorer
    from kernelcast.adapters.gepa import Adapter, Evaluator

    prompts = []

    def model(prompt):
        prompts.append(prompt if isinstance(prompt, str) else prompt[-1]["content"])
        if len(prompts) == 2:
            services()
        return ANSWERS[(len(prompts) - 1) % len(ANSWERS)]

    result = gepa.optimize({"kernel": SAME}, trainset=[0], valset=[0], adapter=Adapter(Scorer(SOFTMAX)),
                           reflection_lm=model, reflection_minibatch_size=1, max_metric_calls=8, skip_perfect_score=False)
    assert result.best_candidate["kernel"].strip() == FASTER.strip() and max(result.val_aggregate_scores) > 1
    assert "Correct in" in prompts[0]  # the feedback of the seed

    prompts.clear()
    config = GEPAConfig(engine=EngineConfig(max_metric_calls=8), reflection=ReflectionConfig(reflection_lm=model))
    result = optimize_anything(SAME, evaluator=Evaluator(SOFTMAX, run="2"), objective="a faster kernel", config=config)
    assert max(result.val_aggregate_scores) > 1 and "Correct in" in prompts[0]


def test_optuna(services, monkeypatch):
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    from kernelcast.adapters.optuna import Space, search

    # This seed draws points that are 4 to 9 times as fast as the reference, which noise does not hide.
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=20))
    space = Space(SOFTMAX)
    with kernelcast.Client() as client:
        suggest = Space.suggest

        def suggest_and_kill(self, trial):
            if trial.number == 3:  # while an earlier trial is in evaluation
                services()
            return suggest(self, trial)

        monkeypatch.setattr(Space, "suggest", suggest_and_kill)
        search(study, client, SOFTMAX, 5, in_flight=2)
        assert len(study.trials) == 5 and study.best_value > 1
        best = client.evaluate(client.put_problem(SOFTMAX), space.suggest(optuna.trial.FixedTrial(study.best_params)),
                               mode="measure")
        assert best.candidate_id == study.best_trial.user_attrs["candidate_id"] and best.speedup.value > 1


# The stand-ins are clients of other models, what reads their prices, and what configures and plots.
SHINKA_SEARCH = """
import sys
import stand_ins
stand_ins.install("anthropic", "google.genai", "hydra", "instructor", "omegaconf", "pandas", "scipy")
from shinka.core import EvolutionConfig, ShinkaEvolveRunner
from shinka.database import DatabaseConfig
from shinka.launch import LocalJobConfig

folder, url = sys.argv[1:]
model = f"local/scripted@{url}"
ShinkaEvolveRunner(
    EvolutionConfig(language="cpp", num_generations=4, patch_types=["full"], patch_type_probs=[1.0], llm_models=[model],
                    llm_dynamic_selection=None, embedding_model=None, meta_rec_interval=None, use_text_feedback=True,
                    init_program_path=f"{folder}/initial.cpp", results_dir=f"{folder}/out"),
    LocalJobConfig(eval_program_path=f"{folder}/evaluate.py", python_executable=sys.executable),
    DatabaseConfig(num_islands=1), max_evaluation_jobs=1, max_proposal_jobs=1, verbose=True).run()
"""


def test_shinkaevolve(services, tmp_path):
    block = "// EVOLVE-BLOCK-START\n{}\n// EVOLVE-BLOCK-END\n"
    answers = [f"<NAME>\nk{i}\n</NAME>\n<DESCRIPTION>\n{i}\n</DESCRIPTION>\n<CODE>\n```cpp\n{block.format(source)}```\n</CODE>\n"
               for i, source in enumerate(("not C++", DOES_NOTHING, FASTER))]
    (tmp_path / "initial.cpp").write_text(block.format(SAME))
    (tmp_path / "evaluate.py").write_text("from kernelcast.adapters.shinkaevolve import main\n"
                                          f"main({str(SOFTMAX)!r})\n")
    (tmp_path / "search.py").write_text(SHINKA_SEARCH)
    with scripted_model(answers, lambda number: number == 2 and services()) as url:
        run(sys.executable, tmp_path / "search.py", tmp_path, url, cwd=tmp_path, env=python_path())
    metrics = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("gen_*/results/metrics.json")]
    assert max(m["combined_score"] for m in metrics) > 1
    assert any("Correct in" in m["text_feedback"] for m in metrics)


KSEARCH = """
import importlib
import sys
from kernelcast.adapters.ksearch import Task

problem, initial, url, generator, language = sys.argv[1:]
module, name = generator.split(":")
generators = importlib.import_module(f"k_search.kernel_generators.{module}")
task = Task(problem, open(initial).read())
generator = getattr(generators, name)(model_name="scripted", language=language, api_key="none", base_url=url)
best = generator.generate(task, max_opt_rounds=3)
print("BEST", task.run_final_evaluation(solutions=[best])["solutions"][0]["speedup_factor"])
"""
# The first answer to the generator with a world model: the one action that it tries.
WORLD_MODEL = json.dumps({"kernel_summary": "softmax", "decision_tree": {"root_id": "root", "nodes": [
    {"node_id": "root"}, {"node_id": "a", "parent_id": "root", "action": {"title": "two rows", "difficulty_1_to_5": 1}}]}})
CUDA_ANSWERS = ['<header_file name="kernel.h">\n#define HEADER\n</header_file>\n<cuda_file name="kernel.cu">\n#include "kernel.h"\n'
                f'#ifdef HEADER\n{source}\n#endif\n</cuda_file>\n<cpp_file name="main.cpp">\nint host;\n</cpp_file>'
                for source in ("not C++", DOES_NOTHING, FASTER)]
WORLD_MODEL_GENERATOR = "kernel_generator_world_model:WorldModelKernelGeneratorWithBaseline"


@pytest.mark.parametrize("generator, language, answers", [
    ("kernel_generator:KernelGenerator", "python", ANSWERS), (WORLD_MODEL_GENERATOR, "triton", [WORLD_MODEL, *ANSWERS]),
    (WORLD_MODEL_GENERATOR, "cuda", [WORLD_MODEL, *CUDA_ANSWERS])], ids=["python", "triton", "cuda"])
def test_ksearch(services, tmp_path, generator, language, answers):
    checkout = os.environ.get("KERNELCAST_TEST_KSEARCH", "")
    if not checkout:
        pytest.skip("K-Search is not a package: KERNELCAST_TEST_KSEARCH names no checkout of it")
    (tmp_path / "initial.cc").write_text(SAME)
    (tmp_path / "search.py").write_text(KSEARCH)
    with scripted_model(answers, lambda number: number == 2 and services()) as url:
        printed = run(sys.executable, tmp_path / "search.py", SOFTMAX, tmp_path / "initial.cc", url, generator, language,
                      cwd=tmp_path, env=python_path(checkout))
    assert float(printed.rsplit("BEST", 1)[1]) > 1


# Workers answer with a script instead of a model, one kernel in each round.
KERNELAGENT = """
import sys
import stand_ins
stand_ins.install("omegaconf", "requests")
from kernelcast.adapters.kernelagent import register
from triton_kernel_agent.opt_manager import OptimizationManager
from triton_kernel_agent.platform.interfaces import WorkerRunner
from triton_kernel_agent.platform.registry import registry

problem, folder, initial, *answers = sys.argv[1:]

class Scripted(WorkerRunner):
    def run_workers(self, candidates, round_num, **_):
        return [{"success": True, "worker_id": 0, "kernel_code": open(answers[round_num - 1]).read(), "time_ms": 1e-6,
                 "parent_id": candidates[0]["parent"].program_id, "attempt": None, "reflexion": None}]

registry.register("worker_runner", "scripted", Scripted)
platform = register(problem, workers="scripted", source=str)
manager = OptimizationManager(strategy="greedy", num_workers=1, max_rounds=len(answers), log_dir=folder, platform=platform)
result = manager.run_optimization(open(initial).read(), f"{folder}/problem.py", "a test")
assert result["success"] and result["kernel_code"] == open(answers[-1]).read(), result
print("SPEEDUP", result["pytorch_baseline_ms"] / result["best_time_ms"])
"""


def test_kernelagent(services, tmp_path):
    checkout = os.environ.get("KERNELCAST_TEST_KERNELAGENT", "")
    if not checkout:
        pytest.skip("KernelAgent is not on PyPI: KERNELCAST_TEST_KERNELAGENT names no checkout of it")
    files = [tmp_path / f"{i}.cc" for i in range(4)]
    for file, source in zip(files, (SAME, "not C++", DOES_NOTHING, FASTER)):
        file.write_text(source)
    (tmp_path / "search.py").write_text(KERNELAGENT)
    services()
    printed = run(sys.executable, tmp_path / "search.py", SOFTMAX, tmp_path, *files, cwd=tmp_path, env=python_path(checkout))
    assert float(printed.rsplit("SPEEDUP", 1)[1]) > 1
