#!/usr/bin/env bash
# A job of Flink copies a topic to another, exactly once, by means of Kafka's transactions; it fails three times meanwhile and
# begins again at a checkpoint.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
. "$lib/java.sh"
need javac
records=20000
class_path "$lib/flink/pom.xml"
brokers 1
mkdir -p "$work/classes" "$work/checkpoints"
javac -d "$work/classes" -cp "$classpath" "$lib/flink/Copy.java" >"$work/javac.log" 2>&1 || broken "Copy.java does not compile" "$work/javac.log"
classpath="$work/classes:$classpath"
ctl() { "$CHRONIKCTL" --brokers "$BROKERS" --yes "$@"; }
ctl topic create flink-in --partitions 4 && ctl topic create flink-out --partitions 4 &&
  seq -f 'record %.0f' $records | ctl produce flink-in || broken "the records could not be written"
java_program 768m Copy "$BROKERS" flink-in flink-out "$work/checkpoints"
program=("${program[0]}" --add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED "${program[@]:1}")
attempt job-ends 600 "${program[@]}"
once() {
  ctl consume flink-in | sort >"$work/in"
  ctl consume flink-out --isolation read-committed | sort >"$work/out"
  echo "$(wc -l <"$work/out") records are committed, $(sort -u "$work/out" | wc -l) different ones, of $records"
  cmp -s "$work/in" "$work/out"
}
check exactly-once once
# The job has left no transaction open: readers of committed records reach the end.
open() {
  ctl txn list -o json | tee /dev/stderr | python3 -c 'import json, sys; sys.exit(any(t.get("state") in ("Ongoing", "PrepareCommit", "PrepareAbort") for t in json.load(sys.stdin)))'
}
check no-open-transaction open
