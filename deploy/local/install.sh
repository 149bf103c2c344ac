#!/usr/bin/env bash
# Installs Kernelcast on this machine as systemd services.
#
#   deploy/local/install.sh [--root DIR] FOLDER
#
#   FOLDER      the output of scripts/bundle.sh --folder, or its unpacked archive
#   --root DIR  installs below DIR and starts nothing
#
# Existing configuration is kept. The HTTP gateway is installed and not started: systemctl enable --now kernelcast-gateway.
# Needs root, except with --root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'install: %s\n' "$*" >&2; }
usage() { sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; }

root=
folder=
while (($#)); do
  case "$1" in
    --root) root=${2-}; shift; [[ -n $root ]] || { usage; exit 2; } ;;
    -h | --help) usage; exit 0 ;;
    -*) say "unknown option '$1'"; usage; exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
[[ -n $folder ]] || { usage; exit 2; }
[[ -x $folder/bin/kernelcast-orchestrator ]] || { say "$folder/bin has no kernelcast-orchestrator"; exit 2; }
[[ -n $root || $EUID == 0 ]] || { say "only root may install; --root DIR installs elsewhere"; exit 1; }

install -d "$root/opt/kernelcast" "$root/etc/systemd/system" "$root/usr/lib/sysusers.d"
install -d -m 0750 "$root/etc/kernelcast"
for part in bin lib include share; do
  if [[ -d $folder/$part ]]; then cp -r "$folder/$part" "$root/opt/kernelcast/"; fi
done
install -D -m 644 "$here/README.md" "$root/opt/kernelcast/share/doc/kernelcast/README.md"
for service in forecaster worker orchestrator gateway; do
  install -m 644 "$here/systemd/kernelcast-$service.service" "$root/etc/systemd/system/"
  config=$root/etc/kernelcast/$service.yaml
  if [[ -e $config ]]; then
    say "$config is left as it is"
  else
    install -m 640 "$here/config/$service.yaml" "$config"
  fi
done
install -m 644 "$here/systemd/kernelcast.sysusers" "$root/usr/lib/sysusers.d/kernelcast.conf"
[[ -z $root ]] || exit 0

systemd-sysusers kernelcast.conf
chgrp -R kernelcast /etc/kernelcast
systemctl daemon-reload
systemctl enable --now kernelcast-forecaster kernelcast-worker kernelcast-orchestrator
systemctl --no-pager --lines 0 status 'kernelcast-*'
