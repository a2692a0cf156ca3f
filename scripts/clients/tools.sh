#!/usr/bin/env bash
# Kafka's performance tools and verifiable clients, with their defaults. With RESTARTS=1 they run until
# each broker was stopped and killed meanwhile. None of them may report an error.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafka
export KT_HEAP="${KT_HEAP:-256m}" KT_TIER="${KT_TIER:-1}"
at=(--bootstrap-server "$BOOTSTRAP")
records=$((RECORDS / 5)) rounds=0

die() { echo "$*"; exit 1; }
# quiet NAME   fails if the last tool reported an error.
quiet() {
  ! grep -nE 'ERROR|FATAL|Exception' "$WORK/tools.err" "$WORK/tools.out" | grep -vE 'WARN' | head -5 | grep . || die "$1 reported an error"
}
# tool NAME ARG...   its output is in tools.out, what it logs in tools.err.
tool() {
  "$kt" "$1" "${at[@]}" "${@:2}" >"$WORK/tools.out" 2>"$WORK/tools.err" </dev/null ||
    { local rc=$?; tail -n 5 "$WORK/tools.err" "$WORK/tools.out"; die "$1 ended with $rc"; }
  quiet "$1"
}

before="$(restarts)"
until [ $rounds -gt 0 ] && round_done "$before"; do
  rounds=$((rounds + 1))
  topic="tools-$RUN-$rounds"
  # A broker that is killed after it created a topic cannot answer; the tool then asks again.
  tool topics --create --if-not-exists --topic "$topic" --partitions 3
  tool topics --create --if-not-exists --topic "$topic-one" --partitions 1

  # Slow enough that brokers end meanwhile.
  tool producer-perf-test --topic "$topic-one" --num-records "$records" --payload-monotonic --throughput 2000
  grep -q "^$records records sent.*99.9th" "$WORK/tools.out" || die "producer-perf-test: $(tail -1 "$WORK/tools.out")"
  seq 0 $((records - 1)) >"$WORK/tools.want"
  tool console-consumer --topic "$topic-one" --partition 0 --offset earliest --max-messages "$records" --timeout-ms 60000
  same "producer-perf-test" "$WORK/tools.want" "$WORK/tools.out"

  tool verifiable-producer --topic "$topic" --max-messages "$records" --acks -1 --throughput 2000
  grep -q "\"name\":\"tool_data\".*\"acked\":$records\|\"acked\":$records,.*\"name\":\"tool_data\"" "$WORK/tools.out" || die "verifiable-producer: $(tail -1 "$WORK/tools.out")"
  ! grep -m1 producer_send_error "$WORK/tools.out" || die "verifiable-producer reported an error"
  for protocol in classic consumer; do
    tool verifiable-consumer --topic "$topic" --group-id "$topic-$protocol" --group-protocol "$protocol" --max-messages "$records" --reset-policy earliest
    python3 - "$records" "$WORK/tools.out" <<'PY' || die "verifiable-consumer, $protocol"
import json, sys
read = {}
for line in open(sys.argv[2]):
    if not line.startswith("{"):
        continue
    event = json.loads(line)
    if event["name"] == "records_consumed":
        for p in event["partitions"]:
            read.setdefault(p["partition"], set()).update(range(p["minOffset"], p["maxOffset"] + 1))
    elif event["name"] == "offsets_committed" and not event["success"]:
        print("a commit failed:", line)
n = sum(len(offsets) for offsets in read.values())
if n != int(sys.argv[1]):
    sys.exit("read %d records" % n)
PY
    tool consumer-perf-test --topic "$topic" --group "$topic-perf-$protocol" --num-records "$records" --timeout 60000 --command-property "group.protocol=$protocol"
    [ "$(awk -F', ' 'END { print $5 }' "$WORK/tools.out")" = "$records" ] || die "consumer-perf-test read $(tail -1 "$WORK/tools.out")"
  done
  tool e2e-latency --topic "$topic-e2e" --num-records $((records / 10)) --producer-acks all --record-size 64
  grep -q Percentiles "$WORK/tools.out" || die "e2e-latency: $(tail -1 "$WORK/tools.out")"
done
echo "the performance tools and verifiable clients, $rounds times"
