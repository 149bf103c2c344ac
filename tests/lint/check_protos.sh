#!/usr/bin/env bash
# check_protos.sh lint | format
set -euo pipefail
cd proto
case "$1" in
  lint) exec "$TOOL" lint ;;
  format) exec "$TOOL" format --diff --exit-code ;;
esac
