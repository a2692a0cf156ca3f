#!/usr/bin/env bash
# former.sh DIRECTORY   builds chronikd of each commit in scripts/former, for make rolling-upgrade,
# and prints the paths of the binaries in the order of the commits, with a ":" between two. Exits
# with 3, and says so, if the repository lacks a commit, as a shallow clone does.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
built=()
while read -r commit; do
  if ! git -C "$root" cat-file -e "$commit^{tree}" 2>/dev/null; then
    echo "NOT RUN: a rolling upgrade, because this clone lacks the commit $commit of scripts/former" >&2
    exit 3
  fi
  binary="$1/chronikd-former-${commit:0:12}"
  mkdir "$work/$commit"
  git -C "$root" archive "$commit" cmd internal pkg go.mod go.sum | tar -x -C "$work/$commit"
  (cd "$work/$commit" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=former-${commit:0:12}" -o "$binary" ./cmd/chronikd)
  built+=("$binary")
done < <(grep -v '^#' "$root/scripts/former")
(IFS=:; echo "${built[*]}")
