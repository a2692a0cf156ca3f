#!/usr/bin/env bash
# packages.sh [ARCH...] [--into DIR]   writes chronik_VERSION_ARCH.deb and .rpm for amd64
# and arm64 or those given, in DIR or dist: static binaries, the unit, a configuration file
# with every setting, manual pages, completions, the documentation with the changelog, the
# dashboards and alerts, and the licenses of what is linked in.
# Needs nfpm: go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
nfpm="$(command -v nfpm || echo "$(go env GOPATH)/bin/nfpm")"
[ -x "$nfpm" ] || { echo "nfpm is missing: go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0"; exit 1; }

into=dist archs=()
while [ $# -gt 0 ]; do
  if [ "$1" = --into ]; then into="$2"; shift 2; else archs+=("$1"); shift; fi
done
[ ${#archs[@]} -gt 0 ] || archs=(amd64 arm64)

# v1.2.3 is 1.2.3, five commits later 1.2.3+5.gabcdef. Without a tag the version sorts before
# 0.1.0, the first release, and the date orders two such versions.
if tag="$(git describe --tags --match 'v[0-9]*' 2>/dev/null)"; then
  tag="${tag#v}" more=''
  case "$tag" in *-*-g*) more="+${tag##*-g}"; n="${tag%-g*}"; more="+${n##*-}.g${more#+}"; tag="${n%-*}" ;; esac
  VERSION="${tag//-/\~}$more"
else
  VERSION="0.1.0~git$(git log -1 --format=%cd --date=format:%Y%m%d%H%M%S).$(git rev-parse --short HEAD)"
fi
stamp="$(git describe --tags --always --dirty)"
export VERSION SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"

stage=.cache/package # as deploy/packages/nfpm.yaml says
rm -rf "$stage" "$into"/chronik[_-]*.deb "$into"/chronik[_-]*.rpm
mkdir -p "$into"
mkdir -p "$stage"/{bin,man,completion/bash,completion/zsh,completion/fish}
go run ./scripts/man "$stamp" "$stage/man"
gzip -9n "$stage"/man/*
go build -o "$stage/tool/" ./cmd/chronikd ./cmd/chronikctl ./cmd/chronik-bench
for tool in chronikd chronikctl; do
  for shell in bash zsh fish; do
    case "$shell" in bash) to="bash/$tool" ;; zsh) to="zsh/_$tool" ;; fish) to="fish/$tool.fish" ;; esac
    "$stage/tool/$tool" completion "$shell" >"$stage/completion/$to"
  done
done
{
  echo '# The configuration of the service chronikd; after a change: systemctl restart chronikd.'
  # shellcheck disable=SC2016 # the quotes are for the file
  echo '# `chronikd config check --config FILE` finds mistakes. chronikd.yaml(5).'
  echo
  "$stage/tool/chronikd" config print-defaults | sed 's|^# data.dir: .*|data.dir: /var/lib/chronik|'
} >"$stage/chronikd.yaml"
grep -qx 'data.dir: /var/lib/chronik' "$stage/chronikd.yaml" || { echo "the data directory of the configuration file is not set"; exit 1; }
"$stage/tool/chronikd" config check --config "$stage/chronikd.yaml" >/dev/null

# The documentation with the paths of the repository, so that its links work.
mkdir -p "$stage/doc/docs" "$stage/debian"
cp README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md "$stage/doc/"
cp docs/*.md "$stage/doc/docs/"
gzip -9nk "$stage/doc/CHANGELOG.md"
mv "$stage/doc/CHANGELOG.md.gz" "$stage/debian/changelog.gz"
maintainer="$(sed -n 's/^maintainer: //p' deploy/packages/nfpm.yaml)"
{
  printf 'chronik (%s-1) unstable; urgency=medium\n\n' "$VERSION"
  printf '  * What changed is in /usr/share/doc/chronik/changelog.gz.\n\n'
  printf -- ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -Ru -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$stage/debian/changelog.Debian.gz"

# Every module that is linked in, with its notices: their licenses require it.
: >"$stage/third-party"
{ echo "Go $(go env GOVERSION) $(go env GOROOT)"; go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/... | sort -u; } |
  while read -r module version dir; do
    found=''
    for notice in "$dir"/{LICENSE,LICENCE,COPYING,NOTICE,PATENTS}*; do
      [ -f "$notice" ] || continue
      case "$notice" in */NOTICE* | */PATENTS*) ;; *) found=yes ;; esac
      printf '==== %s %s: %s\n\n' "$module" "$version" "${notice##*/}"
      cat "$notice"
      echo
    done
    [ -n "$found" ] || { echo "packages: $module $version has no license file" >&2; exit 1; }
  done >"$stage/third-party"
gzip -9n <"$stage/third-party" >"$stage/doc/third-party.gz"
chmod -R u=rwX,go=rX "$stage/doc"

for ARCH in "${archs[@]}"; do
  export ARCH
  GOOS=linux GOARCH="$ARCH" CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$stamp" -o "$stage/bin/" ./cmd/chronikd ./cmd/chronikctl ./cmd/chronik-bench
  for kind in deb rpm; do
    "$nfpm" package -f deploy/packages/nfpm.yaml -p "$kind" -t "$into/" >/dev/null
  done
done
rm -rf "$stage"
ls -l "$into"/*.deb "$into"/*.rpm
