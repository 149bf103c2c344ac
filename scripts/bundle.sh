#!/usr/bin/env bash
# Packs the programs and the libraries that they need into one archive, for machines with another
# distribution (glibc 2.36 or later, x86-64) or without the packages. A GPU node also needs its
# driver and, to compile candidates, NVIDIA's toolkit.
#
#   scripts/bundle.sh [--tests] [--folder]
#
#   --tests     adds the tests and benchmarks that a GPU node can run
#   --folder    leaves the folder, build/PRESET/bundle/kernelcast, and makes no archive
#
# Prints the path of the result.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

with_tests=0
archive=1
while (($#)); do
  case "$1" in
    --tests) with_tests=1 ;;
    --folder) archive=0 ;;
    -h | --help) usage; exit 0 ;;
    *) printf "bundle: unknown option '%s'\n" "$1" >&2; usage; exit 2 ;;
  esac
  shift
done

preset=${KERNELCAST_PRESET:-ci}
build_dir=build/$preset
folder=$build_dir/bundle/kernelcast
targets=(programs)
if ((with_tests)); then targets+=(gpu_tests benches); fi
scripts/build.sh "${targets[@]}" >&2
rm -rf "$folder"
cmake --install "$build_dir" --prefix "$folder" --strip >/dev/null
if ((with_tests)); then
  for program in "$build_dir"/bin/gpu_* "$build_dir"/bin/bench_*; do
    [[ -x $program ]] && install -s "$program" "$folder/bin/"
  done
fi

# Leave out the C library, which must match the system's loader, and that of C++: candidates need
# one at least as new as the system's compiler.
mkdir -p "$folder/lib"
own='^(ld-linux-x86-64|libc|libm|libmvec|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_.*|libstdc\+\+|libgcc_s)\.so'
files=()
while read -r library; do
  [[ $(basename "$library") =~ $own ]] && continue
  file=$(readlink -f "$library")
  install -m 755 "$file" "$folder/lib/$(basename "$library")"
  files+=("*/$(basename "$file")")
done < <(for program in "$folder"/bin/*; do
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u)
strip --strip-unneeded "$folder"/lib/*.so* 2>/dev/null || true

# Their licences, and that of Kernelcast.
install -D -m 644 LICENSE "$folder/share/doc/kernelcast/LICENSE"
dpkg-query -S "${files[@]}" | sed 's/[,:].*//' | sort -u | while read -r package; do
  install -D -m 644 "/usr/share/doc/$package/copyright" "$folder/share/doc/kernelcast/licenses/$package.txt"
done

if ((archive)); then
  version=$(sed -n 's/^project(kernelcast VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  file=$build_dir/kernelcast-$version-linux-x86_64.tar.gz
  tar -C "$folder/.." -czf "$file" kernelcast
  printf '%s\n' "$file"
else
  printf '%s\n' "$folder"
fi
