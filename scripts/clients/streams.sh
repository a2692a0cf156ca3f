#!/usr/bin/env bash
# Kafka Streams: a stateful word count, at least once in a classic group and exactly once in
# a streams group (KIP-1071), whose broker is killed, and every kind of join in both. It has a
# broker of its own.
# With NODES=3 the brokers of run.sh are restarted, one after the other.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafka
export KT_LOG="${KT_LOG:-ERROR}" TMPDIR="$WORK"
dir="$WORK/streams" listen=127.0.0.1:0 broker='' app=''
mkdir -p "$dir"
finish() {
  for p in $app $broker; do kill -9 "$p" 2>/dev/null || true; done
}
trap finish EXIT

start() { # starts the broker, at the address it had
  local log ready i
  log="$dir/chronikd.$(date +%s%N).log"
  "$root/bin/chronikd" --data-dir "$dir/data" --listen "$listen" --admin-listen off 2>"$log" &
  broker=$!
  for i in $(seq 600); do
    ready="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$log")"
    if [ -n "$ready" ]; then listen="$ready"; return; fi
    sleep 0.1
  done
  echo "the broker did not start:"; cat "$log"; exit 1
}

if [ -n "${BROKERS:-}" ]; then
  . "$here/nodes.sh"
  listen="$BROKERS"
else
  start
fi
# count PROTOCOL GUARANTEE   runs the program, and kills brokers when it asks for it.
count() {
  local in="$dir/in-$2" out="$dir/out-$2" rc=0
  mkfifo "$in"
  "$kt" class "$here/streams/WordCount.java" "$listen" 2000 "$1" "$2" <"$in" >"$out" 2>&1 &
  app=$!
  exec 3>"$in"
  until grep -qx KILL "$out"; do
    kill -0 "$app" 2>/dev/null || { cat "$out"; exit 1; }
    sleep 0.2
  done
  if [ -n "${BROKERS:-}" ]; then
    restart_node 1 KILL
    restart_node 2 TERM
    restart_node 3 KILL
  else
    kill -9 "$broker"
    wait "$broker" 2>/dev/null || true
    start
  fi
  echo >&3
  wait "$app" || rc=$?
  app=''
  sed "/^KILL$/d; s/^/$1 $2: /" "$out"
  [ "$rc" = 0 ] || exit $rc
}
count classic at_least_once
count streams exactly_once_v2
for protocol in classic streams; do
  "$kt" class "$here/streams/Joins.java" "$listen" "$protocol" >"$dir/joins" 2>&1 || { cat "$dir/joins"; exit 1; }
  sed "s/^/$protocol joins: /" "$dir/joins"
done
