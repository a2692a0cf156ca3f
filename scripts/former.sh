#!/usr/bin/env bash
# former.sh BINARY   builds chronikd of the commit in scripts/former, for make rolling-upgrade: the
# oldest one with which this version can be mixed. Exits with 3, and says so, if the repository lacks
# the commit, as a shallow clone does.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
commit="$(grep -v '^#' "$root/scripts/former")"
if ! git -C "$root" cat-file -e "$commit^{tree}" 2>/dev/null; then
  echo "NOT RUN: a rolling upgrade, because this clone lacks the commit $commit of scripts/former"
  exit 3
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
git -C "$root" archive "$commit" cmd internal pkg go.mod go.sum | tar -x -C "$work"
cd "$work"
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=former-${commit:0:12}" -o "$1" ./cmd/chronikd
