#!/usr/bin/env bash
# kafka-consumer-groups in all its actions, on a group of console consumers that
# subscribe by a pattern, with each protocol.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafka
export KT_HEAP="${KT_HEAP:-128m}" KT_TIER="${KT_TIER:-1}"
at=(--bootstrap-server "$BOOTSTRAP")

tool() { "$kt" "$1" "${at[@]}" "${@:2}" 2>&1; }

# says WHAT REGEX ARG...   kafka-consumer-groups ARG... prints a line like that;
# with a ! before it, none.
says() {
  local what="$1" regex="$2" out
  shift 2
  out="$(tool consumer-groups "$@" || true)"
  if [[ "$regex" == !* ]]; then
    ! grep -qE -- "${regex#!}" <<<"$out" || { printf '%s: a line is like /%s/:\n%s\n' "$what" "${regex#!}" "$out"; exit 1; }
  else
    grep -qE -- "$regex" <<<"$out" || { printf '%s: no line is like /%s/:\n%s\n' "$what" "$regex" "$out"; exit 1; }
  fi
}

# until_says is says, tried for a while.
until_says() {
  local i out
  for i in $(seq 60); do
    if out="$(says "$@")"; then return 0; fi
    sleep 1
  done
  echo "$out"
  exit 1
}

# lists is says, tried for a while with RESTARTS=1: --list asks one broker after the other, and misses a
# group whose coordinator moves meanwhile.
lists() { if [ -n "${RESTARTS:-}" ]; then until_says "$@"; else says "$@"; fi; }

# resets WANT ARG...   a reset gives the first topic that offset, dry and then for
# good, and only the latter changes it.
resets() {
  local want="$1" before
  shift
  before="$(committed)"
  says "$protocol: reset $*, dry" "^$group +$one +0 +$want *\$" --reset-offsets --group "$group" "$@" --dry-run
  [ "$(committed)" = "$before" ] || { echo "$protocol: reset $* --dry-run changed $before to $(committed)"; exit 1; }
  says "$protocol: reset $*" "^$group +$one +0 +$want *\$" --reset-offsets --group "$group" "$@" --execute
  [ "$(committed)" = "$want" ] || { echo "$protocol: reset $* should give $want, the commit is $(committed)"; exit 1; }
}

# committed prints the first topic's commit.
committed() {
  tool consumer-groups --describe --group "$group" --offsets | awk -v t="$one" '$2 == t { print $4 }'
}

all() { # PROTOCOL
  protocol="$1" group="tools-$RUN-$1" one="tools-$RUN-$1-one" two="tools-$RUN-$1-two"
  local member
  tool topics --create --topic "$one" --partitions 1 >/dev/null
  tool topics --create --topic "$two" --partitions 1 >/dev/null
  seq 10 | tool console-producer --topic "$one"
  seq 5 | tool console-producer --topic "$two"
  sleep 1
  middle="$(date -u +%Y-%m-%dT%H:%M:%S.%3N)"
  seq 11 20 | tool console-producer --topic "$one"

  tool console-consumer --include "tools-$RUN-$protocol-.*" --group "$group" --from-beginning --max-messages 25 --timeout-ms 120000 \
    --command-property "group.protocol=$protocol" >"$WORK/$group.got"
  [ "$(sort -n "$WORK/$group.got" | grep -cxE '[0-9]+')" = 25 ] || { echo "$protocol: the console consumer read:"; cat "$WORK/$group.got"; exit 1; }
  until_says "$protocol: list by state" "^$group +.*Empty" --list --state Empty
  lists "$protocol: list" "^$group\$" --list
  lists "$protocol: list with states" "^$group +.*Empty" --list --state
  says "$protocol: list by a state it is not in" "!^$group" --list --state Stable
  lists "$protocol: list with types" "^(Classic|Consumer) +|^$group +(Classic|Consumer)" --list --type
  lists "$protocol: list by type" "^$group" --list --type "$protocol"
  says "$protocol: describe, nobody there" "no active members" --describe --group "$group"
  says "$protocol: offsets" "^$group +$one +0 +20 +20 +0 " --describe --group "$group" --offsets
  says "$protocol: offsets of the other" "^$group +$two +0 +5 +5 +0 " --describe --all-groups

  "$kt" console-consumer "${at[@]}" --include "tools-$RUN-$protocol-.*" --group "$group" --command-property "group.protocol=$protocol" \
    --command-property "client.id=member-$protocol" >/dev/null 2>"$WORK/$group.member" &
  member=$!
  until_says "$protocol: members" "^$group .*member-$protocol.* 2 *\$" --describe --group "$group" --members
  says "$protocol: members, verbose" "^$group .*member-$protocol .*$one.*$two" --describe --group "$group" --members --verbose
  says "$protocol: state" "^$group .*Stable +1 *\$" --describe --group "$group" --state
  says "$protocol: state, verbose" "^$group .*Stable .*1 *\$" --describe --group "$group" --state --verbose
  says "$protocol: who reads" "^$group +$one +0 .*/127.0.0.1 +member-$protocol" --describe --group "$group"
  says "$protocol: offsets, verbose" "^$group +$one +0 " --describe --group "$group" --offsets --verbose
  says "$protocol: reset of a group with members" "is inactive, but the current state is Stable" --reset-offsets --group "$group" --topic "$one" --to-earliest --execute
  says "$protocol: delete with members" "GroupNotEmpty" --delete --group "$group"
  says "$protocol: delete offsets that are subscribed to" "GroupSubscribedToTopic|subscribed" --delete-offsets --group "$group" --topic "$one"
  kill -TERM "$member"
  wait "$member" || true
  until_says "$protocol: empty after its member left" "^$group .*Empty +0 *\$" --describe --group "$group" --state

  resets 0 --topic "$one" --to-earliest
  resets 20 --topic "$one:0" --to-latest
  resets 7 --topic "$one" --to-offset 7
  resets 9 --topic "$one" --shift-by 2
  resets 3 --all-topics --shift-by -6
  resets 10 --topic "$one" --to-datetime "$middle"
  resets 0 --topic "$one" --by-duration PT1H
  resets 20 --topic "$one" --by-duration PT0S
  resets 20 --topic "$one" --topic "$two" --to-current
  resets 20 --topic "$one" --shift-by 1000
  tool consumer-groups --reset-offsets --group "$group" --all-topics --to-current --export --dry-run >"$WORK/$group.csv"
  grep -qxE "\"?$one\"?,0,20" "$WORK/$group.csv" || { echo "$protocol: exported:"; cat "$WORK/$group.csv"; exit 1; }
  printf '"%s",0,4\n' "$one" >"$WORK/$group.csv"
  resets 4 --from-file "$WORK/$group.csv"
  tool console-consumer --topic "$one" --group "$group" --max-messages 16 --timeout-ms 120000 \
    --command-property "group.protocol=$protocol" | grep -xE '[0-9]+' >"$WORK/$group.got"
  seq 5 20 >"$WORK/$group.want"
  same "$protocol: from what was reset" "$WORK/$group.want" "$WORK/$group.got"
  until_says "$protocol: empty again" "^$group .*Empty +0 *\$" --describe --group "$group" --state

  says "$protocol: delete offsets" "$two +0 +Successful" --delete-offsets --group "$group" --topic "$two"
  says "$protocol: deleted offsets are gone" "!$two" --describe --group "$group" --offsets
  says "$protocol: the others are there" "^$group +$one +0 +20 " --describe --group "$group" --offsets
  says "$protocol: delete" "was successful" --delete --group "$group"
  says "$protocol: gone" "!^$group" --list
  says "$protocol: describe what is gone" "does not exist|GroupIdNotFound|not found" --describe --group "$group"
  says "$protocol: delete what is gone" "GroupIdNotFound" --delete --group "$group"
  # A reset makes a group that is not there yet.
  says "$protocol: reset of a new group" "^$group-new +$one +0 +20" --reset-offsets --group "$group-new" --topic "$one" --to-latest --execute
  says "$protocol: delete of several" "$group-new.*GroupIdNotFound|GroupIdNotFound" --delete --group "$group-new" --group "$group"
  says "$protocol: those that were there are gone" "!^$group-new" --list
  tool topics --delete --topic "$one" >/dev/null
  tool topics --delete --topic "$two" >/dev/null
}

pids=()
for protocol in classic consumer; do
  (all "$protocol") >"$WORK/tools-$protocol.out" 2>&1 &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
cat "$WORK/tools-classic.out" "$WORK/tools-consumer.out"
exit $failed
