#!/usr/bin/env bash
# MirrorMaker 2 copies topics from one broker to another, exactly once, with configs and the offsets of a group; it is killed
# and started again meanwhile.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
. "$lib/java.sh"
records=20000
class_path "$lib/mirrormaker/pom.xml"
cluster a 1
from="$BROKERS"
cluster b 1
to="$BROKERS"
# lines WORD   records with keys, each of which is there once.
lines() { awk -v n=$records -v word="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "key%d|%s %d\n", i, word, i }'; }
from_ctl() { "$CHRONIKCTL" --brokers "$from" --yes "$@"; }
to_ctl() { "$CHRONIKCTL" --brokers "$to" --yes "$@"; }

cat >"$work/mm2.properties" <<CONFIG
clusters = a, b
a.bootstrap.servers = $from
b.bootstrap.servers = $to
a->b.enabled = true
b->a.enabled = false
a->b.topics = orders.*
a->b.groups = readers.*
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
b.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 2
sync.topic.configs.interval.seconds = 2
emit.checkpoints.interval.seconds = 1
emit.heartbeats.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
offset.lag.max = 0
b.offset.flush.interval.ms = 1000
listeners = http://127.0.0.1:$(ports 1)
CONFIG
mirror=''
mirror_up() {
  java_program 384m org.apache.kafka.connect.mirror.MirrorMaker "$work/mm2.properties"
  "${program[@]}" >>"$OUT/mirrormaker.log" 2>&1 </dev/null &
  mirror=$!
  pids+=("$mirror")
}
from_ctl topic create orders --partitions 3 --config retention.ms=123456789 >/dev/null || broken "the topic could not be created"
lines first | from_ctl produce orders --key-separator '|' >/dev/null || broken "the records could not be written"
from_ctl consume orders --group readers --count $((records / 2)) >"$work/read" || broken "the group could not read"
mirror_up
holds() { [ "$(to_ctl consume a.orders --isolation read-committed 2>/dev/null | wc -l)" -ge "$1" ]; }
same_records() {
  from_ctl consume orders --key-separator '|' | sort >"$work/source"
  to_ctl consume a.orders --key-separator '|' --isolation read-committed | sort >"$work/copy"
  cmp "$work/source" "$work/copy"
}
same_order() {
  local p
  for p in 0 1 2; do
    from_ctl consume orders -p $p >"$work/source"
    to_ctl consume a.orders -p $p --isolation read-committed >"$work/copy"
    cmp "$work/source" "$work/copy" || return 1
  done
}
group_there() { to_ctl group describe readers -o json 2>/dev/null | grep -q '"a.orders"'; }
# The group goes on behind the records that it has read: in all, it reads what is left, and few again.
group_goes_on() {
  upto 120 group_there || return 1
  to_ctl consume a.orders --group readers --isolation read-committed >"$work/rest" || return 1
  [ "$(cat "$work/read" "$work/rest" | sort -u | wc -l)" = "$records" ] || { echo "$(wc -l <"$work/rest") records are left, and with those read before not all"; return 1; }
  [ "$(wc -l <"$work/rest")" -lt "$records" ] || { echo "the group began at the beginning"; return 1; }
}
check copies-records upto 240 holds $records
check keeps-the-order same_order
check translates-offsets group_goes_on
check copies-configs upto 60 eval 'to_ctl topic describe a.orders -o json | grep -q 123456789'
kill -KILL "$mirror" && wait "$mirror" 2>/dev/null
lines second | from_ctl produce orders --key-separator '|' >/dev/null
mirror_up
check goes-on-after-a-kill upto 240 holds $((2 * records))
check exactly-once same_records
check sends-heartbeats upto 60 eval '[ "$(to_ctl consume heartbeats 2>/dev/null | wc -l)" -gt 1 ]'
