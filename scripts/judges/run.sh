#!/usr/bin/env bash
# run.sh [JUDGE...]   runs the test suites of others against chronik (default: all in this
#                     directory), prints a table, and compares the results with the known failures
#                     in expected/. README.md describes what a judge is.
#
# CASES=REGEXP  the cases to run (CLASSES=REGEXP: the classes of Kafka's tests).
# Known failures that were not run are reported only without them.
# KEEP=1        keeps the results and logs.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export ROOT CASES="${CASES:-}"
ROOT="$(cd "$here/../.." && pwd)"
export CHRONIKD="${CHRONIKD:-$ROOT/bin/chronikd}" CHRONIKCTL="${CHRONIKCTL:-$ROOT/bin/chronikctl}"
for program in "$CHRONIKD" "$CHRONIKCTL"; do
  [ -x "$program" ] || { echo "judges: $program is missing: run make build" >&2; exit 2; }
done

judges=()
for name in $*; do
  [ "$name" != run ] && [ -x "$here/$name.sh" ] || { echo "judges: there is no judge $name in scripts/judges" >&2; exit 2; }
  judges+=("$name")
done
if [ ${#judges[@]} = 0 ]; then
  for script in "$here"/*.sh; do
    name="$(basename "$script" .sh)"
    [ "$name" = run ] || judges+=("$name")
  done
fi
[ ${#judges[@]} != 0 ] || { echo "judges: there is no judge in scripts/judges" >&2; exit 2; }

all="$(mktemp -d "${TMPDIR:-/tmp}/chronik-judges.XXXXXX")"
running=''
finish() {
  if [ -n "$running" ]; then kill -TERM "$running" 2>/dev/null; wait "$running" 2>/dev/null; fi
  if [ -n "${KEEP:-}" ]; then echo "judges: results and logs are in $all"; else rm -rf "$all"; fi
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for name in "${judges[@]}"; do
  echo "judge $name"
  begin=$SECONDS
  mkdir -p "$all/$name/work"
  (cd "$all/$name/work" && OUT="$all/$name" exec "$here/$name.sh") &
  running=$!
  wait "$running"
  rc=$?
  running=''
  echo "$rc $((SECONDS - begin))" >"$all/$name/rc"
done
python3 "$here/table.py" "$all" "$here/expected" "${judges[@]}"
