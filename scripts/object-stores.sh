#!/usr/bin/env bash
# object-stores.sh [STORE...]   Snapshots in object stores of other projects: directory, versitygw,
#                               moto and seaweedfs (default: all but the last, which is large). Each
#                               server is installed, and started on the loopback interface. Then:
#   contract   the tests of internal/objects/s3store, and what docs/snapshots.md says of the server;
#   tier       the local log of a topic begins after most of its records, inside of transactions;
#              all are read, from an offset and a time, too;
#   snapshots  bin/chronikd takes two snapshots, verifies them, and restores each, one of them with
#              old records in the store only; records, keys, configs and offsets of groups are
#              compared;
#   dump       Kafka's kafka-dump-log reads a restored segment, and each log object of the store:
#              those of snapshots, of the tier, and its copies;
#   collected  the topic is deleted, first in the original, then in the restored broker, which reads
#              its copies meanwhile. No object of it stays.
#
# A server that cannot be installed is NOT RUN; with STRICT=1 that is an error.
# FEATURES=1 prints only the table of docs/snapshots.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="$PWD"
versitygw=v1.8.0
moto=5.2.5
seaweedfs=v0.0.0-20261109003541-7506e5f91cd6
tools="$root/scripts/kafka"
stores=("$@")
[ ${#stores[@]} -gt 0 ] || stores=(directory versitygw moto)
for bin in chronikd chronikctl; do [ -x "bin/$bin" ] || { echo "object-stores: bin/$bin is missing: make build"; exit 1; }; done

work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-stores.XXXXXX")"
pids=()
declare -A running # the pids of brokers, by the names of their directories
stop() { # stops what was started, the last first
  local i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
  pids=() running=()
}
finish() {
  local rc=$?
  stop
  [ "$rc" = 0 ] || tail -n 5 "$work"/*.log 2>/dev/null || true
  rm -rf "$work"
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM

until_true() { # waits for a state, up to two minutes
  local until=$((SECONDS + 120))
  while [ "$SECONDS" -lt "$until" ]; do
    if "$@" >/dev/null 2>&1; then return 0; fi
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.2
  done
  echo "object-stores: never: $*"
  return 1
}

unavailable() { # unavailable STORE WHY: exit code 77
  echo "NOT RUN: $1, because $2"
  [ -z "${STRICT:-}" ] || exit 1
  return 77
}

# ---- servers: each function installs one and starts it at an address, with the keys below ------
id=chronik secret=a-secret-of-40-characters-for-the-tests region=us-east-1

start_versitygw() {
  local program=".cache/versitygw-$versitygw/versitygw"
  [ -x "$program" ] || GOFLAGS='' GOBIN="$root/${program%/*}" CGO_ENABLED=0 go install "github.com/versity/versitygw/cmd/versitygw@$versitygw" \
    >"$work/install.log" 2>&1 || { unavailable versitygw "$versitygw does not build: $(tail -n 1 "$work/install.log")"; return; }
  mkdir "$work/versitygw"
  "$program" --port "$1" --access "$id" --secret "$secret" --quiet posix "$work/versitygw" >"$work/versitygw.log" 2>&1 &
  pids+=($!)
}

start_moto() {
  local venv=".cache/moto-$moto"
  if ! [ -x "$venv/bin/moto_server" ]; then
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check "moto[s3,server]==$moto"; } >"$work/install.log" 2>&1 ||
      { rm -rf "$venv"; unavailable moto "$moto cannot be installed: $(tail -n 1 "$work/install.log")"; return; }
  fi
  "$venv/bin/moto_server" -H 127.0.0.1 -p "${1#*:}" >"$work/moto.log" 2>&1 &
  pids+=($!)
}

start_seaweedfs() {
  local dir=".cache/seaweedfs-$seaweedfs"
  if ! [ -x "$dir/weed" ]; then
    mkdir -p "$dir"
    # Its go.mod replaces a module, which go install does not accept.
    printf 'module weed\n\ngo 1.26\n\nrequire %s %s\n\nreplace %s => %s\n' github.com/seaweedfs/seaweedfs "$seaweedfs" \
      github.com/tyler-smith/go-bip39 'github.com/cosmos/go-bip39 v1.0.0' >"$dir/go.mod"
    (cd "$dir" && GOFLAGS=-mod=mod CGO_ENABLED=0 go build -o weed github.com/seaweedfs/seaweedfs/weed) >"$work/install.log" 2>&1 ||
      { unavailable seaweedfs "$seaweedfs does not build: $(tail -n 1 "$work/install.log")"; return; }
  fi
  local ports
  read -r -a ports < <(python3 scripts/free-ports.py 3)
  mkdir "$work/seaweedfs"
  printf '{"identities": [{"name": "t", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], "actions": ["Admin", "Read", "Write", "List"]}]}' \
    "$id" "$secret" >"$work/seaweedfs.json"
  "$dir/weed" server -dir "$work/seaweedfs" -ip 127.0.0.1 -ip.bind 127.0.0.1 -master.port "${ports[0]}" -volume.port "${ports[1]}" -filer.port "${ports[2]}" \
    -volume.max 20 -master.volumeSizeLimitMB 256 -s3 -s3.port "${1#*:}" -s3.config "$work/seaweedfs.json" >"$work/seaweedfs.log" 2>&1 &
  pids+=($!)
}

s3() { # s3 METHOD PATH [CURL ARGUMENT...]: without a body, whose SHA-256 is signed
  curl -fsS --max-time 30 -H x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 --aws-sigv4 "aws:amz:$region:s3" --user "$id:$secret" -X "$1" "$at/$2" "${@:3}"
}

# ---- one store ---------------------------------------------------------------------------------
contract() {
  local out="$work/contract" rc=0
  CHRONIK_S3="$at/$1" CHRONIK_S3_ID=$id CHRONIK_S3_SECRET=$secret CHRONIK_S3_OPEN=$2 \
    go test -count=1 -v -timeout 10m -run RealServer ./internal/objects/s3store/ >"$out" 2>&1 || rc=$?
  sed -n 's/^ *real_test.go:[0-9]*: \(| .*\)/\1/p' "$out"
  [ "$rc" = 0 ] || { cat "$out"; return 1; }
  echo "contract: $(grep -c '^ *--- PASS' "$out") tests pass"
}

ctl() { bin/chronikctl --brokers "$broker" --admin off "$@" 2>>"$work/chronikctl.log"; }

broker() { # broker NAME ARGUMENT...: starts one in the directory $work/NAME, and sets broker
  bin/chronikd --data-dir "$work/$1" --listen 127.0.0.1:0 --admin-listen off "${@:2}" 2>"$work/$1.log" &
  pids+=($!) running[$1]=$!
  until_true grep -q '"msg":"ready"' "$work/$1.log"
  use "$1"
}

use() { # use NAME: sets broker to the address of one that runs
  broker="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$work/$1.log")"
}

halt() { # halt NAME: stops a broker
  local i
  kill -TERM "${running[$1]}"
  wait "${running[$1]}"
  for i in "${!pids[@]}"; do [ "${pids[i]}" != "${running[$1]}" ] || unset "pids[$i]"; done
  pids=("${pids[@]}")
  unset "running[$1]"
}

contents() { # what clients see, in an order of its own: records, configs, and offsets of a group
  ctl consume many small compacted -o json | jq -cS . | sort
  for topic in transactions old; do ctl consume "$topic" --isolation read-committed --offsets --key-separator '|'; done
  for topic in many small compacted old; do ctl config get topic "$topic" --changed -o json | jq -cS '.[] | [.key, .value, .source]'; done
  ctl group describe readers -o json | jq -cS '.[].partitions[] | [.topic, .partition, .committed]' | sort
}

lines() { awk -v p="$1" -v n="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s-%d|%s value number %d of %d\n", p, i % 97, p, i, n }'; }

# ---- old records: a topic, old, most of whose records are in the store only ---------------------
timed() { # timed WORD N: records of 300 bytes in JSON, one for each second of a day
  awk -v p="$1" -v n="$2" -v x="$(printf 'x%.0s' $(seq 240))" 'BEGIN { for (i = 0; i < n; i++)
    printf "{\"key\": \"%d\", \"value\": \"%s %d %s\", \"timestamp\": \"2026-01-01T%02d:%02d:%02dZ\"}\n",
      i % 97, p, i, x, i / 3600, i / 60 % 60, i % 60 }'
}

begin() { # begin ID WORD N: opens a transaction with the first records, and sets the descriptor $sender
  mkfifo "$work/$1"
  bin/chronikctl --brokers "$broker" --admin off produce old --input json --transactional-id "$1" <"$work/$1" >"$work/$1.log" 2>&1 &
  pids+=($!)
  exec {sender}>"$work/$1"
  timed "$2" "$3" >&"$sender"
  until_true written "$2" "$3"
}

written() { [ "$(ctl consume old --format '%v\n' | grep -c "^$1 ")" -ge "$2" ]; } # written WORD N: the topic has so many records

local_start() { ctl topic describe old -o json | jq '.[0].partitions[0].localStart'; }

beyond() { [ "$(local_start)" -gt "$1" ]; } # beyond OFFSET: local disks do not have it

write_old() { # two transactions have records on both sides of the border: one is aborted, the other one committed
  local aborted committed i pid
  ctl topic create old --config remote.storage.enable=true --config segment.bytes=1048576 --config local.retention.bytes=1 \
    --config retention.ms=-1 >/dev/null
  timed plain 12000 | ctl produce old --input json >/dev/null
  begin aborted aborted 500
  aborted=$sender pid="${pids[-1]}"
  begin committed committed 500
  committed=$sender
  for i in 1 2 3; do timed "whole$i" 4000 | ctl produce old --input json --transactional-id whole >/dev/null; done
  timed late 100 >&"$committed"
  until_true written late 100
  timed aborted 100 >&"$aborted"
  until_true written aborted 600
  timed end 100 | ctl produce old --input json >/dev/null
  exec {committed}>&-
  wait "${pids[-1]}"
  echo 'no record' >&"$aborted" # this error aborts the transaction
  exec {aborted}>&-
  if wait "$pid"; then echo "tier: a transaction is not aborted"; return 1; fi
  unset 'pids[-1]' 'pids[-1]'
  { timed plain 12000; timed committed 500; for i in 1 2 3; do timed "whole$i" 4000; done; timed late 100; timed end 100; } |
    jq -r .value >"$work/old"
  until_true beyond 24500
}

read_old() { # read_old WHERE: what was written is read, in whole, and from the middle on
  local at
  ctl consume old --isolation read-committed --format '%v\n' >"$work/got"
  cmp -s "$work/old" "$work/got" ||
    { echo "tier: $1: $(wc -l <"$work/got") records differ from the $(wc -l <"$work/old") written"; return 1; }
  written aborted 600 || { echo "tier: $1: records of the aborted transaction are missing"; return 1; }
  for at in 7654 2026-01-01T02:07:34Z; do # of the same record
    ctl consume old --partition 0 --from "$at" -n 3 --format '%v\n' >"$work/got"
    cmp -s <(sed -n 7655,7657p "$work/old") "$work/got" || { echo "tier: $1: from $at on: $(cut -c1-30 "$work/got")"; return 1; }
  done
}

id_of() { # id_of TOPIC: as in names of objects
  ctl topic describe "$1" -o json | jq -r '.[0].id + "=="' | basenc --base64url -d | od -An -tx1 | tr -d ' \n'
}

held_by() { # held_by N TOPIC-ID: so many clusters have log objects of it
  objects >"$work/names" && [ "$(sed -n "s|/log/$2/.*||p" "$work/names" | sort -u | wc -l)" = "$1" ]
}

collected() { # collected ARGUMENT...: a broker that has started deletes objects that nothing names
  local topic number
  use original
  topic="$(id_of old)"
  held_by 2 "$topic" || { echo "collected: two clusters should have objects of $topic:"; cat "$work/names"; return 1; }
  for number in $(ctl snapshot list -o json | jq '.snapshots[].number'); do ctl snapshot delete --yes "$number" >/dev/null; done
  ctl topic delete old --yes >/dev/null
  halt original
  broker original "$@"
  until_true held_by 1 "$topic"
  broker restored-1 "$@"
  read_old "restored, without the original's objects"
  ctl topic delete old --yes >/dev/null
  halt restored-1
  broker restored-1 "$@"
  until_true held_by 0 "$topic"
  objects all >"$work/names"
  if grep "/$topic/" "$work/names"; then echo "collected: these objects stay"; return 1; fi
  echo "collected: the topic's objects are deleted, first those of the original"
}

# ---- snapshots ---------------------------------------------------------------------------------
snapshots() { # snapshots URL ARGUMENT...: the arguments are settings of the broker, except for its store
  local url="$1" n
  shift
  broker original --set archive.url="$url" "$@"
  ctl topic create many --partitions 3 >/dev/null
  ctl topic create small --partitions 2 --config retention.ms=-1 >/dev/null
  ctl topic create compacted --config cleanup.policy=compact >/dev/null
  ctl topic create transactions >/dev/null
  write_old
  read_old original
  echo "tier: all records are read, offsets below $(local_start) from the store only"
  lines many 60000 | sed "s/$/ $(printf 'x%.0s' $(seq 300))/" | ctl produce many --key-separator '|' >/dev/null
  lines small 100 | ctl produce small --key-separator '|' >/dev/null
  lines compacted 500 | ctl produce compacted --key-separator '|' >/dev/null
  lines transactions 100 | ctl produce transactions --key-separator '|' --transactional-id t --transaction-records 10 >/dev/null
  ctl consume small --group readers >/dev/null
  contents >"$work/1"
  ctl snapshot create >"$work/create-1"
  lines more 100 | ctl produce small --key-separator '|' >/dev/null
  lines more 10 | ctl produce transactions --key-separator '|' --transactional-id t >/dev/null
  ctl consume small --group readers >/dev/null
  contents >"$work/2"
  ctl snapshot create >"$work/create-2"
  mapfile -t numbers < <(ctl snapshot list -o json | jq -r '.snapshots[].number')
  [ ${#numbers[@]} = 2 ] || { echo "there are ${#numbers[@]} snapshots"; return 1; }
  for n in "${numbers[@]}"; do ctl snapshot verify "$n" >/dev/null; done
  cat "$work/create-1" "$work/create-2"
  restored 0 "$url" "$@"
  restored 1 "$url" --set archive.url="$url" "$@"
  use original
  ctl snapshot delete --yes "${numbers[0]}" >/dev/null
  echo "snapshots: two taken, verified, restored and compared ($(wc -l <"$work/2") lines)"
}

restored() { # restored N URL ARGUMENT...: restores a snapshot, and compares what clients see
  local n="$1"
  bin/chronikd restore "$2" --data-dir "$work/restored-$n" --snapshot "${numbers[n]}" "${@:3}" >"$work/restore-$n"
  broker "restored-$n" "${@:3}"
  contents >"$work/again"
  if ! cmp -s "$work/$((n + 1))" "$work/again"; then
    echo "restored, snapshot ${numbers[n]} differs:"
    diff "$work/$((n + 1))" "$work/again" | head -5
    return 1
  fi
  read_old "restored-$n"
  if [ "$n" = 0 ]; then
    [ "$(local_start)" = 0 ] || { echo "restored: without a store, the local log begins at $(local_start)"; return 1; }
  else
    grep 'stay in the store' "$work/restore-$n" || { echo "restored: no old records stay in the store"; return 1; }
    beyond 7654
  fi
  halt "restored-$n"
}

objects() { # objects [all]: the names of the log objects of the store, or of all objects
  local kind="${1:-log}"
  [ "$kind" != all ] || kind='[a-z]*'
  if [ -z "$at" ]; then
    (cd "$work/store" && find . -type f)
  else
    s3 GET 'backups?list-type=2&prefix=some%2Fprefix%2F' | sed 's/<Key>/\n&/g' | sed -n 's|^<Key>\([^<]*\)<.*|\1|p'
  fi | sed -n "\|/$kind/|p"
}

read_object() { # read_object NAME FILE
  if [ -z "$at" ]; then cp "$work/store/$1" "$2"; else s3 GET "backups/$1" -o "$2"; fi
}

dumped() { # dumped FILE: what Kafka's tool finds in it, as lines like those of consume
  "$tools/kt" dump-log --files "$1" --deep-iteration --print-data-log >"$work/dump" 2>"$work/dump-errors"
  if grep -q 'isvalid: false' "$work/dump"; then echo "dump: damaged batches in $1"; return 1; fi
  if grep '[0-9] is followed by' "$work/dump-errors" | grep -v '^ *-1 is'; then # -1: before the first batch
    echo "dump: $1 has holes"
    return 1
  fi
  sed -n 's/^| offset: \([0-9]*\) .* key: \([^ ]*\) payload: \(.*\)/\1|\2|\3/p' "$work/dump"
}

dump() { # compares what Kafka's tool finds in a restored segment and in an object
  if ! "$tools/kt" --classpath >/dev/null; then echo "NOT RUN: kafka-dump-log"; return; fi
  local name file topic part
  local -A topics counts=()
  for topic in many old; do topics[$(id_of "$topic")]=$topic; done
  ctl consume small --partition 0 --format '%o|%k|%v\n' >"$work/want"
  dumped "$(find "$work/restored-1" -path '*/small-0/00000000000000000000.log')" >"$work/got"
  cmp -s "$work/want" "$work/got" || { echo "dump: a restored segment differs:"; diff "$work/want" "$work/got" | head -5; return 1; }
  while read -r name; do
    IFS=/ read -r topic part file <<<"${name##*/log/}"
    topic="${topics[$topic]}" file="$work/${file%%-*}.log"
    read_object "$name" "$file"
    ctl consume "$topic" --partition "$part" --from "$((10#$(basename "${file%.log}")))" --format '%o|%k|%v\n' >"$work/want"
    dumped "$file" >"$work/got"
    cmp -s <(head -n "$(wc -l <"$work/got")" "$work/want") "$work/got" || { echo "dump: $name differs"; return 1; }
    [ -s "$work/got" ] || { echo "dump: $name has no records"; return 1; }
    rm "$file"
    counts[$topic]=$((${counts[$topic]:-0} + 1))
  done < <(objects)
  [ ${#counts[@]} = 2 ] || { echo "dump: the store has log objects of ${!counts[*]} only"; return 1; }
  echo "dump: kafka-dump-log reads a restored segment, and the batches of ${counts[many]} objects of snapshots, ${counts[old]} of the tier"
}

for store in "${stores[@]}"; do
  echo "== $store"
  at='' accepts=''
  settings=(--set snapshot.interval.ms=0 --set remote.log.manager.task.interval.ms=200 --set log.retention.check.interval.ms=200)
  mkdir -p "$work"
  if [ "$store" = directory ]; then
    mkdir "$work/store"
    url="file://$work/store"
  else
    declare -F "start_$store" >/dev/null || { echo "object-stores: $store is not one of directory, versitygw, moto, seaweedfs"; exit 2; }
    read -r port < <(python3 scripts/free-ports.py 1)
    at="http://127.0.0.1:$port" rc=0
    "start_$store" "127.0.0.1:$port" || rc=$?
    [ "$rc" != 77 ] || continue
    [ "$store" != moto ] || accepts=all
    printf 'aws_access_key_id = %s\naws_secret_access_key = %s\n' "$id" "$secret" >"$work/keys"
    chmod 600 "$work/keys"
    until_true s3 PUT contract
    s3 PUT backups
    contract contract "$accepts"
    if [ -n "${FEATURES:-}" ]; then stop; rm -rf "${work:?}"/*; continue; fi
    url=s3://backups/some/prefix
    settings+=(--set archive.endpoint="$at" --set archive.keys.file="$work/keys")
  fi
  snapshots "$url" "${settings[@]}"
  dump
  collected --set archive.url="$url" "${settings[@]}"
  stop
  rm -rf "${work:?}"/*
done
