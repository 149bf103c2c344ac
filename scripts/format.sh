#!/usr/bin/env bash
# Formats every C++ source and proto of the project in place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests/lint/sources.sh '*.h' '*.cc' | xargs -r clang-format -i
if [[ -x .setup/bin/buf ]]; then
  (cd proto && ../.setup/bin/buf format --write)
fi
