#!/usr/bin/env bash
# Makes the files of a release: wheel, Python client, bundle of the programs, chart, bill of materials (CycloneDX), section of the
# changelog, and checksums. Publishes nothing: .github/workflows/release.yml does that for a tag.
#
#   scripts/release.sh VERSION [--dry-run] [--output FOLDER] [--programs FOLDER]
#
#   --dry-run            only warns of changes that are not committed, and of a missing section of the changelog, in place of
#                        which it takes "Unreleased"
#   --output FOLDER      a new folder for the files; by default build/PRESET/release
#   --programs FOLDER    with --dry-run: takes the programs that scripts/bundle.sh --folder made, and builds none
#
# VERSION must be that of the tree; scripts/version.py --set changes it.
# KERNELCAST_REPOSITORY_URL  web address of the repository, for the metadata of the Python packages and of the chart
# Exit codes: 0 done, 1 refused or failed, 2 usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }
say() { printf 'release: %s\n' "$*" >&2; }
wrong_usage() { say "$*"; usage; exit 2; }

version='' dry_run=0 programs='' output=''
while (($#)); do
  case "$1" in
    --dry-run) dry_run=1 ;;
    --output | --programs)
      [[ ${2-} ]] || wrong_usage "$1 needs a folder"
      if [[ $1 == --output ]]; then output=$2; else programs=$2; fi
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    -*) wrong_usage "unknown option '$1'" ;;
    *)
      [[ ! $version ]] || wrong_usage "one version at a time, not '$version' and '$1'"
      version=$1
      ;;
  esac
  shift
done
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || wrong_usage "VERSION is '$version'; it has the form X.Y.Z"
if [[ $programs ]] && ((!dry_run)); then
  wrong_usage "--programs needs --dry-run: a release is built from its tree"
fi

# Prints the section of the changelog with this name, without its heading and blank lines around it.
section() {
  awk -v heading="## [$1]" '
    index($0, "## ") == 1 { inside = index($0, heading) == 1; next }
    inside && (started || NF) { started = 1; blank = NF ? "" : blank "\n"; if (NF) printf "%s%s\n", held, $0; held = blank }
  ' CHANGELOG.md
}

refused=0
# An obstacle that a dry run only warns of.
obstacle() {
  if ((dry_run)); then say "a release would be refused: $*"; else say "$*"; refused=1; fi
}

if ! differing=$(scripts/version.py --check); then
  printf '%s\n' "$differing" >&2
  say "the files of the tree have different versions; scripts/version.py --set $version changes them"
  exit 1
fi
if [[ $(scripts/version.py) != "$version" ]]; then
  say "the tree has version $(scripts/version.py), not $version; scripts/version.py --set $version changes it"
  exit 1
fi
if ! revision=$(git rev-parse HEAD); then
  say "this is no checkout of Git"
  exit 1
fi
changed=$(git status --porcelain)
if [[ $changed ]]; then
  obstacle "$(printf 'changes are not committed:\n%s' "$(head -n 10 <<<"$changed")")"
fi
if tagged=$(git rev-parse --quiet --verify "refs/tags/v$version^{commit}") && [[ $tagged != "$revision" ]]; then
  obstacle "the tag v$version exists, at $tagged"
fi
changes=$(section "$version")
if [[ ! $changes ]]; then
  obstacle "CHANGELOG.md has no section '## [$version]', or an empty one"
  changes=$(section Unreleased)
fi
((!refused)) || exit 1
# On the page of a release, links relative to the repository lead nowhere.
if [[ ${KERNELCAST_REPOSITORY_URL-} ]]; then
  links="${KERNELCAST_REPOSITORY_URL%/}/blob/v$version"
  changes=$(printf '%s\n' "$changes" | sed "s,\](\([A-Za-z][^):]*\)),]($links/\1),g")
fi

python=$PWD/.setup/python/bin helm=$PWD/.setup/bin/helm
for tool in "$python/hatchling" "$helm"; do
  if [[ ! -x $tool ]]; then
    say "no ${tool##*/} in ${tool%/*}; scripts/setup.sh --test installs it"
    exit 1
  fi
done
preset=${KERNELCAST_PRESET:-ci}
if [[ $output ]]; then
  if [[ -e $output && $(ls -A "$output") ]]; then
    say "--output: '$output' is not empty"
    exit 1
  fi
else
  output=build/$preset/release
  rm -rf "$output"
fi
mkdir -p "$output"
output=$(cd "$output" && pwd)

# The same tree gives the same archives.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
[[ $programs ]] || programs=$(scripts/bundle.sh --folder)
wheel=$(scripts/wheel.sh --programs "$programs")
cp "$wheel" "$output/"
(cd clients/python && PATH=$python:$PATH PYTHONDONTWRITEBYTECODE=1 "$python/python" -m hatchling build -d "$output" >&2)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --transform='s,^\.,kernelcast,' \
  -C "$programs" -cf - . | gzip -n >"$output/kernelcast-$version-linux-x86_64.tar.gz"
# With the alerts and boards that the chart has links to.
charts=$(mktemp -d)
trap 'rm -rf "$charts"' EXIT
cp -rL helm/kernelcast "$charts/"
if [[ ${KERNELCAST_REPOSITORY_URL-} ]]; then
  printf 'home: %s\nsources: [%s]\n' "${KERNELCAST_REPOSITORY_URL%/}" "${KERNELCAST_REPOSITORY_URL%/}" >>"$charts/kernelcast/Chart.yaml"
fi
"$helm" package "$charts/kernelcast" --destination "$output" >&2
"$python/python" -B scripts/sbom.py --programs "$programs" --build "build/$preset" --version "$version" \
  --revision "$revision" --output "$output/kernelcast-$version.cdx.json"
printf '%s\n' "$changes" >"$output/CHANGES.md"
sums=$(cd "$output" && sha256sum -- *)
printf '%s\n' "$sums" >"$output/SHA256SUMS"

printf '%s\n' "$output"/*
if ((!dry_run)); then
  say "to publish: git tag --annotate v$version --message 'Kernelcast $version' && git push origin v$version"
fi
