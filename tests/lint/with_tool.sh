#!/usr/bin/env bash
# with_tool.sh NAME PATH SCRIPT [ARGUMENT ...]: runs SCRIPT with the tool's path in TOOL. If the tool
# is missing, exits with 77, which ctest counts as skipped; in CI it fails.
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
