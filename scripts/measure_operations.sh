#!/usr/bin/env bash
# Measures every point of the spaces of operations, and writes a file of records for each.
#
#   scripts/measure_operations.sh STATE OUT [OPERATION...]
#
# OPERATION is a folder; by default all of examples/operations. STATE is the folder of the services' state,
# by which a repeated command continues. OUT/NAME.jsonl has the records, with sources. KERNELCAST names the
# program (build/ci/bin/kernelcast), and KERNELCAST_PYTHON an interpreter with PyTorch for CUDA and Triton.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if (($# < 2)) || [[ $1 == -h || $1 == --help ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  [[ ${1-} == -h || ${1-} == --help ]] && exit 0
  exit 2
fi
state=$1 out=$2
shift 2
(($#)) || set -- "$root"/examples/operations/*/
kernelcast=${KERNELCAST:-$root/build/ci/bin/kernelcast}
mkdir -p "$state" "$out"
failed=0
for operation; do
  name=$(basename "$operation")
  # A search that finds nothing faster ends with 1.
  status=0
  "$kernelcast" search "$operation" --target cuda --search-id "space_$name" --state-dir "$state" \
    --measure-everything --time-in-full --budget-measurements 100000 --gate off --no-report || status=$?
  if ((status > 1)); then
    printf '%s: the search ended with %d\n' "$name" "$status" >&2
    failed=1
    continue
  fi
  "$kernelcast" export "space_$name" --state-dir "$state" --sources -o "$out/$name.jsonl"
done
exit "$failed"
