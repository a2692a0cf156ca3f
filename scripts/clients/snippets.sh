#!/usr/bin/env bash
# The programs of docs/clients.md, taken out of the page word for word; only the
# address is replaced. Each client's producer and consumer get a broker of their
# own, and the same story:
#
#   1. The producer writes 1,000 lines; chronikctl finds just these, in order of
#      their keys. The consumer prints just these and commits. All clients but
#      sarama give a key the same partition.
#   2. Producer and consumer run while more lines come. Twice an answer
#      that acknowledges records is lost on its way, and all after it, and the
#      broker is killed (SIGKILL) and started again. Nothing is lost, doubled or
#      out of order in the topic; the consumer goes on where it had committed,
#      and prints everything at least once.
#
# Not kafkajs: when a leader moves while a send to several brokers is under way, it
# sends some batches twice with other sequence numbers, and others never.
# With NODES=3 each client gets three brokers that form a cluster; the answers of
# two of them are lost, and the third one is stopped with SIGTERM and started again. With
# ONE_ADDRESS=1, too, clients know only the address of a balancer, and brokers forward: each is
# killed and stopped while records flow, without a chosen answer that is lost.
#
# SNIPPETS="franz-go java"   these clients only. Java and kafkajs are told as not
# run where their toolchain is not there; for the others that is MISSING.
# PAGE=FILE   another page than docs/clients.md. PATIENCE=1200   how many times
# 0.1 s a step may take.
[ -n "${WORK:-}" ] || exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" snippets
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
page="${PAGE:-$root/docs/clients.md}"
all="franz-go sarama confluent-kafka kafka-python java kafkajs librdkafka"
run="$all"
[ "${NODES:-1}" = 1 ] || run="${all/kafkajs /}"
first=1000
export LC_ALL=C.UTF-8 HOME="${HOME:-$WORK}"
unset CHRONIKCTL_CONTEXT CHRONIKCTL_CONFIG CHRONIKCTL_OUTPUT CHRONIK_BROKERS

die() { echo "$client: $*"; exit 1; }
not_run() { echo "NOT RUN: the programs of $client, because $*"; exit 77; }
unavailable() { # unavailable LOG WHAT: it could not be fetched or built
  tail -5 "$1"
  not_run "$2 is not here and could not be installed: does this machine reach a package registry?"
}

# extract DIR   writes every program of the page to DIR/CLIENT/FILE. Each block
# in a programming language must be one.
extract() {
  awk -v dir="$1" '
    /^<!-- snippet: [a-z-]+\/[A-Za-z.]+ -->$/ { file = $3; line = NR; next }
    /^<!-- login: / { line = NR; file = ""; next } # a part of a program, which secure.sh checks
    /^```/ && inside { close(inside); inside = ""; next }
    /^```(go|python|java|js|c|c\+\+)$/ {
      if (line != NR - 1) { print "line " NR " of the page begins a program that no marker names" > "/dev/stderr"; exit 1 }
      if (file == "") next
      inside = dir "/" file
      system("mkdir -p \"" inside "\" && rmdir \"" inside "\"")
      next
    }
    inside { print > inside }
  ' "$page"
}

# pinned PREFIX   the rest of the one line of the page that begins with four blanks and PREFIX.
pinned() {
  local found
  found="$(sed -n "s|^    $1||p" "$page")"
  [ "$(wc -w <<<"$found")" = 1 ] || die "the page should say once: $1VERSION, it says: $found"
  echo "$found"
}

# Each builds ./src of its client and sets producer and consumer, and version.
go_module() { # go_module MODULE[/PACKAGE]
  local wanted kept
  command -v go >/dev/null || not_run "go is not here"
  version="$(pinned "go get $1@")"
  kept="$root/.cache/snippets/$client-$version" wanted="$1@$version"
  mkdir -p "$kept" bin
  if ! [ -f "$kept/go.sum" ]; then
    (cd "$kept" && rm -f go.mod && go mod init snippet && GOFLAGS=-mod=mod go get "$wanted") >build.log 2>&1 || unavailable build.log "$wanted"
  fi
  cp "$kept/go.mod" "$kept/go.sum" src
  (cd src && GOFLAGS='-mod=mod -trimpath' go build -o ../bin/produce produce.go && GOFLAGS='-mod=mod -trimpath' go build -o ../bin/consume consume.go && go vet -trimpath produce.go && go vet -trimpath consume.go) ||
    die "its programs do not compile"
  producer=(bin/produce) consumer=(bin/consume)
}
python_package() { # python_package NAME
  local python="$root/.cache/venv/bin/python" kept
  [ -x "$python" ] || python=python3
  "$python" -m pip --version >/dev/null 2>&1 || not_run "python3 with pip is not here"
  version="$(pinned "pip install $1==")"
  kept="$root/.cache/snippets/$client-$version"
  if ! [ -d "$kept" ]; then
    "$python" -m pip install -q --disable-pip-version-check --target "$kept.new" "$1==$version" >build.log 2>&1 || { rm -rf "$kept.new"; unavailable build.log "$1==$version"; }
    mv "$kept.new" "$kept"
  fi
  export PYTHONPATH="$kept" PYTHONDONTWRITEBYTECODE=1
  producer=("$python" src/produce.py) consumer=("$python" src/consume.py)
}
build() {
  case "$client" in
    franz-go) go_module github.com/twmb/franz-go/pkg/kgo ;;
    sarama) go_module github.com/IBM/sarama ;;
    confluent-kafka | kafka-python) python_package "$client" ;;
    java)
      command -v javac >/dev/null || not_run "javac is not here"
      version="$(pinned org.apache.kafka:kafka-clients:)"
      export KAFKA_VERSION="$version"
      (need_kafka) || not_run "kafka-clients $version is not here"
      javac --release 11 -Xlint:all -Werror -cp "$("$kt" --classpath)" -d classes src/Produce.java src/Consume.java || die "its programs do not compile"
      export KT_HEAP=128m KT_TIER=1 KT_CP="$PWD/classes"
      producer=("$kt" class Produce) consumer=("$kt" class Consume) ;;
    kafkajs)
      local kept
      command -v node >/dev/null || not_run "node is not here"
      version="$(pinned 'npm install kafkajs@')"
      kept="$root/.cache/snippets/kafkajs-$version"
      if ! [ -d "$kept/node_modules/kafkajs" ]; then
        command -v npm >/dev/null || not_run "npm is not here"
        npm install --silent --no-audit --no-fund --prefix "$kept" "kafkajs@$version" >build.log 2>&1 || unavailable build.log "kafkajs $version"
      fi
      export NODE_PATH="$kept/node_modules"
      producer=(node src/produce.js) consumer=(node src/consume.js) ;;
    librdkafka)
      command -v cc >/dev/null || not_run "cc is not here"
      echo '#include <librdkafka/rdkafka.h>' | cc -E - >/dev/null 2>&1 || not_run "librdkafka's header is not here: apt-get install librdkafka-dev"
      mkdir -p bin
      local program
      for program in produce consume; do
        cc -O2 -Wall -Wextra -Werror -o "bin/$program" "src/$program.c" -lrdkafka || die "$program.c does not compile"
      done
      version="$(printf '#include <librdkafka/rdkafka.h>\nRD_KAFKA_VERSION\n' | cc -E - | tail -1 | sed -E 's/\(?0x(..)(..)(..)ff\)?/\1 \2 \3/' | (read -r a b c; echo "$((16#$a)).$((16#$b)).$((16#$c))"))"
      producer=(bin/produce) consumer=(bin/consume) ;;
  esac
}

# start NODE...   starts brokers and tells their proxies where they are. The members of a cluster know
# each other by a listener without a proxy.
start() {
  local node log ready _
  for node in "$@"; do
    log="chronikd$node.log"
    touch "$log"
    begun[node]=$(($(wc -c <"$log") + 1))
    if [ -z "${seeds:-}" ]; then
      "$root/bin/chronikd" --data-dir data --listen 127.0.0.1:0 --advertise "${address[node]}" --admin-listen off 2>>"$log" &
    else
      cat >"chronikd$node.yaml" <<CONFIG
cluster.name: snippets
node.id: $node
cluster.seeds: [$seeds]
listeners:
  - {name: brokers, listen: "127.0.0.1:${ports[node - 1]}"}
  - {name: clients, listen: "127.0.0.1:${ports[node + 2]}", advertise: "${one:-${address[node]}}"${one:+, route: forward}}
CONFIG
      "$root/bin/chronikd" --config "chronikd$node.yaml" --data-dir "data$node" --admin-listen off 2>>"$log" &
    fi
    broker[node]=$!
  done
  for node in "$@"; do
    log="chronikd$node.log" ready=''
    for _ in $(seq 600); do
      ready="$(tail -c "+${begun[node]}" "$log" | sed -n 's/.*"msg":"ready".*"listen":\["\([^]]*\)"\].*/\1/p')"
      [ -z "$ready" ] || break
      sleep 0.1
    done
    [ -n "$ready" ] || { cat "$log"; die "broker $node did not start"; }
    echo "${ready##*\"}" >broker.new
    mv broker.new "broker$node"
  done
}
ctl() { "$root/bin/chronikctl" --brokers "$addresses" --admin off "$@"; }

# lines FROM TO   lines of 37 keys, every line different. lines FROM writes some
# 5,000 a second, so that there are always some under way, until there is a file
# "killed", and the number of the last one to a file "fed".
lines() {
  awk -v from="$1" -v to="${2:-0}" 'BEGIN {
    for (i = from; !to || i <= to; i++) {
      printf "key-%d order %d, ä and \"quoted\"\n", i % 37, i
      if (to || i % 70) continue
      fflush()
      if (system("sleep 0.01; test -e killed") == 0) { print i > "fed"; exit }
    }
  }'
}
# by_key   as they come, but key by key: what a topic keeps of an order.
by_key() { sort -s -k1,1; }

# until_is WHAT COMMAND...   waits until COMMAND succeeds.
until_is() {
  local _
  for _ in $(seq "${PATIENCE:-1200}"); do
    if "${@:2}"; then return 0; fi
    sleep 0.1
  done
  tail -qn 5 ./*.err
  die "waited in vain until $1"
}
printed() { [ "$(wc -l <"$1")" -ge "$2" ]; }
# committed N   the group's commits are N in all, with nothing left to read.
committed() {
  ctl group describe billing -o json 2>/dev/null | python3 -c '
import json, sys
group = json.load(sys.stdin)[0]
sys.exit(group["lag"] != 0 or sum(p["committed"] or 0 for p in group["partitions"]) != int(sys.argv[1]))' "$1" 2>/dev/null
}
consume() { # consume OUT   starts the consumer
  "${consumer[@]}" >"$1" 2>"$1.err" &
  reader=$!
}
leave() { # stops it, as Ctrl-C does
  local rc=0
  kill -TERM "$reader"
  wait "$reader" || rc=$?
  reader=''
  # A JVM that a signal ended says so, whatever its hooks did.
  [ $rc = 0 ] || { [ "$client" = java ] && [ $rc = 143 ]; } || { tail -qn 5 ./*.err; die "the consumer ended with $rc"; }
  until_is "nobody is in the group" empty
}
empty() { ctl group describe billing 2>/dev/null | grep -q '^group billing  Empty'; }
stored() { # stored TO   the topic holds the lines up to TO, each once, with its key, in order
  lines 1 "$1" | awk '{ print $1 "|" $0 }' | by_key >want
  ctl consume orders -k '|' | by_key >got
  same "$client's producer" want got
}
kill_broker() { # kill_broker NODE   when an acknowledgement of it has been lost, if it has a proxy
  local before
  if [ -z "$one" ]; then
    before="$(grep -c LOST "proxy$1.out" || true)"
    kill -USR1 "${proxy[$1]}"
    until_is "an acknowledgement is lost" lost "$1" "$before"
  fi
  kill -9 "${broker[$1]}"
  wait "${broker[$1]}" 2>/dev/null || true
  start "$1"
  [ -n "$one" ] || kill -USR2 "${proxy[$1]}"
}
lost() { [ "$(grep -c LOST "proxy$1.out")" -gt "$2" ]; }
# balance   starts a balancer in front of all brokers, instead of a proxy for each.
balance() {
  local port="${ports[6]}"
  one="127.0.0.{id}:$port" address=("127.0.0.1:$port") kills="1 2 3" stops="1 2 3"
  python3 "$root/scripts/balancer.py" "127.0.0.1,127.0.0.2,127.0.0.3:$port" "127.0.0.1:${ports[3]}" "127.0.0.1:${ports[4]}" "127.0.0.1:${ports[5]}" 2>balancer.err &
  proxy=($!)
}
stop_broker() { # stop_broker NODE   and starts it again
  kill -TERM "${broker[$1]}"
  wait "${broker[$1]}" || die "broker $1 ended with $?"
  start "$1"
}

story() {
  # Not local: the trap sees them too. Each story has a shell of its own.
  client="$1" producer=() consumer=() version='' proxy=() broker=() begun=() address=() reader='' writer='' rc=0
  nodes=1 seeds='' kills="1 1" stops='' one=''
  cd "$WORK/snippets/$client"
  trap 'for p in $writer $reader "${broker[@]}" "${proxy[@]}"; do kill -9 "$p" 2>/dev/null || true; done' EXIT
  if [ "${NODES:-1}" = 3 ]; then
    read -ra ports < <(python3 "$root/scripts/free-ports.py" 7)
    nodes="1 2 3" seeds="127.0.0.1:${ports[0]}, 127.0.0.1:${ports[1]}, 127.0.0.1:${ports[2]}" kills="1 2" stops=3
  fi
  [ -z "${ONE_ADDRESS:-}" ] || [ -z "$seeds" ] || balance
  for node in $nodes; do
    [ -z "$one" ] || break
    python3 "$here/snippets_proxy.py" "broker$node" >"proxy$node.out" 2>"proxy$node.err" &
    proxy[node]=$!
  done
  for node in $nodes; do
    [ -z "$one" ] || break
    until_is "the proxy listens" printed "proxy$node.out" 1
    address[node]="$(head -1 "proxy$node.out")"
  done
  # Some clients want a list of strings, the others a string with commas.
  addresses="$(IFS=,; echo "${address[*]}")"
  sed -Ei -e "/SeedBrokers|\[\]string|brokers: \[/s/([\"'])127\.0\.0\.1:9092[\"']/\1${addresses//,/\\1, \\1}\1/" -e "s/127\.0\.0\.1:9092/$addresses/" src/*
  build
  began=$SECONDS
  # shellcheck disable=SC2086 # several nodes
  start $nodes
  ctl topic create orders --partitions 3 >/dev/null

  lines 1 $first | "${producer[@]}" 2>produce.err || { tail -5 produce.err; die "the producer failed"; }
  stored $first
  ctl consume orders --format '%k %p\n' | sort -u >keys
  : >consumed
  consume consumed
  until_is "the first $first lines are read" printed consumed $first
  until_is "they are committed" committed $first
  leave
  lines 1 $first | by_key >want
  by_key <consumed >got
  same "$client's consumer" want got

  : >again
  consume again
  lines $((first + 1)) |
    "${producer[@]}" >produce.out 2>produce-again.err &
  writer=$!
  for node in $kills; do
    until_is "lines more are read" printed again $(($(wc -l <again) + 2000))
    kill_broker "$node"
  done
  for node in $stops; do
    until_is "lines more are read" printed again $(($(wc -l <again) + 2000))
    stop_broker "$node"
  done
  until_is "lines more are read" printed again $(($(wc -l <again) + 2000))
  touch killed
  wait "$writer" || { rc=$?; tail -5 produce-again.err; die "the producer ended with $rc after the broker was killed"; }
  writer='' fed="$(cat fed)"
  stored "$fed"
  until_is "all is read and committed after the broker was killed" committed "$fed"
  leave
  lines $((first + 1)) "$fed" | by_key >want
  awk '!seen[$0]++' again | by_key >got
  same "$client's consumer, the broker killed" want got
  echo "$client $version: all lines once and in order, $(($(wc -l <again) + first - fed)) of $fed read again after $(wc -w <<<"$kills") kills and $(wc -w <<<"$stops") stops ($((SECONDS - began))s)"
}

client=page
extract "$WORK/extracted" || exit 1
for client in $(ls "$WORK/extracted"); do
  [[ " $all " = *" $client "* ]] || die "nobody runs the programs of this name"
done
pids=() names=() failed=0 missing=0
for client in ${SNIPPETS:-$run}; do
  [ -d "$WORK/extracted/$client" ] || die "the page has no programs of this name"
  mkdir -p "$WORK/snippets/$client"
  mv "$WORK/extracted/$client" "$WORK/snippets/$client/src"
  (story "$client") >"$WORK/snippets/$client.out" 2>&1 &
  pids+=($!) names+=("$client")
done
for i in "${!pids[@]}"; do
  rc=0
  wait "${pids[i]}" || rc=$?
  cat "$WORK/snippets/${names[i]}.out"
  case "$rc ${names[i]}" in
    0\ * | 77\ java) ;;
    77\ kafkajs) ! command -v node >/dev/null || missing=1 ;;
    77\ *) missing=1 ;;
    *) failed=1; echo "FAIL ${names[i]}" ;;
  esac
done
# What the page says of keys: the same partitions with all clients but sarama.
of=''
for client in "${names[@]}"; do
  cd "$WORK/snippets/$client" && [ -e keys ] && [ "$client" != sarama ] || continue
  [ -n "$of" ] || of="$PWD/keys"
  (same "$client's partitions of keys" "$of" keys) || failed=1
done
[ $failed = 0 ] || exit 1
[ $missing = 0 ] || exit 77
