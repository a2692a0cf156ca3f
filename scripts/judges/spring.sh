#!/usr/bin/env bash
# Spring's listener containers: classic groups, the consumer protocol and share groups, copies in transactions that fail now and
# then, and topics for what failed.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
. "$lib/java.sh"
need javac
class_path "$lib/spring/pom.xml"
brokers 1
mkdir -p "$work/classes"
javac -proc:none -parameters -d "$work/classes" -cp "$classpath" "$lib/spring/Listener.java" >"$work/javac.log" 2>&1 || broken "Listener.java does not compile" "$work/javac.log"
classpath="$work/classes:$classpath"
java_program 384m Listener "$BROKERS"
bounded 660 "${program[@]}" >"$work/results" 2>"$OUT/spring.log" </dev/null
grep -E -- "${CASES:-.}" "$work/results" >"$OUT/$name.tsv"
for case in listener-classic listener-consumer-protocol retry-topics share-containers share-acknowledgments exactly-once-delivers exactly-once; do
  grep -q "^$case	" "$work/results" || result "$case" fail "the program ended before it: $(grep -m 1 -E 'Exception' "$OUT/spring.log" | cut -c 1-250)"
done
