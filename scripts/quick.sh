#!/usr/bin/env bash
# Tests the packages that differ from BASE (default main), and then those that import them, until
# SECONDS_AT_MOST (default 60) have passed. Changed packages are tested to the end. Importers are stopped
# then, and those without a result are printed as NOT RUN, for `make test`. So are the system tests, which
# take minutes, unless they differ themselves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
begin=$SECONDS
base="${BASE:-main}"
most="${SECONDS_AT_MOST:-60}"
git rev-parse -q --verify "$base^{commit}" >/dev/null || { echo "there is no commit $base; set BASE to one"; exit 2; }

# The folders of changed and new files, in Git's index or not. A test file in testdata belongs to the folder above.
folders="$({ git diff --name-only "$(git merge-base "$base" HEAD)" --; git ls-files -o --exclude-standard; } |
  grep -E '\.go$|/testdata/|^go\.(mod|sum)$' | sed -E 's#/testdata/.*##; s#/?[^/]*\.go$##' | sort -u || true)"
[ -n "$folders" ] || { echo "no Go file differs from $base"; exit 0; }
module="$(go list -m)"
changed=()
while IFS= read -r folder; do
  [ -d "$folder" ] || continue # it was removed
  if p="$(go list "./$folder" 2>/dev/null)"; then changed+=("$p"); fi
done <<<"$folders"
[ ${#changed[@]} -gt 0 ] || { echo "no package differs from $base"; exit 0; }

failed=0
go test "${changed[@]}" || failed=1

# Importers that have tests, those with the fewest packages below them first: they are built the soonest.
format='{{if or .TestGoFiles .XTestGoFiles}}{{$p := .ImportPath}}{{$n := len .Deps}}'
for list in Imports TestImports XTestImports; do format+='{{range .'$list'}}{{$n}} {{$p}} {{.}}{{"\n"}}{{end}}'; done
mapfile -t importers < <(go list -f "$format{{end}}" ./... |
  awk -v list="${changed[*]}" 'BEGIN { n = split(list, a, " "); for (i = 1; i <= n; i++) is[a[i]] = 1 }
    ($3 in is) && !($2 in is) { print $1, $2 }' |
  sort -n -u | awk '{ print $2 }')
system="$module/internal/testing/system" now=()
for p in "${importers[@]}"; do [ "$p" = "$system" ] || now+=("$p"); done

results="$(mktemp "${TMPDIR:-/tmp}/chronik-quick.XXXXXX")"
trap 'rm -f "$results"' EXIT
rest=$((most - (SECONDS - begin)))
if [ ${#now[@]} -gt 0 ] && [ "$rest" -gt 0 ] && command -v timeout >/dev/null; then
  # An interrupt ends the tests that run, which is no result, and go removes what it built for them.
  timeout -s INT -k 10 "$rest" go test "${now[@]}" 2>&1 | awk -v results="$results" '
    /^signal: interrupt$/ { getline; next } /: signal: interrupt$/ { next }
    { print; fflush() }
    $1 == "ok" || $1 == "FAIL" && $2 { print $1, $2 >results }' || true
  ! grep -q '^FAIL' "$results" || failed=1
fi
left=()
for p in "${importers[@]}"; do grep -qx "[^ ]* $p" "$results" || left+=("./${p#"$module"/}"); done
[ ${#left[@]} = 0 ] || printf 'NOT RUN, %ss are over: go test %s\n' "$((SECONDS - begin))" "${left[*]}"
exit "$failed"
