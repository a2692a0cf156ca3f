#!/usr/bin/env bash
# drill.sh [FAULT...]   plants each fault on one running broker under load, alone or, with NODES=3, as
# one of three, measures how long `chronikctl cluster health` takes to report it there, and follows
# the remedy that it prints, word for word: commands in backticks are run as they are (some
# ask, and --yes answers), "stop the broker" and "start the broker" are done. Of three brokers, what
# heals within the time of `alone` needs no remedy, and none is followed then. In the end every broker
# must be healthy with complete ISRs, accept records, and have every record that was acknowledged:
# the drill counts those that are lost for readers, and those that a replica's own files lack. What
# heals must not have been reported as something else meanwhile, nor have been called healthy for
# long while a replica was missing. Of three brokers, another one than the target is asked over its
# listener for clients, with its admin port off: it must report the fault as well, in the same time.
# The drill prints a table, and fails if a row does not hold.
#
# Faults: damage cut-segment lost-partition lost-log-dir full-disk erring-disk stuck-disk
# stuck-metadata lost-journal lost-metadata killed replaced wrong-port wrong-advertise
# killed-without-journal. Those of disks take root and a loop device; they are reported as not run
# without them. killed uses the proc file system of the packaged unit if it may mount one. Needs jq,
# and bin/ of `make build`.
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
within="${WITHIN:-5000}" # ms in which a fault must be reported
records=40000 # acknowledged before the fault, each with its number
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-drill.XXXXXX")"
pids=() ports=() admins=() flags=() wrap=() profile=() also=() unchosen='' load=() watcher='' mounted='' frozen='' loop='' failed='' died='' rows=()
unset CHRONIKCTL_CONTEXT

finish() {
  local rc=$?
  thaw
  unwatch
  stop_load
  for i in $(every); do kill_broker "$i"; done
  release
  if [ "$rc" != 0 ]; then # the reason last: it is what the end of a long log shows
    tail -n 4 "$work"/*/*/broker.log "$work"/*/followed 2>/dev/null || true
    [ ${#rows[@]} = 0 ] || printf '%s\n' '' "${rows[@]}"
    echo "drill: ${died:-it ended with $rc}"
  fi
  rm -rf --one-file-system "$work"
  exit "$rc"
}
trap finish EXIT
die() { died="$*"; echo "drill: $*" >&2; exit 1; }
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
  args=(--data-dir "$dir/$1/data" --listen "127.0.0.1:${ports[$1]}" --admin-listen "$(admin_of "$1")")
  [ "$nodes" = 1 ] || args+=(--set cluster.name=drill --set "node.id=$1" --set "cluster.seeds=$(addresses)")
  [ "$1" != "$target" ] || args+=("${flags[@]}")
}
launch() { # launch I: without waiting
  line_of "$1"
  mkdir -p "$dir/$1/data"
  "${wrap[@]}" chronikd "${args[@]}" 2>>"$dir/$1/broker.log" &
  pids[$1]=$!
}
# admin_of I: the admin port of a broker. That of the first of three is off.
admin_of() { if [ "$nodes" = 3 ] && [ "$1" = 1 ]; then echo off; else echo "127.0.0.1:${admins[$1]}"; fi; }
# ask I COMMAND...: chronikctl at one broker, whatever it has.
ask() { chronikctl --brokers "127.0.0.1:${ports[$1]}" --admin "$(admin_of "$1")" "${@:2}"; }
ready() {
  if [ "$(admin_of "$1")" = off ]; then
    ask "$1" --timeout 2s cluster health -o json >"$work/asked" 2>/dev/null || [ $? = 4 ] || return 1
    jq -e --argjson id "$1" 'any(.examined[]; startswith("broker \($id), by its listener"))' "$work/asked"
  else
    chronikd health --admin-listen "127.0.0.1:${admins[$1]}"
  fi
}
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
  chronikctl topic create kept --partitions 2 -r "$nodes" --config segment.bytes=1048576 "${profile[@]}" >/dev/null
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
# healthy: no broker has a finding that is not the machine's, and all replicas are in sync.
healthy() {
  local i
  for i in $(every); do
    ask "$i" --timeout 5s cluster health -o json >"$work/now" || [ $? = 4 ] || return 1
    wrong "$work/now" >"$work/wrong" || return 1
    [ ! -s "$work/wrong" ] || { cat "$work/wrong"; return 1; }
  done
  in_sync
}
# wrong FILE: the findings in the output of cluster health, one a line: CHECK SUBJECT PROBLEM. Notes
# do not count, nor what other programs cause on this machine: a full or slow disk that is not the
# drill's own, a clock that was set. Fails if the file is no report.
wrong() {
  [ -s "$1" ] && jq -e .findings "$1" >/dev/null && jq -r --arg own "$mounted" '.findings[] | select(.severity != "note")
    | select(.check == "clock" or IN(.check; "sync", "space") and ($own == "" or (.subject | contains($own) | not)) | not)
    | [.check, .subject, .problem] | @tsv' "$1"
}
in_sync() {
  chronikctl --timeout 5s topic describe kept -o json | jq -e 'all(.. | objects | select(has("isr")); (.isr | length) == (.replicas | length))'
}
end() {
  local i
  unwatch
  stop_load
  for i in $(every); do stop_broker "$i"; done
}
# missing_on I: how many of the acknowledged records the files of a stopped broker lack.
missing_on() {
  local logs="$dir/$1/data"
  [ ! -d "$dir/$1/logs" ] || logs="$dir/$1/logs" # log.dirs
  chronikctl log dump --dir "$logs" --topic kept --for-produce 2>/dev/null | grep -oE '[0-9]{9} a record' | cut -c1-9 | sort -u >"$dir/has" || true
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
  [ -z "$loop" ] || losetup -d "$loop" || true
  mounted='' loop=''
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
  shows "$dir/health.json" "$1" "$2" >"$dir/finding.json" 2>/dev/null
}
# shows FILE CHECK SUBJECT: prints the finding in the output of cluster health.
shows() {
  jq -e --arg check "$2" --arg subject "$3" \
    '[.findings[] | select(($check == "" or .check == $check) and .severity != "note" and (.subject | contains($subject)))][0] // empty' "$1"
}
# elsewhere CHECK SUBJECT: broker 1, which has no admin port, reports it of the target.
elsewhere() {
  ! ask 1 --timeout 5s cluster health -o json >"$dir/elsewhere.json" 2>"$dir/elsewhere.err" || return 1
  shows "$dir/elsewhere.json" "$1" "$2" >/dev/null || return 1
  jq -e --argjson id "$target" 'any(.findings[]; .broker == $id or .subject == "broker \($id)")' "$dir/elsewhere.json"
}
# also_elsewhere FAULT CHECK SUBJECT: the time until broker 1 reports it, too, in there.
also_elsewhere() {
  there=''
  [ "$nodes" = 3 ] || return 0
  if until_true 10 elsewhere "$2" "$3"; then
    there=$(($(now) - planted))
    [ "$there" -le "$within" ] || failed="$failed $1"
    there=", at broker 1 $there ms"
  elif until_true 1 found "$2" "$3"; then # it did not heal meanwhile
    there=', NOT at broker 1'
    failed="$failed $1"
  fi
}
# watch: what each broker's health says from now on, in seen, a finding a line: CHECK SUBJECT PROBLEM.
# "healthy" while a replica is missing counts as false after 5 s, since brokers check every 2 s.
watch() {
  : >"$dir/seen"
  while :; do
    local i calm=yes since="${since:-}"
    for i in $(every); do
      ask "$i" --timeout 5s cluster health -o json >"$dir/watched" 2>/dev/null || true
      ! wrong "$dir/watched" >"$dir/wrong" || [ -s "$dir/wrong" ] || continue
      calm=''
      cat "$dir/wrong" >>"$dir/seen"
    done
    if [ -n "$calm" ] && ! in_sync; then
      since="${since:-$(now)}"
      [ $(($(now) - since)) -lt 5000 ] || printf 'healthy\tisr\tall brokers say healthy while a replica is missing\n' >>"$dir/seen"
    else
      since=''
    fi
    sleep 0.5
  done >/dev/null 2>&1 &
  watcher=$!
}
unwatch() {
  [ -z "$watcher" ] || { kill "$watcher" 2>/dev/null && wait "$watcher" 2>/dev/null; } || true
  watcher=''
}
# untrue: what watch saw of checks that have nothing to do with a broker that is gone for a while:
# that it is fenced or starts, that the quorum has one voter less, that a controller is elected, that
# partitions wait for a leader, that it cannot be dialed.
# Checks that are true of the fault itself are arguments.
untrue() {
  unwatch
  awk -F'\t' -v all="broker brokers reports quorum controller membership leaderless serving $*" \
    'BEGIN { split(all, a, " "); for (k in a) ok[a[k]] = 1 } !ok[$1] && !/unable to dial|cannot be dialed/' "$dir/seen" | sort | uniq -c | sort -rn >"$dir/untrue"
  [ -s "$dir/untrue" ]
}
# follow: does what the remedy says, in its order. What it leaves to the operator's choice is
# in names: TOPIC=... for a word in capitals, and in unchosen: what it does not take.
follow() {
  local step command word topic=''
  : >"$dir/steps"
  while IFS= read -r step; do
    [[ -z "$unchosen" || ! "$step" =~ $unchosen ]] || continue
    [[ "$step" != '`chronikctl cluster health`' ]] || continue # it tells when something else is safe
    echo "$step" >>"$dir/steps"
    case "$step" in
      'stop producers') stop_load ;;
      'create the topic again') chronikctl topic create "$topic" --partitions 2 -r "$nodes" >>"$dir/followed" 2>&1 || return 1 ;;
      'stop the broker') stop_broker "$target" ;;
      'start the broker' | 'restart the broker')
        stop_broker "$target"
        start_broker "$target" || return 1
        ;;
      *)
        command="${step#\`}"
        command="${command%\`}"
        topic="$(grep -oP 'topic delete \K\S+' <<<"$command")" || true
        for word in "${names[@]}"; do command="${command//"${word%%=*}"/"${word#*=}"}"; done
        [[ "$command" != *' log repair '* && "$command" != *' config set '* && -z "$topic" ]] || command="$command --yes" # the answer to its question
        echo "\$ $command" >>"$dir/followed"
        # log verify ends with 4 where it found something, which here it must.
        bash -c "$command" >>"$dir/followed" 2>&1 || { [ $? = 4 ] && [[ "$command" == *' log verify '* ]]; } || return 1
        ;;
    esac
  done < <(grep -oE '`(chronikctl|mkdir|mv) [^`]+`|stop producers|(re)?start the broker|stop the broker|create the topic again' <<<"$remedy")
}
# keep CHECK SUBJECT: before a remedy changes anything, debug bundle keeps what a report of the fault
# needs: the finding. A file that is missing, because the broker hangs, is a 1.
keep() {
  local rc=0
  timeout 30 chronikctl --timeout 5s debug bundle --file "$dir/bundle.tar.gz" --interval 200ms >"$dir/bundled" 2>&1 || rc=$?
  [ "$rc" -le 1 ] && tar -xzOf "$dir/bundle.tar.gz" --wildcards '*/health.json' >"$dir/kept.json" || return 1
  shows "$dir/kept.json" "$1" "$2" >/dev/null
}
# follow_all CHECK: the remedy of a finding, and of those of the check that it leaves.
follow_all() {
  local left=5
  follow || return 1
  while [ -s "$dir/steps" ] && [ "$left" -gt 0 ] && ! until_true 15 healthy && found "$1" ''; do
    remedy="$(jq -r .remedy "$dir/finding.json")" left=$((left - 1))
    follow || return 1
  done
}
# restored: the broker is healthy, takes records and gives them back.
restored() {
  until_true 60 healthy || { problem="after the remedy: $(cat "$work/said")"; return 1; }
  numbered $((records + 1)) $((records + 100)) | timeout 60 chronikctl produce kept >/dev/null 2>&1 || { problem='after the remedy records are refused'; return 1; }
  timeout 60 chronikctl consume kept 2>/dev/null | cut -c1-9 | sort -u >"$dir/read" || { problem='after the remedy records cannot be read'; return 1; }
  lost=$(numbered 1 $((records + 100)) | cut -c1-9 | comm -23 - "$dir/read" | wc -l)
}
row() { # row FAULT REPORTED RESTORED LOST WHAT
  rows+=("| $1 | $2 | $3 | $4 | $5 |")
  echo "${rows[-1]}"
}
# judge FAULT MOST WHAT [CHECK...]: the fault is over; MOST records may be lost. It stops the brokers.
# If something watched, it may have seen findings of these checks only.
judge() {
  local ok=yes i less=''
  lost='?'
  if ! restored; then
    row "$1" "$took" no - "$problem"
    failed="$failed $1"
    return
  fi
  if [ -n "$watcher" ] && untrue "${@:4}"; then
    row "$1" "$took" yes "$lost" "false: $(head -n 1 "$dir/untrue" | tr -s ' \t' ' ')"
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
  [ "$nodes" = 1 ] || watch
  if ! until_true "$([ "$nodes" = 1 ] && echo 60 || echo "$alone")" found "$2" "$3"; then
    took='not reported'
    problem="not reported: $(jq -c '[.findings[] | .check]' "$dir/health.json" 2>/dev/null)"
  else
    took=$(($(now) - planted))
    remedy="$(jq -r .remedy "$dir/finding.json")"
    problem="$(jq -r '.subject + ": " + .problem' "$dir/finding.json")"
    [ "$took" -le "$within" ] || failed="$failed $1"
    also_elsewhere "$1" "$2" "$3"
    took="$took ms$there, exit code $rc"
  fi
  if [ "$nodes" = 3 ] && until_true "$alone" healthy; then
    judge "$1" 0 'heals without a remedy' "${also[@]}" "$([ "$took" = 'not reported' ] || jq -r .check "$dir/finding.json")"
  elif [ "$took" = 'not reported' ]; then
    row "$1" never - - "$problem"
    failed="$failed $1"
  elif unwatch; ! keep "$2" "$3" && found "$2" "$3"; then
    row "$1" "$took" no - "debug bundle has no such finding: $(tail -n 1 "$dir/bundled")"
    failed="$failed $1"
  elif ! follow_all "$2"; then
    row "$1" "$took" no - "\`$(tail -n 1 "$dir/steps" | tr -d '`')\` failed: $(tail -n 1 "$dir/followed" 2>/dev/null)"
    failed="$failed $1"
  else
    judge "$1" "${4:-0}" "$(paste -sd, "$dir/steps" | sed "s|$dir|DIR|g; s|,|, |g")"
  fi
}

# ---- the faults -------------------------------------------------------------------------
# damage: as a disk does it, so that no copy in memory hides it from the next read. Of three brokers,
# the one that has it may not be the one that clients read from: it finds it when it reads its segments
# by itself, as slowly as that is meant to be.
damage() {
  local segment within="$within"
  begin damage
  segment="$(find "$dir/$target"/data/logs/kept-1 -name '*.log' | sort | sed -n 2p)" # not the first, not the active one
  planted=$(now)
  printf '\377\377' | dd of="$segment" bs=1 seek=300000 conv=notrunc,fdatasync status=none
  dd of="$segment" oflag=nocache conv=notrunc,fdatasync count=0 status=none # out of the page cache
  [ "$nodes" = 1 ] || { within=60000 && chronikctl config set broker "$target" chronik.log.scrub.interval.ms=1000 >/dev/null; }
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
  drill lost-log-dir "$([ "$nodes" = 1 ] && echo partition)" '' "$([ "$nodes" = 1 ] && echo "$records" || echo 0)"
  end
}
full-disk() {
  own_disk full-disk 700 || { row full-disk 'NOT RUN' - - "$(head -n 1 "$work/said")"; return; }
  begin full-disk --set chronik.disk.min.free.bytes=100000000
  # A backlog that a shorter retention removes, then a file of another process.
  chronikctl topic create backlog -r "$nodes" --config segment.bytes=10485760 >/dev/null
  until_true 60 backlogged || die 'full-disk: there is no backlog'
  planted=$(now)
  local free
  free="$(df --output=avail -B1 "$dir/$target/data" | tail -n 1)"
  fallocate -l "$((free - 80000000))" "$dir/$target/data/of-another-process"
  names=(TOPIC=backlog AGE=1s) unchosen='topic move|broker drain' # each broker has all replicas
  drill full-disk space data/logs
  unchosen=''
  end
  release
}
backlogged() {
  chronik-bench --bootstrap-servers "$CHRONIKCTL_BROKERS" --topic backlog -c 8 -s 20000 -d 2s --warmup 0s
  [ "$(du -sm "$dir/$target/data/logs/backlog-0" | cut -f1)" -ge 150 ]
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
  rm -r "$dir/$target/data/metadata"
  names=()
  drill lost-metadata removed metadata
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
  # A broker that writes nothing there cannot notice: it must when the metadata change.
  { timeout 20 chronikctl topic create "after-$1" >/dev/null 2>&1 || true; } &
  load+=($!)
  if until_true 30 found "$2" "$3"; then
    took=$(($(now) - planted))
    [ "$took" -le "$within" ] || failed="$failed $1"
    also_elsewhere "$1" "$2" "$3"
    took="$took ms$there, exit code $rc"
  else
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
# The disk of the target fails each request for records for 5 s: the loop device ends behind the
# file system's own metadata and its journal, which stay readable.
erring-disk() {
  local img="$work/erring-disk.img" last
  mkdir -p "$work/erring-disk/$target/data"
  truncate -s 700M "$img"
  if ! { mkfs.ext4 -q -b 4096 -E packed_meta_blocks=1 "$img" && last="$(debugfs -R 'stat <8>' "$img" | grep -A1 EXTENTS: | grep -oE '[0-9]+$')" &&
    loop="$(losetup -f --show "$img")" && mount -o errors=continue "$loop" "$work/erring-disk/$target/data" &&
    mounted="$work/erring-disk/$target/data" && limit_loop 0; } 2>"$work/said"; then
    row erring-disk 'NOT RUN' - - "$(tail -n 1 "$work/said")"
    release
    return
  fi
  begin erring-disk
  planted=$(now)
  limit_loop "$(((last + 1) * 4096))"
  { sleep 5 && limit_loop 0; } &
  load+=($!)
  names=() also=(metadata) # it is on the same disk
  drill erring-disk log_dir ''
  also=()
  end
  release
}
# limit_loop BYTES: the size of the loop device; 0 for that of its file. Requests behind it fail.
limit_loop() {
  python3 - "$loop" "$1" <<'EOF'
import fcntl, struct, sys
LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C04, 0x4C05
with open(sys.argv[1], "rb") as device:
    info = bytearray(232)
    fcntl.ioctl(device, LOOP_GET_STATUS64, info)
    struct.pack_into("=Q", info, 32, int(sys.argv[2]))  # lo_sizelimit
    fcntl.ioctl(device, LOOP_SET_STATUS64, bytes(info))
EOF
}
# killed: the process ends, its machine does not. Also what was not synced is there, nothing need be
# done, and nothing else is reported. Of three brokers, the target first, then all at once.
killed() {
  profile=(--config chronik.durability.profile=interval)
  packaged
  begin killed
  local i
  planted=$(now)
  watch
  kill_broker "$target"
  start_broker "$target" || die 'killed: the broker does not start'
  until_true 60 healthy || true # judge says why
  for i in $(every); do kill_broker "$i"; done
  for i in $(every); do launch "$i"; done
  for i in $(every); do until_true 60 ready "$i" || die "killed: broker $i does not start again"; done
  took='started again'
  judge killed 0 "starts again${wrap:+, with the proc file system of the unit}"
  end
  profile=() wrap=()
}
# packaged: brokers see the proc file system that the packaged unit shows them.
packaged() {
  local unit=deploy/systemd/chronikd.service options
  options="hidepid=$(sed -n 's/^ProtectProc=//p' "$unit")"
  ! grep -q '^ProcSubset=pid' "$unit" || options="$options,subset=pid"
  wrap=(unshare --mount --propagation private sh -c "mount -t proc -o $options proc /proc && exec \"\$@\"" sh)
  "${wrap[@]}" true 2>/dev/null || wrap=()
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
  said="$(chronikctl --brokers "$CHRONIKCTL_ADMIN" cluster health 2>&1 | tr -s '\n ' '  ' | grep -o 'the server speaks HTTP[^>]*')" || rc=$?
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
  [ "$nodes" = 1 ] || unchosen=' log ' # all partitions have other replicas
  stop_load
  if [ "$code" = 3 ] && [ "$rc" != 0 ] && follow && restored && [ "$lost" -le 500 ]; then
    row killed-without-journal "${took} ms, exit code $rc, start $code" yes "$lost" "$(paste -sd, "$dir/steps" | sed "s|$dir|DIR|g; s|,|, |g")"
  else
    row killed-without-journal "${took} ms, exit code $rc, start $code" no - "$(tail -n 1 "$dir/followed" 2>/dev/null || true) $remedy"
    failed="$failed killed-without-journal"
  fi
  unchosen=''
  records=$before
  end
}

[ $# -gt 0 ] || set -- "${all[@]}"
for fault in "$@"; do
  [[ " ${all[*]} " == *" $fault "* ]] || die "there is no fault $fault; there are: ${all[*]}"
done
echo '| fault | reported after | service restored | records lost | what was followed |'
echo '|---|---|---|---|---|'
for fault in "$@"; do "$fault"; done
[ -z "$failed" ] || die "these do not hold:$failed"
