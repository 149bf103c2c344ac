"""A PyTorch task through the package, with a worker that has PyTorch."""

import subprocess
from pathlib import Path

import kernelcast
import pytest
from conftest import judged
from kernelcast import _convert, errors
from kernelcast._problems import read_problem
from kernelcast.v1 import kernel_pb2, orchestrator_pb2

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


def test_a_candidate_has_the_default_target_that_the_orchestrator_answers():
    reply = kernel_pb2.PutProblemReply(default_target="cuda")
    reply.definition.targets.extend(["cpu", "cuda"])
    problem = _convert.problem(reply)
    assert problem.default_target == "cuda"
    assert _convert.target("", problem) == "cuda"
    assert _convert.target("cpu", problem) == "cpu"
    with pytest.raises(errors.InvalidArgument):
        _convert.target("gpu", problem)


def test_a_check_has_an_outcome_and_no_speedup():
    evaluation = orchestrator_pb2.Evaluation()
    evaluation.measured.passed.notes.append(kernel_pb2.MEASUREMENT_NOTE_INPUTS_NEVER_CHANGE)
    checked = kernelcast.Measurement(kernelcast.Candidate(""), evaluation)
    assert (checked.outcome, checked.speedup, checked.notes) == ("passed", None, ("inputs_never_change",))
    assert str(checked) == "measured: passed"


@pytest.mark.parametrize("path, names", [
    ("flashinfer_bench/definitions/gemm/gemm_n192_k256.json", ["gemm_n192_k256.json", "gemm_n192_k256.jsonl"]),
    ("sol_execbench/gated_projection", ["definition.json", "reference.py", "workload.jsonl"]),
    ("flashinfer_bench/definitions/sparse/csr_matmul_c256_n64.json",
     ["csr_matmul_c256_n64.json", "csr_matmul_c256_n64.jsonl", "blob/workloads/sparse/csr_matmul_c256_n64.safetensors"]),
    ("gpu_mode/row_argmax", ["task.yml", "task.py", "utils.py", "reference.py"]),
    ("gpu_mode/rms_norm_pair", ["task.yml", "reference.py", "eval.py", "submission.py"]),
])
def test_tasks_of_other_formats_are_read_as_they_are(path, names):
    problem = read_problem(EXAMPLES / path)
    assert [file.path for file in problem.files] == names
    assert all(file.content for file in problem.files)


def test_a_space_of_device_code_is_part_of_its_task():
    folder = EXAMPLES.parent / "operations/top_k_gating"
    names = {str(file.relative_to(folder)) for file in folder.rglob("*.*")}
    assert {file.path for file in read_problem(folder).files} == names - {"space/expected_verdicts_cuda.yaml"}


def test_task_yml_may_be_in_block_style(tmp_path):
    (tmp_path / "task.yml").write_text("files:\n- name: reference.py\n  source: reference.py\n- name: a.py\n  source: \"@SUBMISSION@\"\n")
    (tmp_path / "reference.py").write_text("x = 1\n")
    assert [file.path for file in read_problem(tmp_path).files] == ["task.yml", "reference.py"]
