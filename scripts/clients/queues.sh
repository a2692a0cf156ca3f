#!/usr/bin/env bash
# The workers of docs/queues.md, taken out of the page word for word; only the address is replaced.
# Two workers of each language share the jobs of a topic, on a broker of their own:
#
#   1. Most jobs succeed. Some are released once, and come again after the delay of the group. Some are
#      rejected: they run once, and are in the topic of dead letters. One kills its worker (SIGKILL),
#      and the other worker gets it.
#   2. Jobs of a topic with a higher priority overtake those that were there before.
#
# QUEUES="franz-go java"   these languages only.
[ -n "${WORK:-}" ] || exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" queues
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
page="$root/docs/queues.md" delay=500
unset CHRONIKCTL_CONTEXT CHRONIKCTL_CONFIG CHRONIKCTL_OUTPUT CHRONIK_BROKERS

die() { echo "$client: $*"; tail -n 5 ./*.err log 2>/dev/null; exit 1; }
# until_is WHAT COMMAND...   waits until the command succeeds.
until_is() {
  local what="$1"
  shift
  for _ in $(seq 1200); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  die "$what: not within two minutes"
}
ready() { grep -qs '"msg":"ready"' log; }
# ran N PATTERN   the log of the jobs has N lines with the pattern.
ran() { [ "$(grep -cE -- "$2" ran 2>/dev/null)" -ge "$1" ]; }
ctl() { "$root/bin/chronikctl" --brokers "$address" "$@"; }

build() { # sets worker
  case $client in
    franz-go)
      (cd "$root" && go build -o "$OLDPWD/worker" "$OLDPWD/src/worker.go") || die "its program does not compile"
      worker=(./worker) ;;
    confluent-kafka)
      (need_python "confluent_kafka; confluent_kafka.ShareConsumer" "confluent-kafka with share consumers") || exit 77
      worker=("$python" src/worker.py) ;;
    java)
      need_kafka
      javac --release 11 -Xlint:all -Werror -cp "$("$kt" --classpath)" -d classes src/Worker.java || die "its program does not compile"
      export KT_HEAP=128m KT_TIER=1 KT_CP="$PWD/classes"
      worker=("$kt" class Worker) ;;
    *) die "there is no way to run this program" ;;
  esac
}
work() { # work NUMBER TOPIC...   starts a worker
  "${worker[@]}" "${@:2}" 2>"worker$1.err" &
  workers[$1]=$!
}
story() {
  client="$1" broker='' workers=()
  cd "$WORK/queues/$client"
  trap 'for p in "${workers[@]}" $broker; do kill -9 "$p" 2>/dev/null || true; done' EXIT
  read -r port < <(python3 "$root/scripts/free-ports.py" 1)
  address="127.0.0.1:$port"
  sed -i "s/127\.0\.0\.1:9092/$address/" src/*
  # The job notes that it runs, with the time in milliseconds, and does what its name says.
  cat >job <<'JOB'
#!/usr/bin/env bash
read -r kind number
echo "$(date +%s%3N) $kind $number" >>ran
case $kind in
  again) [ "$(grep -c " again $number\$" ran)" -gt 1 ] || exit 75 ;;
  bad) exit 1 ;;
  crash) [ "$(grep -c " crash $number\$" ran)" -gt 1 ] || { kill -9 "$PPID"; sleep 60; } ;;
  hold) while [ ! -e free ]; do sleep 0.1; done ;;
esac
echo "$kind $number" >>finished
JOB
  chmod +x job
  : >ran
  build
  "$root/bin/chronikd" --data-dir data --listen "$address" --admin-listen off 2>log &
  broker=$!
  until_is "the broker starts" ready
  ctl topic create jobs urgent --partitions 1 >/dev/null
  ctl topic create dlq.jobs --partitions 1 --config errors.deadletterqueue.group.enable=true >/dev/null
  ctl config set group workers share.auto.offset.reset=earliest "chronik.share.retry.backoff.ms=$delay" \
    errors.deadletterqueue.topic.name=dlq.jobs errors.deadletterqueue.copy.record.enable=true >/dev/null

  { seq -f 'plain %g' 30; seq -f 'again %g' 3; seq -f 'bad %g' 3; echo "crash 1"; } | ctl produce jobs >/dev/null 2>&1
  work 1 jobs
  work 2 jobs
  until_is "one worker is killed by its job" ran 1 ' crash 1'
  until_is "the other one gets its job" ran 2 ' crash 1'
  until_is "all jobs have run" ran 36 ' (plain|bad|crash) | again .*( |$)'
  until_is "the jobs are finished" finished 34
  [ "$(sort -u finished | wc -l)" = 34 ] || die "$(sort finished | uniq -d)"
  for n in 1 2 3; do
    # shellcheck disable=SC2046 # several numbers
    set -- $(awk -v n="$n" '$2 == "again" && $3 == n { print $1 }' ran)
    [ $# -ge 2 ] && [ $(($2 - $1)) -ge $delay ] || die "the job \"again $n\" ran at $*, with a delay of $delay ms"
    ran 2 " bad $n\$" && die "the job \"bad $n\" ran again"
  done
  until_is "the rejected jobs are dead letters" dead 3
  [ "$(ctl consume dlq.jobs | sort | tr '\n' ,)" = "bad 1,bad 2,bad 3," ] || die "dead letters: $(ctl consume dlq.jobs)"
  for n in 1 2; do
    if kill -0 "${workers[$n]}" 2>/dev/null; then left=$n; else unset "workers[$n]"; fi
  done
  stop "$left"

  echo "hold 1" | ctl produce jobs >/dev/null 2>&1
  work 3 urgent jobs
  until_is "the worker holds a job" ran 1 ' hold '
  # Each in a batch of its own, as librdkafka takes whole batches.
  for n in $(seq 20); do echo "low $n" | ctl produce jobs >/dev/null 2>&1; done
  for n in $(seq 20); do echo "high $n" | ctl produce urgent >/dev/null 2>&1; done
  touch free
  until_is "all jobs have run" ran 40 ' (low|high) '
  [ "$(grep -E ' (low|high) ' ran | tail -n 1 | cut -d' ' -f2)" = low ] || die "urgent jobs did not overtake the others"
  until_is "the jobs are finished" finished 75
  stop 3
  kill -TERM "$broker"
  wait "$broker" || die "the broker ended with $?"
  broker=''
  if grep -E '"level":"(error|dpanic|panic|fatal)"' log; then die "the broker logged errors"; fi
  echo "$client: $(wc -l <ran) runs of $(sort -u finished | wc -l) jobs that succeeded, and 3 that did not"
}
dead() { [ "$(ctl consume dlq.jobs | wc -l)" -ge "$1" ]; }
finished() { [ "$(sort -u finished 2>/dev/null | wc -l)" -ge "$1" ]; }
stop() { # stop NUMBER   as Ctrl-C does
  local rc=0
  kill -TERM "${workers[$1]}"
  wait "${workers[$1]}" || rc=$?
  unset "workers[$1]"
  [ $rc = 0 ] || { [ "$client" = java ] && [ $rc = 143 ]; } || die "the worker ended with $rc"
}

mkdir -p "$WORK/queues"
awk -v dir="$WORK/queues" '
  /^<!-- snippet: [a-z-]+\/[A-Za-z.]+ -->$/ { split($3, at, "/"); line = NR; next }
  /^```/ && inside { close(inside); inside = ""; next }
  /^```(go|python|java)$/ {
    if (line != NR - 1) { print "line " NR " of the page begins a program that no marker names" > "/dev/stderr"; exit 1 }
    system("mkdir -p \"" dir "/" at[1] "/src\"")
    inside = dir "/" at[1] "/src/" at[2]
    next
  }
  inside { print > inside }
' "$page"
declare -A pids
absent=0 failed=0
for client in ${QUEUES:-franz-go confluent-kafka java}; do
  (story "$client") >"$WORK/queues/$client.out" 2>&1 &
  pids[$client]=$!
done
for client in "${!pids[@]}"; do
  rc=0
  wait "${pids[$client]}" || rc=$?
  cat "$WORK/queues/$client.out"
  case $rc in
    0) ;;
    77) absent=1 ;;
    *) failed=1; echo "FAIL $client" ;;
  esac
done
[ "$failed" = 0 ] || exit 1
[ "$absent" = 0 ] || exit 77
