#!/usr/bin/env bash
# Builds the fuzzers with clang and AddressSanitizer in build/fuzz, and runs each one briefly.
#
#   scripts/fuzz.sh
#
# For longer runs start build/fuzz/bin/NAME_fuzz directly; tests/fuzz/CMakeLists.txt lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($#)); then
  sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  [[ $1 == -h || $1 == --help ]] && exit 0
  exit 2
fi
cxx=$(command -v clang++-14 || command -v clang++) || {
  printf 'skipped: there is no clang++ to build fuzzers with\n'
  exit 0
}
cores=$(nproc)
jobs=${KERNELCAST_JOBS:-$((cores < 2 ? cores : 2))}
log=build/fuzz/configure.log
mkdir -p build/fuzz
if [[ ! -f build/fuzz/build.ninja ]] &&
  ! cmake --preset asan -B build/fuzz -DCMAKE_C_COMPILER="${cxx/clang++/clang}" \
    -DCMAKE_CXX_COMPILER="$cxx" -DKERNELCAST_BUILD_FUZZERS=ON >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  exit 1
fi
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
ninja -C build/fuzz -j "$jobs" fuzzers
exec ctest --test-dir build/fuzz --output-on-failure --no-tests=error -L '^fuzz$' -j "$jobs"
