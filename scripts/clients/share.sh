#!/usr/bin/env bash
# Share groups of every client library that has them (KIP-932), all at once. Two members of each work
# through a topic: they accept most records, reject some, and release some once. A third member gets
# what is written afterwards. Checked: each record is delivered; none comes again whose acceptance or
# rejection was answered; a record whose release was answered comes with a higher delivery count.
# With NODES=1 they have a broker of their own, which is killed (SIGKILL) twice meanwhile.
# LIBRARIES="kgo java" names some of them.
[ -n "${WORK:-}" ] || exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" share
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir="$WORK/share" libraries="${LIBRARIES:-kgo java confluent}" records="${SHARE_RECORDS:-1000}"
mkdir -p "$dir"
unset SETTINGS

run_kgo() { "$dir/kgo" "$@"; }
run_java() { KT_LOG=ERROR KT_HEAP="${KT_HEAP:-128m}" KT_TIER="${KT_TIER:-1}" "$kt" class "$here/share/Shares.java" "$@"; }
run_confluent() { "$python" "$here/share/confluent.py" "$@"; }

pid=''
start() {
  "$root/bin/chronikd" --data-dir "$dir/data" --listen "$BOOTSTRAP" --admin-listen off 2>>"$dir/log" &
  pid=$!
}
kill_broker() {
  kill -9 "$pid"
  wait "$pid" 2>/dev/null || true
  start
}
# until_is WHAT COMMAND...   waits until the command succeeds.
until_is() {
  local what="$1"
  shift
  for _ in $(seq 1200); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  echo "share: $what: not within two minutes"
  tail -n 5 "$dir"/*.out
  exit 1
}
ready() { [ "$(grep -c '"msg":"ready"' "$dir/log")" -ge "$1" ]; }
# at PART   each library has finished a part of its records, or has ended.
at() {
  local name
  for name in "${!pids[@]}"; do
    if kill -0 "${pids[$name]}" 2>/dev/null && [ "$(grep -c ^finished "$dir/$name.out")" -lt $((records / 100 * $1 / 4)) ]; then return 1; fi
  done
}
declare -A pids
trap 'for p in "${pids[@]}" $pid; do kill -TERM "$p" 2>/dev/null || true; done; wait' EXIT

absent=0 failed=0 running=()
for name in $libraries; do
  case $name in
    java) (need_kafka) || { absent=1; continue; } ;;
    confluent) (need_python "confluent_kafka; confluent_kafka.ShareConsumer" confluent-kafka) || { absent=1; continue; } ;;
    kgo) (cd "$root" && go build -o "$dir/kgo" ./scripts/clients/share/kgo) ;;
  esac
  running+=("$name")
done
if [ "${NODES:-1}" = 1 ]; then
  read -r port < <(python3 "$root/scripts/free-ports.py" 1)
  export BOOTSTRAP="127.0.0.1:$port"
  start
  until_is "the broker starts" ready 1
fi
for name in "${running[@]}"; do
  "$root/bin/chronikctl" --brokers "$BOOTSTRAP" topic create "share-$RUN-$name" --partitions 2 >/dev/null
  "$root/bin/chronikctl" --brokers "$BOOTSTRAP" config set group "share-$RUN-$name" share.auto.offset.reset=earliest >/dev/null
done
for name in "${running[@]}"; do
  "run_$name" "share-$RUN-$name" "share-$RUN-$name" "$records" >"$dir/$name.out" 2>&1 &
  pids[$name]=$!
done
if [ "${NODES:-1}" = 1 ]; then
  until_is "a quarter of the records is finished" at 1
  kill_broker
  until_is "the broker starts again" ready 2
  until_is "half of the records are finished" at 2
  kill_broker
fi
for name in "${running[@]}"; do
  rc=0
  wait "${pids[$name]}" || rc=$?
  unset "pids[$name]"
  if [ $rc = 0 ]; then
    echo "a share group of $name: $(tail -1 "$dir/$name.out")"
  else
    failed=1
    echo "FAIL a share group of $name:"
    tail -20 "$dir/$name.out"
  fi
done
if [ -n "$pid" ]; then
  kill -TERM "$pid"
  wait "$pid" || { echo "the broker ended with $?"; failed=1; }
  pid=''
  if grep -E '"level":"(error|dpanic|panic|fatal)"' "$dir/log"; then echo "the broker logged errors"; failed=1; fi
fi
[ "$failed" = 0 ] || exit 1
[ "$absent" = 0 ] || exit 77
