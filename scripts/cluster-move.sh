#!/usr/bin/env bash
# cluster-move.sh   measures what clients notice while partitions move. Three brokers have PARTITIONS
# partitions (default 1,000) of replication factor 3 with MIB mebibytes of records (default 512), and
# two more brokers join. A producer sends RATE records a second (default 1,000): undisturbed, for
# SECONDS_OF_LOAD (default 60), and while `chronikctl broker rebalance` gives the new brokers their
# share, with THROTTLE (default 20MiB) and AT_A_TIME partitions at a time (default that of the
# command). Then one broker dies with its data, and another replaces it,
# without a limit; that time stands beside what the disk can write. All is on this machine and below
# TMPDIR, and removed in the end. Needs jq and bin/ of `make build`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/bin:$PATH"
partitions=${PARTITIONS:-1000} mib=${MIB:-512} rate=${RATE:-1000} seconds=${SECONDS_OF_LOAD:-60} throttle=${THROTTLE:-20MiB}
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-move.XXXXXX")"
pids=() load=''
finish() {
  [ -z "$load" ] || kill -INT "$load" 2>/dev/null || true
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

read -r -a ports < <(python3 scripts/free-ports.py 12)
seeds="127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}"
export CHRONIKCTL_BROKERS="$seeds" CHRONIKCTL_ADMIN=off
start() { # start N
  chronikd --data-dir "$work/$1" --listen "127.0.0.1:${ports[$1 - 1]}" --admin-listen "127.0.0.1:${ports[$1 + 5]}" \
    --set cluster.name=move --set "node.id=$1" --set "cluster.seeds=$seeds" 2>"$work/$1.log" &
  pids[$1]=$!
}
ready() { for n in "$@"; do until chronikd health --admin-listen "127.0.0.1:${ports[$n + 5]}" >/dev/null 2>&1; do sleep 0.2; done; done; }
# produce NAME DURATION: a load, whose result goes to NAME. Its latencies count from the times at which
# the records should have been sent, until the producer has the acknowledgement, with all its retries.
produce() {
  chronik-bench --bootstrap-servers "$seeds" --admin off --topic moved --clients shared -c 64 --rate "$rate" -d "$2" --warmup 10s --json \
    >"$work/$1" 2>"$work/$1.err" &
  load=$!
}
result() { # result WHAT NAME: of a load that ends
  wait "$load" || true
  load=''
  jq -r --arg what "$1" '.flows[0] | "\($what): p50 \(.latency.p50_us / 1000) ms, p99 \(.latency.p99_us / 1000) ms, \(.records) records, failures \(.failures)"' "$work/$2" ||
    { cat "$work/$2.err"; exit 1; }
}

for n in 1 2 3; do start "$n"; done
ready 1 2 3
chronikctl cluster health --wait 1m >/dev/null
chronikctl topic create moved --partitions "$partitions" -r 3 >/dev/null
start 4
start 5
ready 4 5
chronik-bench --bootstrap-servers "$seeds" --admin off --topic moved --batched -c 4 -s 1024 --rate 20000 -d "$((mib * 1048576 / 1024 / 20000))s" --warmup 0s >"$work/fill" 2>&1
size() { chronikctl topic list -o json | jq '.[] | select(.topic == "moved") | .sizeBytes'; }
echo "$partitions partitions with $(($(size) / 1048576)) MiB in three replicas, $rate records/s of 256 bytes"
produce before "${seconds}s"
result undisturbed before
produce during 1h
sleep 10 # the warm-up
began=$(date +%s)
chronikctl broker rebalance --throttle "$throttle" ${AT_A_TIME:+--at-a-time "$AT_A_TIME"} >"$work/rebalance" 2>&1 || { cat "$work/rebalance"; exit 1; }
took=$(($(date +%s) - began))
kill -INT "$load"
result "$(sed -n 's/^moved \(moved .*\)/\1/p' "$work/rebalance") in $took s, $throttle a second for each broker" during
produce after "${seconds}s"
result "undisturbed again" after

kill -KILL "${pids[5]}"
wait "${pids[5]}" 2>/dev/null || true
lost=$(du -sm "$work/5/logs" | cut -f 1)
rm -rf "${work:?}/5"
start 6
ready 6
began=$(date +%s)
chronikctl broker drain 5 >"$work/drain" 2>&1 || { cat "$work/drain"; exit 1; }
took=$(($(date +%s) - began))
chronikctl broker unregister 5 --yes >/dev/null 2>&1
began=$(date +%s%3N)
dd if=/dev/zero of="$work/6/written" bs=1M count="$lost" conv=fdatasync 2>/dev/null
echo "a dead broker with $lost MiB is replaced in $took s; writing that to the disk takes $(($(date +%s%3N) - began)) ms"
