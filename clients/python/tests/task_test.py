"""A PyTorch task through the package, with a worker that has PyTorch."""

import subprocess
from pathlib import Path

import kernelcast
import pytest
from conftest import judged
from kernelcast import _convert
from kernelcast._problems import read_problem
from kernelcast.v1 import kernel_pb2, worker_pb2

EXAMPLES = Path(__file__).parents[3] / "examples/tasks"
TASKS = Path(__file__).parents[3] / "examples/tasks/kernelbench"
PYTHON = "/usr/bin/python3"  # Debian's, for which PyTorch is a package


def test_a_task_is_judged_as_it_is(tmp_path):
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"no PyTorch in {PYTHON} (install python3-torch)")
    with kernelcast.local(state_dir=tmp_path, arguments=["--python", PYTHON]) as client:
        task = client.put_problem(TASKS / "gated_silu.py")
        assert task.definition.task_format == "kernelbench"
        good = judged(client, task, (TASKS / "candidates/gated_silu/in_place.py").read_text())
        assert good.outcome == "ok" and good.speedup.value > 0.2, good.feedback
        wrong = judged(client, task, (TASKS / "candidates/gated_silu/wrong_gate.py").read_text())
        assert wrong.outcome == "wrong_result", wrong.feedback
        broken = client.evaluate(task, "class ModelNew(:\n", mode="measure")
        assert isinstance(broken, kernelcast.Rejection) and broken.cause == "compile_error"
        assert "candidate.py" in broken.feedback


def test_the_default_target_of_a_task_is_cuda_where_a_worker_judges_it_on_a_gpu():
    python, native = kernel_pb2.CANDIDATE_KIND_PYTHON, kernel_pb2.CANDIDATE_KIND_HOST_NATIVE

    def target(*workers, task_format="kernelbench", targets=("cpu", "cuda")):
        definition = kernel_pb2.ProblemDefinition(targets=targets, task_format=task_format)
        described = [worker_pb2.WorkerDescription(targets=[
            worker_pb2.TargetDescription(target="cpu", can_measure=True, candidate_kinds=[python]),
            worker_pb2.TargetDescription(target="cuda", can_measure=measures, candidate_kinds=kinds),
        ]) for measures, kinds in workers]
        return _convert.target("", _convert.problem(definition, described))

    assert target((True, [native]), (True, [native, python])) == "cuda"
    assert target() == target((False, [python])) == target((True, [native])) == "cpu"
    assert target((True, [python]), task_format="") == "cpu"
    assert target(task_format="", targets=["cuda"]) == "cuda"


@pytest.mark.parametrize("path, names", [
    ("flashinfer_bench/definitions/gemm/gemm_n192_k256.json", ["gemm_n192_k256.json", "gemm_n192_k256.jsonl"]),
    ("sol_execbench/gated_projection", ["definition.json", "reference.py", "workload.jsonl"]),
    ("gpu_mode/row_argmax", ["task.yml", "task.py", "utils.py", "reference.py"]),
])
def test_tasks_of_other_formats_are_read_as_they_are(path, names):
    problem = read_problem(EXAMPLES / path)
    assert [file.path for file in problem.files] == names
    assert all(file.content for file in problem.files)


def test_task_yml_may_be_in_block_style(tmp_path):
    (tmp_path / "task.yml").write_text("files:\n- name: reference.py\n  source: reference.py\n- name: a.py\n  source: \"@SUBMISSION@\"\n")
    (tmp_path / "reference.py").write_text("x = 1\n")
    assert [file.path for file in read_problem(tmp_path).files] == ["task.yml", "reference.py"]
