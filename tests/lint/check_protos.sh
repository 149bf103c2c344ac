#!/usr/bin/env bash
# check_protos.sh lint | format | breaking
# `breaking` compares with the last release, by tag, and is skipped before the first one.
set -euo pipefail
cd proto
case "$1" in
  lint) exec "$TOOL" lint ;;
  format) exec "$TOOL" format --diff --exit-code ;;
  breaking)
    release=$(git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null) || {
      echo "there is no release to compare with"
      exit 77
    }
    before=$(mktemp -d)
    trap 'rm -rf "$before"' EXIT
    git archive "$release" | tar -x -C "$before"
    "$TOOL" breaking --against "$before"
    ;;
esac
