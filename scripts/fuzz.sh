#!/usr/bin/env bash
# fuzz.sh TIME   runs every fuzz target of the tree for TIME (as go test's
# -fuzztime: 5s, 1m, 1000x), one after the other; fails with the first that does.
#
# Before Go 1.27 the fuzzer may call the end of TIME itself a failure
# (go.dev/issue/75804): "context deadline exceeded", and no input written. Such
# a run says nothing, so it is run again; anything else that fails is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time="${1:?usage: fuzz.sh TIME}"
out="$(mktemp)"
trap 'rm -f "$out"' EXIT

fuzz() { # TARGET PACKAGE
  local try
  for try in 1 2 3; do
    if go test -run '^$' -fuzz "^$1\$" -fuzztime "$time" "$2" 2>&1 | tee "$out"; then
      return 0
    fi
    if ! grep -qx ' *context deadline exceeded' "$out" || grep -q 'Failing input written' "$out"; then
      return 1
    fi
    echo "fuzz: $1 met the end of its time in the fuzzer itself, try $try"
  done
  return 1
}

found=0
while read -r pkg; do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    found=$((found + 1))
    echo "== $target in $pkg"
    fuzz "$target" "$pkg" </dev/null
  done
done < <(grep -rl --include='*_test.go' '^func Fuzz' cmd internal pkg | xargs -r -n1 dirname | sort -u | sed 's#^#./#')
echo "fuzz: $found targets passed"
