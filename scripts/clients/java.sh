#!/usr/bin/env bash
# Kafka's own console tools with their defaults (idempotent, acks=all).
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafka
# HEADERS<tab>KEY<tab>VALUE is what the reader parses and the formatter prints.
awk -v n="$RECORDS" 'BEGIN { for (i = 0; i < n; i++) printf "i:%d,source:console\tkey-%d\tvalue number %d of %d\n", i, i % 997, i, n }' >"$WORK/java.in"
for codec in $codecs; do
  topic="java-$RUN-$codec"
  "$kt" topics --bootstrap-server "$BOOTSTRAP" --create --topic "$topic" --partitions 1 >/dev/null
  "$kt" console-producer --bootstrap-server "$BOOTSTRAP" --topic "$topic" --compression-codec "$codec" \
    --reader-property parse.key=true --reader-property parse.headers=true <"$WORK/java.in" >/dev/null
  "$kt" console-consumer --bootstrap-server "$BOOTSTRAP" --topic "$topic" --partition 0 --offset earliest \
    --max-messages "$RECORDS" --timeout-ms 60000 \
    --formatter-property print.key=true --formatter-property print.headers=true >"$WORK/java.got" 2>"$WORK/java.err" || { cat "$WORK/java.err"; exit 1; }
  same "console tools, $codec" "$WORK/java.in" "$WORK/java.got"
done
