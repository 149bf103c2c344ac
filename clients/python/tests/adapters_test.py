"""What adapters make of measurements, failures, forecasts and the absence of a verdict."""

import dataclasses
import json
import math
import pickle
import runpy
import sys
import types

import kernelcast
import pytest
from conftest import CANDIDATES, DOES_NOTHING, FASTER, SAME, SOFTMAX
from kernelcast import errors
from kernelcast.adapters import Scorer, score
from kernelcast.v1 import orchestrator_pb2


@pytest.fixture(scope="module")
def scorer(client):
    return Scorer(SOFTMAX, client.address)


def test_a_score_is_a_measured_speedup(scorer):
    good = scorer(FASTER)
    assert good.correct and good.value > 1 and good.value == good.result.speedup.value
    assert good.metrics["measured"] == 1 and good.metrics["speedup_low"] < good.value < good.metrics["speedup_high"]
    for source in (DOES_NOTHING, "not C++", b"\xff", "x" * (2 << 20)):
        bad = scorer(source)
        assert (bad.value, bad.correct) == (0, False) and bad.feedback


def test_the_same_source_is_measured_once(scorer):
    assert scorer(FASTER).result.request_id == pickle.loads(pickle.dumps(scorer))(FASTER).result.request_id
    client, _ = scorer.connect()
    other = Scorer(SOFTMAX, client.address, run="another")(FASTER)
    assert other.result.request_id != scorer(FASTER).result.request_id


def test_a_forecast_is_a_score_only_on_request(scorer):
    client, problem = scorer.connect()
    with pytest.raises(ValueError, match="forecasts=True"):
        Scorer(SOFTMAX, client.address, mode="forecast")
    asked = Scorer(SOFTMAX, client.address, mode="forecast", forecasts=True)(SAME + "// forecast\n")
    assert isinstance(asked.result, kernelcast.Forecast) and asked.metrics["measured"] == 0
    assert "propensity" in asked.metrics and 0 < asked.value < asked.result.expected_speedup

    search = client.start_search(problem, max_measurements=1)
    routed = Scorer(SOFTMAX, client.address, forecasts=True, search=search)
    assert [routed(SAME + f"// {i}\n").metrics["measured"] for i in range(2)] == [1, 0]
    client.stop_search(search)


def test_metrics_say_how_a_score_was_obtained():
    def scored(audit_propensity, reward=None, **result):
        message = orchestrator_pb2.Evaluation(decision={"audit_propensity": audit_propensity}, reward=reward, **result)
        kind = kernelcast.Measurement if "measured" in result else kernelcast.Forecast
        return score(kind(kernelcast.Candidate(SAME), message))

    audited = scored(0.1, measured={"ok": {"speedup": {"value": 2, "low": 1.9, "high": 2.1}}})
    assert (audited.metrics["measured"], audited.metrics["propensity"], audited.basis) == (1, 0.1, "measured")
    pruned = scored(0.1, forecast={"expected_log2_speedup": 1})
    assert (pruned.metrics["measured"], pruned.metrics["propensity"], pruned.basis) == (0, 0.1, "forecast")
    reward = orchestrator_pb2.KernelReward(value=3, basis="BASIS_ESTIMATED", propensity=0.1)
    for estimated in (scored(0.1, reward, forecast={}), scored(0.1, reward, measured={"wrong_result": {}})):
        assert (estimated.basis, estimated.metrics["estimated"], estimated.metrics["propensity"]) == ("estimated", 1, 0.1)


def test_shinkaevolve_gives_no_score_without_a_verdict(client, tmp_path):
    from kernelcast.adapters.shinkaevolve import evaluate

    (tmp_path / "program.cpp").write_text(SAME)
    evaluate(Scorer(SOFTMAX, "127.0.0.1:1", patience=0), tmp_path / "program.cpp", tmp_path / "lost")
    metrics, correct = (json.loads((tmp_path / "lost" / f).read_text()) for f in ("metrics.json", "correct.json"))
    assert "combined_score" not in metrics and metrics["public"] == {"no_verdict": 1}
    assert correct["correct"] is False and correct["error"].startswith("Not evaluated: ")
    (tmp_path / "program.cpp").write_text(DOES_NOTHING)
    evaluate(Scorer(SOFTMAX, client.address), tmp_path / "program.cpp", tmp_path / "bad")
    assert json.loads((tmp_path / "bad/metrics.json").read_text())["combined_score"] == 0


def test_no_verdict_is_an_error():
    with pytest.raises(errors.Unavailable):
        Scorer(SOFTMAX, "127.0.0.1:1", patience=0)(SAME)


def test_a_source_without_a_verdict_is_measured_again(monkeypatch):
    asked = []

    def evaluate(_, candidate, *, request_id, **__):
        asked.append(request_id.rsplit("-", 1)[1])
        outcome = {"environment_unstable": {}} if len(asked) <= 4 else {"ok": {"speedup": {"value": 2}}}
        return kernelcast.Measurement(candidate, orchestrator_pb2.Evaluation(measured=outcome))

    unstable = Scorer(SOFTMAX)
    monkeypatch.setattr(unstable, "connect", lambda: (types.SimpleNamespace(evaluate=evaluate), types.SimpleNamespace(id="p")))
    with pytest.raises(errors.Unavailable):
        unstable(SAME)
    assert unstable(SAME).value == 2 and asked == list("01234")


def test_a_wrong_set_up_is_an_error(scorer):
    client, _ = scorer.connect()
    with pytest.raises(errors.InvalidArgument, match="target: row_softmax has no reference for 'cuba'"):
        Scorer(SOFTMAX, client.address, template=kernelcast.Candidate("", target="cuba"))(SAME)


def test_only_a_fact_or_a_verdict_is_a_score():
    def rejection(cause):
        rejected = orchestrator_pb2.Rejection()
        if cause == "compile_error":
            rejected.compile_error.log = b"why"
        else:
            setattr(rejected, cause, "why")
        result = kernelcast.Rejection(kernelcast.Candidate(SAME), orchestrator_pb2.Evaluation(rejected=rejected))
        assert result.cause == cause.removesuffix("_of_request_id") and result.detail == "why"
        return result

    assert score(rejection("compile_error")).value == 0
    assert all(score(rejection(cause)) is None for cause in ("duplicate_of_request_id", "budget", "unavailable", "cancelled"))


def test_the_deadline_is_below_that_of_openevolve(monkeypatch):
    from kernelcast.adapters.openevolve import Evaluator
    from openevolve.config import EvaluatorConfig

    evaluator = Evaluator(SOFTMAX, "127.0.0.1:1", patience=0)
    asked = []

    class Stopped(Exception):
        pass

    def evaluate(*_, timeout, **__):
        asked.append(timeout)
        raise Stopped

    stub = types.SimpleNamespace(evaluate=evaluate)
    monkeypatch.setattr(evaluator, "connect", lambda: (stub, types.SimpleNamespace(id="p")))
    with pytest.raises(Stopped):
        evaluator(CANDIDATES / "two_rows.cc")
    assert 0 < asked[0] <= 240 < EvaluatorConfig().timeout


def test_codeevolve(client, tmp_path, monkeypatch):
    (tmp_path / "evaluate.py").write_text("from kernelcast.adapters.codeevolve import main\n"
                                          f"main({str(SOFTMAX)!r}, {client.address!r})\n")
    results = {}
    for name, source in {"good": FASTER, "bad": DOES_NOTHING}.items():
        (tmp_path / name).write_text(source)
        monkeypatch.setattr(sys, "argv", ["evaluate.py", str(tmp_path / name), str(tmp_path / "results.json")])
        runpy.run_path(str(tmp_path / "evaluate.py"), run_name="__main__")
        results[name] = json.loads((tmp_path / "results.json").read_text())
    assert results["good"]["speedup"] > 1 and results["bad"]["speedup"] == 0


@pytest.fixture
def ksearch(monkeypatch):
    """The adapter with stand-ins for what it takes from k_search/tasks/task_base.py of caoshiyi/K-Search."""
    @dataclasses.dataclass
    class EvalResult:
        status: str
        latency_ms: float | None = None
        reference_latency_ms: float | None = None
        mean_vs_baseline_factor: float | None = None
        speedup_factor: float | None = None
        log_excerpt: str = ""
        metrics: dict = dataclasses.field(default_factory=dict)

        def to_dict(self, *, include_log_excerpt=False):
            return dataclasses.asdict(self)

    def load(*, solution_ref, definition_name, artifacts_dir):
        raise FileNotFoundError(solution_ref)

    base = types.SimpleNamespace(EvalResult=EvalResult, Solution=object, load_ksearch_solution_json=load,
                                 solution_from_json_dict=dict)
    for name in ("k_search", "k_search.tasks"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "k_search.tasks.task_base", base)
    monkeypatch.delitem(sys.modules, "kernelcast.adapters.ksearch", raising=False)
    import kernelcast.adapters.ksearch

    yield kernelcast.adapters.ksearch
    del sys.modules["kernelcast.adapters.ksearch"]


def solution(files, entry="main.py"):
    return types.SimpleNamespace(name="s", sources=[types.SimpleNamespace(path=p, content=c) for p, c in files.items()],
                                 get_entry_path=lambda: entry)


def test_ksearch(ksearch, client):
    # Calls are those of k_search/kernel_generators/kernel_generator.py.
    task = ksearch.Task(str(SOFTMAX), SAME, client.address)
    assert task.name == "row_softmax" and SAME in task.get_generation_prompt(language="python", target_gpu="H200")
    answer = solution({"main.py": f"Here:\n```cpp\n{FASTER}```\n"})
    good = task.run_benchmark(solution=answer, dump_traces=False, round_num=1)
    assert good.status == "passed" and good.metrics["score"] == good.speedup_factor > 1
    assert 0 < good.latency_ms < good.reference_latency_ms
    for source in (DOES_NOTHING, "not C++", "\ud800"):
        bad = task.run_benchmark(solution=solution({"main.py": source}), dump_traces=False, round_num=2)
        assert (bad.status, bad.metrics["score"], bad.latency_ms) == ("failed", None, None) and bad.log_excerpt
    prompt = task.get_optimization_prompt(language="python", target_gpu="H200", current_code="int x;", current_best=None,
                                          trace_logs=task.get_last_round_trace_logs_for_prompt(), previous_round_summary=None)
    assert "int x;" in prompt and bad.log_excerpt in prompt and "Current best" not in prompt
    final, = task.run_final_evaluation(solutions=[answer], config=None, dump_traces=True, workload_limit=None)["solutions"]
    # Other work on this machine can prevent a verdict.
    noisy = final["status"] == "unknown" and "too noisy" in final["log_excerpt"]
    assert noisy or final["speedup_factor"] > 1, final["log_excerpt"]
    assert json.dumps(task.get_config_for_logging())
    with pytest.raises(FileNotFoundError, match="another"):
        task.get_solution("another")


def test_ksearch_puts_the_header_into_the_cuda_file(ksearch):
    files = {"kernel.h": "int x;", "kernel.cu": '#include "kernel.h"\n#include "other.h"\n', "main.cpp": "host"}
    assert ksearch._source(solution(files, "main.cpp")) == 'int x;\n#include "other.h"\n'


def test_a_round_of_ksearch_without_a_verdict_is_not_a_failure(ksearch):
    task = ksearch.Task(str(SOFTMAX), SAME, "127.0.0.1:1", patience=0)
    result = task.run_benchmark(solution=solution({"main.py": SAME}))
    assert result.status == "unknown" and "speedup" not in result.metrics and "Not evaluated" in result.log_excerpt
    with pytest.raises(errors.NotFound):
        ksearch.Task("no/such/problem", SAME)


@pytest.fixture
def registry(monkeypatch):
    """A stand-in for the registry of triton_kernel_agent/platform/registry.py of meta-pytorch/KernelAgent."""
    class Registry(dict):
        def register(self, component, name, factory):
            self[component, name] = factory

        def create(self, component, name, **context):
            return self[component, name](**context)

    for name in ("triton_kernel_agent", "triton_kernel_agent.platform"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    module = types.SimpleNamespace(registry=Registry())
    monkeypatch.setitem(sys.modules, "triton_kernel_agent.platform.registry", module)
    return module.registry


def test_kernelagent(client, registry):
    from kernelcast.adapters import kernelagent

    made = {0: FASTER, 1: DOES_NOTHING, 2: SAME}

    class Workers:
        def run_workers(self, candidates, round_num, problem_file, **_):
            return [{"success": worker != 2, "worker_id": worker, "kernel_code": code, "time_ms": 1e-9}
                    for worker, code in made.items()]

    registry.register("worker_runner", "nvidia", lambda logger: Workers())
    platform = kernelagent.register(str(SOFTMAX), client.address, source=str)
    # Calls are those of OptimizationManager.run_optimization in triton_kernel_agent/opt_manager.py.
    verifier, benchmarker = (registry.create(c, platform[c]) for c in ("verifier", "benchmarker"))
    runner = registry.create("worker_runner", platform["worker_runner"], logger=None)
    assert math.isinf(benchmarker.benchmark_reference("problem.py"))
    assert not any(verifier.verify(bad, "problem.py", ["a test"]) for bad in (DOES_NOTHING, "not C++", "\ud800"))
    assert verifier.verify(SAME, "problem.py", ["a test"])
    reference, initial = benchmarker.benchmark_reference("problem.py"), benchmarker.benchmark_kernel(SAME, "problem.py")
    assert 0 < initial < math.inf and math.isinf(benchmarker.benchmark_reference_compiled("problem.py"))
    results = runner.run_workers(candidates=[], round_num=1, problem_file="problem.py", test_code=[], pytorch_baseline=1.0,
                                 shared_history=[], shared_reflexions=[])
    assert [r["success"] for r in results] == [True, False, False] and math.isinf(results[1]["time_ms"])
    assert results[0]["time_ms"] == reference / Scorer(SOFTMAX, client.address)(FASTER).value < reference


def test_kernelagent_without_a_verdict(registry):
    from kernelcast.adapters.kernelagent import Judge

    judge = Judge(Scorer(SOFTMAX, "127.0.0.1:1", patience=0), str)
    assert math.isinf(judge.benchmark_kernel(SAME, "problem.py"))
    with pytest.raises(errors.Unavailable):
        judge.verify(SAME, "problem.py", [])


def test_kernelagent_leaves_host_code_out():
    from kernelcast.adapters.kernelagent import kernels

    code = """
import torch
import torch.nn.functional as F
from torch import nn
import triton
import triton.language as tl
SIZE: tl.constexpr = 8
@triton.jit
def softmax(x, BLOCK: tl.constexpr):
    pass
class Model(nn.Module):
    pass
def kernel_function(x):
    return torch.empty(1)
"""
    assert kernels(code) == ("import triton\nimport triton.language as tl\nSIZE: tl.constexpr = 8\n\n@triton.jit\n"
                             "def softmax(x, BLOCK: tl.constexpr):\n    pass\n")
    assert kernels("def (") == "def (" and kernels("(" * 5000) == "(" * 5000 and kernels("a\0") == "a\0"
