#!/usr/bin/env bash
# Installs what is missing, builds, and runs checks and tests. Ends with ctest's summary.
#
#   scripts/test.sh [--all | --long] [--asan | --tsan] [-- CTEST_OPTION ...]
#
#   --all      also runs tests with the label `slow`: images, chaos, a cluster, timing
#   --long     builds the benchmarks too, runs only tests with the label `long`, which no other option does, and adds
#              their results to data/measured/long_tests.jsonl
#   --asan     with AddressSanitizer and UndefinedBehaviorSanitizer, without lint and timing
#   --tsan     with ThreadSanitizer, without lint and timing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

preset=${KERNELCAST_PRESET:-ci}
all=0
long=0
left_out=()
while (($#)); do
  case "$1" in
    --all) all=1 ;;
    --long) long=1 ;;
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
if ((all && long)); then
  printf 'test: --all and --long exclude each other\n' >&2
  exit 2
fi
targets=(all)
if ((long)); then
  targets=(all long_tests benches)
elif ((all)); then
  targets+=(slow_tests gpu_tests)
  left_out+=(long)
else
  left_out+=(long)
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
if ((!long)); then
  exec ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
    -j "$((cores < 2 ? 1 : 2))" "${labels[@]}" "$@"
fi
# Alone, so that the record has the duration of each test.
results=$PWD/build/$preset/long_tests.xml
failed=0
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -L '^long$' \
  --output-junit "$results" "${labels[@]}" "$@" || failed=$?
scripts/record_tests.py "$results" data/measured/long_tests.jsonl
exit "$failed"
