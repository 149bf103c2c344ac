#!/usr/bin/env bash
# Installs the wheel of scripts/wheel.sh into a Python environment with PyTorch for CUDA and Triton, and times the
# way from there to the verdict of Triton candidates and of a PyTorch task on a GPU. Run it by hand on a machine with
# an NVIDIA GPU, from the root of the sources. It needs no network and no CUDA toolkit.
#
#   tests/gpu/wheel_run.sh WHEEL [PYTHON]
#
#   PYTHON    interpreter of the environment; default: python3 in PATH
#
# Exit code 0: every step worked, candidates that are right have a speedup, and the wrong one is refused.
set -euo pipefail

if (($# < 1 || $# > 2)); then
  sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
wheel=$1
python=$(command -v "${2:-python3}")
kernelcast=$(dirname "$python")/kernelcast
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work

# timed WHAT COMMAND...: prints the time on standard error. Exit code 1 of kernelcast says that a candidate is wrong.
timed() {
  local what=$1 start=$EPOCHREALTIME code=0
  shift
  "$@" || code=$?
  awk -v what="$what" -v start="$start" -v now="$EPOCHREALTIME" \
    'BEGIN { printf "%s: %.1f s\n", what, now - start }' >&2
  ((code <= 1))
}

# verdict FILE CANDIDATE: its speedup, or how its measurement ended.
verdict() {
  "$python" - "$@" <<'PYTHON'
import json
import sys

file, candidate = sys.argv[1:]
for line in open(file, encoding="utf-8"):
    found = json.loads(line)
    if found.get("name") == candidate:
        measured = found["evaluation"].get("measured", {})
        speedup = measured.get("ok", {}).get("speedup", {})
        print("ok" if speedup.get("value", 0) > 0 else next((key for key in (
            "wrong_result", "crash", "timeout", "exploit", "environment_unstable") if key in measured), "no verdict"),
            json.dumps(speedup))
        break
else:
    print("missing")
PYTHON
}

# expect FILE CANDIDATE OUTCOME
expect() {
  local found
  found=$(verdict "$1" "$2")
  printf '%s: %s\n' "$2" "$found"
  [[ $found == "$3 "* ]]
}

grep -h PRETTY_NAME /etc/os-release
"$python" -c 'import sys, torch, triton; print("Python", sys.version.split()[0], "PyTorch", torch.__version__, "Triton", triton.__version__)'
timed "pip install" "$python" -m pip install -q --no-deps --no-index --force-reinstall "$wheel"

# Only what PyTorch and Triton have installed, although this machine may have a toolkit.
unset CUDA_HOME CUDA_PATH
KERNELCAST_CUDA_HOME=$("$python" - <<'PYTHON'
import pathlib
import sysconfig

nvidia = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
print(max(nvidia.glob("cu[0-9]*"), default=nvidia))
PYTHON
)
export KERNELCAST_CUDA_HOME
printf 'CUDA from %s\n' "$KERNELCAST_CUDA_HOME"

timed "kernelcast doctor" "$kernelcast" doctor
timed "kernelcast evaluate, Triton candidates" "$kernelcast" evaluate row_softmax --target cuda --mode measure --json \
  --candidates examples/triton/row_softmax >"$work/triton.jsonl"
timed "kernelcast evaluate, a PyTorch task" "$kernelcast" evaluate examples/tasks/kernelbench/gated_silu.py \
  --target cuda --mode measure --json --candidates examples/tasks/kernelbench/candidates/gated_silu >"$work/task.jsonl"
for candidate in one_block online four_rows; do expect "$work/triton.jsonl" "$candidate" ok; done
expect "$work/task.jsonl" rowwise ok
expect "$work/task.jsonl" wrong_gate wrong_result
