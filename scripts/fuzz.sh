#!/usr/bin/env bash
# fuzz.sh TIME   runs every fuzz target of the tree for TIME (as go test's
# -fuzztime: 5s, 1m, 1000x), one after the other; fails with the first that does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time="${1:?usage: fuzz.sh TIME}"
found=0
while read -r pkg; do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    found=$((found + 1))
    echo "== $target in $pkg"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
  done
done < <(grep -rl --include='*_test.go' '^func Fuzz' cmd internal pkg | xargs -r -n1 dirname | sort -u | sed 's#^#./#')
echo "fuzz: $found targets passed"
