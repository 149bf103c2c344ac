#!/usr/bin/env bash
# Builds a wheel of the programs, their libraries, the prior model, the example problems, the
# completions and the Python package, for x86-64 Linux with glibc 2.36 and GCC 12 or later:
# Debian 12 and 13, Ubuntu 24.04.
#
#   scripts/wheel.sh [--programs FOLDER]
#
#   --programs FOLDER    takes the programs that scripts/bundle.sh --folder made, and builds none
#
# Prints the path and the size of the wheel. Fails where it is larger than 60 MiB, or needs newer
# system libraries than its name says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

programs=
while (($#)); do
  case "$1" in
    --programs)
      programs=${2-}
      [[ $programs ]] || { printf 'wheel: --programs needs a folder\n' >&2; usage; exit 2; }
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) printf "wheel: unknown option '%s'\n" "$1" >&2; usage; exit 2 ;;
  esac
  shift
done
platform=manylinux_2_36_x86_64
max_bytes=$((60 << 20))

say() { printf 'wheel: %s\n' "$*" >&2; }

python=$PWD/.setup/python
if [[ ! -x $python/bin/hatchling ]]; then
  say "no hatchling in .setup/python; scripts/setup.sh --test installs it"
  exit 1
fi
[[ $programs ]] || programs=$(scripts/bundle.sh --folder)
staging=build/${KERNELCAST_PRESET:-ci}/wheel
rm -rf "$staging"
mkdir -p "$staging/src" "$staging/commands"

# Prints the versions of the symbols of system libraries that a file needs.
needed_versions() {
  LC_ALL=C objdump -p "$1" 2>/dev/null |
    awk '$1 ~ /^0x/ && $4 ~ /^(GLIBC|GLIBCXX|CXXABI|GCC)_/ { print $4 }' | sort -u
}

# The oldest distribution that the wheel is for has these.
newest=(GLIBC_2.36 GLIBCXX_3.4.30 CXXABI_1.3.13 GCC_12.0.0)
system='^(ld-linux-x86-64|lib(c|m|mvec|pthread|dl|rt|resolv|util|anl|stdc\+\+|gcc_s))\.so\.'
wrong=0
for file in "$programs"/bin/* "$programs"/lib/*; do
  while read -r version; do
    for limit in "${newest[@]}"; do
      [[ ${version%_*} == "${limit%_*}" ]] || continue
      if [[ $(printf '%s\n' "$version" "$limit" | sort -V | tail -n 1) != "$limit" ]]; then
        say "${file#"$programs/"} needs $version, which is newer than $limit"
        wrong=1
      fi
    done
  done < <(needed_versions "$file")
  while read -r library; do
    if [[ ! -f $programs/lib/$library && ! $library =~ $system ]]; then
      say "${file#"$programs/"} needs $library, which the wheel does not have"
      wrong=1
    fi
  done < <(LC_ALL=C objdump -p "$file" 2>/dev/null | awk '$1 == "NEEDED" { print $2 }')
done
((wrong == 0)) || exit 1

# The Python package by another name, with the programs in a folder of their own in the environment.
cp -r clients/python/src/kernelcast "$staging/src/"
cp clients/python/{LICENSE,README.md,hatch_metadata.py} "$staging/"
PATH=$python/bin:$PATH "$python/bin/python" -B clients/python/hatch_build.py "$staging/src"
cp -r "$programs" "$staging/programs"
mkdir -p "$staging/share"
mv "$staging"/programs/share/{bash-completion,fish,zsh} "$staging/share/"
cat >"$staging/launcher" <<'LAUNCHER'
#!/bin/sh
# Starts the program of the same name in lib/kernelcast/bin of the environment.
self=$(readlink -f -- "$0")
exec "${self%/*/*}/lib/kernelcast/bin/${self##*/}" "$@"
LAUNCHER
chmod 755 "$staging/launcher"
{
  sed -e 's/^name = "kernelcast-client"$/name = "kernelcast"/' clients/python/pyproject.toml
  printf '\n[tool.hatch.build.targets.wheel.shared-data]\n"programs" = "lib/kernelcast"\n"share" = "share"\n'
  printf '\n[tool.hatch.build.targets.wheel.shared-scripts]\n'
  for command in kernelcast kernelcast-{forecaster,gateway,orchestrator,worker}; do
    cp "$staging/launcher" "$staging/commands/$command"
    printf '"commands/%s" = "%s"\n' "$command" "$command"
  done
} >"$staging/pyproject.toml"
cat >"$staging/hatch_build.py" <<PYTHON
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data.update(tag="py3-none-$platform", pure_python=False)
PYTHON
(cd "$staging" && PYTHONDONTWRITEBYTECODE=1 "$python/bin/python" -m hatchling build -t wheel -d dist >&2)

wheel=$(echo "$staging"/dist/*.whl)
bytes=$(stat -c %s "$wheel")
printf '%s\n' "$wheel"
say "$(((bytes + (1 << 19)) >> 20)) MiB, $bytes bytes"
if ((bytes > max_bytes)); then
  say "the limit is $((max_bytes >> 20)) MiB"
  exit 1
fi
