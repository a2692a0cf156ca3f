#!/usr/bin/env bash
# chronikctl: records of each codec, and every command that there is. With
# KAFKA_BOOTSTRAP=HOST:PORT the part that is plain Kafka runs against that broker
# too, and must see the same.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
ctl="$(cd "$here/../.." && pwd)/bin/chronikctl"
[ -x "$ctl" ] || missing "bin/chronikctl is not built: make build"
[ "${NODES:-1}" = 1 ] || missing "ctl/plain.txt is what a single broker answers; run ctl without NODES"
export CTL="$ctl" CALLED="$WORK/ctl.called" HOME="$WORK"
unset CHRONIKCTL_CONTEXT CHRONIKCTL_CONFIG CHRONIKCTL_OUTPUT
export CHRONIK_BROKERS="$BOOTSTRAP"
: >"$CALLED"

records ctl >"$WORK/ctl.in"
sed 's/^/source=ctl\t/' "$WORK/ctl.in" >"$WORK/ctl.want"
for codec in $codecs; do
  topic="ctl-$RUN-$codec"
  "$ctl" topic create "$topic" --partitions 1 >/dev/null
  "$ctl" produce "$topic" -k '|' -H source=ctl --compression "$codec" <"$WORK/ctl.in" 2>"$WORK/ctl.err" || { cat "$WORK/ctl.err"; exit 1; }
  "$ctl" consume "$topic" -k '|' --headers >"$WORK/ctl.got"
  same "chronikctl, $codec" "$WORK/ctl.want" "$WORK/ctl.got"
  "$ctl" topic delete "$topic" --yes >/dev/null
done

# What is plain Kafka, held against the page beside this script and, where there
# is one, against Kafka itself.
"$here/ctl/plain.sh" >"$WORK/ctl.chronik" 2>&1
if [ -n "${KAFKA_BOOTSTRAP:-}" ]; then
  BOOTSTRAP="$KAFKA_BOOTSTRAP" CALLED=/dev/null "$here/ctl/plain.sh" >"$WORK/ctl.kafka" 2>&1
  diff "$WORK/ctl.kafka" "$WORK/ctl.chronik" || { echo "chronikctl sees something else (>) than with Kafka (<)"; exit 1; }
  echo "chronikctl: the same with Kafka"
fi
if [ -n "${UPDATE:-}" ]; then cp "$WORK/ctl.chronik" "$here/ctl/plain.txt"; fi
diff "$here/ctl/plain.txt" "$WORK/ctl.chronik" || { echo "chronikctl prints something else (>) than ctl/plain.txt says (<)"; exit 1; }

# What only chronik has, and what asks no broker.
try() { # try REGEXP ARG...
  echo "${*:2}" >>"$CALLED"
  "$ctl" "${@:2}" >"$WORK/ctl.out" 2>&1 || { echo "chronikctl ${*:2} failed:"; cat "$WORK/ctl.out"; exit 1; }
  grep -qE "$1" "$WORK/ctl.out" || { echo "chronikctl ${*:2} does not print $1:"; cat "$WORK/ctl.out"; exit 1; }
}
topic="ctl-$RUN-profile"
"$ctl" topic create "$topic" --config chronik.durability.profile=interval >/dev/null
try '^interval ' profile list
try 'one sync are lost' profile show interval
try "^topic $topic: profile interval \(set on the topic\)" profile explain "$topic"
try "profile interval" topic describe "$topic"
# One broker alone has nowhere to move replicas to, and stays registered, which it says with a 1.
refuse() { # refuse TEXT SUBCOMMAND ACTION ARGUMENT...: the command must end with 1 and print TEXT
  echo "$2 $3" >>"$CALLED"
  local rc=0
  "$ctl" "${@:2}" >"$WORK/ctl.out" 2>&1 || rc=$?
  { [ $rc = 1 ] && grep -q "$1" "$WORK/ctl.out"; } || { echo "chronikctl ${*:2} ended with $rc:"; cat "$WORK/ctl.out"; exit 1; }
}
refuse 'no other active broker' broker drain 1 --dry-run
refuse 'broker drain 1 moves them' broker unregister 1 --yes
try '.' broker fill 1 --dry-run
try 'would be set to 1' cluster feature share.version=1 --dry-run
try '.' broker rebalance --dry-run
echo broker move-logs >>"$CALLED" # with one directory it has nothing to say
"$ctl" broker move-logs 1 --dry-run >"$WORK/ctl.out" 2>&1 || { echo "chronikctl broker move-logs failed:"; cat "$WORK/ctl.out"; exit 1; }
try 'can be stopped' broker maintain 1
try "^$topic-0 " topic elect "$topic"
try "$topic-0 is on" topic move "$topic:0" 1 --dry-run
"$ctl" topic delete "$topic" --yes >/dev/null
# A share group with records: chronik-bench leaves one.
"${ctl%ctl}-bench" share --a "$BOOTSTRAP" --loads 1x1 --rounds 1 --warmup 0s -d 1s --keep >"$WORK/ctl.out" 2>&1 || { cat "$WORK/ctl.out"; exit 1; }
shared="$("$ctl" group list | sed -n 's/^\(chronik-bench-share-[0-9a-f]*\) .*/\1/p' | head -1)"
try '^ *[0-9]+ +(available|acquired) ' group peek "$shared" "$shared:0" --limit 1
refuse 'nothing was released, below the start of the group' group release "$shared" "$shared:0" 0
try '^0-9 would be rejected' group reject "$shared" "$shared:0" 0-9 --dry-run
try '.' group delete "$shared" --yes
"$ctl" topic delete "$shared" --yes >/dev/null
try 'context mine set' context set mine "brokers=$BOOTSTRAP" timeout=20s
try 'context mine is now the current one' context use mine
try '^\* +mine ' context list
try '^timeout +20s +context mine$' context show
try 'context mine is now yours' context rename mine yours
try 'context yours deleted' context delete yours
try '.' version
try '^BROKER ' top
# It needs an admin port, which it says with a 2.
echo debug waits >>"$CALLED"
rc=0
"$ctl" debug waits >"$WORK/ctl.out" 2>&1 || rc=$?
{ [ $rc = 0 ] || [ $rc = 2 ]; } || { echo "chronikctl debug waits ended with $rc:"; cat "$WORK/ctl.out"; exit 1; }
# Without an admin port parts are missing, which it says with a 1.
echo debug bundle >>"$CALLED"
"$ctl" debug bundle --file "$WORK/ctl.tar.gz" --interval 200ms >"$WORK/ctl.out" 2>&1 || [ $? = 1 ] || { cat "$WORK/ctl.out"; exit 1; }
tar -xzOf "$WORK/ctl.tar.gz" --wildcards '*/manifest.json' | jq -e '.' >/dev/null || { echo "debug bundle has no manifest:"; cat "$WORK/ctl.out"; tar -tzf "$WORK/ctl.tar.gz"; exit 1; }

# Offline: the directory of a broker that has stopped.
chronikd="${ctl%ctl}d"
: >"$WORK/ctl.chronikd" # the loop may look before the broker has it
"$chronikd" --data-dir "$WORK/ctl.data" --listen 127.0.0.1:0 --admin-listen off 2>"$WORK/ctl.chronikd" &
pid=$!
address=
for _ in $(seq 600); do
  address="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$WORK/ctl.chronikd")"
  [ -n "$address" ] && break
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
printf 'one\ntwo\n' | "$ctl" produce offline --brokers "$address" 2>"$WORK/ctl.err" || { cat "$WORK/ctl.err" "$WORK/ctl.chronikd"; exit 1; }
kill "$pid" && wait "$pid" || { echo "chronikd, stopped, ended with $?"; exit 1; }
try 'offline' log dump --dir "$WORK/ctl.data"
try '.' log verify --dir "$WORK/ctl.data"
try '.' log repair --dir "$WORK/ctl.data" --dry-run

# Users and rights, on a broker with a login.
port="$(python3 "$here/../free-ports.py" 1)"
"$chronikd" secure init "$WORK/secured" --advertise "localhost:$port" >/dev/null
: >"$WORK/ctl.secured"
mkdir "$WORK/archive"
"$chronikd" --config "$WORK/secured/chronikd.yaml" --admin-listen off --set "archive.url=file://$WORK/archive" \
  --set snapshot.interval.ms=0 2>"$WORK/ctl.secured" &
pid=$!
for _ in $(seq 600); do
  grep -q '"msg":"ready"' "$WORK/ctl.secured" && break
  kill -0 "$pid" 2>/dev/null || { cat "$WORK/ctl.secured"; exit 1; }
  sleep 0.1
done
(umask 077 && echo correct-horse >"$WORK/bob.password")
unset CHRONIK_BROKERS # the context has the address
secured=(--context secured --admin off)
try 'bob' user add bob --password-file "$WORK/bob.password" "${secured[@]}"
try 'bob' user set-password bob --password-file "$WORK/bob.password" "${secured[@]}"
try '^bob ' user list "${secured[@]}"
try '.' acl add bob read,write topic:orders "${secured[@]}"
try 'bob' acl list "${secured[@]}"
try 'yes .*a rule allows it' acl explain bob read topic:orders "${secured[@]}"
try '.' acl remove bob write topic:orders --yes "${secured[@]}"
try '.' quota set producer_byte_rate=1000000 --user bob "${secured[@]}"
try 'bob.*producer_byte_rate' quota list "${secured[@]}"
try 'producer_byte_rate' quota explain bob "${secured[@]}"
try '.' quota remove --user bob --yes "${secured[@]}"
try 'bob' user remove bob --yes "${secured[@]}"
try 'localhost' cert show "${secured[@]}"
try '^snapshot [0-9]+ ' snapshot create "${secured[@]}"
try ' complete$' snapshot list "${secured[@]}"
taken="$("$ctl" snapshot list -o name "${secured[@]}" | tail -n 1)"
try 'partitions?, 0 offline' snapshot describe "$taken" "${secured[@]}"
try 'verified 20' snapshot verify "$taken" "${secured[@]}"
try 'deleted' snapshot delete "$taken" --yes "${secured[@]}"
kill "$pid" && wait "$pid" || { echo "chronikd, stopped, ended with $?"; exit 1; }

# Every command of the reference was called.
untried=
while read -r command; do
  grep -q "^$command" "$CALLED" || untried="$untried, $command"
done < <(sed -n 's/^    chronikctl \([a-z -]*[a-z]\).*/\1/p' "$here/../../docs/chronikctl.md" | sed -E 's/ (topic\|broker|bash).*//')
[ -z "$untried" ] || { echo "chronikctl: commands that were not tried:${untried#,}"; exit 1; }
