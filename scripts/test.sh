#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all checks and tests. Ends with ctest's summary.
#
#   scripts/test.sh [--quick] [--asan | --tsan] [-- CTEST_OPTION ...]
#
#   --quick    skips tests that are slow or measure time (labels timing, chaos, fuzz and image)
#   --asan     with AddressSanitizer and UndefinedBehaviorSanitizer, without lint and timing
#   --tsan     with ThreadSanitizer, without lint and timing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

preset=${KERNELCAST_PRESET:-ci}
left_out=()
while (($#)); do
  case "$1" in
    --quick) left_out+=(timing chaos fuzz image) ;;
    --asan | --tsan)
      preset=${1#--}
      left_out+=(lint timing)
      ;;
    --) shift; break ;;
    -h | --help) usage; exit 0 ;;
    *) printf "test: unknown option '%s'\n" "$1" >&2; usage; exit 2 ;;
  esac
  shift
done

scripts/setup.sh --test
KERNELCAST_PRESET=$preset scripts/build.sh

labels=()
if ((${#left_out[@]})); then
  labels=(-LE "^($(IFS='|'; printf '%s' "${left_out[*]}"))\$")
fi
cores=$(nproc)
exec ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  -j "$((cores < 2 ? 1 : 2))" "${labels[@]}" "$@"
