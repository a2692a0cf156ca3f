#!/usr/bin/env bash
# drill.sh [FAULT...]   plants each fault on a running broker under load, measures how long
# `chronikctl cluster health` takes to report it, and follows the remedy that it prints, word for
# word: commands in backticks are run as they are (log repair asks, and --yes answers), "stop the
# broker" and "start the broker" are done. Then the broker must be healthy, accept records, and
# have every record that it had acknowledged; the drill counts those that are lost. It prints a
# table, and fails if a row does not hold.
#
# Faults: damage full-disk lost-journal lost-metadata stuck-disk wrong-port wrong-advertise
# killed-without-journal. full-disk and stuck-disk take root and a loop device, and are
# reported as not run without them. Needs jq, and bin/ of `make build`.
# shellcheck disable=SC2016 # backticks are those of the remedies, capitals the operator's choice
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for bin in chronikd chronikctl chronik-bench; do [ -x "bin/$bin" ] || { echo "bin/$bin is missing: make build"; exit 1; }; done
command -v jq >/dev/null || { echo "jq is missing (Debian: jq)"; exit 1; }
export PATH="$PWD/bin:$PATH"

all=(damage full-disk lost-journal lost-metadata stuck-disk wrong-port wrong-advertise killed-without-journal)
within=5000   # ms in which a fault must be reported
records=40000 # acknowledged before the fault, each with its number
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-drill.XXXXXX")"
broker='' load=() mounted='' frozen='' failed=''
unset CHRONIKCTL_CONTEXT

finish() {
  local rc=$?
  thaw
  stop_load
  [ -z "$broker" ] || kill -KILL "$broker" 2>/dev/null || true
  wait 2>/dev/null || true
  release
  [ "$rc" = 0 ] || { tail -n 4 "$work"/*/broker.log "$work"/*/followed 2>/dev/null || true; }
  rm -rf --one-file-system "$work"
  exit "$rc"
}
trap finish EXIT
die() { echo "drill: $*" >&2; exit 1; }
now() { date +%s%3N; }
until_true() { # until_true SECONDS COMMAND...
  local end=$(($(now) + $1 * 1000))
  shift
  while ! "$@" >"$work/said" 2>&1; do
    [ "$(now)" -lt "$end" ] || return 1
    sleep 0.1
  done
}

# ---- the broker, its data and its load --------------------------------------------
start_broker() {
  chronikd --data-dir "$dir/data" --listen "$CHRONIKCTL_BROKERS" --admin-listen "$CHRONIKCTL_ADMIN" "${flags[@]}" 2>>"$dir/broker.log" &
  broker=$!
  until_true 60 chronikd health --admin-listen "$CHRONIKCTL_ADMIN" || return 1
}
stop_broker() {
  kill -TERM "$broker"
  wait "$broker" || true
  broker=''
}
start_load() {
  while :; do chronik-bench --bootstrap-servers "$CHRONIKCTL_BROKERS" --create-topic --topic load --topic-config segment.bytes=1048576 -c 4 --rate 400 -d 1h --warmup 0s; sleep 0.2; done >>"$dir/load.log" 2>&1 &
  load+=($!)
  while :; do chronikctl consume kept; sleep 0.2; done >/dev/null 2>&1 &
  load+=($!)
}
stop_load() {
  local pid child
  for pid in "${load[@]}"; do
    kill -STOP "$pid" 2>/dev/null || continue # or it starts another between the two
    for child in $(pgrep -P "$pid"); do kill "$child" 2>/dev/null || true; done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  load=()
}
# begin NAME [FLAG...]: a broker whose records are in sealed segments and, after a restart,
# not in its memory, with clients that write and read all the time.
begin() {
  dir="$work/$1"
  flags=("${@:2}")
  mkdir -p "$dir"
  read -r one two < <(python3 scripts/free-ports.py 2)
  export CHRONIKCTL_BROKERS="127.0.0.1:$one" CHRONIKCTL_ADMIN="127.0.0.1:$two"
  start_broker || die "$1: the broker does not start"
  chronikctl topic create kept --partitions 2 --config segment.bytes=1048576 >/dev/null
  numbered 1 "$records" | chronikctl produce kept --max-batch-bytes 20000 2>/dev/null
  stop_broker
  start_broker || die "$1: the broker does not start again"
  until_true 10 healthy || die "$1: it is not healthy before the fault: $(cat "$work/said")"
  start_load
  until_true 30 loaded || die "$1: there is no load: $(tail -n 1 "$dir/load.log")"
}
numbered() { seq -f '%09.0f a record that an acknowledgement was waited for, and that must be found again after the fault' "$1" "$2"; }
loaded() { grep -q 'produce [1-9]' "$dir/load.log"; }
healthy() { chronikctl cluster health; }
end() {
  stop_load
  [ -z "$broker" ] || stop_broker
}

# own_disk NAME MIB: the data directory is a file system of its own, which can be filled and frozen;
# nothing else is on it, so that only the broker hangs with it.
own_disk() {
  mkdir -p "$work/$1/data"
  truncate -s "$2M" "$work/$1.img" && mkfs.ext4 -q "$work/$1.img" && mount -o loop "$work/$1.img" "$work/$1/data" 2>"$work/said" && mounted="$work/$1/data"
}
release() {
  [ -z "$mounted" ] || umount "$mounted" 2>/dev/null || umount -l "$mounted" || true
  mounted=''
}
thaw() {
  [ -z "$frozen" ] || fsfreeze -u "$frozen" || true
  frozen=''
}

# ---- finding, following, counting ---------------------------------------------------
# found CHECK SUBJECT: cluster health reports it, as another finding than a note.
found() {
  rc=0
  timeout 10 chronikctl cluster health -o json >"$dir/health.json" 2>"$dir/health.err" || rc=$?
  [ "$rc" != 0 ] || return 1
  jq -e --arg check "$1" --arg subject "$2" \
    '[.findings[] | select(.check == $check and .severity != "note" and (.subject | contains($subject)))][0] // empty' \
    "$dir/health.json" >"$dir/finding.json" 2>/dev/null
}
# detect CHECK SUBJECT: waits for the finding; planted is when the fault was.
detect() {
  if ! until_true 60 found "$1" "$2"; then
    took=never
    problem="$(cat "$dir/health.err")"
    jq -c '.findings[] | {check, severity, subject}' "$dir/health.json" || true
    return 1
  fi
  took=$(($(now) - planted))
  remedy="$(jq -r .remedy "$dir/finding.json")"
  problem="$(jq -r '.subject + ": " + .problem' "$dir/finding.json")"
}
# follow: does what the remedy says, in its order. What it leaves to the operator's choice is
# in names: TOPIC=... for a word in capitals.
follow() {
  local step command word
  : >"$dir/steps"
  while IFS= read -r step; do
    echo "$step" >>"$dir/steps"
    case "$step" in
      'stop producers') stop_load ;;
      'stop the broker') [ -z "$broker" ] || stop_broker ;;
      'start the broker' | 'restart the broker')
        [ -z "$broker" ] || stop_broker
        start_broker || return 1
        ;;
      *)
        command="${step#\`}"
        command="${command%\`}"
        for word in "${names[@]}"; do command="${command//"${word%%=*}"/"${word#*=}"}"; done
        [[ "$command" != *' log repair '* ]] || command="$command --yes" # the answer to its question
        echo "\$ $command" >>"$dir/followed"
        # log verify ends with 4 where it found something, which here it must.
        bash -c "$command" >>"$dir/followed" 2>&1 || { [ $? = 4 ] && [[ "$command" == *' log verify '* ]]; } || return 1
        ;;
    esac
  done < <(grep -oE '`(chronikctl|mkdir) [^`]+`|stop producers|(re)?start the broker|stop the broker' <<<"$remedy")
}
# restored: the broker is healthy, takes records and gives them back.
restored() {
  until_true 60 healthy || { problem="after the remedy: $(cat "$work/said")"; return 1; }
  numbered $((records + 1)) $((records + 100)) | timeout 60 chronikctl produce kept >/dev/null 2>&1 || { problem='after the remedy records are refused'; return 1; }
  timeout 60 chronikctl consume kept 2>/dev/null | cut -c1-9 | sort -u >"$dir/read" || { problem='after the remedy records cannot be read'; return 1; }
  lost=$(numbered 1 $((records + 100)) | cut -c1-9 | comm -23 - "$dir/read" | wc -l)
}
rows=()
row() { # row FAULT REPORTED RESTORED LOST WHAT
  rows+=("| $1 | $2 | $3 | $4 | $5 |")
  echo "${rows[-1]}"
}
# drill FAULT CHECK SUBJECT [MOST]: the part after planting; MOST records may be lost.
drill() {
  local ok=yes
  lost='?'
  if ! detect "$2" "$3"; then
    ok=no
    row "$1" never - - "$problem"
  elif ! follow; then
    ok=no
    row "$1" "${took} ms, exit code $rc" no - "\`$(tail -n 1 "$dir/steps" | tr -d '`')\` failed: $(tail -n 1 "$dir/followed" 2>/dev/null)"
  elif ! restored; then
    ok=no
    row "$1" "${took} ms, exit code $rc" no - "$problem"
  else
    [ "$took" -le "$within" ] && [ "$lost" -le "${4:-0}" ] || ok=no
    row "$1" "${took} ms, exit code $rc" yes "$lost" "$(paste -sd, "$dir/steps" | sed "s|$dir|DIR|g; s|,|, |g")"
  fi
  [ "$ok" = yes ] || failed="$failed $1"
}

# ---- the faults -------------------------------------------------------------------------
damage() {
  begin damage
  local segment
  segment="$(find "$dir"/data/logs/kept-1 -name '*.log' | sort | sed -n 2p)" # not the first, not the active one
  planted=$(now)
  printf '\377\377' | dd of="$segment" bs=1 seek=300000 conv=notrunc status=none
  names=()
  drill damage damage kept-1 300 # one batch has 20 kB
  end
}
full-disk() {
  own_disk full-disk 700 || { row full-disk 'NOT RUN' - - "$(head -n 1 "$work/said")"; return; }
  begin full-disk --set chronik.disk.min.free.bytes=100000000
  # A backlog that a shorter retention removes, then a file of another process.
  chronikctl topic create backlog --config segment.bytes=10485760 >/dev/null
  chronik-bench --bootstrap-servers "$CHRONIKCTL_BROKERS" --topic backlog -c 8 -s 20000 -d 4s --warmup 0s >/dev/null 2>&1 || true
  planted=$(now)
  local free
  free="$(df --output=avail -B1 "$dir/data" | tail -n 1)"
  fallocate -l "$((free - 80000000))" "$dir/data/of-another-process"
  names=(TOPIC=backlog AGE=1000)
  drill full-disk space data/logs
  end
  release
}
lost-journal() {
  begin lost-journal
  planted=$(now)
  rm -r "$dir/data/logs/journal"
  names=()
  drill lost-journal removed journal
  end
}
lost-metadata() {
  begin lost-metadata
  planted=$(now)
  rm -r "$dir/data/metadata"
  names=()
  drill lost-metadata removed metadata
  end
}
stuck-disk() {
  own_disk stuck-disk 700 || { row stuck-disk 'NOT RUN' - - "$(head -n 1 "$work/said")"; return; }
  command -v fsfreeze >/dev/null || { row stuck-disk 'NOT RUN' - - 'fsfreeze is missing'; return; }
  begin stuck-disk
  planted=$(now)
  fsfreeze -f "$mounted"
  frozen="$mounted"
  # The remedy waits for the disk: it answers again once the fault was seen.
  if until_true 30 found stuck_disk data; then thaw_after=$(($(now) - planted)); fi
  if [ -n "${thaw_after:-}" ]; then
    took=$thaw_after
    remedy="$(jq -r .remedy "$dir/finding.json")"
    thaw
    if restored; then
      row stuck-disk "${took} ms, exit code $rc" yes "$lost" "the disk answers again; the broker resumes by itself, as the remedy says"
      [ "$took" -le "$within" ] && [ "$lost" = 0 ] || failed="$failed stuck-disk"
    else
      row stuck-disk "${took} ms, exit code $rc" no - "$problem"
      failed="$failed stuck-disk"
    fi
  else
    row stuck-disk never - - "$(cat "$dir/health.err")"
    failed="$failed stuck-disk"
  fi
  thaw
  end
  release
}
wrong-port() {
  begin wrong-port
  planted=$(now)
  rc=0
  said="$(chronikctl --brokers "$CHRONIKCTL_ADMIN" cluster health 2>&1 >/dev/null)" || rc=$?
  took=$(($(now) - planted))
  # What it names instead is what the next call dials.
  if [ "$rc" != 0 ] && grep -q 'admin port' <<<"$said" && [ "$took" -le "$within" ] && restored; then
    row wrong-port "${took} ms, exit code $rc" yes 0 "${said//"$CHRONIKCTL_ADMIN"/ADDRESS}"
  else
    row wrong-port "${took} ms, exit code $rc" no - "$said"
    failed="$failed wrong-port"
  fi
  end
}
wrong-advertise() {
  begin wrong-advertise
  read -r other < <(python3 scripts/free-ports.py 1)
  flags=(--advertise "127.0.0.1:$other")
  stop_broker
  start_broker || die "wrong-advertise: the broker does not start"
  planted=$(now)
  rc=0
  said="$(chronikctl cluster health 2>&1)" || rc=$?
  took=$(($(now) - planted))
  if [ "$rc" != 0 ] && grep -q "127.0.0.1:$other" <<<"$said" && grep -q advertise <<<"$said" && [ "$took" -le "$within" ]; then
    flags=()
    stop_broker
    start_broker || die "wrong-advertise: the broker does not start"
    if restored; then row wrong-advertise "${took} ms, exit code $rc" yes "$lost" "advertise is set right, the broker restarted"; else row wrong-advertise "${took} ms, exit code $rc" no - "$problem"; failed="$failed wrong-advertise"; fi
  else
    row wrong-advertise "${took} ms, exit code $rc" no - "$(paste -sd' ' <<<"$said")"
    failed="$failed wrong-advertise"
  fi
  end
}
# The journal and the process at once: what only the journal had is lost, and the start refuses
# to lose it silently. The remedy is that of the start's error.
killed-without-journal() {
  begin killed-without-journal
  local before=$records
  numbered $((records + 1)) $((records + 500)) | chronikctl produce kept 2>/dev/null
  records=$((records + 500)) # the last 500 are in the journal and nowhere else
  planted=$(now)
  kill -KILL "$broker"
  wait "$broker" 2>/dev/null || true
  rm -r "$dir/data/logs/journal"
  broker=''
  code=0
  chronikd --data-dir "$dir/data" --listen "$CHRONIKCTL_BROKERS" --admin-listen "$CHRONIKCTL_ADMIN" 2>"$dir/refused" || code=$?
  rc=0
  chronikctl cluster health >/dev/null 2>&1 || rc=$?
  took=$(($(now) - planted))
  remedy="$(grep '^chronikd: ' "$dir/refused"), start the broker"
  names=()
  stop_load
  if [ "$code" = 3 ] && [ "$rc" != 0 ] && follow && restored && [ "$lost" -le 500 ]; then
    row killed-without-journal "${took} ms, exit code $rc, start $code" yes "$lost" "$(paste -sd, "$dir/steps" | sed "s|$dir|DIR|g; s|,|, |g")"
  else
    row killed-without-journal "${took} ms, exit code $rc, start $code" no - "$(tail -n 1 "$dir/followed" 2>/dev/null || true) $remedy"
    failed="$failed killed-without-journal"
  fi
  records=$before
  [ -z "$broker" ] || end
}

[ $# -gt 0 ] || set -- "${all[@]}"
for fault in "$@"; do
  [[ " ${all[*]} " == *" $fault "* ]] || { echo "there is no fault $fault; there are: ${all[*]}"; exit 1; }
done
echo '| fault | reported after | service restored | records lost | what was followed |'
echo '|---|---|---|---|---|'
for fault in "$@"; do "$fault"; done
[ -z "$failed" ] || die "these do not hold:$failed"
