#!/usr/bin/env bash
# Builds the site of the documents into build/docs/site. Fails on a broken link, a missing heading, and a page that the
# navigation of mkdocs.yml lacks.
#
#   scripts/docs.sh          builds it
#   scripts/docs.sh serve    serves it on http://127.0.0.1:8000 and rebuilds it after each change
#
# KERNELCAST_REPOSITORY_URL  web address of the repository, which links to sources lead to; by default these are text
# KERNELCAST_SITE_URL        address of the site
# Needs the Python environment .setup/docs, which scripts/setup.sh --docs makes, and --test, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

case "${1-}" in
  '' | serve) ;;
  -h | --help) usage; exit 0 ;;
  *) printf "docs: unknown command '%s'\n" "$1" >&2; usage; exit 2 ;;
esac
(($# <= 1)) || { printf 'docs: one command at a time\n' >&2; exit 2; }
python=.setup/docs/bin/python
if [[ ! -x $python ]]; then
  printf 'docs: no MkDocs in .setup/docs; scripts/setup.sh --docs installs it\n' >&2
  exit 1
fi
# Material prints a notice about MkDocs 2 otherwise.
export NO_MKDOCS_2_WARNING=1
if [[ ${1-} == serve ]]; then
  exec "$python" -B -m mkdocs serve
fi
# Strict counts warnings, which it does not do with --quiet.
"$python" -B -m mkdocs build --strict 2>&1 | sed '/^INFO /d' >&2
printf 'build/docs/site/index.html\n'
