#!/usr/bin/env bash
# cli-smoke.sh [SECTION...]   Kafka's own command-line tools, all of them, against a
#                             fresh bin/chronikd: each step either passes, or stands
#                             in docs/compatibility.md with the reason why it doesn't.
#                             A step that fails and is not listed there is an error,
#                             and so is a listed one that passes by now.
#
# SECTION: cluster topics configs quotas produce groups offsets txn acl share streams
#          reassign perf (default: all; about six minutes on an idle machine).
# KAFKA_VERSION=4.3.1   the version of the tools (default: that in scripts/kafka/pom.xml).
# KAFKA_TOOLS=DIR   where the steps are (default ../shared/kafka).
# KEEP=DIR          keeps each section's output there.
# NODES=3           three brokers that form a cluster; RESTARTS=1: one after the other is stopped or
#                   killed, and started again, meanwhile. The page's steps that pass in a cluster must.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
[ -x bin/chronikd ] || { echo "cli-smoke: bin/chronikd is missing: make build"; exit 1; }
sections="${*:-cluster topics configs reassign quotas acl txn perf share streams produce offsets groups}"

if [ "${NODES:-1}" = 3 ] && [ -z "${BROKERS:-}" ]; then
  read -r CHRONIK_PORT _ _ CHRONIK_ADMIN_PORT _ < <(python3 scripts/free-ports.py 6)
  export CHRONIK_PORT CHRONIK_ADMIN_PORT
  exec scripts/cluster-up.sh -- "$0" "$@"
fi
. scripts/clients/nodes.sh
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-cli-smoke.XXXXXX")"
out="${KEEP:-$work}"
mkdir -p "$out" || exit 1
pid='' restarts=''
finish() {
  if [ -n "$restarts" ]; then kill -TERM "$restarts" 2>/dev/null; wait "$restarts" 2>/dev/null; fi
  if [ -n "${PIDS:-}" ]; then end_restarted; fi
  if [ -n "$pid" ]; then kill -TERM "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

broker="${BROKERS:-}"
if [ -n "$broker" ]; then
  if [ -n "${RESTARTS:-}" ]; then
    rolling >"$out/restarts" 2>&1 &
    restarts=$!
  fi
else
  bin/chronikd --data-dir "$work/data" --listen 127.0.0.1:0 --admin-listen off --set authorization=acl --set super-users=User:ANONYMOUS 2>"$work/chronikd.log" &
  pid=$!
  for _ in $(seq 100); do
    broker="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$work/chronikd.log")"
    [ -n "$broker" ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  [ -n "$broker" ] || { echo "cli-smoke: chronikd did not start:"; cat "$work/chronikd.log"; exit 1; }
fi

# The page's steps: what stands in backquotes in the first column.
sed -n '/<!-- cli-smoke: begin -->/,/<!-- cli-smoke: end -->/p' docs/compatibility.md |
  { if [ -n "${BROKERS:-}" ]; then grep -vE 'pass(es)? in a cluster'; else cat; fi; } |
  awk -F'|' '/^\|/ { print $2 }' | grep -o '`[^`]*`' | tr -d '`' | sort >"$work/page"
# Its topic has three replicas, and it asks for a plan with a single broker: Kafka refuses that, too.
if [ -n "${BROKERS:-}" ]; then echo reassign.generate >>"$work/page"; fi
[ -s "$work/page" ] || { echo "cli-smoke: docs/compatibility.md lists no steps between its cli-smoke marks"; exit 1; }
if [ -n "$(sort "$work/page" | uniq -d)" ]; then echo "cli-smoke: docs/compatibility.md lists twice:"; sort "$work/page" | uniq -d; exit 1; fi

# One section after the other, so that each one's result is seen when it is there.
: >"$work/listed"
for s in $sections; do
  scripts/kafka/smoke "$broker" --sections "$s" >"$out/$s.txt" 2>&1
  last="$(tail -n 1 "$out/$s.txt")"
  echo "$s: $last"
  case "$last" in
    *' passed, '*) ;;
    *) echo "cli-smoke: section $s did not come to its end:"; tail -n 5 "$out/$s.txt"; exit 1;;
  esac
  grep -E "^$s(\.|$)" "$work/page" >>"$work/listed"
done
cat $(printf "$out/%s.txt " $sections) >"$work/all"
awk '$1 == "FAIL" || $1 == "skip" { print $2 }' "$work/all" | sort >"$work/failed"
sort -o "$work/listed" "$work/listed"

rc=0
while read -r step; do
  [ -n "$step" ] || continue
  rc=1
  echo "cli-smoke: $step does not pass, and docs/compatibility.md does not say why:"
  grep -F -m1 -e "FAIL $step " -e "skip $step " "$work/all"
done < <(comm -13 "$work/listed" "$work/failed")
while read -r step; do
  [ -n "$step" ] || continue
  rc=1
  if grep -qxF "ok $step" "$work/all"; then
    echo "cli-smoke: $step passes; take it out of docs/compatibility.md"
  else
    echo "cli-smoke: docs/compatibility.md lists $step, and there is no such step"
  fi
done < <(comm -23 "$work/listed" "$work/failed")
echo "cli-smoke, Kafka $(scripts/kafka/kt --version): $(grep -c '^ok ' "$work/all") steps pass, $(wc -l <"$work/failed") do not"
exit $rc
