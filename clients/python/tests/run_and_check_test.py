"""The command line of KernelBench's run_and_check.py, and what its scrapers read."""

import re
import subprocess

import kernelcast
import pytest
from kernelcast import errors, run_and_check
from task_test import PYTHON, TASKS


def test_arguments_are_those_of_kernelbench():
    values, unused = run_and_check.read_arguments(
        ["ref_origin=kernelbench", "level=1", "problem_id=19", "kernel_src_path=a=b.py", "eval_mode=local", "gpu=H100",
         "num_correct_trials=5", "num_perf_trials=100", "timeout=60", "check_kernel=False", "backend=triton"])
    assert (values["level"], values["kernel_src_path"], values["timeout"]) == ("1", "a=b.py", "60")
    assert unused == ["num_correct_trials", "num_perf_trials", "check_kernel", "backend"]
    for wrong in (["ref_origin=web", "kernel_src_path=a"], ["ref_origin=local"], ["--help"], ["unknown=1"],
                  ["ref_origin=local", "kernel_src_path=a", "precision=bf16"]):
        with pytest.raises(errors.InvalidArgument):
            run_and_check.read_arguments(wrong)
    with pytest.raises(errors.InvalidArgument, match="precision: bf16 is not supported: inputs have the types of the task"):
        run_and_check.read_arguments(["ref_origin=local", "kernel_src_path=a", "precision=bf16"])


def test_problems_are_found_by_level_and_id(tmp_path, monkeypatch):
    values = {"ref_origin": "kernelbench", "level": "1", "problem_id": "19"}
    monkeypatch.delenv("KERNELBENCH_DIR", raising=False)
    with pytest.raises(errors.NotFound, match="KERNELBENCH_DIR"):
        run_and_check.reference_path(values)
    monkeypatch.setenv("KERNELBENCH_DIR", str(tmp_path))
    with pytest.raises(errors.NotFound, match="no problem 19"):
        run_and_check.reference_path(values)
    file = tmp_path / "KernelBench/level1/19_ReLU.py"
    file.parent.mkdir(parents=True)
    file.touch()
    assert run_and_check.reference_path(values) == file


def scraped(lines):
    """As SkyDiscover's evaluator for KernelBench reads the output."""
    found = {}
    for line in lines:
        for key, name in (("Speedup over eager:", r"([0-9.]+)x"), ("Custom Kernel exec time:", r"([0-9.]+) ms"),
                          ("PyTorch Reference Eager exec time:", r"([0-9.]+) ms")):
            if key in line:
                found[key] = float(re.search(name, line)[1])
    return found


def test_a_scraper_reads_the_result_of_a_real_run(tmp_path, monkeypatch, capsys):
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"no PyTorch in {PYTHON} (install python3-torch)")
    candidates = TASKS / "candidates/gated_silu"

    def run(name):
        code = run_and_check.main(["ref_origin=local", f"ref_arch_src_path={TASKS / 'gated_silu.py'}", "verbose=True",
                                   f"kernel_src_path={candidates / name}"])
        return code, capsys.readouterr()

    with kernelcast.local(state_dir=tmp_path, arguments=["--python", PYTHON]) as client:
        monkeypatch.setenv("KERNELCAST_ORCHESTRATOR", client.address)
        for _ in range(10):  # other work on this machine can prevent a verdict for a while
            code, said = run("in_place.py")
            if code == 0:
                break
        assert code == 0, said.err
        lines = said.out.splitlines()
        assert lines[0] == "[INFO] Without effect here: verbose"
        assert re.fullmatch(r"\[INFO\] Target: cpu, device: .+\. torch\.compile is not measured", lines[1])
        assert any(line.startswith("[Eval] Kernel eval result: compiled=True correctness=True") for line in lines)
        found = scraped(lines)
        assert len(found) == 3 and all(value > 0 for value in found.values()), said.out
        code, said = run("wrong_gate.py")
        assert (code, scraped(said.out.splitlines())) == (0, {})
        assert "compiled=True correctness=False" in said.out and "[Speedup] Speedup Not Available" in said.out
        assert run("missing.py")[0] == 2
