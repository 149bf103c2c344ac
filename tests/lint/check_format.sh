#!/usr/bin/env bash
# Checks that every C++ source is formatted by clang-format.
set -euo pipefail
unformatted=$("$(dirname "$0")"/sources.sh '*.h' '*.cc' | xargs -r "$TOOL" --dry-run 2>&1 |
  sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u)
if [[ $unformatted ]]; then
  printf 'not as clang-format leaves them; scripts/format.sh formats them:\n%s\n' "$unformatted"
  exit 1
fi
