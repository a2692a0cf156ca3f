#!/usr/bin/env bash
# An idempotent producer of kafkajs, with one partition and with three. With RESTARTS=1 it writes until
# each broker was stopped and killed meanwhile, and with one partition: see docs/clients.md.
# PARTITIONS="3" overrides the numbers of partitions.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafkajs
ctl() { "$root/bin/chronikctl" --brokers "$BOOTSTRAP" --admin off "$@"; }
# feed FILE   prints lines, and writes them to FILE.
feed() {
  local before i=0
  before="$(restarts)"
  while [ $i -lt "$RECORDS" ] || ! round_done "$before"; do
    awk -v i=$i 'BEGIN { for (n = i; n < i + 100; n++) printf "key-%d value number %d\n", n % 37, n }' | tee -a "$1" || return # the producer has ended
    i=$((i + 100))
    [ -z "${RESTARTS:-}" ] || sleep 0.02
  done
}
numbers="1 3" failed=0
[ -z "${RESTARTS:-}" ] || numbers=1
for partitions in ${PARTITIONS:-$numbers}; do
  topic="kafkajs-$RUN-$partitions"
  ctl topic create "$topic" --partitions "$partitions" >/dev/null
  rc=0
  feed "$WORK/$topic.in" | node "$here/kafkajs.js" "$topic" 2>"$WORK/$topic.err" >"$WORK/$topic.log" || rc=$?
  sort -s -k1,1 "$WORK/$topic.in" >"$WORK/$topic.want"
  ctl consume "$topic" --format '%v\n' | sort -s -k1,1 >"$WORK/$topic.got"
  if [ $rc != 0 ]; then tail -3 "$WORK/$topic.err"; echo "the producer failed with $partitions partitions"; failed=1; fi
  (same "kafkajs, $partitions partitions" "$WORK/$topic.want" "$WORK/$topic.got") || failed=1
  echo "kafkajs, $partitions partitions: $(wc -l <"$WORK/$topic.in") lines"
done
exit $failed
