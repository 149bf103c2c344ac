#!/usr/bin/env bash
# Runs clang-tidy on sources, two at a time. The checks are in .clang-tidy; findings are errors.
#
#   scripts/tidy.sh [FILE ...]      these files
#   scripts/tidy.sh                 files that differ from the upstream branch, or the last commit
#   scripts/tidy.sh --all           all sources of common/ and services/; takes a quarter of an hour
#
# KERNELCAST_TIDY_SECONDS           time limit of the run; 1800 by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 0
fi
# Has a command for each source.
preset=dev
scripts/setup.sh --test
# Needs the compile commands and the generated protos that sources include.
KERNELCAST_PRESET=$preset scripts/build.sh kernelcast_proto

files=()
case "${1-}" in
  --all) mapfile -t files < <(tests/lint/sources.sh 'common/*.cc' 'services/*.cc') ;;
  '')
    base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD)
    mapfile -t files < <(
      { git diff --name-only --diff-filter=d "$base" -- 'common/*.cc' 'services/*.cc'
        git ls-files --others --exclude-standard -- 'common/*.cc' 'services/*.cc'; } | sort -u)
    ;;
  *) files=("$@") ;;
esac
if ((${#files[@]} == 0)); then
  printf 'tidy: nothing to check\n' >&2
  exit 0
fi

printf '%s\0' "${files[@]}" |
  timeout --foreground "${KERNELCAST_TIDY_SECONDS:-1800}" \
    xargs -0 -n 1 -P 2 clang-tidy --quiet -p "build/$preset" 2>&1 |
  { grep -v '^[0-9]* warnings generated\.$' || true; }
