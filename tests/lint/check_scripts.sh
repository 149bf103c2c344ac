#!/usr/bin/env bash
# Checks that every shell script passes shellcheck.
set -euo pipefail
{ "$(dirname "$0")"/sources.sh '*.sh'; printf '%s\n' .ci/run; } | xargs "$TOOL"
