#!/usr/bin/env bash
# Tests the packages of its arguments with the race detector: scripts/race.sh [go test flags] PACKAGES
#
# Three kinds of failure may say nothing about the code, and are tested once more, one package at a
# time:
#
#   - The detector slows code ten times, so on a busy machine a test may miss a bound of its own. Up
#     to three failed tests are run again without the others. One that passes then is printed as
#     "FLAKY: NAME (PACKAGE)": its bound should be mended.
#   - The detector itself fails now and then, in a process with many goroutines on a busy machine: it
#     ends the process with "ThreadSanitizer: CHECK failed", or with a SIGSEGV outside of Go code,
#     whose goroutine 0 has no frames. Such a package is run again as a whole, unless a test had
#     failed until then.
#   - A test hangs until the timeout. Its package is run again as a whole, on the same condition. The
#     goroutines of the test are printed last, as "HUNG", whatever the second run says: what waits
#     without end is to be found, in the test or in the code.
#
# Nothing is run again if any package reported a data race, a panic or a crash, or failed for
# another reason. The second run counts, whatever ends it.
set -euo pipefail
export CGO_ENABLED=1

log="$(mktemp "${TMPDIR:-/tmp}/chronik-race.XXXXXX")"
trap 'rm -f "$log"' EXIT
go test -race "$@" 2>&1 | tee "$log" && exit 0

# Prints "PACKAGE TEST" for each test to run again, with "*" for a whole package. Fails if something
# else went wrong.
again="$(awk '
  /^SIGSEGV: / { fault = NR; next }
  fault && NR == fault + 3 && !/^goroutine 0 gp=/ { code = 1 }
  fault && NR == fault + 4 { if ($0 == "") detector = 1; else code = 1 }
  /^panic: test timed out after / { detector = 1; next }
  /WARNING: DATA RACE|^panic: |^fatal error: |^SIG[A-Z]+: |^signal: / { code = 1 }
  /ThreadSanitizer: CHECK failed/ { detector = 1 }
  /^--- FAIL: / && !($3 in failed) { failed[$3] = 1; n++ }
  /^FAIL\t/ {
    if (detector == (n > 0)) code = 1
    if (detector) print $2, "*"
    for (name in failed) print $2, name
    all += n
  }
  /^(ok  |FAIL)\t/ { detector = n = 0; split("", failed) }
  END { exit (code || all > 3) }
' "$log")" || exit 1
[ -n "$again" ] || exit 1

# Prints the tests that hung, and the goroutines of the dump that are in a test.
hung() {
  awk 'BEGIN { RS = "" } /panic: test timed out after / { print "HUNG:\n" $0 "\n" } /^goroutine / && /_test\.go:/ { print $0 "\n" }' "$log"
}
trap 'if grep -q "^panic: test timed out after " "$log"; then hung; fi; rm -f "$log"' EXIT

flags=()
for arg in "$@"; do
  case "$arg" in . | ./* | github.com/*) ;; *) flags+=("$arg") ;; esac
done
for package in $(cut -d' ' -f1 <<<"$again" | sort -u); do
  tests="$(awk -v p="$package" '$1 == p { print $2 }' <<<"$again" | sort)"
  only=()
  [ "$tests" = "*" ] || only=(-count=1 -run "^($(paste -sd'|' <<<"$tests"))\$")
  echo "again: $package ${only[*]}"
  go test -race "${flags[@]}" "${only[@]}" "$package"
  [ "$tests" = "*" ] || sed "s|.*|FLAKY: & ($package)|" <<<"$tests"
done
