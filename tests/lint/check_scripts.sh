#!/usr/bin/env bash
# Every shell script passes shellcheck.
set -euo pipefail
{ "$(dirname "$0")"/sources.sh '*.sh'; printf '%s\n' .ci/run; } | xargs "$TOOL"
