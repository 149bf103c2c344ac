#!/usr/bin/env bash
# sources.sh PATTERN ...: prints the project's matching files, one per line, from git if available.
set -euo pipefail
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
    if [[ -f $file ]]; then printf '%s\n' "$file"; fi
  done
else
  names=()
  for pattern in "$@"; do names+=(-o -name "$pattern"); done
  find . \( -name build -o -name .setup \) -prune -o -type f \( "${names[@]:1}" \) -print
fi
