#!/usr/bin/env bash
# Generates docs/reference/api.md from the comments of the protos.
#
#   scripts/api.sh           writes the page
#   scripts/api.sh --check   fails where the page is stale
#
# Needs protoc and protoc-gen-doc (.setup/bin, or the program in TOOL); scripts/setup.sh --test installs both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

page=docs/reference/api.md
plugin=${TOOL:-.setup/bin/protoc-gen-doc}
[[ -x $plugin ]] || { printf '%s is missing; scripts/setup.sh --test installs it\n' "$plugin" >&2; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
protos=()
for name in orchestrator forecaster worker kernel; do
  protos+=("proto/kernelcast/v1/$name.proto")
done
protoc "--plugin=protoc-gen-doc=$plugin" "--doc_out=$folder" --doc_opt=scripts/api.md.tmpl,api.md -Iproto "${protos[@]}"
# One blank line between parts, and no blanks at the ends of lines.
sed -e 's/[ \t]*$//' "$folder/api.md" | cat -s | sed -e '${/^$/d}' >"$folder/page"

if [[ ${1-} == --check ]]; then
  diff -u "$page" "$folder/page" || { printf '%s is stale; scripts/api.sh writes it\n' "$page" >&2; exit 1; }
else
  cp "$folder/page" "$page"
fi
