#!/usr/bin/env bash
# Configures and builds. Prints almost nothing when everything is up to date.
#
#   scripts/build.sh [--without-tests] [TARGET ...]    all targets by default
#
#   --without-tests    configures, the first time, without packages that only tests need
#
# KERNELCAST_PRESET  preset of CMakePresets.json, "ci" by default; builds in build/PRESET
# KERNELCAST_JOBS    parallel compilers; default: one per core, at most 2, because of their memory
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

with_tests=ON
if [[ ${1-} == --without-tests ]]; then
  with_tests=OFF
  shift
fi
preset=${KERNELCAST_PRESET:-ci}
cores=$(nproc)
jobs=${KERNELCAST_JOBS:-$((cores < 2 ? cores : 2))}
build_dir=build/$preset
log=$build_dir/configure.log

# Headers that setup.sh has installed in the meantime require configuring again.
cuda_is_new() {
  local header
  for header in nvrtc.h:CUDA cupti_range_profiler.h:CUPTI; do
    [[ -f .setup/cuda/include/${header%:*} ]] &&
      grep -q "^KERNELCAST_${header#*:}_INCLUDE_DIR:PATH=.*-NOTFOUND$" "$build_dir/CMakeCache.txt" &&
      return 0
  done
  return 1
}

if [[ ! -f $build_dir/build.ninja || CMakePresets.json -nt $build_dir/build.ninja ]] || cuda_is_new ||
  { [[ $with_tests == ON ]] && grep -q '^KERNELCAST_BUILD_TESTS:BOOL=OFF' "$build_dir/CMakeCache.txt"; }; then
  mkdir -p "$build_dir"
  printf 'build: configuring %s\n' "$build_dir" >&2
  if ! cmake --preset "$preset" -DKERNELCAST_BUILD_TESTS=$with_tests >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf 'build: configuring failed; its whole output is in %s\n' "$log" >&2
    exit 1
  fi
fi

# Lets checkouts share the compiler cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
export NINJA_STATUS='[%f/%t %es] '
if [[ -t 1 ]]; then
  exec ninja -C "$build_dir" -j "$jobs" "$@"
fi
# Not on a terminal: one line per step, and none when everything is up to date.
ninja -C "$build_dir" -j "$jobs" "$@" |
  sed -u -e '/^ninja: Entering directory/d' -e '/^ninja: no work to do\.$/d' \
    -e '/ Re-checking globbed directories\.\.\.$/d'
