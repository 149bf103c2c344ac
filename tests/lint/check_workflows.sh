#!/usr/bin/env bash
# Checks the workflows in .github, or the files of the arguments, with actionlint, and that each action is named by the hash
# of a commit and the version in a comment.
set -euo pipefail
(($#)) || set -- .github/workflows/*.yml
"$TOOL" "$@"
if grep -HnE '^ *-? *uses:' "$@" | grep -vE 'uses: (\./[^ ]+|[^ @]+@[0-9a-f]{40} # v[0-9.]+)$'; then
  printf 'these name no commit with its version: uses: OWNER/NAME@HASH # vX.Y.Z\n'
  exit 1
fi
