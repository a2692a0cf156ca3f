#!/usr/bin/env bash
# Tests the packages that differ from BASE (default main), and then the packages that import them, until
# SECONDS_AT_MOST (default 60) have passed. A test that runs then is completed. Prints what it left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
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

# Importers, the nearest first: those of many others take the most time and are tested by `make test`.
importers="$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .TestImports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$p}} {{.}}{{"\n"}}{{end}}' ./... |
  awk -v list="${changed[*]:-}" 'BEGIN { n = split(list, a, " "); for (i = 1; i <= n; i++) is[a[i]] = 1 } ($2 in is) && !($1 in is) { print $1 }' | sort -u)"

begin=$SECONDS failed=0 left=()
for p in "${changed[@]}" $importers; do
  if [ $((SECONDS - begin)) -ge "$most" ]; then
    left+=("./${p#"$module"/}")
    continue
  fi
  go test "$p" || failed=1
done
if [ ${#left[@]} -gt 0 ]; then
  printf 'NOT RUN, %ss are over: go test %s\n' "$most" "${left[*]}"
fi
exit "$failed"
