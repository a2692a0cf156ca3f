#!/usr/bin/env bash
# plain.sh   goes through the part of chronikctl that is plain Kafka, against the
# broker at BOOTSTRAP, and prints what it saw, less what is another one with each
# broker and run: ids, sizes, and the words behind an error's name. CTL is the
# binary, RUN makes names unique, CALLED is a file to which the commands are
# noted.
set -uo pipefail
export CHRONIKCTL_BROKERS="$BOOTSTRAP" CHRONIKCTL_ADMIN=off CHRONIKCTL_CONFIG="$WORK/ctl-contexts.yaml"
a="ctl-a-$RUN" b="ctl-b-$RUN" g="ctl-g-$RUN" h="ctl-h-$RUN"
cd "$WORK"

same_everywhere() {
  sed -E -e "s/$RUN/RUN/g" -e "s/${BOOTSTRAP//./\\.}/BOOTSTRAP/g" -e 's/  id [A-Za-z0-9_-]{22}/  id ID/' -e 's/cluster [A-Za-z0-9_-]{22}/cluster ID/' \
    -e 's/  profile [a-z]+//' -e 's/(offsets  |[0-9]  +)[0-9.]+ ([KMGT]i)?B\b/\1SIZE/g' -e 's/([A-Z][A-Z]+_[A-Z_]+): .*/\1/' \
    -e 's/"(id|timestamp)": ?"[^"]*"/"\1":…/g' -e 's/chronikctl-[A-Za-z0-9_-]{22}/MEMBER/g' -e 's#/127.0.0.1#127.0.0.1#g' -e 's#"path": .*#"path": …#' -e 's/[A-Za-z]*member_id.*//' -e 's/ +/ /g'
}

# ctl ARG...   runs a command and shows it, what it printed and how it ended.
ctl() {
  printf '$ chronikctl %s\n' "$*" | same_everywhere
  echo "$*" >>"$CALLED"
  "$CTL" "$@" >ctl.out 2>&1; local rc=$?
  same_everywhere <ctl.out
  echo "[$rc]"
}

echo "# topics"
ctl topic create "$a" "$b" --partitions 3 --config segment.bytes=1048576
ctl topic create "$a"
ctl topic create "$a" --if-not-exists
ctl topic create "$a-new" --dry-run
ctl topic create 'bad!name'
ctl topic create "$a-new" --replication-factor 9
ctl topic create "$a-new" --config no.such.config=1
ctl topic list -o json | grep -A3 '"ctl-[ab]-RUN"'
ctl topic describe "$a"
ctl topic describe none-RUN
ctl topic alter "$a" --config segment.bytes=2097152 --dry-run
ctl topic alter "$a" --config retention.ms=86400000 --unset segment.bytes
ctl topic add-partitions "$b" --add 1 --dry-run
ctl topic add-partitions "$b" --to 4
ctl topic add-partitions "$b" --to 2

echo "# configs"
ctl config get topic "$a" --changed | grep -v '^min.insync' # Kafka sets it for all brokers
ctl config get topic "$a" segment.bytes max.message.bytes cleanup.policy -o wide
ctl config set topic "$a" retention.ms=x
ctl config set topic "$a" max.message.bytes=2000000
ctl config unset topic "$a" max.message.bytes
ctl config get topic "$a" --changed | grep -v '^min.insync' # Kafka sets it for all brokers
ctl config describe topic "$a" index.interval.bytes | grep -E '^\$|^index|^ (value|default|type|set by) |^ +default:|^\['
ctl config set group "$h" consumer.session.timeout.ms=50000
ctl config get group "$h" --changed
ctl config unset group "$h" consumer.session.timeout.ms
ctl config unset group "$h" consumer.session.timout.ms
ctl config set logger 1 root=LOUD
ctl config set logger 1 root=INFO
ctl config get logger 1 root
ctl config list logger
ctl config get topic none-RUN
ctl config set broker default log.retention.ms=600000000
ctl config get topic "$b" retention.ms
ctl config unset broker default log.retention.ms

echo "# records"
for i in 1 2 3 4 5; do echo "k$i=v$i"; done >ctl.pairs
ctl produce "$a" --file ctl.pairs -k = -H from=here -p 0
ctl produce "$a" --file ctl.pairs -k = -p 1 --acks 1 --compression gzip --rate 1000
printf 'k1=\n' >ctl.tombstone
ctl produce "$a" --file ctl.tombstone -k = -p 1 --empty-is-null
ctl produce "$a" --file ctl.pairs -k :
ctl consume "$a" -k = --offsets --headers -p 0
ctl consume "$a" -k = -p 1 --from -2
ctl consume "$a" -p 0 --from 1 --until 3 --format '%t %p %o %k=%v %h{%k:%v}\n'
ctl consume "$a" -p 1 --from 3 -o json
ctl consume "$a" -p 0 --from 9
ctl consume "$a" -p 0 --count 2 --isolation read-committed
ctl consume "$a" -p 0 --from 1h --until 0s
"$CTL" consume "$a" -p 0 -o json >ctl.json
ctl produce "$b" --input json --file ctl.json
ctl consume "$b" -k = --headers | sort

echo "# transactions"
# Ids and times differ, and only Kafka's own tests leave other transactional ids behind.
txn() { ctl "$@" | sed -E -e 's/[0-9]{4}-[0-9-]+T[0-9:.]+Z/TIME/g' -e 's/(producer id|producer|epoch|above) [0-9]+/\1 N/g' -e 's/[0-9.]+m?s( |$)/AGE\1/g' -e 's/"(producerId|producerEpoch|ageMs)": [0-9]+/"\1": N/'; }
seq 1 5 >ctl.five
txn produce "$b" --file ctl.five -p 2 --transactional-id "$a-t" --transaction-records 2
txn txn list --id "$a-.*" | sed -E 's/ [0-9]+$/ N/'
txn txn describe "$a-t" "$a-none"
txn txn find-hanging --topic "$b"
txn txn abort "$a-t" --dry-run
txn txn abort "$a-t" --yes
txn txn abort --topic "$b" --partition 2 --start-offset 0
ctl consume "$b" -p 2 --isolation read-committed

echo "# groups"
"$CTL" consume "$a" --group "$g" >ctl.sorted 2>&1; sort ctl.sorted
ctl consume "$a" --group "$g"
ctl group list | grep -E 'ctl-g-RUN|^\$' 
ctl group describe "$g"
ctl group describe "$h"
ctl group reset "$g" --to-earliest --dry-run
ctl group reset "$g" --to-earliest </dev/null
ctl group reset "$g" --topic "$a:0" --to-offset 2 --yes
ctl consume "$a" --group "$g"
ctl group reset "$g" --shift-by -2 --yes
ctl group reset "$g" --to-time 1h --yes
ctl group reset "$g" --to-latest --yes
printf '%s,0,3\n' "$a" >ctl.offsets
ctl group reset "$h" --from-file ctl.offsets --yes
ctl group export "$g"
ctl group export "$g" "$h"
cp ctl.out ctl.offsets
ctl group reset "$h" --from-file ctl.offsets --yes
ctl group export none
ctl group delete-offsets "$g" --topic "$a:0" --dry-run
ctl group delete-offsets "$g" --topic "$a:0" --yes
ctl group describe "$g"
"$CTL" consume "$a" --group "$h" --follow >ctl.member 2>&1 &
member=$!
for _ in $(seq 600); do [ -s ctl.member ] && break; sleep 0.1; done
ctl group reset "$h" --to-latest --yes
ctl group delete "$h" --yes
kill -INT $member; wait $member; echo "[$?]"
ctl group delete "$g" "$h" --yes
ctl group delete "$g" --yes

echo "# cluster"
ctl broker list | sed -E 's/ [0-9]+ [0-9]+ active$/ active/'
ctl broker describe 7
ctl broker describe 1 -o json | grep -E '^\$|^\[|^ "' | sed -E 's/: [0-9]+,?$/: N/; /^ "arriving"/d; /^ "report"/,/^\[/{/^\[/!d}'
ctl cluster describe | grep -E '^\$|^cluster|^\[' | sed -E 's/[0-9]+ topics? [0-9]+ partitions?//'
ctl cluster health -o wide | grep -E '^(\$|advertised|[0-9]+ (broker|log))' # chronik adds the broker's own report, and so that of the machine
ctl api-versions | grep -E 'Metadata|CreateTopics|DeleteRecords|OffsetDelete'

echo "# what goes"
ctl topic trim "$a" --before 2 --partition 0 --dry-run
ctl topic trim "$a" --before 2 --partition 0 </dev/null
ctl topic trim "$a" --before 2 --partition 0 --yes
ctl consume "$a" -p 0 --offsets
ctl topic trim "$a" --before 99 --partition 0 --yes
ctl topic delete "$a" --dry-run
ctl topic delete "$a" "$b" none-RUN --yes
rm -f ctl.five ctl.out ctl.pairs ctl.tombstone ctl.json ctl.sorted ctl.member ctl.offsets
