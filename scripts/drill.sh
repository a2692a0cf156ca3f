#!/usr/bin/env bash
# drill.sh [FAULT...]   plants each fault on one running broker under load, alone or, with NODES=3, as
# one of three, measures how long `chronikctl cluster health` takes to report it there, and follows
# the remedy that it prints, word for word: commands in backticks are run as they are (log repair
# asks, and --yes answers), "stop the broker" and "start the broker" are done. Of three brokers, what
# heals within the time of `alone` needs no remedy, and none is followed then. In the end every broker
# must be healthy with complete ISRs, accept records, and have every record that was acknowledged:
# the drill counts those that are lost for readers, and those that a replica's own files lack. It
# prints a table, and fails if a row does not hold.
#
# Faults: damage cut-segment lost-partition lost-log-dir full-disk erring-disk stuck-disk
# stuck-metadata lost-journal lost-metadata killed replaced wrong-port wrong-advertise
# killed-without-journal. Those of disks take root and a loop device, erring-disk the device mapper;
# they are reported as not run without them. Needs jq, and bin/ of `make build`.
# shellcheck disable=SC2016 # backticks are those of the remedies, capitals the operator's choice
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for bin in chronikd chronikctl chronik-bench; do [ -x "bin/$bin" ] || { echo "bin/$bin is missing: make build"; exit 1; }; done
command -v jq >/dev/null || { echo "jq is missing (Debian: jq)"; exit 1; }
export PATH="$PWD/bin:$PATH"

all=(damage cut-segment lost-partition lost-log-dir full-disk erring-disk stuck-disk stuck-metadata lost-journal lost-metadata
  killed replaced wrong-port wrong-advertise killed-without-journal)
nodes="${NODES:-1}" # brokers
[ "$nodes" = 1 ] || [ "$nodes" = 3 ] || { echo "NODES is 1 or 3"; exit 1; }
target="$nodes" # the broker that has the fault
alone=30        # s within which three brokers may heal a fault without a person
within=5000   # ms in which a fault must be reported
records=40000 # acknowledged before the fault, each with its number
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-drill.XXXXXX")"
pids=() ports=() admins=() flags=() load=() mounted='' frozen='' mapped='' failed=''
unset CHRONIKCTL_CONTEXT

finish() {
  local rc=$?
  thaw
  stop_load
  for i in $(every); do kill_broker "$i"; done
  release
  [ "$rc" = 0 ] || { tail -n 4 "$work"/*/*/broker.log "$work"/*/followed 2>/dev/null || true; }
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

# ---- the brokers, their data and their load -----------------------------------------
every() { seq "$nodes"; }
addresses() { local i; for i in $(every); do printf '127.0.0.1:%s\n' "${ports[i]}"; done | paste -sd,; }
# line_of I: the command line of a broker, in args.
line_of() {
  args=(--data-dir "$dir/$1/data" --listen "127.0.0.1:${ports[$1]}" --admin-listen "127.0.0.1:${admins[$1]}")
  [ "$nodes" = 1 ] || args+=(--set cluster.name=drill --set "node.id=$1" --set "cluster.seeds=$(addresses)")
  [ "$1" != "$target" ] || args+=("${flags[@]}")
}
launch() { # launch I: without waiting
  line_of "$1"
  mkdir -p "$dir/$1/data"
  chronikd "${args[@]}" 2>>"$dir/$1/broker.log" &
  pids[$1]=$!
}
ready() { chronikd health --admin-listen "127.0.0.1:${admins[$1]}"; }
start_broker() {
  launch "$1"
  until_true 60 ready "$1" || return 1
}
stop_broker() {
  [ -n "${pids[$1]:-}" ] || return 0
  kill -TERM "${pids[$1]}" 2>/dev/null || true
  wait "${pids[$1]}" 2>/dev/null || true
  pids[$1]=''
}
kill_broker() {
  [ -n "${pids[$1]:-}" ] || return 0
  kill -KILL "${pids[$1]}" 2>/dev/null || true
  wait "${pids[$1]}" 2>/dev/null || true
  pids[$1]=''
}
start_load() {
  while :; do chronik-bench --bootstrap-servers "$CHRONIKCTL_BROKERS" --topic load -c 4 --rate 400 -d 1h --warmup 0s; sleep 0.2; done >>"$dir/load.log" 2>&1 &
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
# begin NAME [FLAG...]: brokers whose records are in sealed segments and, after a restart, not in
# their memory, with clients that write and read all the time. The flags are those of the target.
begin() {
  local i all
  dir="$work/$1"
  flags=("${@:2}")
  read -r -a all < <(python3 scripts/free-ports.py $((2 * nodes)))
  for i in $(every); do ports[i]="${all[2 * i - 2]}" admins[i]="${all[2 * i - 1]}"; done
  CHRONIKCTL_BROKERS="$(addresses)" CHRONIKCTL_ADMIN="127.0.0.1:${admins[target]}"
  export CHRONIKCTL_BROKERS CHRONIKCTL_ADMIN
  for i in $(every); do launch "$i"; done
  for i in $(every); do until_true 60 ready "$i" || die "$1: broker $i does not start"; done
  chronikctl topic create kept --partitions 2 -r "$nodes" --config segment.bytes=1048576 >/dev/null
  chronikctl topic create load --partitions 3 -r "$nodes" --config segment.bytes=1048576 >/dev/null
  numbered 1 "$records" | chronikctl produce kept --max-batch-bytes 20000 2>/dev/null
  for i in $(every); do
    stop_broker "$i"
    start_broker "$i" || die "$1: broker $i does not start again"
    until_true 60 healthy || die "$1: it is not healthy before the fault: $(cat "$work/said")"
  done
  start_load
  until_true 30 loaded || die "$1: there is no load: $(tail -n 1 "$dir/load.log")"
}
numbered() { seq -f '%09.0f a record that an acknowledgement was waited for, and that must be found again after the fault' "$1" "$2"; }
loaded() { grep -q 'produce [1-9]' "$dir/load.log"; }
# healthy: every broker finds nothing, and all replicas are in sync.
healthy() {
  local i
  for i in $(every); do chronikctl --admin "127.0.0.1:${admins[i]}" --timeout 5s cluster health || return 1; done
  chronikctl --timeout 5s topic describe kept -o json | jq -e 'all(.. | objects | select(has("isr")); (.isr | length) == (.replicas | length))'
}
end() {
  local i
  stop_load
  for i in $(every); do stop_broker "$i"; done
}
# missing_on I: how many of the acknowledged records the files of a stopped broker lack.
missing_on() {
  chronikctl log dump --dir "$dir/$1/data" --topic kept --for-produce 2>/dev/null | grep -oE '[0-9]{9} a record' | cut -c1-9 | sort -u >"$dir/has" || true
  numbered 1 $((records + 100)) | cut -c1-9 | comm -23 - "$dir/has" | wc -l
}

# own_disk NAME MIB: the data directory is a file system of its own, which can be filled and frozen;
# nothing else is on it, so that only the broker hangs with it.
own_disk() {
  mkdir -p "$work/$1/$target/data"
  truncate -s "$2M" "$work/$1.img" && mkfs.ext4 -q "$work/$1.img" && mount -o loop "$work/$1.img" "$work/$1/$target/data" 2>"$work/said" && mounted="$work/$1/$target/data"
}
release() {
  [ -z "$mounted" ] || umount "$mounted" 2>/dev/null || umount -l "$mounted" || true
  [ -z "$mapped" ] || dmsetup remove --force "$mapped" || true
  mounted='' mapped=''
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
    '[.findings[] | select(($check == "" or .check == $check) and .severity != "note" and (.subject | contains($subject)))][0] // empty' \
    "$dir/health.json" >"$dir/finding.json" 2>/dev/null
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
      'stop the broker') stop_broker "$target" ;;
      'start the broker' | 'restart the broker')
        stop_broker "$target"
        start_broker "$target" || return 1
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
# judge FAULT MOST WHAT: the fault is over; MOST records may be lost. It stops the brokers.
judge() {
  local ok=yes i less=''
  lost='?'
  if ! restored; then
    row "$1" "$took" no - "$problem"
    failed="$failed $1"
    return
  fi
  end
  for i in $(every); do less="$less $(missing_on "$i")"; done
  for i in $less; do [ "$i" -le "$2" ] || ok=no; done
  [ "$lost" -le "$2" ] || ok=no
  row "$1" "$took" yes "$lost; files lack$less" "$3"
  [ "$ok" = yes ] || failed="$failed $1"
}
# drill FAULT CHECK SUBJECT [MOST]: the part after planting; MOST records may be lost. The fault must
# be reported, unless three brokers have healed it by then. What they heal needs no remedy.
drill() {
  if ! until_true "$([ "$nodes" = 1 ] && echo 60 || echo "$alone")" found "$2" "$3"; then
    took='not reported'
    problem="not reported: $(jq -c '[.findings[] | .check]' "$dir/health.json" 2>/dev/null)"
  else
    took=$(($(now) - planted))
    remedy="$(jq -r .remedy "$dir/finding.json")"
    problem="$(jq -r '.subject + ": " + .problem' "$dir/finding.json")"
    [ "$took" -le "$within" ] || failed="$failed $1"
    took="$took ms, exit code $rc"
  fi
  if [ "$nodes" = 3 ] && until_true "$alone" healthy; then
    judge "$1" 0 'heals without a remedy'
  elif [ "$took" = 'not reported' ]; then
    row "$1" never - - "$problem"
    failed="$failed $1"
  elif ! follow; then
    row "$1" "$took" no - "\`$(tail -n 1 "$dir/steps" | tr -d '`')\` failed: $(tail -n 1 "$dir/followed" 2>/dev/null)"
    failed="$failed $1"
  else
    judge "$1" "${4:-0}" "$(paste -sd, "$dir/steps" | sed "s|$dir|DIR|g; s|,|, |g")"
  fi
}

# ---- the faults -------------------------------------------------------------------------
damage() {
  begin damage
  local segment
  segment="$(find "$dir/$target"/data/logs/kept-1 -name '*.log' | sort | sed -n 2p)" # not the first, not the active one
  planted=$(now)
  printf '\377\377' | dd of="$segment" bs=1 seek=300000 conv=notrunc status=none
  names=()
  drill damage damage kept-1 300 # one batch has 20 kB
  end
}
cut-segment() {
  begin cut-segment
  local segment
  segment="$(find "$dir/$target"/data/logs/kept-1 -name '*.log' | sort | sed -n 2p)"
  stop_broker "$target"
  planted=$(now)
  truncate -s -5000 "$segment"
  start_broker "$target" || true
  names=()
  drill cut-segment '' kept-1 300
  end
}
lost-partition() {
  begin lost-partition
  stop_broker "$target"
  planted=$(now)
  rm -r "$dir/$target/data/logs/kept-1"
  start_broker "$target" || true
  names=()
  drill lost-partition '' kept-1 "$([ "$nodes" = 1 ] && echo "$records" || echo 0)"
  end
}
lost-log-dir() {
  begin lost-log-dir
  stop_broker "$target"
  planted=$(now)
  rm -r "$dir/$target/data/logs"
  start_broker "$target" || true
  names=()
  drill lost-log-dir '' '' "$([ "$nodes" = 1 ] && echo "$records" || echo 0)"
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
  free="$(df --output=avail -B1 "$dir/$target/data" | tail -n 1)"
  fallocate -l "$((free - 80000000))" "$dir/$target/data/of-another-process"
  names=(TOPIC=backlog AGE=1000)
  drill full-disk space data/logs
  end
  release
}
lost-journal() {
  begin lost-journal
  planted=$(now)
  rm -r "$dir/$target/data/logs/journal"
  names=()
  drill lost-journal removed journal
  end
}
lost-metadata() {
  begin lost-metadata
  planted=$(now)
  rm -r "$dir/$target/data/$([ "$nodes" = 1 ] && echo metadata || echo cluster)"
  names=()
  drill lost-metadata removed "$([ "$nodes" = 1 ] && echo metadata || echo cluster)"
  end
}
# frozen_disk FAULT CHECK WHERE: a disk hangs until the fault was seen, and 10 s at least: the remedy
# waits for the disk. WHERE is below the directory that begin makes.
frozen_disk() {
  command -v fsfreeze >/dev/null || { row "$1" 'NOT RUN' - - 'fsfreeze is missing'; return; }
  planted=$(now)
  fsfreeze -f "$mounted"
  frozen="$mounted"
  took='not reported'
  if until_true 30 found "$2" "$3"; then
    took=$(($(now) - planted))
    [ "$took" -le "$within" ] || failed="$failed $1"
    took="$took ms, exit code $rc"
  elif [ "$nodes" = 1 ]; then
    failed="$failed $1"
  fi
  while [ $(($(now) - planted)) -lt 10000 ]; do sleep 0.1; done
  thaw
  judge "$1" 0 'the disk answers again; the broker resumes by itself'
}
stuck-disk() {
  own_disk stuck-disk 700 || { row stuck-disk 'NOT RUN' - - "$(head -n 1 "$work/said")"; return; }
  begin stuck-disk
  frozen_disk stuck-disk stuck_disk data
  end
  release
}
# Only the metadata's disk hangs: the log directory is elsewhere.
stuck-metadata() {
  own_disk stuck-metadata 300 || { row stuck-metadata 'NOT RUN' - - "$(head -n 1 "$work/said")"; return; }
  begin stuck-metadata --set "log.dirs=$work/stuck-metadata/$target/logs"
  frozen_disk stuck-metadata '' ''
  end
  release
}
# The disk of the target fails each request for 5 s.
erring-disk() {
  local img="$work/erring-disk.img" size loop
  mkdir -p "$work/erring-disk/$target/data"
  truncate -s 700M "$img" && loop="$(losetup -f --show "$img" 2>"$work/said")" || { row erring-disk 'NOT RUN' - - "$(head -n 1 "$work/said")"; return; }
  size="$(blockdev --getsz "$loop")"
  mapped="chronik-drill-$$"
  if ! { dmsetup create "$mapped" --table "0 $size linear $loop 0" && mkfs.ext4 -q "/dev/mapper/$mapped" &&
    mount -o errors=continue "/dev/mapper/$mapped" "$work/erring-disk/$target/data"; } 2>"$work/said"; then
    row erring-disk 'NOT RUN' - - "$(head -n 1 "$work/said")"
    mapped=''
    losetup -d "$loop"
    return
  fi
  mounted="$work/erring-disk/$target/data"
  begin erring-disk
  planted=$(now)
  switch "0 $size error"
  sleep 5
  switch "0 $size linear $loop 0"
  drill erring-disk log_dir ''
  end
  release
  losetup -d "$loop" || true
}
switch() { dmsetup suspend --noflush "$mapped" && dmsetup load "$mapped" --table "$1" && dmsetup resume "$mapped"; }
# killed: nothing is lost, and nothing need be done.
killed() {
  begin killed
  planted=$(now)
  kill_broker "$target"
  start_broker "$target" || die 'killed: the broker does not start'
  took='started again'
  judge killed 0 'starts again'
  end
}
# replaced: the broker is gone with its disk, and an empty one comes in its place.
replaced() {
  [ "$nodes" = 3 ] || { row replaced 'NOT RUN' - - 'no other broker has its records: NODES=3'; return; }
  begin replaced
  planted=$(now)
  kill_broker "$target"
  rm -r "$dir/$target/data"
  start_broker "$target" || die 'replaced: the broker does not start'
  took='started empty'
  judge replaced 0 'copies its replicas again'
  end
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
  stop_broker "$target"
  start_broker "$target" || die "wrong-advertise: the broker does not start"
  planted=$(now)
  rc=0
  said="$(chronikctl cluster health 2>&1)" || rc=$?
  took=$(($(now) - planted))
  if [ "$rc" != 0 ] && grep -q "127.0.0.1:$other" <<<"$said" && grep -q advertise <<<"$said" && [ "$took" -le "$within" ]; then
    flags=()
    stop_broker "$target"
    start_broker "$target" || die "wrong-advertise: the broker does not start"
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
  kill_broker "$target"
  rm -r "$dir/$target/data/logs/journal"
  code=0
  line_of "$target"
  timeout 60 chronikd "${args[@]}" 2>"$dir/refused" || code=$?
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
  end
}

[ $# -gt 0 ] || set -- "${all[@]}"
for fault in "$@"; do
  [[ " ${all[*]} " == *" $fault "* ]] || { echo "there is no fault $fault; there are: ${all[*]}"; exit 1; }
done
echo '| fault | reported after | service restored | records lost | what was followed |'
echo '|---|---|---|---|---|'
for fault in "$@"; do "$fault"; done
[ -z "$failed" ] || die "these do not hold:$failed"
