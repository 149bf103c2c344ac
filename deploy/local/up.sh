#!/usr/bin/env bash
# Runs the three services and a Prometheus that scrapes them on this machine, until interrupted. With --gateway also the
# HTTP gateway.
#
#   deploy/local/up.sh [--data DIR] [--prometheus HOST:PORT] [OPTION ...]
#
#   --data DIR              state of the services and of Prometheus; default: kernelcast-local
#   --prometheus HOST:PORT  Prometheus's listening address; default: 127.0.0.1:9090
#
# Other options go to `kernelcast up`. KERNELCAST_BIN is the folder of the programs; default: that of
# the build or installation that contains this file. Prometheus is Debian's package prometheus.
#
# Exit codes: 0 interrupted, 1 a process ended by itself, 2 usage, 3 something is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'up: %s\n' "$*" >&2; }

data=kernelcast-local
prometheus_address=127.0.0.1:9090
options=()
while (($#)); do
  case "$1" in
    --data | --prometheus)
      (($# >= 2)) || { say "$1 needs a value"; exit 2; }
      if [[ $1 == --data ]]; then data=$2; else prometheus_address=$2; fi
      shift
      ;;
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) options+=("$1") ;;
  esac
  shift
done

bin=${KERNELCAST_BIN-}
for folder in "$here/../../build/${KERNELCAST_PRESET:-ci}/bin" "$here/../../bin" "$here/../../../bin"; do
  [[ -n $bin ]] || { [[ -x $folder/kernelcast ]] && bin=$folder; }
done
[[ -n $bin && -x $bin/kernelcast ]] || { say "no kernelcast: build it, or name its folder in KERNELCAST_BIN"; exit 3; }
command -v prometheus >/dev/null || { say "no prometheus: apt-get install --no-install-recommends prometheus"; exit 3; }

mkdir -p "$data/prometheus/rules"
data=$(cd "$data" && pwd)
cp "$here/prometheus.yml" "$data/prometheus/"
cp "$here"/../prometheus/rules/*.yml "$data/prometheus/rules/"

services=0
prometheus=0
stopping=0
# Stops both and lets the services drain. Another signal ends them at once.
# shellcheck disable=SC2317 # called by traps
tell() {
  stopping=1
  local pid
  for pid in $services $prometheus; do
    if ((pid)); then kill -TERM "$pid" 2>/dev/null || true; fi
  done
}
# shellcheck disable=SC2317
finish() {
  ((stopping)) || tell
  local pid
  for pid in $services $prometheus; do
    while ((pid)) && kill -0 "$pid" 2>/dev/null; do wait "$pid" || true; done
  done
}
trap tell INT TERM

addresses=$data/addresses.json
: >"$addresses"
# In separate sessions, so that the terminal's Ctrl-C does not signal them twice.
setsid "$bin/kernelcast" up --json --state-dir "$data/state" "${options[@]}" >"$addresses" &
services=$!
trap finish EXIT
# It prints its addresses in one line once all three services are ready.
until grep -q forecaster_metrics "$addresses"; do
  if ! kill -0 "$services" 2>/dev/null; then
    wait "$services" || exit
    exit 1
  fi
  ((stopping)) && exit 0
  sleep 0.1
done

value() { sed -n "s/.*\"$1\": *\"\\([^\"]*\\)\".*/\\1/p" "$addresses"; }
{
  separator='['
  for job in orchestrator worker forecaster gateway; do
    [[ $(value "${job}_metrics") ]] || continue
    printf '%s\n  {"labels": {"job": "%s"}, "targets": ["%s"]}' "$separator" "$job" "$(value "${job}_metrics")"
    separator=,
  done
  printf '\n]\n'
} >"$data/prometheus/targets.json"

setsid prometheus --config.file="$data/prometheus/prometheus.yml" --storage.tsdb.path="$data/prometheus/data" \
  --storage.tsdb.retention.time=15d --web.listen-address="$prometheus_address" --log.level=warn \
  >"$data/prometheus/log" 2>&1 &
prometheus=$!

say "orchestrator $(value orchestrator), Prometheus http://$prometheus_address; Ctrl-C drains and ends all"
say "status page http://$(value orchestrator_status)/"
say "a search: $bin/kernelcast search row_softmax --orchestrator $(value orchestrator)"

code=0
wait -n "$services" "$prometheus" || code=$?
if ((!stopping)); then
  if kill -0 "$services" 2>/dev/null; then
    say "Prometheus ended with code $code:"
    tail -n 5 "$data/prometheus/log" >&2
  else
    say "the services ended with code $code"
  fi
  exit 1
fi
exit 0
