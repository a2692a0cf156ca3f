#!/usr/bin/env bash
# object-stores.sh [STORE...]   Snapshots in object stores of other projects: directory, versitygw,
#                               moto and seaweedfs (default: all but the last, which is large). Each
#                               server is installed, and started on the loopback interface. Then:
#   contract   the tests of internal/objects/s3store, and what docs/snapshots.md says of the server;
#   snapshots  bin/chronikd takes two snapshots, verifies them, and restores each; records, keys,
#              configs and offsets of groups are compared;
#   dump       Kafka's kafka-dump-log reads an object of the store and a restored segment.
#
# A server that cannot be installed is NOT RUN; with STRICT=1 that is an error.
# KAFKA_TOOLS=DIR has kt with the tools of a whole Kafka (default ../shared/kafka).
# FEATURES=1 prints only the table of docs/snapshots.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="$PWD"
versitygw=v1.8.0
moto=5.2.5
seaweedfs=v0.0.0-20261109003541-7506e5f91cd6
tools="${KAFKA_TOOLS:-../shared/kafka}"
stores=("$@")
[ ${#stores[@]} -gt 0 ] || stores=(directory versitygw moto)
for bin in chronikd chronikctl; do [ -x "bin/$bin" ] || { echo "object-stores: bin/$bin is missing: make build"; exit 1; }; done

work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-stores.XXXXXX")"
pids=()
stop() { # stops what was started, the last first
  local i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
  pids=()
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
  local log="$work/$1.log"
  bin/chronikd --data-dir "$work/$1" --listen 127.0.0.1:0 --admin-listen off "${@:2}" 2>"$log" &
  pids+=($!)
  until_true grep -q '"msg":"ready"' "$log"
  broker="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$log")"
}

contents() { # what clients see, in an order of its own: records, configs, and offsets of a group
  ctl consume many small compacted -o json | jq -cS . | sort
  ctl consume transactions --isolation read-committed --offsets --key-separator '|'
  for topic in many small compacted; do ctl config get topic "$topic" --changed -o json | jq -cS '.[] | [.key, .value, .source]'; done
  ctl group describe readers -o json | jq -cS '.[].partitions[] | [.topic, .partition, .committed]' | sort
}

lines() { awk -v p="$1" -v n="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s-%d|%s value number %d of %d\n", p, i % 97, p, i, n }'; }

snapshots() { # snapshots URL ARGUMENT...: the arguments are settings of the broker
  local url="$1" n
  shift
  broker original --set archive.url="$url" --set snapshot.interval.ms=0 "$@"
  ctl topic create many --partitions 3 >/dev/null
  ctl topic create small --partitions 2 --config retention.ms=-1 >/dev/null
  ctl topic create compacted --config cleanup.policy=compact >/dev/null
  ctl topic create transactions >/dev/null
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
  for n in 0 1; do
    bin/chronikd restore "$url" --data-dir "$work/restored-$n" --snapshot "${numbers[n]}" "$@" >"$work/restore-$n"
    broker "restored-$n"
    contents >"$work/again"
    cmp -s "$work/$((n + 1))" "$work/again" || { echo "restored, snapshot ${numbers[n]} differs:"; diff "$work/$((n + 1))" "$work/again" | head -5; return 1; }
    kill -TERM "${pids[-1]}"
    wait "${pids[-1]}"
    unset 'pids[-1]'
  done
  broker="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$work/original.log")"
  ctl snapshot delete --yes "${numbers[0]}" >/dev/null
  echo "snapshots: two taken, verified, restored and compared ($(wc -l <"$work/2") lines)"
}

objects() { # the names of the log objects of the store
  if [ -z "$at" ]; then
    (cd "$work/store" && find . -path '*/log/*' -type f)
  else
    s3 GET 'backups?list-type=2&prefix=some%2Fprefix%2F' | grep -o '<Key>[^<]*/log/[^<]*</Key>' | sed 's/<[^>]*>//g'
  fi
}

read_object() { # read_object NAME FILE
  if [ -z "$at" ]; then cp "$work/store/$1" "$2"; else s3 GET "backups/$1" -o "$2"; fi
}

dumped() { # dumped FILE: what Kafka's tool finds in it, as lines like those of consume
  "$tools/kt" dump-log --files "$1" --deep-iteration --print-data-log >"$work/dump"
  if grep -q 'isvalid: false' "$work/dump"; then echo "dump: damaged batches in $1"; return 1; fi
  sed -n 's/^| offset: \([0-9]*\) .* key: \([^ ]*\) payload: \(.*\)/\1|\2|\3/p' "$work/dump"
}

dump() { # compares what Kafka's tool finds in a restored segment and in an object
  if ! [ -x "$tools/kt" ]; then echo "NOT RUN: kafka-dump-log, because $tools/kt is not there"; return; fi
  local name file n=0 part
  ctl consume small --partition 0 --format '%o|%k|%v\n' >"$work/want"
  dumped "$(find "$work/restored-1" -path '*/small-0/00000000000000000000.log')" >"$work/got"
  cmp -s "$work/want" "$work/got" || { echo "dump: a restored segment differs:"; diff "$work/want" "$work/got" | head -5; return 1; }
  while read -r name; do
    file="${name##*/}"
    part="$(basename "$(dirname "$name")")"
    file="$work/${file%%-*}.log"
    read_object "$name" "$file"
    ctl consume many --partition "$part" --from "$((10#$(basename "${file%.log}")))" --format '%o|%k|%v\n' >"$work/want"
    dumped "$file" >"$work/got"
    cmp -s <(head -n "$(wc -l <"$work/got")" "$work/want") "$work/got" || { echo "dump: $name differs"; return 1; }
    [ -s "$work/got" ] || { echo "dump: $name has no records"; return 1; }
    rm "$file"
    n=$((n + 1))
  done < <(objects)
  [ "$n" -gt 0 ] || { echo "dump: the store has no log objects"; return 1; }
  echo "dump: kafka-dump-log reads a restored segment, and the batches of $n objects"
}

for store in "${stores[@]}"; do
  echo "== $store"
  at='' accepts=''
  mkdir -p "$work"
  if [ "$store" = directory ]; then
    mkdir "$work/store"
    snapshots "file://$work/store"
    dump
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
    snapshots s3://backups/some/prefix --set archive.endpoint="$at" --set archive.keys.file="$work/keys"
    dump
  fi
  stop
  rm -rf "${work:?}"/*
done
