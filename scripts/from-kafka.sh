#!/usr/bin/env bash
# from-kafka.sh   runs the commands of docs/from-kafka.md's "Moving", word for word, from
# one broker to another, and looks at what came over. The source is a chronik, or with
# KAFKA=1 a Kafka that scripts/kafka/up starts. Both are stopped
# and their data removed in the end. PORT is the first of ten ports (default: free ones).
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
page="$root/docs/from-kafka.md"
export PATH="$root/bin:$PATH"
port="${PORT:-$(python3 "$root/scripts/free-ports.py" 10 | cut -d ' ' -f 1)}" tools="$root/scripts/kafka"
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-from-kafka.XXXXXX")"
pids=() kafka=
finish() {
  [ ${#pids[@]} = 0 ] || { kill "${pids[@]}" 2>/dev/null; wait "${pids[@]}" 2>/dev/null; }
  [ -z "$kafka" ] || "$tools/down" --dir "$work/kafka" --wipe >/dev/null 2>&1
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
fail() { echo "from-kafka: $*"; exit 1; }
command -v jq >/dev/null || fail "jq is missing, which the page's commands need"

broker() { # broker NAME PORT
  chronikd --data-dir "$work/$1" --listen "127.0.0.1:$2" --admin-listen "127.0.0.1:$(($2 + 1))" 2>"$work/$1.log" &
  pids+=($!)
  for _ in $(seq 600); do chronikd health --admin-listen "127.0.0.1:$(($2 + 1))" >/dev/null 2>&1 && return; sleep 0.1; done
  fail "$1 does not start: $(cat "$work/$1.log")"
}
broker to "$port"
to="127.0.0.1:$port"
if [ -n "${KAFKA:-}" ]; then
  kafka=yes from="$("$tools/up" --port $((port + 2)) --dir "$work/kafka")" || fail "no Kafka"
else
  broker from $((port + 2))
  from="127.0.0.1:$((port + 2))"
fi
export CHRONIKCTL_ADMIN=off
old() { chronikctl --brokers "$from" "$@"; }
new() { chronikctl --brokers "$to" "$@"; }

# What is there to move: keys, headers, nulls, bytes that are no text, old times, a
# group in the middle, a topic whose configs are refused.
{
  old topic create orders --partitions 3 --config retention.ms=864000000000 --config cleanup.policy=compact
  old topic create raw --partitions 2
  for i in $(seq 500); do
    echo "{\"partition\":$((i % 3)),\"timestamp\":\"2026-01-02T03:04:05.$((100 + i))Z\",\"key\":\"k$i\",\"value\":\"v$i\",\"headers\":[{\"name\":\"h\",\"value\":\"$i\"}]}"
  done | old produce orders --input json --same-partition
  printf 'a\n\n\xff\xfe\n' | old produce raw -p 1
  old consume orders --group billing --count 200 >/dev/null
  [ -z "$kafka" ] || old topic create flushed --config leader.replication.throttled.replicas=* --config retention.ms=5000000
  # From Kafka 4.4 on; an older one refuses it.
  [ -z "$kafka" ] || old config set topic flushed max.decompressed.message.bytes=100000000 || [[ "${KAFKA_VERSION:-}" = 4.[0-3].* ]]
} >"$work/fill.log" 2>&1 || fail "filling the source: $(cat "$work/fill.log")"

# Every block of the page is a file; the one of the way back comes last.
awk -v dir="$work" '/^## Moving/ { on = 1 } on && /^```sh$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside { print > (dir "/" sprintf("%02d", n) ".sh") }' "$page"
[ -e "$work/02.sh" ] || fail "$page has no commands"
sed -i "s/^from=.*/from=$from to=$to/" "$work/01.sh"
shown() { "$1" consume "$2" --format '%p %o %d %K %k{hex} %V %v{hex} %h{%k=%v}\n' | sort; }
cd "$work" || exit 1
for block in "$work"/*.sh; do
  grep -q '^switched=' "$block" && continue
  bash -eo pipefail -c '. "$1"; [ "$1" = "$2" ] || . "$2"' _ "$work/01.sh" "$block" >"$block.out" 2>&1 || fail "$(cat "$block") failed: $(cat "$block.out")"
  if grep -q 'from-file billing.csv --yes' "$block"; then # by time comes later, on the page
    for who in old new; do $who group describe billing | awk '/^orders/ {print $1, $2, $3, $4, $5}' >"$work/$who.group"; done
    cmp "$work/old.group" "$work/new.group" || fail "the group is elsewhere: $(cat "$work/old.group" "$work/new.group")"
  fi
done
for topic in orders raw; do
  shown old $topic >"$work/old.$topic" && shown new $topic >"$work/new.$topic" && cmp "$work/old.$topic" "$work/new.$topic" || fail "$topic differs"
done
[ "$(wc -l <"$work/new.orders")" = 500 ] || fail "$(wc -l <"$work/new.orders") of 500 records"
[ "$(new config get topic orders cleanup.policy -o json | jq -r '.[0].value')" = compact ] || fail "orders lost its configs"
[ -z "$kafka" ] || [ "$(new config get topic flushed retention.ms -o json | jq -r '.[0].value')" = 5000000 ] || fail "flushed lost its configs"

sleep 1.1 # the switch is a second of its own
back="$(grep -l '^switched=' "$work"/*.sh)" switched="$(date -u +%FT%TZ)"
sed -i "s/^switched=.*/switched=$switched/" "$back"
echo k:later | new produce orders -k : --partition 2 >"$work/later.log" 2>&1 || fail "$(cat "$work/later.log")"
bash -eo pipefail -c '. "$1"; . "$2"' _ "$work/01.sh" "$back" >"$back.out" 2>&1 || fail "$(cat "$back") failed: $(cat "$back.out")"
shown old orders >"$work/old.orders"
shown new orders >"$work/new.orders"
cmp "$work/old.orders" "$work/new.orders" && [ "$(wc -l <"$work/old.orders")" = 501 ] || fail "the way back lost something"
echo "docs/from-kafka.md: its commands move topics, configs, records and a group${kafka:+ from Kafka}, and back"
