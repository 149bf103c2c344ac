#!/usr/bin/env bash
# Generates the API page from the protos, and from the built programs the configuration page and the completions.
#
#   scripts/generate.sh [FOLDER]   # FOLDER holds the programs, build/ci/bin by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

programs=${1:-build/ci/bin}
scripts/api.sh
scripts/configuration.py "$programs"
"$programs/kernelcast" completion bash >scripts/completion/kernelcast.bash
"$programs/kernelcast" completion zsh >scripts/completion/_kernelcast
"$programs/kernelcast" completion fish >scripts/completion/kernelcast.fish
