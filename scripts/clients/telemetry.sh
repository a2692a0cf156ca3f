#!/usr/bin/env bash
# Clients push their own metrics (KIP-714), and /metrics of the brokers has them: request latencies of a
# producer and of a consumer of each library, with their settings as they come. No client may report
# an error about it, and the values must go when the clients have. LIBRARIES="kgo java" names some.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
topic="telemetry-$RUN" prefix="telemetry-$RUN" name="clients-$RUN" stop="$WORK/telemetry.stop"
ctl="$root/bin/chronikctl"
export CHRONIK_BROKERS="$BOOTSTRAP" CHRONIKCTL_CONFIG="$WORK/none"
unset CHRONIKCTL_CONTEXT CHRONIKCTL_OUTPUT
[ -n "${METRICS:-}" ] || missing "the metrics of the broker are not known: set METRICS=HOST:PORT of its admin port, or unset BOOTSTRAP"

# The metrics that a producer and a consumer of a library must push.
producer=org.apache.kafka.producer.node.request.latency.avg
declare -A consumer=([kgo]=org.apache.kafka.consumer.node.request.latency.avg
  [confluent]=org.apache.kafka.consumer.fetch.manager.fetch.latency.avg [java]=org.apache.kafka.consumer.fetch.manager.fetch.latency.avg)

run_kgo() { exec "$WORK/telemetry-kgo" -brokers "$BOOTSTRAP" -topic "$topic" -id "$prefix-kgo" -stop "$stop"; }
run_confluent() { exec "$python" "$here/telemetry/confluent.py" "$topic" "$prefix-confluent" "$stop"; }
run_java() { KT_LOG=WARN exec "$kt" class "$here/telemetry/Clients.java" "$BOOTSTRAP" "$topic" "$prefix-java" "$stop"; }

# pushed   prints the names of clients of this run with metrics, of all brokers: CLIENT METRIC.
pushed() {
  local admin
  for admin in $METRICS; do
    curl -fsS --max-time 10 "http://$admin/metrics" 2>/dev/null || true # a broker may be restarted
  done | sed -n "s/^chronik_client_metric{.*client_id=\"\($prefix[^\"]*\)\".*metric=\"\([^\"]*\)\".*/\1 \2/p" | sort -u
}

libraries=() absent=0
for library in ${LIBRARIES:-kgo confluent java}; do
  case $library in
    kgo) go build -C "$root" -o "$WORK/telemetry-kgo" ./scripts/clients/telemetry/kgo ;;
    confluent) "$python" -c 'import confluent_kafka' 2>/dev/null || { echo "confluent-kafka is not installed"; absent=1; continue; } ;;
    java) (need_kafka) || { absent=1; continue; } ;;
    *) echo "telemetry: there is no library $library"; exit 2 ;;
  esac
  libraries+=("$library")
done
[ ${#libraries[@]} -gt 0 ] || exit 77

"$ctl" topic create "$topic" --partitions 2 >/dev/null
"$ctl" config set client-metrics "$name" 'metrics=*' interval.ms=1000 "match=client_id=$prefix-.*" >/dev/null
declare -A pids
trap 'touch "$stop"; wait' EXIT
for library in "${libraries[@]}"; do
  "run_$library" >"$WORK/telemetry-$library.out" 2>&1 &
  pids[$library]=$!
done

# Each client asks when it starts, and pushes after half an interval to one and a half.
failed=0
for library in "${libraries[@]}"; do
  for want in "$prefix-$library-producer $producer" "$prefix-$library-consumer ${consumer[$library]}"; do
    for _ in $(seq 600); do
      got="$(pushed)"
      if grep -qxF "$want" <<<"$got"; then continue 2; fi
      kill -0 "${pids[$library]}" 2>/dev/null || break
      sleep 0.2
    done
    echo "FAIL telemetry: /metrics has no $want; it has:"
    grep -F -m 5 "$prefix-$library-" <<<"$got" || true
    failed=1
  done
done
touch "$stop"
for library in "${libraries[@]}"; do
  rc=0
  wait "${pids[$library]}" || rc=$?
  # confluent logs all that it does for telemetry, and kgo all that it says of metrics.
  if [ $rc != 0 ] || grep -iE 'telemetr|metric|push' "$WORK/telemetry-$library.out" | grep -iE 'warn|fail|err=|error:|exception|invalid|unable' | head -5 | grep .; then
    echo "FAIL telemetry of $library ended with $rc, or reported an error:"
    tail -5 "$WORK/telemetry-$library.out"
    failed=1
  elif [ $failed = 0 ]; then
    echo "telemetry of $library: its producer's and its consumer's latencies were in /metrics"
  fi
done
# After three intervals a client that is silent is forgotten.
"$ctl" config unset client-metrics "$name" metrics interval.ms match >/dev/null
for _ in $(seq 600); do
  left="$(pushed)"
  [ -n "$left" ] || break
  sleep 0.2
done
if [ -n "$left" ]; then
  echo "FAIL telemetry: clients that have ended are still in /metrics:"
  head -5 <<<"$left"
  failed=1
fi
[ $failed = 0 ] || exit 1
[ $absent = 0 ] || exit 77
