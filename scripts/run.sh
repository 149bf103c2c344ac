#!/usr/bin/env bash
# From a bare machine to a finished search: installs what is missing, builds, and searches for the
# fastest kernel of a problem on this machine. The report is one HTML file in the current directory.
#
#   scripts/run.sh [PROBLEM] [OPTION ...]
#
# PROBLEM is a name in examples/problems or a folder; row_softmax unless told. Options go to
# `kernelcast search`; see `kernelcast search --help`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

problem=row_softmax
if (($#)) && [[ $1 != -* ]]; then
  problem=$1
  shift
fi

# Takes an option's name and value, and sets the value unless the caller has set one.
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

# So that problems are found by name from any folder.
export KERNELCAST_PROBLEMS="${KERNELCAST_PROBLEMS:+$KERNELCAST_PROBLEMS:}$root/examples/problems"
exec "$root/build/${KERNELCAST_PRESET:-ci}/bin/kernelcast" search "$problem" "${options[@]}" "$@"
