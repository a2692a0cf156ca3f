#!/usr/bin/env bash
# fuzz.sh TIME   runs every fuzz target of the tree for TIME (as go test's -fuzztime: 5s, 1m,
# 1000x), as many at once as there are processors, each with one worker; fails if any does.
#
# Each package's tests are built once, and only chronik's own code counts coverage: "go test -fuzz"
# would link the package again for each target, and compile the standard library and all modules once
# more. An input that fails is written to testdata/fuzz of the package, as with "go test -fuzz".
#
# Before Go 1.27 the fuzzer may call the end of TIME itself a failure
# (go.dev/issue/75804): "context deadline exceeded", and no input written. Such
# a run says nothing, so it is run again; anything else that fails is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export FUZZ_TIME="${1:?usage: fuzz.sh TIME}" FUZZ_ROOT="$PWD" FUZZ_BIN FUZZ_CORPUS
FUZZ_BIN="$(mktemp -d "${TMPDIR:-/tmp}/chronik-fuzz.XXXXXX")"
trap 'rm -rf "$FUZZ_BIN"' EXIT
FUZZ_CORPUS="$(go env GOCACHE)/fuzz/$(go list -m)" # where "go test -fuzz" keeps inputs that reached new code
jobs="$(getconf _NPROCESSORS_ONLN)"

build() { # PACKAGE
  # Not "-fuzz .", which also instruments what is not chronik's; the flag is what it adds.
  go test -c -gcflags='github.com/chronik-io/chronik/...=-d=libfuzzer' -ldflags='-s -w' -o "$FUZZ_BIN/${1//\//_}" "./$1"
}

fuzz() { # TARGET PACKAGE
  local try out="$FUZZ_BIN/${2//\//_}.$1.out"
  for try in 1 2 3; do
    if (cd "$FUZZ_ROOT/$2" && "$FUZZ_BIN/${2//\//_}" -test.run '^$' -test.fuzz "^$1\$" -test.fuzztime "$FUZZ_TIME" \
      -test.fuzzcachedir "$FUZZ_CORPUS/$2" -test.parallel 1 -test.paniconexit0) >"$out" 2>&1 </dev/null; then
      echo "== $1 in ./$2: $(grep '^fuzz: elapsed' "$out" | tail -n 1)"
      # A binary without the target or without coverage passes as well.
      grep -q '^fuzz: elapsed' "$out" && ! grep '^warning: ' "$out" && return 0
      echo "fuzz: $1 in ./$2 did not fuzz" && return 1
    fi
    if ! grep -qx ' *context deadline exceeded' "$out" || grep -q 'Failing input written' "$out"; then
      echo "== $1 in ./$2" && cat "$out" && return 1
    fi
    echo "fuzz: $1 met the end of its time in the fuzzer itself, try $try"
  done
  return 1
}
export -f build fuzz

targets="$(grep -r --include='*_test.go' '^func Fuzz' cmd internal pkg | sed -E 's#^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*#\2 \1#' | sort -k2)"
begin=$SECONDS
cut -d' ' -f2 <<<"$targets" | uniq | xargs -P "$jobs" -I{} bash -c 'build "$1"' build {}
echo "fuzz: built in $((SECONDS - begin))s"
xargs -P "$jobs" -L 1 bash -c 'fuzz "$1" "$2"' fuzz <<<"$targets"
echo "fuzz: $(wc -l <<<"$targets") targets passed in $((SECONDS - begin))s"
