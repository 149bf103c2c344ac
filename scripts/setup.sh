#!/usr/bin/env bash
# Installs what Kernelcast needs on a Debian 12 machine. Does nothing, quickly, when all is there.
#
#   scripts/setup.sh           everything
#   scripts/setup.sh --build   what building and running need
#   scripts/setup.sh --test    that, and what tests and lint checks need
#
# Needs root or sudo only when a package is missing. Exit codes: 0 ready, 1 failed, 2 usage, 3 packages
# are missing and cannot be installed from here (the message lists them).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(
  g++ cmake ninja-build ccache pkg-config
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev libabsl-dev
  libcli11-dev libdlpack-dev libmuparser-dev libseccomp-dev libsqlite3-dev libssl-dev
  libxgboost-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev
)
test_packages=(
  catch2 clang-14 clang-format clang-tidy git libclang-rt-14-dev
  python3 python3-grpcio python3-protobuf shellcheck sqlite3
)
tools=.setup
buf_version=1.75.0

say() { printf 'setup: %s\n' "$*" >&2; }
usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

with_tests=1
case "${1-}" in
  '' | --test) ;;
  --build) with_tests=0 ;;
  -h | --help) usage; exit 0 ;;
  *) say "unknown option '$1'"; usage; exit 2 ;;
esac
(($# <= 1)) || { say "one option at a time"; exit 2; }

wanted=("${build_packages[@]}")
((with_tests)) && wanted+=("${test_packages[@]}")

# Prints what of its arguments is not installed. One call of dpkg-query, whatever the number.
missing_packages() {
  local -A installed=()
  local name status
  while read -r name status; do
    [[ $status == installed ]] && installed[$name]=1
  done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for name in "$@"; do
    [[ ${installed[$name]-} ]] || printf '%s\n' "$name"
  done
}

explain() {
  say "$1"
  say "these packages (Debian's names) are missing:"
  printf '  %s\n' "${missing[*]}" >&2
}

install_packages() {
  local as_root=()
  if ! command -v apt-get >/dev/null; then
    explain "this is no Debian-like machine: install the packages by its own means"
    exit 3
  fi
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }; then
      as_root=(sudo)
    else
      explain "neither root nor able to use sudo: have an administrator run apt-get install with them"
      exit 3
    fi
  fi
  local release
  # shellcheck source=/dev/null
  release=$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID-}" "${VERSION_ID-}")
  [[ $release == "debian 12" ]] || say "Kernelcast is tested on Debian 12; this is '$release': untested"

  say "installing packages: ${missing[*]}"
  mkdir -p "$tools"
  local log=$tools/apt.log
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
  # The lock on the package lists is the one that apt-get does not wait for.
  local tries=0
  until "${apt[@]}" update >"$log" 2>&1 </dev/null; do
    if ((++tries >= 30)) || ! grep -q 'Could not get lock' "$log"; then
      tail -n 20 "$log" >&2
      say "the package lists cannot be updated; going on with those that are here"
      break
    fi
    ((tries == 1)) && say "waiting for another apt-get to finish"
    sleep 5
  done
  if ! "${apt[@]}" install --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
    tail -n 30 "$log" >&2
    explain "apt-get failed; its whole output is in $log"
    exit 1
  fi
}

# buf comes from npm, into a folder of this checkout.
install_tools() {
  [[ -x $tools/buf-$buf_version/node_modules/.bin/buf ]] && return
  if ! command -v npm >/dev/null; then
    missing=(npm)
    install_packages
  fi
  say "installing buf $buf_version"
  local staging=$tools/buf.$$
  rm -rf "$tools"/buf*
  mkdir -p "$staging"
  if ! npm install --prefix "$staging" --no-save --no-package-lock --ignore-scripts --no-audit \
    --no-fund --loglevel=error "@bufbuild/buf@$buf_version" >"$tools/npm.log" 2>&1 </dev/null; then
    tail -n 20 "$tools/npm.log" >&2
    say "npm could not install buf (see $tools/npm.log): the lint checks of the protos are skipped"
    return
  fi
  mv "$staging" "$tools/buf-$buf_version"
  mkdir -p "$tools/bin"
  ln -sfn "../buf-$buf_version/node_modules/.bin/buf" "$tools/bin/buf"
}

mapfile -t missing < <(missing_packages "${wanted[@]}")
if ((${#missing[@]})); then
  install_packages
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if ((${#missing[@]})); then
    explain "apt-get reported success, and yet:"
    exit 1
  fi
fi
if ((with_tests)); then
  install_tools
fi
