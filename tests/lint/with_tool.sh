#!/usr/bin/env bash
# with_tool.sh NAME PATH SCRIPT [ARGUMENT ...]: runs SCRIPT with the tool's path in TOOL. Where the tool
# is missing: exit code 77, by which ctest counts the test as skipped; in CI, a failure.
set -euo pipefail
name=$1 TOOL=$2
shift 2
if [[ ! -x $TOOL ]]; then
  printf '%s is missing; scripts/setup.sh --test installs it\n' "$name"
  [[ ${CI-} == true ]] && exit 1
  exit 77
fi
export TOOL
exec "$@"
