#!/usr/bin/env bash
# Tests the packages of its arguments with the race detector: scripts/race.sh [go test flags] PACKAGES
#
# The detector itself fails now and then, in a process with many goroutines on a busy machine: it
# ends the process with "ThreadSanitizer: CHECK failed", which says nothing about the code. Such a
# package is tested once more, if it reported neither a race nor a failed test until then.
set -euo pipefail
export CGO_ENABLED=1

log="$(mktemp "${TMPDIR:-/tmp}/chronik-race.XXXXXX")"
trap 'rm -f "$log"' EXIT
go test -race "$@" 2>&1 | tee "$log" && exit 0

again="$(awk '
  /ThreadSanitizer: CHECK failed/ { detector = 1 }
  /WARNING: DATA RACE|^ *--- FAIL|^panic: / { code = 1 }
  $1 == "ok" || $1 == "?" || ($1 == "FAIL" && NF >= 2) {
    if ($1 == "FAIL") { if (detector && !code) print $2; else other = 1 }
    detector = 0; code = 0
  }
  END { exit other }
' "$log")" || exit 1
[ -n "$again" ] || exit 1
echo "the race detector failed; again: $again"
flags=()
for arg in "$@"; do
  case "$arg" in ./* | github.com/*) ;; *) flags+=("$arg") ;; esac
done
# shellcheck disable=SC2086 # a list of packages
exec go test -race "${flags[@]}" $again
