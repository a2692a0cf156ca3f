#!/usr/bin/env bash
# Kafka Connect copies a growing file to a topic, and the topic to a file. Standalone with Connect's
# defaults; distributed with exactly-once sources, and the worker is restarted in between. The topic
# must have every line in order, from exactly-once sources once. The sink's file has every line
# once, or at least once if brokers are restarted meanwhile. No worker may log an error.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export KAFKA_VERSION="${KAFKA_VERSION:-4.3.1}" # file connectors of 4.4.0 are not published, and 4.4.0 can't load these
need_kafka
export KT_HEAP=384m KT_TIER=1 KT_LOG="${KT_LOG:-WARN}"
dir="$WORK/connect" worker='' began=$SECONDS
mkdir -p "$dir"
port="$(python3 "$root/scripts/free-ports.py" 1)"
trap 'if [ -n "$worker" ]; then kill -9 "$worker" 2>/dev/null || true; fi' EXIT

die() { echo "connect: $*"; tail -n 3 "$dir"/*.log; exit 1; }
stop() {
  kill -TERM "$worker"
  wait "$worker" || true
  worker=''
}
# feed FILE   appends lines; with RESTARTS=1 until each broker was stopped and killed meanwhile.
feed() {
  local before i=0
  before="$(restarts)"
  while [ $i -lt $((RECORDS / 5)) ] || ! round_done "$before"; do
    seq -f 'line %.0f' $((i + 1)) $((i + 100)) >>"$1"
    i=$((i + 100))
    sleep 0.05
  done
}
# copied FILE TO   waits until the last line of FILE has reached TO.
copied() {
  local last _
  last="$(tail -1 "$1")"
  for _ in $(seq 1200); do
    if grep -qxF "$last" "$2" 2>/dev/null; then return 0; fi
    kill -0 "$worker" 2>/dev/null || die "the worker has ended"
    sleep 0.1
  done
  die "the sink did not write \"$last\""
}
# right WHAT IN TOPIC OUT LOG DUPLICATES   checks topic and sink.
right() {
  "$kt" console-consumer --bootstrap-server "$BOOTSTRAP" --topic "$3" --partition 0 --offset earliest --timeout-ms 10000 \
    --isolation-level read_committed \
    >"$dir/topic" 2>"$dir/console"
  local twice again
  twice=$(($(wc -l <"$dir/topic") - $(sort -u "$dir/topic" | wc -l)))
  again=$(($(wc -l <"$4") - $(sort -u "$4" | wc -l)))
  if [ "$6" = no ]; then
    same "$1, the topic" "$2" "$dir/topic"
  else
    awk '!seen[$0]++' "$dir/topic" >"$dir/once"
    same "$1, the topic without repetitions" "$2" "$dir/once"
  fi
  [ -n "${RESTARTS:-}" ] || same "$1, the sink" "$2" "$4"
  awk '!seen[$0]++' "$4" >"$dir/once"
  same "$1, the sink without repetitions" "$2" "$dir/once"
  ! grep -nE '\] (ERROR|FATAL) ' "$5" | head -5 | grep . || die "$1: the worker logged errors"
  echo "$1: $(wc -l <"$2") lines, $twice twice in the topic, $again twice in the file"
}
common() {
  cat <<CONFIG
bootstrap.servers=$BOOTSTRAP
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
listeners=http://127.0.0.1:$port
offset.flush.interval.ms=1000
CONFIG
}
topic() { "$kt" topics --bootstrap-server "$BOOTSTRAP" --create --if-not-exists --topic "$1" --partitions 1 >/dev/null; }

standalone() {
  local t="connect-$RUN-standalone" in="$dir/standalone.in" out="$dir/standalone.out"
  topic "$t"
  { common; echo "offset.storage.file.filename=$dir/offsets"; } >"$dir/standalone.properties"
  printf 'name=source\nconnector.class=FileStreamSource\ntasks.max=1\nfile=%s\ntopic=%s\n' "$in" "$t" >"$dir/source.properties"
  printf 'name=sink\nconnector.class=FileStreamSink\ntasks.max=1\nfile=%s\ntopics=%s\n' "$out" "$t" >"$dir/sink.properties"
  : >"$in"
  "$kt" connect-standalone "$dir/standalone.properties" "$dir/source.properties" "$dir/sink.properties" >"$dir/standalone.log" 2>&1 &
  worker=$!
  feed "$in"
  copied "$in" "$out"
  stop
  right "standalone" "$in" "$t" "$out" "$dir/standalone.log" "${RESTARTS:-no}"
}

rest() { # rest CODE METHOD PATH [BODY]   the answer is in $dir/rest.
  local code
  code="$(curl -s --max-time 100 -o "$dir/rest" -w '%{http_code}' -H 'Content-Type: application/json' -X "$2" "http://127.0.0.1:$port$3" ${4:+-d "$4"})"
  [ "$code" = "$1" ] || die "$2 $3 is answered with $code: $(head -c 300 "$dir/rest")"
}
start() {
  local _
  "$kt" connect-distributed "$dir/distributed.properties" >>"$dir/distributed.log" 2>&1 &
  worker=$!
  for _ in $(seq 1200); do
    if curl -fs --max-time 100 -o /dev/null "http://127.0.0.1:$port/connectors"; then return; fi
    kill -0 "$worker" 2>/dev/null || die "the worker has ended"
    sleep 0.1
  done
  die "the worker does not answer"
}
distributed() {
  local t="connect-$RUN" in="$dir/distributed.in" out="$dir/distributed.out" feeder
  topic "$t-topic"
  {
    common
    cat <<CONFIG
group.id=$t
offset.storage.topic=$t-offsets
config.storage.topic=$t-configs
status.storage.topic=$t-status
offset.storage.replication.factor=-1
config.storage.replication.factor=-1
status.storage.replication.factor=-1
scheduled.rebalance.max.delay.ms=0
exactly.once.source.support=enabled
consumer.isolation.level=read_committed
CONFIG
  } >"$dir/distributed.properties"
  : >"$in"
  start
  rest 201 PUT "/connectors/source/config" "{\"connector.class\":\"FileStreamSource\",\"tasks.max\":\"1\",\"file\":\"$in\",\"topic\":\"$t-topic\",\"exactly.once.support\":\"required\"}"
  rest 201 PUT "/connectors/sink/config" "{\"connector.class\":\"FileStreamSink\",\"tasks.max\":\"1\",\"file\":\"$out\",\"topics\":\"$t-topic\"}"
  feed "$in" &
  feeder=$!
  until [ "$(wc -l <"$in")" -gt $((RECORDS / 20)) ]; do sleep 0.1; done
  rest 202 PUT /connectors/sink/pause
  rest 202 PUT /connectors/sink/resume
  stop
  start
  wait "$feeder"
  copied "$in" "$out"
  rest 200 GET /connectors/source/offsets
  grep -q position "$dir/rest" || die "the source has no offsets: $(cat "$dir/rest")"
  for c in source sink; do
    rest 200 GET "/connectors/$c/status"
    [ "$(grep -o '"state":"[A-Z]*"' "$dir/rest" | sort | uniq -c | xargs)" = '2 state:RUNNING' ] || die "the $c does not run: $(cat "$dir/rest")"
    rest 204 DELETE "/connectors/$c"
  done
  stop
  right "distributed" "$in" "$t-topic" "$out" "$dir/distributed.log" no
}

for mode in ${MODES:-standalone distributed}; do $mode; done
echo "connect: $((SECONDS - began))s"
