#!/usr/bin/env bash
# bench.sh [ROW...]   the rows of docs/performance.md, measured on this machine.
#
# ROW: limits closed acks shared windows single batches throttled read cold e2e
#      fanout partitions neighbours mixed tails quotas txn share profiles syncs groups tools sweeps bulk start tls logins idletls
#      (default: those before neighbours; the others take minutes).
# ROUNDS=5 TIME=5s      counted rounds of each comparison, measured time of each run.
# KAFKA=HOST:PORT       a Kafka that runs already; KAFKA_PID for its CPU time. By default, scripts/kafka/up starts one
#                       of KAFKA_VERSION (that in scripts/kafka/pom.xml) with Java and Maven. Without them chronik is
#                       measured alone, and that is said.
# CHRONIKD=FILE         the binary to measure (default bin/chronikd).
# TAIL_TIME=20s         of the row tails: the measured time of each load.
# SYNC_TIME=5ms         of the row syncs: what a sync of its slowed disk takes.
# UPDATE=1              the rows profiles and syncs write their tables into docs/durability.md.
# BULK_TIME=120s BULK_KEEP=8   of the row bulk: how long, and how many GiB its topics keep, so that it fits on a disk;
# BALLAST=16            GiB of memory that are taken away meanwhile, so that the page cache is full soon.
#
# Every comparison takes turns, A B A B, and prints ratios within rounds. chronik runs
# with its defaults: profile sync, each acknowledgement follows an fdatasync. Kafka runs
# with its defaults too: it acknowledges from the page cache.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bench="$root/bin/chronik-bench" chronikd="${CHRONIKD:-$root/bin/chronikd}"
rounds="${ROUNDS:-5}" time="${TIME:-5s}" warmup="${WARMUP:-2s}"
tools="$root/scripts/kafka"
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-bench.XXXXXX")"
kafka="${KAFKA:-}" kafka_pid="${KAFKA_PID:-}" own_kafka='' pid='' addr='' other='' others=()

# Both look for what may go often enough for loads that a disk could not keep.
housekeeping=(log.retention.check.interval.ms=10000)

start_other() { # DIR: another broker at $other
  local mine="$addr" my_pid="$pid"
  addr='' # a variable before the call would keep the new one inside
  work_data="$1" start_chronik
  others+=("$pid" "$1") other="$addr" addr="$mine" pid="$my_pid"
}
stop_others() {
  set -- "${others[@]}"
  while [ $# -gt 0 ]; do
    { kill -TERM "$1" && wait "$1"; } 2>/dev/null
    rm -rf "$2"
    shift 2
  done
  others=()
}
finish() {
  stop_chronik
  stop_others
  tls_stop
  drop_ballast
  [ -z "$own_kafka" ] || "$tools/down" --dir "$work/kafka" --wipe >/dev/null 2>&1
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

start_chronik() { # on the same directory as before, if there was one
  : >"$work/chronikd.log" # or the address of the process before would be read from it
  "$chronikd" --data-dir "${work_data:-$work/data}" --listen "${addr:-127.0.0.1:0}" --admin-listen "${admin_listen:-off}" "${housekeeping[@]/#/--set=}" "$@" 2>"$work/chronikd.log" &
  pid=$!
  for _ in $(seq 1200); do
    addr="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$work/chronikd.log")"
    [ -n "$addr" ] && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  echo "bench: chronikd did not start:"; cat "$work/chronikd.log"; exit 1
}
stop_chronik() { if [ -n "$pid" ]; then kill -TERM "$pid" 2>/dev/null; wait "$pid"; pid=; fi; }

start_kafka() {
  [ -z "$kafka" ] || return 0
  if ! "$tools/kt" --classpath >/dev/null; then
    echo "NOT MEASURED: Kafka. chronik alone:"
    return 0
  fi
  kafka="$("$tools/up" --port "${KAFKA_PORT:-19392}" --dir "$work/kafka" -c "${housekeeping[0]}")" || exit 1
  kafka_pid="$(cat "$work/kafka/node1/pid")" own_kafka=1
  # Its compiler needs some time under load before its figures mean anything.
  "$bench" --bootstrap-servers "$kafka" --create-topic --delete-topic --topic "$(topic)" -d "${WARM_KAFKA:-15s}" --warmup 0s >/dev/null
}

. "$(dirname "${BASH_SOURCE[0]}")/bench-tls.sh"

title() { printf '\n## %s\n' "$*"; }
topic() { echo "bench-$$-$RANDOM"; }
alone() { "$bench" --bootstrap-servers "$addr" --server-pid "$pid" --create-topic --topic "$(topic)" -d "$time" --warmup "$warmup" "$@"; }
# against: chronik beside Kafka, or alone where there is none.
against() {
  if [ -z "$kafka" ]; then
    local load=()
    while [ $# -gt 0 ]; do # what only a comparison has
      case "$1" in --echo) shift;; --set-a | --set-b) shift 2;; *) load+=("$1"); shift;; esac
    done
    alone "${load[@]}"
    return
  fi
  "$bench" compare --a "$addr" --name-a chronik --pid-a "$pid" --b "$kafka" --name-b kafka ${kafka_pid:+--pid-b "$kafka_pid"} \
    --rounds "$rounds" --discard 1 --create-topic --topic "$(topic)" -d "$time" --warmup "$warmup" "$@" 2>&1 | table
}
# variants: chronik beside itself with another setting.
variants() { # NAME-A NAME-B FLAG...
  local a="$1" b="$2"
  shift 2
  "$bench" compare --a "$addr" --name-a "$a" --pid-a "$pid" --b "$addr" --name-b "$b" --pid-b "$pid" --rounds "$rounds" --discard 1 \
    --create-topic --topic "$(topic)" -d "$time" --warmup "$warmup" "$@" 2>&1 | table
}
# Small runs leave their topics until the end, since removing files disturbs the
# next run; these write gigabytes.
large=(--delete-topic)
table() { grep -vE '^(discarded )?round |^$'; }

row_limits() {
  title "limits: this machine, a bare TCP echo, the disk under $work"
  "$bench" limits --dir "$work" -d "$time"
}
row_closed() {
  title "closed: 128 connections, one record of 256 B in flight each, acks=all; beside Kafka and a bare echo"
  against --echo -c 128 -s 256
  if [ -n "$kafka" ]; then
    title "closed: the same, Kafka with flush.messages=1"
    against -c 128 -s 256 --set-b topic-config=flush.messages=1
  fi
}
row_acks() {
  title "acks: the closed loop with acks=0 and acks=1 beside acks=all"
  variants all one -c 128 --set-b acks=1
  variants all none -c 128 --set-b acks=0
}
row_shared() {
  for acks in 1 all; do
    title "shared: 128 tasks on one producer without linger, 256 B, acks=$acks"
    against --clients shared -c 128 --acks "$acks"
  done
}
row_windows() {
  title "windows: profile high (50 ms) beside sync; the window closes early"
  variants sync high -c 128 --set-b "topic=$(topic)" --set-b topic-config=chronik.durability.profile=high
  title "windows: 127 connections as before, and one that sends every 30 ms"
  local t
  t="$(topic)"
  "$bench" --bootstrap-servers "$addr" --topic "$t" --create-topic --topic-config chronik.durability.profile=high -c 1 -d 1s --warmup 0s >/dev/null
  "$bench" --bootstrap-servers "$addr" --topic "$t" -c 1 --rate 33 -d 600s --warmup 0s >/dev/null 2>&1 &
  local slow=$!
  variants sync high-one-slow -c 127 --set-b "topic=$t"
  kill -TERM $slow && wait $slow
}
row_single() {
  title "single: one connection, one record at a time (compare with the limits: fdatasync p50 + echo p50)"
  "$bench" limits --dir "$work" -c 1 -d 2s --disk-duration 1s | grep -E 'echo|4 KiB|p50|write|^ +[0-9.]+ +[0-9.]+ '
  against -c 1
  [ -z "$kafka" ] || against -c 1 --set-b topic-config=flush.messages=1
}
row_batches() {
  for size in 1024 256; do
    title "batches: one kgo producer, $size B, acks=all"
    against "${large[@]}" --batched -s "$size"
    [ -z "$kafka" ] || against "${large[@]}" --batched -s "$size" --set-b topic-config=flush.messages=1
  done
}
row_throttled() {
  title "throttled: one kgo producer at about half of Kafka's maximum"
  against "${large[@]}" --batched -s 1024 --rate "${RATE_1024:-120000}"
  against "${large[@]}" --batched -s 256 --rate "${RATE_256:-400000}"
}
row_read() {
  title "read: raw fetches, and a kgo consumer; warm, records of 1,024 B"
  local t load
  t="$(topic)"
  fill "$addr" "$t" 1024
  [ -z "$kafka" ] || fill "$kafka" "$t" 1024
  load=(--topic "$t" --create-topic=false --mode consume -s 1024 -c 1)
  against "${load[@]}" --clients own
  against "${load[@]}" --clients batched
}
fill() { "$bench" --bootstrap-servers "$1" --topic "$2" --create-topic --batched -s "$3" -d "${FILL:-5s}" --warmup 0s | grep -E 'produce '; }
row_cold() {
  title "cold: a raw fetch and a kgo consumer, two seconds after a restart, without page cache"
  local t clients round
  t="$(topic)"
  fill "$addr" "$t" 1024
  [ -z "$kafka" ] || fill "$kafka" "$t" 1024
  for round in $(seq "$rounds"); do
    for clients in own batched; do
      stop_chronik
      sync
      if ! drop_cache; then echo "NOT COLD: the page cache can't be dropped here"; fi
      start_chronik
      sleep 2 # otherwise the second that is measured has the rest of the start, whose program is not cached either
      cold chronik "$addr"
      [ -z "$kafka" ] || { drop_cache; cold kafka "$kafka"; }
    done
  done
}
drop_cache() { echo 3 2>/dev/null >/proc/sys/vm/drop_caches; }
cold() { # NAME ADDRESS: one second, since the topic has not much more
  "$bench" --bootstrap-servers "$2" --topic "$t" --mode consume --clients "$clients" -c 1 -d 1s --warmup 0s --json 2>/dev/null |
    column payload_bytes_per_second p50_us p99_us |
    awk -v name="$1, $clients" '{printf "%-18s %6.0f MB/s, p50 %.1f ms, p99 %.1f ms\n", name, $1 / 1e6, $2 / 1000, $3 / 1000}'
}
row_e2e() {
  title "e2e: from send to receive, 256 B at 5,000/s, 128 tasks on one producer"
  against --mode e2e --clients shared -c 128 -s 256 --rate 5000
  title "e2e: 256 B at ${RATE_E2E:-200000}/s, one batching producer"
  against "${large[@]}" --mode e2e --clients batched -c 1 -s 256 --rate "${RATE_E2E:-200000}"
}
row_fanout() {
  title "fanout: ${CONSUMERS:-1000} consumers wait on one partition, a producer sends 100 records/s of 256 B; its own latency, and from send to each receive"
  against --mode e2e -c 1 --pipeline 5 --rate 100 -s 256 --consumers "${CONSUMERS:-1000}"
}
row_partitions() {
  title "partitions: the closed loop over 1, 16, 100, 1,000 and 10,000 partitions"
  for n in 16 100 1000 10000; do
    variants "1" "$n" -c 128 --set-b "topic=$(topic)" --set-b partitions="$n"
  done
}
# A transaction of Kafka's over 100 partitions takes longer than a second.
row_txn() {
  title "txn: transactions; a producer over 1, 10 and 100 partitions, 128 producers, 100 records each beside plain ones, a reader of committed records"
  local load=(txn --a "$addr" --name-a chronik --pid-a "$pid" --rounds "$rounds" --warmup "$warmup")
  [ -z "$kafka" ] || load+=(--b "$kafka" --name-b kafka ${kafka_pid:+--pid-b "$kafka_pid"})
  "$bench" "${load[@]}" --loads one,ten,many,batch,plain,latency -d "$time" | table
  "$bench" "${load[@]}" --loads hundred -d "${TXN_TIME:-30s}" | table
}
row_share() {
  title "share: 1, 10 and 100 members of a share group on 1 and 100 partitions, 256 B: with a backlog, and with 5,000 records/s"
  local load=(share --a "$addr" --name-a chronik --pid-a "$pid" --rounds "$rounds" --discard 1 --warmup "$warmup" -d "$time")
  [ -z "$kafka" ] || load+=(--b "$kafka" --name-b kafka ${kafka_pid:+--pid-b "$kafka_pid"})
  "$bench" "${load[@]}" | table
}
row_groups() { # both brokers in turns
  local p i
  without_delay --set max.connections=15000 # by default, half of the descriptors are for segments
  for p in classic consumer; do
    title "groups: 1,000 groups of 10 members at rest, a heartbeat every 3 s, protocol $p"
    each_broker heartbeats --protocol "$p" -d "${GROUPS_TIME:-30s}"
    title "groups: a group of 500 members on 1,000 partitions, protocol $p"
    each_broker rebalance --protocol "$p"
  done
  for i in $(seq "$rounds"); do
    title "groups: offset commits, 128 connections, one offset in flight each; round $i"
    each_broker commits -d "$time" --warmup "$warmup"
  done
}
# A new group waits for no further members, as at the Kafka of scripts/kafka/up.
without_delay() { stop_chronik; start_chronik --set group.initial.rebalance.delay.ms=0 "$@"; }
each_broker() { # MEASUREMENT FLAG...
  echo "chronik:"
  sync
  "$bench" groups "$@" --bootstrap-servers "$addr" --server-pid "$pid" --topic "$(topic)"
  [ -z "$kafka" ] || { echo "kafka:"
    sync
    "$bench" groups "$@" --bootstrap-servers "$kafka" ${kafka_pid:+--server-pid "$kafka_pid"} --topic "$(topic)"; }
}
row_sweeps() {
  title "sweeps: a run long enough for several checkpoint sweeps; p99 and max of each second are in --json"
  alone -c 128 -d "${SWEEP_TIME:-60s}" --partitions 1000
}
# Kafka acknowledges what the kernel still has to write. So each run begins with a disk
# that has nothing left to do of the run before, and lasts longer than memory does.
row_bulk() {
  local n keep=${BULK_KEEP:-8} round side at load
  take_ballast
  for n in 1 16; do
    title "bulk: a kgo producer for ${BULK_TIME:-120s} on $n partitions, 1 KiB; $keep GiB are kept, $(awk '/^MemAvailable/ {printf "%.1f", $2 / 2^20}' /proc/meminfo) GiB of memory are there"
    load=(--create-topic "${large[@]}" --batched -s 1024 --partitions "$n" -d "${BULK_TIME:-120s}" --warmup "$warmup" --json
      --topic-config "retention.bytes=$((keep * 2**30 / n))" --topic-config segment.bytes=268435456 --topic-config file.delete.delay.ms=1000)
    for round in $(seq "${BULK_ROUNDS:-2}"); do
      for side in chronik kafka; do
        at="$addr"
        if [ $side = kafka ]; then [ -n "$kafka" ] || continue; at="$kafka"; fi
        sync
        sleep "${BULK_PAUSE:-6}"
        "$bench" --bootstrap-servers "$at" --topic "$(topic)" "${load[@]}" >"$work/json" || { cat "$work/json"; continue; }
        column records_per_second p50_us p99_us <"$work/json" | awk -v side="$side" '{printf "%-8s %d MB/s, p50 %.0f ms, p99 %.0f ms\n", side, $1 * 1024 / 1e6, $2 / 1000, $3 / 1000}'
      done
    done
  done
  drop_ballast
}
# How long a broker with 10,000 partitions takes from exec to the first answer, and what
# it holds. Its directory is a new one: ext4 without a journal is slow to make files where
# thousands were removed within the last minutes.
row_start() {
  local round
  stop_chronik
  for round in $(seq "${START_ROUNDS:-2}"); do
    title "start: 10,000 partitions, round $round"
    work_data="$work/start-$round"
    start_chronik
    "$bench" --bootstrap-servers "$addr" --topic "$(topic)" --create-topic --partitions 10000 -c 128 -s 256 -d 600s --warmup 0s >/dev/null 2>&1 &
    local load=$!
    sleep "${START_LOAD:-16}"
    echo "under load: $(resident)"
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    kill "$load" 2>/dev/null
    wait "$load"
    timed_start
    echo "after kill -9 under load: $took, $(resident); $(grep -o '"msg":"recovered"[^}]*' "$work/chronikd.log" | sed -E 's/.*"partitions":([0-9]+).*/\1 partitions recovered/')"
    stop_chronik
    timed_start
    echo "after a clean stop: $took, $(resident)"
    stop_chronik
  done
  unset work_data
  start_chronik
}
timed_start() {
  local begin=${EPOCHREALTIME/./}
  start_chronik
  took="$(awk -v us=$((${EPOCHREALTIME/./} - begin)) 'BEGIN { printf "%.2f s", us / 1e6 }')"
}
resident() { awk '/^VmRSS/ {printf "%d MB resident", $2 / 1024}' "/proc/$pid/status"; }
took='' ballast=''
take_ballast() {
  [ -n "${BALLAST:-}" ] || return 0
  python3 -c 'import sys, time
held = [b"\1" * 2**30 for _ in range(int(sys.argv[1]))]
print("held", flush=True)
time.sleep(1e6)' "$BALLAST" >"$work/ballast" &
  ballast=$!
  until [ -s "$work/ballast" ]; do kill -0 "$ballast" || exit 1; sleep 0.2; done
}
drop_ballast() { if [ -n "$ballast" ]; then kill "$ballast"; wait "$ballast"; ballast=; fi 2>/dev/null; }

# profiles_acked WHEN: the built-in profiles that acknowledge records when these are so.
profiles_acked() { "$root/bin/chronikctl" profile list 2>/dev/null | awk -v when="^($1)\$" 'NR > 1 && $3 ~ when { print $1 }'; }

# What each profile costs, as docs/durability.md shows it; UPDATE=1 writes it there.
# The profiles take turns, and the medians of the rounds count.
row_profiles() {
  local p c round profiles
  mapfile -t profiles < <(profiles_acked "synced|written")
  title "profiles: one producer, one record of 256 B at a time; 128 connections with one in flight each; acks=all"
  rm -f "$work"/cost.*
  for round in 0 $(seq "$rounds"); do # the first one warms up
    for p in "${profiles[@]}"; do
      for c in 1 128; do # requests/s p50 p99
        "$bench" --bootstrap-servers "$addr" --create-topic --topic "$(topic)" --topic-config "chronik.durability.profile=$p" \
          -c "$c" -s 256 -d "$time" --warmup "$warmup" --json >"$work/json" || { echo "profiles: $p with $c connections failed"; cat "$work/json"; exit 1; }
        [ "$round" = 0 ] || column records_per_second p50_us p99_us <"$work/json" >>"$work/cost.$p.$c"
      done
    done
  done
  {
    echo "Measured with \`make bench ROWS=profiles\` ($(date -u +%F), $(machine); medians of $rounds rounds of $time):"
    echo
    echo "| profile | one producer, one record at a time: p50, p99 | records/s | 128 connections, one record each: p50, p99 | records/s |"
    echo "|---|---|---|---|---|"
    for p in "${profiles[@]}"; do
      printf '| `%s` | %s ms, %s ms | %s | %s ms, %s ms | %s |\n' "$p" \
        "$(cost "$p" 1 2 1000 %.2f)" "$(cost "$p" 1 3 1000 %.2f)" "$(cost "$p" 1 1 1 %.0f)" \
        "$(cost "$p" 128 2 1000 %.1f)" "$(cost "$p" 128 3 1000 %.1f)" "$(cost "$p" 128 1 1 %.0f)"
    done
  } | tee "$work/cost.table"
  [ -z "${UPDATE:-}" ] || put_table cost "$work/cost.table"
}
# put_table NAME FILE: into the place of this name in docs/durability.md.
put_table() {
  python3 - "$root/docs/durability.md" "$1" "$2" <<'PY'
import sys
page, name, table = sys.argv[1:]
text = open(page, encoding="utf-8").read()
begin, end = f"<!-- measured: {name} -->\n", f"<!-- end: {name} -->\n"
head, rest = text.split(begin, 1)
tail = rest.split(end, 1)[1]
open(page, "w", encoding="utf-8").write(head + begin + open(table, encoding="utf-8").read() + end + tail)
PY
}
machine() { echo "$(nproc) CPUs, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1 | xargs)"; }

# What the windows of the profiles bring: syncs, latency and records with 1, 16 and 128
# connections in a closed loop, and with 128 at a fixed rate, on this disk and on one whose
# syncs take SYNC_TIME. The profiles take turns; medians of the rounds count.
row_syncs() {
  local disk p l round slow="$work/chronikd-slowdisk" real="$chronikd" real_addr="$addr" profiles loads=(1 16 128 rate)
  mapfile -t profiles < <(profiles_acked synced)
  export SYNC_TIME="${SYNC_TIME:-5ms}"
  local rate="${RATE_SYNCS:-2000}"
  title "syncs: what the windows bring, on this disk and on one of $SYNC_TIME for a sync; acks=all, 256 B"
  (cd "$root" && go test -c -o "$slow" ./internal/testing/system) || exit 1
  stop_chronik
  rm -f "$work"/cost.*
  for disk in this slow; do
    addr='' admin_listen=127.0.0.1:0 work_data="$work/$disk"
    [ $disk = this ] || chronikd="$slow"
    start_chronik
    local admin
    admin="$(sed -n 's/.*"msg":"ready".*"admin":"\([^"]*\)".*/\1/p' "$work/chronikd.log")"
    for round in 0 $(seq "$rounds"); do # the first one warms up
      for p in "${profiles[@]}"; do
        for l in "${loads[@]}"; do
          local flags=(-c "$l")
          [ "$l" != rate ] || flags=(-c 128 --rate "$rate")
          "$bench" --bootstrap-servers "$addr" --admin "$admin" --topic "$(topic)" --create-topic --delete-topic \
            --topic-config "chronik.durability.profile=$p" "${flags[@]}" -s 256 -d "$time" --warmup "$warmup" --json >"$work/json" ||
            { echo "syncs: $p with $l failed"; cat "$work/json"; exit 1; }
          [ "$round" = 0 ] || column fdatasyncs_per_second p50_us p99_us records_per_second <"$work/json" >>"$work/cost.$disk.$p.$l"
        done
      done
    done
    stop_chronik
  done
  chronikd="$real" addr="$real_addr" admin_listen=off
  unset work_data
  start_chronik
  {
    echo "Measured with \`make bench-windows\` ($(date -u +%F), $(machine), load average $(cut -d' ' -f1 /proc/loadavg) at the end; medians of $rounds rounds of $time)."
    echo "A cell is fdatasyncs/s; latency p50, p99 in ms; records/s:"
    for disk in this slow; do
      echo
      case $disk in this) echo "| this disk | 1 connection | 16 connections | 128 connections | 128 connections, $rate records/s in all |" ;;
        *) echo "| $SYNC_TIME for a sync | 1 connection | 16 connections | 128 connections | 128 connections, $rate records/s in all |" ;; esac
      echo "|---|---|---|---|---|"
      for p in "${profiles[@]}"; do
        printf '| `%s` |' "$p"
        for l in "${loads[@]}"; do
          printf ' %s; %s, %s; %s |' "$(cost "$disk.$p" "$l" 1 1 %.0f)" "$(cost "$disk.$p" "$l" 2 1000 %.2f)" \
            "$(cost "$disk.$p" "$l" 3 1000 %.2f)" "$(cost "$disk.$p" "$l" 4 1 %.0f)"
        done
        echo
      done
    done
  } | tee "$work/syncs.table"
  [ -z "${UPDATE:-}" ] || put_table windows "$work/syncs.table"
}
# column NAME...: these figures of the last flow of a run's JSON.
column() {
  python3 -c 'import json, sys
run = json.load(sys.stdin)
flow, syncs = run["flows"][-1], run.get("against", {}).get("fdatasyncs", {})
figures = {**flow, **flow["latency"], "fdatasyncs_per_second": syncs.get("per_second", 0)}
print(*(figures[name] for name in sys.argv[1:]))' "$@"
}
# cost PROFILE CONNECTIONS FIELD DIVISOR FORMAT: the median.
cost() { awk -v f="$3" '{ print $f }' "$work/cost.$1.$2" | sort -n | awk -v by="$4" -v form="$5" '{ v[NR] = $1 } END { printf form, v[int((NR + 1) / 2)] / by }'; }

# Kafka's own tools, in turns: producer-perf-test as fast as it can and at half of
# Kafka's rate, consumer-perf-test (which joins a group) over what was written.
row_tools() {
  if ! "$tools/kt" --classpath >/dev/null; then
    title "NOT MEASURED: tools"
    return
  fi
  local size t half
  without_delay
  for size in 256 1024; do
    t="$(topic)"
    title "tools: producer-perf-test, $size B, acks=all, one producer; records/s and p99 in ms"
    perf_rounds produce "$t" "$size" -1
    title "tools: consumer-perf-test over what it wrote; records/s"
    perf_rounds consume "$t" "$size" -1
    [ -n "$kafka" ] || continue
    half=$(($(median <"$work/kafka.rates.produce") / 2))
    title "tools: producer-perf-test, $size B at half of Kafka's rate, $half/s"
    perf_rounds produce "$(topic)" "$size" "$half"
  done
}
median() { sort -n | awk '{v[NR] = $1} END {print int(v[int((NR + 1) / 2)])}'; }
perf_rounds() { # produce|consume TOPIC SIZE THROUGHPUT
  local side round line
  rm -f "$work"/*.rates."$1"
  for round in 0 $(seq "$rounds"); do # the first one warms up
    for side in chronik kafka; do
      [ $side = chronik ] || [ -n "$kafka" ] || continue
      sync # or it would wait for what the run before left the system to write
      line="$("perf_$1" "$([ $side = kafka ] && echo "$kafka" || echo "$addr")" "$2" "$3" "$4")"
      [ "$round" = 0 ] || { echo "$side: $line"; awk '{print int($1)}' <<<"$line" >>"$work/$side.rates.$1"; }
    done
  done
  [ -z "$kafka" ] || echo "medians: chronik $(median <"$work/chronik.rates.$1"), kafka $(median <"$work/kafka.rates.$1")"
}
perf_produce() { # ADDR TOPIC SIZE THROUGHPUT: records/s p50 p99; those of a rate without the client's own warm-up
  local n="${PERF_RECORDS:-$((3000000 * 256 / $3 + 500000))}" warm=()
  if [ "$4" -gt 0 ]; then n=$(($4 * 20)) warm=(--warmup-records $(($4 * 10))); fi
  "$tools/kt" producer-perf-test --bootstrap-server "$1" --topic "$2" --num-records "$n" "${warm[@]}" \
    --record-size "$3" --throughput "$4" --command-property acks=all 2>/dev/null |
    sed -nE 's/.*sent, ([0-9.]+) records.sec .* ([0-9]+) ms 50th, .* ([0-9]+) ms 99th.*/\1 records\/s, p50 \2 ms, p99 \3 ms/p' | tail -1
}
perf_consume() { # ADDR TOPIC SIZE -: records/s, and of the fetching alone
  "$tools/kt" consumer-perf-test --bootstrap-server "$1" --topic "$2" --num-records "${PERF_RECORDS:-$((3000000 * 256 / $3 + 500000))}" \
    --timeout 60000 2>/dev/null | tail -1 | awk -F', *' '{printf "%d records/s, fetching alone %d records/s\n", $6, $10}'
}

# figures: req/s, p50, p99 (ms), payload MB/s and wire MB/s of one load of chronik on its defaults.
figures() {
  "$bench" --bootstrap-servers "$addr" --create-topic --admin off "$@" 2>&1 |
    awk '/throughput  /{getline; r=$2; p=$4; w=$5} /latency, ms  /{getline; print r, $3, $6, p, w}'
}
neighbour() { # NAME [CONNECTIONS]: one record of 256 B in flight on each
  figures --topic small -c "${2:-8}" -d "$time" --warmup 1s | awk -v n="$1" '{printf "%-52s %8s requests/s, p50 %s ms, p99 %s ms\n", n, $1, $2, $3}'
}
# The client with large requests gets a processor only when nothing else needs it, as if it were on
# another machine. Two other brokers show what the machine adds: one has its data on the same disk,
# the other one in memory. Kafka is measured in the same way, with its own large client.
row_neighbours() {
  title "neighbours: closed-loop connections next to one connection with large requests"
  local round load c to polite=() mine="$addr" my_pid="$pid" on_disk in_memory big where
  ! command -v chrt >/dev/null || polite=(chrt -i 0)
  start_other "$work/other" && on_disk="$other"
  start_other "$(mktemp -d /dev/shm/chronik-bench.XXXXXX)" && in_memory="$other"
  for round in $(seq "$rounds"); do
    for c in 1 8; do
      addr="$mine" neighbour "$c alone" "$c"
      [ -z "$kafka" ] || addr="$kafka" neighbour "$c alone, Kafka" "$c"
      # The second client that consumes finds everything in memory.
      for load in "-s 1040000" "-s 1040000 --pipeline 4" "--mode consume --fetch-max-bytes 52428800" "--fetch-max-bytes 52428800 --mode consume"; do
        for to in "$mine" "$on_disk, same disk" "$in_memory, in memory" ${kafka:+"$kafka"}; do
          addr="$mine"
          case "$to" in
            "$mine") where='' ;;
            "$kafka") where=', Kafka' addr="$kafka" ;;
            *) where=", of another broker, ${to#*, }" ;;
          esac
          big=(--bootstrap-servers "${to%%,*}" --topic big --create-topic --admin off -c 1 -d 600s --warmup 0s
            --topic-config retention.bytes=2000000000 --topic-config segment.bytes=100000000)
          # shellcheck disable=SC2086 # several words
          [[ $load != *consume ]] || "$bench" "${big[@]}" -d 7s $load >"$work/big" 2>&1
          # shellcheck disable=SC2086 # several words
          "${polite[@]}" "$bench" "${big[@]}" $load >"$work/big" 2>&1 &
          neighbour "$c next to $load$where" "$c"
          kill -TERM $! && wait $!
          awk '/throughput  /{getline; print "    the large client: " $5 " MB/s"}' "$work/big"
        done
      done
    done
  done
  addr="$mine" pid="$my_pid"
  stop_others
}
# What the disk itself takes is measured in the same seconds, by 250 writes of 4 KiB a second, each
# with its fdatasync. The other program appends about as much: with an fdatasync after each MiB, or
# without any, so that the system writes it when it sees fit.
row_tails() {
  title "tails: 25,000 records/s of 1,000 B on 32 connections, next to another writer; p50 p99 p99.9 in ms, and the disk's own"
  local round next side probe load writer
  for round in $(seq "$rounds"); do
    for next in nothing synced cached; do
      for side in chronik ${kafka:+kafka}; do
        writer=''
        sync # what the run before has left for the disk is no program next to this one
        case $next in
          synced)
            "$bench" limits --no-echo --dir "$work" --disk-pattern appending --disk-sizes 1048576 --disk-rate 50 --disk-duration 600s >"$work/writer" 2>&1 &
            writer=$!
            ;;
          cached)
            (while dd if=/dev/zero of="$work/cached" bs=1M count=10 oflag=append conv=notrunc status=none; do
              sleep 0.2
              [ "$(stat -c %s "$work/cached")" -lt 2000000000 ] || : >"$work/cached"
            done) &
            writer=$!
            ;;
        esac
        "$bench" limits --no-echo --dir "$work" --disk-pattern written --disk-sizes 4096 --disk-rate 250 --file-size 16777216 --disk-duration "${TAIL_TIME:-20s}" --json >"$work/probe" &
        probe=$!
        load="$("$bench" --bootstrap-servers "$([ $side = kafka ] && echo "$kafka" || echo "$addr")" --create-topic --delete-topic --topic "$(topic)" \
          --admin off -c 32 -s 1000 --rate 25000 -d "${TAIL_TIME:-20s}" --warmup 3s --json 2>/dev/null)"
        wait $probe
        [ -z "$writer" ] || { kill -TERM $writer && wait $writer; } 2>/dev/null
        rm -f "$work/cached"
        python3 -c '
import json, sys
side, next, probe = sys.argv[1:]
p = json.load(open(probe))["disk"]["rows"][0]["write_and_sync"]
f = json.load(sys.stdin)["flows"][0]
l, figures = f["latency"], ("p50_us", "p99_us", "p99_9_us")
ms = lambda x: " ".join("%.2f" % (x[k] / 1000) for k in figures)
print("%-8s next to %-8s %6.0f records/s  %s   disk %s   p99.9 / disk %.2f" % (side, next, f["records_per_second"], ms(l), ms(p),
    l["p99_9_us"] / p["p99_9_us"]))' "$side" "$next" "$work/probe" <<<"$load"
      done
    done
  done
}
# A bulk load next to a client with few and many small requests, which both read and write the same
# disk. The bulk load's client gets a processor only when nothing else needs it.
row_mixed() {
  title "mixed: one kgo producer, 1 KiB, next to RATE records/s of 100 B on 8 connections, acks=all"
  local round side at rate bulk polite=()
  ! command -v chrt >/dev/null || polite=(chrt -i 0)
  for round in $(seq "$rounds"); do
    for rate in 0 1 10 100 500; do
      for side in chronik ${kafka:+kafka}; do
        if [ $side = kafka ]; then at="$kafka"; else at="$addr"; fi
        sync
        "${polite[@]}" "$bench" --bootstrap-servers "$at" --admin off --topic "$(topic)" --create-topic "${large[@]}" --batched -s 1024 \
          -d "${MIXED_TIME:-12s}" --warmup 2s --json >"$work/bulk" 2>/dev/null &
        bulk=$!
        : >"$work/small"
        if [ "$rate" != 0 ]; then
          sleep 3
          "$bench" --bootstrap-servers "$at" --admin off --topic "$(topic)" --create-topic -c 8 -s 100 --rate "$rate" -d 9s --warmup 1s --json 2>/dev/null |
            column p50_us p99_us p99_9_us >"$work/small"
        fi
        wait $bulk
        printf '%-8s next to %3d/s: bulk %s; small requests: p50, p99, p99.9 %s ms\n' "$side" "$rate" \
          "$(column payload_bytes_per_second p99_us <"$work/bulk" | awk '{printf "%.0f MB/s, p99 %.0f ms", $1 / 1e6, $2 / 1000}')" \
          "$(awk '{printf "%.2f, %.2f, %.2f", $1 / 1000, $2 / 1000, $3 / 1000}' "$work/small")"
      done
    done
  done
}
row_quotas() {
  local rate=20000000 round kind
  title "quotas: a client id with $rate B/s for 10 s, in percent of its quota, and its neighbour without one"
  "$root/bin/chronikctl" --brokers "$addr" quota set producer_byte_rate=$rate consumer_byte_rate=$rate --client-id limited
  figures --topic read -c 1 -s 60000 -d 5s --warmup 0s >/dev/null # what is fetched
  for round in $(seq "$rounds"); do
    neighbour "alone"
    for kind in produce consume; do
      if [ $kind = produce ]; then set -- --topic written -c 4 -s 60000; else set -- --mode consume --topic read -c 1 --fetch-max-bytes 1000000; fi
      figures "$@" --client-id limited -d 10s --warmup 0s >"$work/limited" &
      time=8s neighbour "next to a limited $kind"
      wait $!
      awk -v k=$kind -v q=$rate '{printf "limited %s: %.1f %% of its quota\n", k, (k == "produce" ? $5 : $4) * 1e8 / q}' "$work/limited"
    done
  done
}

all="limits closed acks shared windows single batches throttled read cold e2e fanout partitions"
for row in "${@:-$all}"; do for r in $row; do
  declare -F "row_$r" >/dev/null || { echo "bench: there is no row $r; there are: $all neighbours mixed tails quotas txn share profiles syncs groups tools sweeps bulk start tls logins idletls"; exit 2; }
done; done
printf 'machine: %s CPUs, %s, Linux %s, %s\n' "$(nproc)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(uname -r)" "$(date -u +%F)"
start_chronik
for row in "${@:-$all}"; do for r in $row; do
  case $r in profiles | syncs | tls | logins | idletls | quotas) ;; # without Kafka, or with one of its own
    *) start_kafka ;; esac
done; done
for row in "${@:-$all}"; do for r in $row; do "row_$r"; done; done
