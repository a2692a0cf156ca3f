#!/usr/bin/env bash
# run.sh [CLIENT...]   real Kafka clients write and read back records with keys,
# headers and every codec; content and order are checked.
#
# CLIENT: kgo kcat confluent java perf ctl (default: all of them).
# BOOTSTRAP=HOST:PORT   test a broker that runs; without it bin/chronikd is
#                       started on a directory and ports of its own.
# RECORDS=100000        records of each client and codec.
# STRICT=1              a client that is not installed is a failure.
# KAFKA_TOOLS=DIR       where Kafka's own tools are (default ../shared/kafka).
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
export RECORDS="${RECORDS:-100000}" WORK RUN="$$"
export KAFKA_TOOLS="${KAFKA_TOOLS:-$root/../shared/kafka}"
WORK="$(mktemp -d "${TMPDIR:-/tmp}/chronik-clients.XXXXXX")"
pid=
finish() {
  if [ -n "$pid" ]; then kill -TERM "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; fi
  rm -rf "$WORK"
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ -z "${BOOTSTRAP:-}" ]; then
  "$root/bin/chronikd" --data-dir "$WORK/data" --listen 127.0.0.1:0 --admin-listen off 2>"$WORK/chronikd.log" &
  pid=$!
  for _ in $(seq 100); do
    BOOTSTRAP="$(sed -n 's/.*"msg":"ready".*"listen":\["\([^"]*\)".*/\1/p' "$WORK/chronikd.log")"
    [ -n "$BOOTSTRAP" ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  if [ -z "$BOOTSTRAP" ]; then echo "clients: chronikd did not start:"; cat "$WORK/chronikd.log"; exit 1; fi
fi
export BOOTSTRAP

passed=0 failed=0 missing=0
for client in "${@:-kgo kcat confluent java perf ctl}"; do for c in $client; do
  script="$here/$c.sh"
  [ -x "$script" ] || { echo "clients: there is no client $c"; exit 2; }
  begin=$SECONDS
  "$script"; rc=$?
  took=$((SECONDS - begin))
  case $rc in
    0) passed=$((passed + 1)); echo "PASS $c (${took}s)";;
    77) missing=$((missing + 1)); echo "MISSING $c";;
    *) failed=$((failed + 1)); echo "FAIL $c (${took}s)";;
  esac
done; done

if [ -n "$pid" ]; then
  kill -TERM "$pid"; wait "$pid"; rc=$?; pid=
  [ "$rc" = 0 ] || { echo "FAIL chronikd ended with $rc:"; tail -5 "$WORK/chronikd.log"; failed=$((failed + 1)); }
  if grep -E '"level":"(error|dpanic|panic|fatal)"' "$WORK/chronikd.log"; then echo "FAIL chronikd logged errors"; failed=$((failed + 1)); fi
fi
echo "clients: $passed passed, $failed failed, $missing not installed"
[ "$failed" = 0 ] && { [ "$missing" = 0 ] || [ -z "${STRICT:-}" ]; }
