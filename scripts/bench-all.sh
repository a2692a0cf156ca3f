#!/usr/bin/env bash
# bench-all.sh [PART...]   every table of docs/performance.md, durability.md and rivals.md in one run, for
#                          a day on which the machine does nothing else. About 150 minutes on 2 CPUs.
#
# PART: main tools bulk brokers txn sizes tls tails mixed neighbours start scale move store forward rights
#       share profiles rivals (default: all, in this order).
# OUT=DIR               each part writes DIR/PART.txt (default bench-DATE in the working directory), and
#                       DIR/times.txt has when it ended and how steady the processors were before it.
# KLITE=FILE TANSU=FILE programs of the part rivals, which is measured without those that are missing.
#
# Parts that compare with Kafka need Java and Maven, as bench.sh says. A part that fails is reported at
# the end and does not stop the others.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root" || exit 1
bench="$root/bin/chronik-bench" scripts="$root/scripts"
out="$(realpath -m "${OUT:-bench-$(date -u +%F)}")"
mkdir -p "$out" || exit 1

row() { "$scripts/bench.sh" "$@"; }
part_main() { ROUNDS=3 TIME=4s row; }
part_tools() { ROUNDS=3 row tools groups; }
part_bulk() { ROUNDS=2 BULK_TIME=45s BULK_KEEP=6 BALLAST="$(ballast)" row bulk; }
# ballast   the GiB to take away so that 8 are left for the page cache.
ballast() { awk '/^MemAvailable/ {g = int($2 / 1048576) - 8; print (g > 0 ? g : 0)}' /proc/meminfo; }
part_txn() { ROUNDS=2 TIME=3s row txn; }
part_tls() { ROUNDS=3 TIME=3s row tls logins idletls; }
part_tails() { ROUNDS=2 row tails; }
part_neighbours() { ROUNDS=1 TIME=3s row neighbours quotas; }
part_mixed() { ROUNDS=2 row mixed; }
part_share() { ROUNDS=2 TIME=4s row share; }
part_profiles() { ROUNDS=3 TIME=2s row profiles syncs; }
part_scale() { make cluster-scale; }
part_move() { AT_A_TIME=4 MIB=256 THROTTLE=2MiB make cluster-move; }
part_store() { make bench-store SIZE=2G DURATION=12 INTERVAL=12; }
part_start() {
  make bench-start
  ROUNDS=1 row start
  go test -run '^$' -bench . -benchtime 100x -benchmem ./pkg/chronik
}
part_rights() {
  go test ./internal/broker -run '^$' -bench BenchmarkRights
  go test ./internal/security/acl -run '^$' -bench 10000Rules
}
part_rivals() { "$scripts/rivals.sh"; }

# three COMMAND...   runs COMMAND with three brokers, which BROKERS names.
three() {
  local ports
  read -r -a ports < <(python3 "$scripts/free-ports.py" 1)
  CHRONIK_PORT="${ports[0]}" CHRONIK_ADMIN_PORT="$((ports[0] + 40))" "$scripts/cluster-up.sh" -- "$@"
}
part_sizes() { # transactions of larger records, chronik alone
  local size dir addr pid
  for size in 256 1024 4096 10240; do
    dir="$(mktemp -d)"
    "$root/bin/chronikd" --data-dir "$dir" --listen 127.0.0.1:0 --admin-listen off 2>"$dir.log" &
    pid=$!
    until addr="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$dir.log")" && [ -n "$addr" ]; do
      kill -0 "$pid" || { cat "$dir.log"; return 1; }
      sleep 0.1
    done
    "$bench" txn --a "$addr" --pid-a "$pid" --loads batch,plain -d 4s --rounds 3 -s "$size"
    kill -TERM "$pid"
    wait "$pid"
    rm -rf "$dir" "$dir.log"
  done
}
part_brokers() { # three brokers of each kind
  local dir kafka
  dir="$(mktemp -d)"
  kafka="$("$scripts/kafka/up" --nodes 3 --port 19692 --dir "$dir")" || return 1
  # shellcheck disable=SC2016 # BROKERS is cluster-up's
  KAFKA="$kafka" BENCH="$bench" three bash -c '
    "$BENCH" --bootstrap-servers "$KAFKA" --admin off --create-topic --replication-factor 3 --topic warm -d 75s --warmup 0s -c 128 >/dev/null
    n=0
    for load in "-c 128" "-c 128 --partitions 16" "-c 128 --partitions 100" "-c 1" "--batched -s 256 --delete-topic" "--batched -s 1024 --delete-topic"; do
      n=$((n + 1))
      echo "## $load"
      "$BENCH" compare --a "$KAFKA" --name-a kafka --b "$BROKERS" --name-b chronik --admin off --rounds 3 --discard 1 -d 4s --warmup 2s \
        --create-topic --replication-factor 3 --topic "row-$n" $load
    done'
  "$scripts/kafka/down" --dir "$dir" --wipe >/dev/null 2>&1
}
# part_forward   a Produce at the leader, and at a broker that passes it on: each has a forwarding listener
# that names itself, so clients stay at the broker that they dial.
part_forward() (
  dir="$(mktemp -d)" pids=()
  stop_brokers() {
    kill -TERM "${pids[@]}"
    wait "${pids[@]}"
    rm -rf "$dir"
  }
  trap stop_brokers EXIT
  read -r -a ports < <(python3 "$scripts/free-ports.py" 6)
  seeds="127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}"
  for i in 0 1 2; do
    printf 'listeners:\n- name: default\n- {name: one, listen: "127.0.0.1:%d", route: forward}\n' "${ports[i + 3]}" >"$dir/$i.yaml"
    "$root/bin/chronikd" --config "$dir/$i.yaml" --data-dir "$dir/$i" --listen "127.0.0.1:${ports[i]}" --admin-listen off \
      --set cluster.name=forward --set "node.id=$((i + 1))" --set "cluster.seeds=$seeds" 2>"$dir/$i.log" &
    pids+=($!)
  done
  ctl() { "$root/bin/chronikctl" --brokers "$seeds" --admin off --timeout 60s "$@"; }
  until ctl topic create forwarded --partitions 1 --replication-factor 3 --if-not-exists && sleep 3 && # until all are in sync
    leader="$(ctl topic describe forwarded -o json | jq '[.. | objects | .leader? | numbers][0] - 1')" && [ "$leader" -ge 0 ]; do
    for pid in "${pids[@]}"; do kill -0 "$pid" || { cat "$dir"/*.log; exit 1; }; done
    sleep 0.5
  done
  ticks() { for pid in "${pids[@]}"; do sed 's/.*) //' "/proc/$pid/stat"; done | awk '{n += $12 + $13} END {print n}'; }
  for round in 0 1 2 3; do # the first one is not printed
    for rate in 5000 12000 0; do
      for at in "$leader" "$(((leader + 1) % 3))"; do
        before="$(ticks)"
        "$bench" --bootstrap-servers "127.0.0.1:${ports[at + 3]}" --admin off --topic forwarded -c 128 -d 6s --warmup 0s --rate "$rate" --json >"$dir/json" 2>/dev/null
        [ "$round" = 0 ] || jq -r --argjson ticks "$(($(ticks) - before))" --arg rate "$rate" --arg at "$([ "$at" = "$leader" ] && echo 'at the leader' || echo 'passed on')" \
          '.flows[0] | "rate \($rate)  \($at): \(.records_per_second | floor)/s, \($ticks * 10000 / .records * 10 | round / 10) µs of the brokers, p50 \(.latency.p50_us / 1000) ms"' "$dir/json"
      done
    done
  done
)

# steady   the median and the slowest of 60 equal computations, in times of the fastest one. Figures of parts
#          whose processors were not equally steady do not compare.
steady() {
  python3 - <<'EOF'
from time import perf_counter as now
def once():
    began, x = now(), 0
    for i in range(600000):
        x += i * i
    return now() - began
times = sorted(once() for _ in range(60))
print("computations %.2f to %.2f" % (times[30] / times[0], times[-1] / times[0]))
EOF
}

all="main tools bulk brokers txn sizes tls tails mixed neighbours start scale move store forward rights share profiles rivals"
for p in "${@:-$all}"; do for p in $p; do
  declare -F "part_$p" >/dev/null || { echo "bench-all: there is no part $p; there are: $all"; exit 2; }
done; done
failed=''
for p in "${@:-$all}"; do for p in $p; do
  before="$(steady)"
  from="$(date +%s)"
  "part_$p" >"$out/$p.txt" 2>&1 </dev/null || failed+=" $p"
  printf '%s  %-10s %4d s, load %s, %s before\n' "$(date -u +%FT%TZ)" "$p" "$(($(date +%s) - from))" "$(cut -d' ' -f1 /proc/loadavg)" "$before" | tee -a "$out/times.txt"
done; done
[ -z "$failed" ] || { echo "bench-all: these parts failed:$failed"; exit 1; }
