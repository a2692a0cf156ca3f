#!/usr/bin/env bash
# Kafka's producer-perf-test, whose payloads are counted up, read back in order.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafka
topic="perf-$RUN"
seq 0 $((RECORDS - 1)) >"$WORK/perf.want"
"$kt" topics --bootstrap-server "$BOOTSTRAP" --create --topic "$topic" --partitions 1 >/dev/null
"$kt" producer-perf-test --bootstrap-server "$BOOTSTRAP" --topic "$topic" --num-records "$RECORDS" --payload-monotonic --throughput -1 \
  --warmup-records $((RECORDS / 10)) | tail -1 # without what waits for the client's own start
"$kt" console-consumer --bootstrap-server "$BOOTSTRAP" --topic "$topic" --partition 0 --offset earliest \
  --max-messages "$RECORDS" --timeout-ms 60000 >"$WORK/perf.got" 2>"$WORK/perf.err" || { cat "$WORK/perf.err"; exit 1; }
same "producer-perf-test" "$WORK/perf.want" "$WORK/perf.got"
