#!/usr/bin/env bash
# Installs what is missing, builds, and searches for the fastest kernel of a problem on this machine.
# The report is one HTML file in the current directory.
#
#   scripts/run.sh [PROBLEM] [OPTION ...]
#
# PROBLEM is a name in examples/problems or a folder; default: row_softmax. Options go to
# `kernelcast search`; see `kernelcast search --help`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

problem=row_softmax
if (($#)) && [[ $1 != -* ]]; then
  problem=$1
  shift
fi

# Adds an option's name and value unless the caller has given the option.
options=()
given=" $* "
unless_given() {
  [[ $given == *" $1 "* || $given == *" $1="* ]] || options+=("$1" "$2")
}
unless_given --budget-candidates 240
unless_given --budget-measurements 72
unless_given --report kernelcast-report.html

"$root/scripts/setup.sh" --build
"$root/scripts/build.sh" --without-tests \
  kernelcast kernelcast-worker kernelcast-runner kernelcast-forecaster kernelcast-orchestrator

# Finds problems by name from any folder.
export KERNELCAST_PROBLEMS="${KERNELCAST_PROBLEMS:+$KERNELCAST_PROBLEMS:}$root/examples/problems"
exec "$root/build/${KERNELCAST_PRESET:-ci}/bin/kernelcast" search "$problem" "${options[@]}" "$@"
