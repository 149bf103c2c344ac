"""KernelBench's `scripts/run_and_check.py` with Kernelcast as the judge: the same arguments and the same lines.

    python -m kernelcast.run_and_check ref_origin=local ref_arch_src_path=REF.py kernel_src_path=NEW.py
    python -m kernelcast.run_and_check ref_origin=kernelbench level=1 problem_id=19 kernel_src_path=NEW.py

The orchestrator is that of KERNELCAST_ORCHESTRATOR; without it the services are started while the command runs.
Problems by level and id are read from the checkout of KernelBench in KERNELBENCH_DIR.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Sequence

import kernelcast
from kernelcast import errors
from kernelcast.adapters import NO_VERDICT, Score, Scorer

# Arguments with their defaults. `target` is Kernelcast's own; by default that of Problem.default_target. Kernelcast
# decides itself how it measures, so it names the others that are given as without effect.
_USED = {"ref_origin": "", "ref_arch_src_path": "", "level": "", "problem_id": "", "kernel_src_path": "",
         "eval_mode": "local", "gpu": "", "timeout": "300", "precision": "fp32", "target": ""}
_UNUSED = {"dataset_src", "dataset_name", "num_correct_trials", "num_perf_trials", "verbose", "measure_performance",
           "timing_method", "build_dir_prefix", "clear_cache", "gpu_arch", "backend", "check_kernel"}


def read_arguments(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The arguments, and the names of those without effect. InvalidArgument: unknown or missing ones."""
    values, unused = dict(_USED), []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or name not in _USED.keys() | _UNUSED:
            raise errors.InvalidArgument(f"{argument}: expected NAME=VALUE with a name of KernelBench's run_and_check.py")
        if name in _UNUSED:
            unused.append(name)
        else:
            values[name] = value
    if values["ref_origin"] not in ("local", "kernelbench"):
        raise errors.InvalidArgument("ref_origin must be either local or kernelbench")
    if not values["kernel_src_path"]:
        raise errors.InvalidArgument("kernel_src_path is required")
    if values["precision"] != "fp32":
        raise errors.InvalidArgument(f"precision: {values['precision']} is not supported: inputs have the types of the "
                                     "task, which KernelBench casts. Change the types in the task's get_inputs()")
    return values, unused


def reference_path(values: dict[str, str]) -> Path:
    """The file of the reference. NotFound: there is none."""
    if values["ref_origin"] == "local":
        return Path(values["ref_arch_src_path"])
    checkout = os.environ.get("KERNELBENCH_DIR")
    if not checkout:
        raise errors.NotFound("KERNELBENCH_DIR: set it to a checkout of KernelBench, which has the problems")
    folder = Path(checkout, "KernelBench", f"level{values['level']}")
    found = sorted(folder.glob(f"{values['problem_id']}_*.py"))
    if not found:
        raise errors.NotFound(f"{folder} has no problem {values['problem_id']}")
    return found[0]


def report(score: Score) -> list[str]:
    """The lines about a result, as run_and_check.py writes them."""
    reference_ms = custom_ms = None
    if score.times_ms:
        custom_ms, reference_ms = score.times_ms
    compiled = isinstance(score.result, kernelcast.Measurement)
    device = score.result.device_model if score.result else ""
    metadata = {"hardware": device} if score.correct else {"hardware": device, "kernelcast": score.feedback}
    lines = ["=" * 40,
             f"[Eval] Kernel eval result: compiled={compiled} correctness={score.correct} metadata={metadata} "
             f"runtime={custom_ms or -1.0}",
             "-" * 40]
    if reference_ms is not None:
        lines.append(f"[Timing] PyTorch Reference Eager exec time: {reference_ms} ms")
    if custom_ms is not None:
        lines.append(f"[Timing] Custom Kernel exec time: {custom_ms} ms")
    speedup = f"over eager: {score.value:.2f}x" if score.correct else "Not Available as Kernel did not pass correctness"
    return [*lines, "-" * 40, f"[Speedup] Speedup {speedup}", "=" * 40]


def main(arguments: Sequence[str] | None = None) -> int:
    """0: the kernel was judged, whatever the result. 1: there is no verdict. 2: wrong arguments."""
    try:
        values, unused = read_arguments(sys.argv[1:] if arguments is None else arguments)
        reference = reference_path(values)
        kernel = Path(values["kernel_src_path"]).read_bytes()
        if unused:
            print(f"[INFO] Without effect here: {', '.join(unused)}")
        with contextlib.ExitStack() as stack:
            address = os.environ.get("KERNELCAST_ORCHESTRATOR", "")
            if not address:
                address = stack.enter_context(kernelcast.local(arguments=["--python", sys.executable])).address
            scorer = Scorer(reference, address, template=kernelcast.Candidate("", target=values["target"]),
                            timeout=float(values["timeout"]),
                            device_model=values["gpu"] if values["eval_mode"] == "modal" else "")
            score = scorer(kernel)
            device = score.result.device_model if score.result else ""
            target = values["target"] or scorer.connect()[1].default_target
            print(f"[INFO] Target: {target}, device: {device or 'none'}. torch.compile is not measured")
            print("\n".join(report(score)))
    except NO_VERDICT as error:
        print(f"[ERROR] No verdict: {error}", file=sys.stderr)
        return 1
    except (errors.Error, OSError, ValueError) as error:
        print(f"[ERROR] {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
