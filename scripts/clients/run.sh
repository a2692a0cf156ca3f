#!/usr/bin/env bash
# run.sh [CLIENT...]   real Kafka clients write and read back records with keys,
# headers and every codec; content and order are checked.
#
# CLIENT: kgo kcat confluent java perf ctl txn (default: these; txn: transactions of all
#         libraries), and whole lives of consumer groups: kgo-group confluent-group kafka-python-group
#         sarama-group kafkajs-group java-group streams. These have
#         brokers of their own, because they kill them. simple-group and tools-group:
#         consumers without a group, kafka-consumer-groups. snippets: the programs
#         of docs/clients.md, which have brokers of their own, too. kafkajs: an
#         idempotent producer. connect: Kafka Connect. tools: Kafka's performance
#         and verifiable clients. cli: all of Kafka's tools (scripts/cli-smoke.sh).
#         queues: the workers of docs/queues.md, on brokers of their own.
#         share: share groups of the libraries that have them, on a broker of their own.
#         secure: logins of all libraries, on a broker of its own. telemetry: the metrics that
#         clients push, in /metrics.
#         all: each of these, but not ctl, which is for a single broker.
# BOOTSTRAP=HOST:PORT   test a broker that runs; without it bin/chronikd is
#                       started on a directory and ports of its own.
# NODES=3               three brokers that form a cluster (scripts/cluster-up.sh);
#                       topics and groups have three replicas.
# ONE_ADDRESS=1         with NODES=3: clients know only the address of a balancer, and brokers forward.
# RESTARTS=1            with NODES=3: one broker after the other is stopped and
#                       killed, and started again, as long as the clients run.
# RESTART_PAUSE=2       seconds between two restarts.
# KAFKA=1               with NODES=3: three brokers of Apache Kafka instead, to compare.
# AT_ONCE=1             all clients at once. QUICK=1: the groups' main variants only.
# METRICS=HOST:PORT     with BOOTSTRAP: the admin ports of its brokers, for telemetry.
# RECORDS=100000        records of each client and codec.
# STRICT=1              a client that is not installed is a failure.
# KEEP=1                keeps logs and data.
# KAFKA_VERSION=4.3.1   the version of Kafka's own tools and clients, which Maven gets (default: that in
#                       scripts/kafka/pom.xml).
# KAFKA_TOOLS=DIR       where the steps of cli are (default ../shared/kafka).
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
export RECORDS="${RECORDS:-100000}" WORK RUN="$$"
export KAFKA_TOOLS="${KAFKA_TOOLS:-$root/../shared/kafka}"
if [ "${NODES:-1}" != 1 ] && [ -z "${BOOTSTRAP:-}" ] && [ -z "${BROKERS:-}" ]; then
  [ "$NODES" = 3 ] || { echo "clients: NODES is 1 or 3, not $NODES"; exit 2; }
  if [ -n "${KAFKA:-}" ]; then
    export BROKERS DIRS PIDS ADMINS='' PEER
    PEER="$(mktemp -d "${TMPDIR:-/tmp}/chronik-kafka.XXXXXX")"
    read -r port _ < <(python3 "$root/scripts/free-ports.py" 7)
    BROKERS="$("$root/scripts/kafka/up" --nodes 3 --port "$port" --dir "$PEER" --heap "${KAFKA_HEAP:-384m}")" || exit 1
    DIRS="$(echo "$PEER"/node?)" PIDS="$(cat "$PEER"/node?/pid | xargs)"
    for dir in $DIRS; do touch "$dir/log"; done
  fi
fi
if [ "${NODES:-1}" != 1 ] && [ -z "${BOOTSTRAP:-}" ] && [ -z "${BROKERS:-}" ]; then
  read -r CHRONIK_PORT _ _ CHRONIK_ADMIN_PORT _ _ CHRONIK_ONE_PORT _ < <(python3 "$root/scripts/free-ports.py" 10)
  export CHRONIK_PORT CHRONIK_ADMIN_PORT
  if [ -n "${ONE_ADDRESS:-}" ]; then export CHRONIK_ONE_PORT; else unset CHRONIK_ONE_PORT; fi
  exec "$root/scripts/cluster-up.sh" -- "$here/run.sh" "$@"
fi
export NODES="${NODES:-1}"
. "$here/nodes.sh"
WORK="$(mktemp -d "${TMPDIR:-/tmp}/chronik-clients.XXXXXX")"
pid='' restarts=''
finish() {
  if [ -n "$restarts" ]; then kill -TERM "$restarts" 2>/dev/null; wait "$restarts" 2>/dev/null; fi
  if [ -n "${PIDS:-}" ]; then end_restarted; fi
  if [ -n "$pid" ]; then kill -TERM "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; fi
  if [ -n "${KEEP:-}" ]; then echo "clients: logs and data are in $WORK"; else rm -rf "$WORK" ${PEER:+"$PEER"}; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ -n "${BROKERS:-}" ]; then
  BOOTSTRAP="$BROKERS"
  if [ -n "${RESTARTS:-}" ]; then
    rolling >"$WORK/restarts" 2>&1 &
    restarts=$!
  fi
else
  unset RESTARTS # only brokers of a cluster are restarted
fi
if [ -z "${BROKERS:-}${BOOTSTRAP:-}" ]; then
  : >"$WORK/chronikd.log"
  "$root/bin/chronikd" --data-dir "$WORK/data" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 2>"$WORK/chronikd.log" &
  pid=$!
  for _ in $(seq 600); do
    BOOTSTRAP="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$WORK/chronikd.log")"
    [ -n "$BOOTSTRAP" ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  if [ -z "$BOOTSTRAP" ]; then echo "clients: chronikd did not start:"; cat "$WORK/chronikd.log"; exit 1; fi
  METRICS="$(sed -n 's/.*"msg":"ready".*"admin":"\([^"]*\)".*/\1/p' "$WORK/chronikd.log")"
fi
[ -z "${ADMINS:-}" ] || METRICS="${ADMINS//,/ }"
export BOOTSTRAP METRICS="${METRICS:-}"

passed=0 failed=0 missing=0
count() { # count CLIENT RC SECONDS
  case $2 in
    0) passed=$((passed + 1)); echo "PASS $1 ($3s)";;
    77) missing=$((missing + 1)); echo "MISSING $1";;
    *) failed=$((failed + 1)); echo "FAIL $1 ($3s)";;
  esac
}
clients=() running=()
everything="kgo kcat confluent java perf txn telemetry tools connect kafkajs share kgo-group confluent-group kafka-python-group sarama-group kafkajs-group"
everything+=" java-group simple-group tools-group streams snippets queues secure cli"
for client in "${@:-kgo kcat confluent java perf ctl txn}"; do
  [ "$client" != all ] || client="$everything"
  for c in $client; do
    [ -x "$here/$c.sh" ] || { echo "clients: there is no client $c"; exit 2; }
    clients+=("$c")
  done
done
for c in "${clients[@]}"; do
  begin=$SECONDS
  if [ -n "${AT_ONCE:-}" ]; then
    "$here/$c.sh" >"$WORK/$c.out" 2>&1 & running+=($!)
  else
    "$here/$c.sh"; count "$c" $? $((SECONDS - begin))
  fi
done
for i in "${!running[@]}"; do
  wait "${running[i]}"; rc=$?
  cat "$WORK/${clients[i]}.out"
  count "${clients[i]}" $rc $((SECONDS - begin))
done

if [ -n "$restarts" ]; then
  kill -TERM "$restarts" 2>/dev/null; wait "$restarts"; rc=$?; restarts=
  echo "clients: $(grep -c ^restarted "$WORK/restarts") restarts of brokers meanwhile"
  [ "$rc" = 0 ] || { echo "FAIL restarts:"; cat "$WORK/restarts"; failed=$((failed + 1)); }
fi
if [ -n "${BROKERS:-}" ]; then
  # Findings report what the restarts cause. Other warnings are shown: on a busy machine a broker may
  # be fenced, for example.
  expected='^$'
  [ -z "${RESTARTS:-}" ] || expected='"logger":"health"|"msg":"broker refused a connection, or was refused"'
  for dir in $DIRS; do
    if grep -E '"level":"(error|dpanic|panic|fatal)"' "$dir/log" | grep -vE "$expected"; then echo "FAIL broker ${dir##*[!0-9]} logged errors"; failed=$((failed + 1)); fi
    grep '"level":"warn"' "$dir/log" | grep -vE "$expected"
    echo "broker ${dir##*[!0-9]}: $(awk '/^VmHWM/ { printf "%d", $2 / 1024 }' "/proc/$(node_pid "${dir##*[!0-9]}")/status") MiB at most since it was last started"
    if [ -n "${KEEP:-}" ]; then cp "$dir/log" "$WORK/${dir##*/}.log"; fi
  done
fi
if [ -n "$pid" ]; then
  kill -TERM "$pid"; wait "$pid"; rc=$?; pid=
  [ "$rc" = 0 ] || { echo "FAIL chronikd ended with $rc:"; tail -5 "$WORK/chronikd.log"; failed=$((failed + 1)); }
  if grep -E '"level":"(error|dpanic|panic|fatal)"' "$WORK/chronikd.log"; then echo "FAIL chronikd logged errors"; failed=$((failed + 1)); fi
fi
echo "clients: $passed passed, $failed failed, $missing not installed"
[ "$failed" = 0 ] && { [ "$missing" = 0 ] || [ -z "${STRICT:-}" ]; }
