#!/usr/bin/env bash
# Installs what is missing, builds, and runs checks and tests. Ends with ctest's summary.
#
#   scripts/test.sh [--all] [--asan | --tsan] [-- CTEST_OPTION ...]
#
#   --all      also runs tests with the label `slow`: fuzzers, images, chaos, a cluster, header checks, timing
#   --asan     with AddressSanitizer and UndefinedBehaviorSanitizer, without lint and timing
#   --tsan     with ThreadSanitizer, without lint and timing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

preset=${KERNELCAST_PRESET:-ci}
all=0
left_out=()
while (($#)); do
  case "$1" in
    --all) all=1 ;;
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
targets=(all)
if ((all)); then
  targets+=(slow_tests gpu_tests benches)
else
  left_out+=(slow)
  if [[ -e /dev/nvidiactl ]]; then
    targets+=(gpu_tests)
  else
    printf 'test: no NVIDIA GPU here: tests with the label gpu are not built\n' >&2
    left_out+=(gpu)
  fi
fi

scripts/setup.sh --test
export KERNELCAST_PRESET=$preset
scripts/build.sh "${targets[@]}"

labels=()
if ((${#left_out[@]})); then
  labels=(-LE "^($(IFS='|'; printf '%s' "${left_out[*]}"))\$")
fi
cores=$(nproc)
exec ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  -j "$((cores < 2 ? 1 : 2))" "${labels[@]}" "$@"
