#!/usr/bin/env bash
# install-page.sh   runs the commands of docs/install.md word for word: download, verify, start, secure,
# three brokers, upgrade, roll back. The releases are the archives of the commit, built twice with two
# versions, and are downloaded from files. Prints the time of each command.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="$PWD"
[ "$(go env GOOS)" = linux ] || { echo "NOT RUN: the commands of docs/install.md, because they are for Linux"; exit 0; }
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-install.XXXXXX")"
trap 'rm -rf "$work"' EXIT
git clone -q "$root" "$work/clone"
(cd scripts/release && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -o "$work/release" .)
number="$(sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGELOG.md | head -1)"
for version in "$number-check.1" "$number-check.2"; do
  (cd "$work/clone" && "$work/release" -version "$version" -platforms "linux/$(go env GOARCH)" -only archives -into "$work/releases/$version") >"$work/log" || { cat "$work/log"; exit 1; }
  (cd "$work/releases/$version" && sha256sum ./*.tar.gz | sed 's|\./||' >SHA256SUMS)
done
RELEASES="$work/releases" FROM="$number-check.1" TO="$number-check.2" scripts/readme.sh docs/install.md
