#!/usr/bin/env bash
# Starts three brokers on the loopback interface that form one cluster, prints their addresses, and
# stops them on Ctrl-C or when the command given after -- has ended.
#
#   scripts/cluster-up.sh [DIR] [-- COMMAND...]
#
# DIR keeps the brokers' directories; without it they are temporary. CHRONIKD is the binary,
# CHRONIK_PORT the first of six ports (default 9092, and 9644 for the admin ports). COMMAND gets
# BROKERS, ADMINS, DIRS and PIDS, separated by commas or spaces. With CHRONIK_ONE_PORT, the first of
# four more ports, BROKERS is the address of a balancer, and each broker has a listener that forwards
# (docs/forwarding.md), and a name of its own that leads to the balancer, for old clients.
set -euo pipefail

chronikd=${CHRONIKD:-$(cd "$(dirname "$0")/.." && pwd)/bin/chronikd}
port=${CHRONIK_PORT:-9092}
admin=${CHRONIK_ADMIN_PORT:-9644}
if [[ ! -x $chronikd ]]; then
  echo "$chronikd is missing: run make build, or set CHRONIKD" >&2
  exit 2
fi

dir='' temporary=''
if [[ $# -gt 0 && $1 != -- ]]; then
  dir=$1
  shift
fi
[[ ${1:-} == -- ]] && shift
if [[ -z $dir ]]; then
  dir=$(mktemp -d)
  temporary=$dir
fi

pids=()
stop() {
  trap - EXIT INT TERM
  for pid in "${pids[@]}"; do
    kill -TERM "$pid" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || true
  done
  [[ -z $temporary ]] || rm -rf "$temporary"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

seeds=() admins=() dirs=()
for i in 0 1 2; do
  seeds+=("127.0.0.1:$((port + i))")
  admins+=("127.0.0.1:$((admin + i))")
  dirs+=("$dir/$((i + 1))")
done
list=$(IFS=,; echo "${seeds[*]}")
for i in 0 1 2; do
  mkdir -p "${dirs[i]}"
  one=()
  if [[ -n ${CHRONIK_ONE_PORT:-} ]]; then
    printf 'listeners:\n- name: default\n- {name: one, listen: "127.0.0.1:%d", route: forward, advertise: "127.0.0.{id}:%d"}\n' \
      $((CHRONIK_ONE_PORT + 1 + i)) "$CHRONIK_ONE_PORT" >"${dirs[i]}/one.yaml"
    one=(--config "${dirs[i]}/one.yaml")
  fi
  env -u CHRONIK_PORT -u CHRONIK_ADMIN_PORT -u CHRONIK_CLUSTER -u CHRONIK_ONE_PORT "$chronikd" "${one[@]}" --data-dir "${dirs[i]}" --listen "${seeds[i]}" --admin-listen "${admins[i]}" \
    --set cluster.name="${CHRONIK_CLUSTER:-local}" --set node.id=$((i + 1)) --set cluster.seeds="$list" \
    2>"${dirs[i]}/log" &
  pids+=($!)
done

for i in 0 1 2; do
  until curl -fsS --max-time 5 "http://${admins[i]}/readyz" >/dev/null 2>&1; do
    if ! kill -0 "${pids[i]}" 2>/dev/null; then
      echo "broker $((i + 1)) has ended:" >&2
      tail -5 "${dirs[i]}/log" >&2
      exit 1
    fi
    sleep 0.1
  done
done

if [[ -n ${CHRONIK_ONE_PORT:-} ]]; then
  list=127.0.0.1:$CHRONIK_ONE_PORT
  python3 "$(dirname "$0")/balancer.py" "127.0.0.1,127.0.0.2,127.0.0.3:$CHRONIK_ONE_PORT" 127.0.0.1:$((CHRONIK_ONE_PORT + 1)) 127.0.0.1:$((CHRONIK_ONE_PORT + 2)) \
    127.0.0.1:$((CHRONIK_ONE_PORT + 3)) &
  pids+=($!)
  until (: <"/dev/tcp/127.0.0.1/$CHRONIK_ONE_PORT") 2>/dev/null; do sleep 0.1; done
fi
echo "brokers  $list"
echo "admin    ${admins[*]}"
echo "data     ${dirs[*]}, each with a file log"
if [[ $# -gt 0 ]]; then
  BROKERS=$list ADMINS=$(IFS=,; echo "${admins[*]}") DIRS=${dirs[*]} PIDS=${pids[*]} "$@"
else
  echo "Ctrl-C stops them"
  wait -n "${pids[@]}" || true
  echo "a broker has ended, stopping the others" >&2
  exit 1
fi
