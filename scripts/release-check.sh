#!/usr/bin/env bash
# release-check.sh   builds a release of the commit twice, in two clones with different paths, umasks,
# time zones and languages, and compares the bytes. Then it installs and runs each artifact once: the
# programs of the archive, of the .deb and of the .rpm, the image by its own configuration, the chart.
# In the end it follows docs/install.md. VERSION is the version (by default that of the commit). Prints "NOT RUN" for what this machine cannot
# run. With QUICK=1 both builds are for Linux on this processor and share one build cache, and nothing
# is installed as root, nor is the page followed; otherwise the second build compiles everything again, in an empty cache.
# Needs git, Go, curl, jq and python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="$PWD" arch="$(go env GOARCH)"
[ "$(go env GOOS)" = linux ] || { echo "NOT RUN: the release's check, because it runs the programs for Linux"; exit 0; }
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "NOT CHECKED: what is not committed; the release of $(git rev-parse --short HEAD) is built"
platforms=linux/amd64,linux/arm64,darwin/amd64,darwin/arm64
[ -z "${QUICK:-}" ] || platforms="linux/$arch"

work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-release.XXXXXX")"
broker='' space=''
finish() {
  local rc=$?
  [ -z "$broker" ] || { kill -TERM "$broker" 2>/dev/null && wait "$broker" 2>/dev/null; } || true
  [ -z "$space" ] || { kill "$space" 2>/dev/null && wait "$space" 2>/dev/null; } || true
  chmod -R u+w "$work" 2>/dev/null || true
  rm -rf --one-file-system "$work"
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM
fail() { echo "release: $*" >&2; exit 1; }
until_true() { # until_true COMMAND...: up to two minutes
  for _ in $(seq 600); do
    if "$@" >"$work/said" 2>&1; then return 0; fi
    sleep 0.2
  done
  cat "$work/said"
  fail "never: $*"
}

# ---- two builds ------------------------------------------------------------------
GOFLAGS=-mod=readonly GOWORK=off
export GOFLAGS GOWORK
(cd scripts/release && CGO_ENABLED=0 go build -trimpath -o "$work/release" .)
args=(-platforms "$platforms")
[ -z "${VERSION:-}" ] || args+=(-version "$VERSION")
build() { # build DIR: of a fresh clone
  mkdir -p "${1%/*}"
  git clone -q "$root" "$1"
  git -C "$1" checkout -q --detach "$(git rev-parse HEAD)"
  (cd "$1" && "$work/release" "${args[@]}" -into "$1/out")
}
GOMODCACHE="$(go env GOMODCACHE)" GOCACHE="$(go env GOCACHE)"
export GOMODCACHE GOCACHE
commit="$(git rev-parse HEAD)"
cache="$GOCACHE"
[ -n "${QUICK:-}" ] || cache="$work/cache"
begin=$SECONDS
(umask 022 && TZ=UTC LC_ALL=C build "$work/a/chronik") >"$work/log" 2>&1 || { cat "$work/log"; fail "the first build failed"; }
echo "release: built in $((SECONDS - begin)) s"
begin=$SECONDS
(umask 077 && TZ=Asia/Kathmandu LC_ALL=C.UTF-8 HOME="$work/home" GOCACHE="$cache" build "$work/another place/of the tree") >"$work/log" 2>&1 || { cat "$work/log"; fail "the second build failed"; }
out="$work/a/chronik/out"
if ! diff -r "$out" "$work/another place/of the tree/out" >"$work/log"; then cat "$work/log"; fail "two builds of one commit differ"; fi
rm -rf "$work/another place" "$work/home"
[ -z "$(find "$out" ! -perm -a+r)" ] || fail "not everyone may read every file"
echo "release: built again elsewhere in $((SECONDS - begin)) s, with the same bytes:"
(cd "$out" && sha256sum --check --strict --quiet SHA256SUMS && ls -sh --block-size=kB)
[ "$(wc -l <"$out/SHA256SUMS")" = "$(find "$out" -type f ! -name SHA256SUMS | wc -l)" ] || fail "SHA256SUMS does not name every file"
grep -q . "$out/RELEASE-NOTES.md" || fail "the notes are empty"
version="$(basename "$out"/chronik-*-image.tar)" version="${version#chronik-}" version="${version%-image.tar}"

# ---- a signature -----------------------------------------------------------------
if command -v gpg >/dev/null; then
  export GNUPGHOME="$work/gpg"
  mkdir -m 700 "$GNUPGHOME" "$work/signed"
  gpg --batch --quiet --passphrase '' --quick-generate-key release@example.com ed25519 sign 2>/dev/null
  cat >"$work/tool" <<TOOL
#!/bin/sh
cp "$out/SHA256SUMS" "$work/signed/" && echo "chronik $version in $work/signed"
TOOL
  chmod +x "$work/tool"
  SIGN='gpg --batch --armor --detach-sign' scripts/release.sh "$work/tool" >"$work/log" || { cat "$work/log"; fail "it was not signed"; }
  gpg --batch --quiet --verify "$work/signed/SHA256SUMS.asc" "$work/signed/SHA256SUMS" 2>/dev/null || fail "the signature is wrong"
  rm "$work/signed/SHA256SUMS.asc"
  if SIGN=true scripts/release.sh "$work/tool" >"$work/log" 2>&1; then fail "a command that signs nothing is not noticed"; fi
  gpgconf --kill all
  unset GNUPGHOME
  echo "release: signed and verified with a key of this test"
else
  echo "NOT RUN: a signature, because gpg is not there"
fi

# ---- each artifact, run once ------------------------------------------------------
read -r kafka admin < <(python3 scripts/free-ports.py 2)
serve() { # serve DIR NAME: starts chronikd of DIR, writes and reads records, stops it
  local name="$2"
  [ "$("$1/chronikd" version)" = "v$version" ] || fail "$name: chronikd version prints $("$1/chronikd" version), not v$version"
  rm -rf "$work/data"
  "$1/chronikd" --data-dir "$work/data" --listen "127.0.0.1:$kafka" --admin-listen "127.0.0.1:$admin" >"$work/broker.log" 2>&1 &
  broker=$!
  until_true "$1/chronikd" health --admin-listen "127.0.0.1:$admin"
  export CHRONIK_BROKERS="127.0.0.1:$kafka"
  seq 1000 >"$work/sent"
  "$1/chronikctl" topic create released >/dev/null
  "$1/chronikctl" produce released <"$work/sent" 2>/dev/null >&2
  "$1/chronikctl" consume released | cmp - "$work/sent" || fail "$name: other records come back"
  "$1/chronik-bench" --help >/dev/null
  kill -TERM "$broker"
  wait "$broker" || { tail -5 "$work/broker.log"; fail "$name: the stop was not clean"; }
  broker=''
  unset CHRONIK_BROKERS
  echo "release: $name: started, 1000 records in and out, stopped"
}

for file in "$out"/chronik-*.tar.gz; do
  mkdir "$work/archive"
  tar -xzf "$file" -C "$work/archive"
  top="$work/archive/$(basename "$file" .tar.gz)"
  for f in LICENSE README.md CHANGELOG.md third-party.gz docs/install.md chronikd.yaml man/man8/chronikd.8.gz man/man1/chronikctl.1.gz \
    completion/bash/chronikctl completion/zsh/_chronikd completion/fish/chronikctl.fish deploy/systemd/chronikd.service; do
    [ -s "$top/$f" ] || fail "${file##*/} has no $f"
  done
  case "$file" in
    *-linux-"$arch".tar.gz)
      serve "$top/bin" "${file##*/}"
      cp "$top/bin/chronikctl" "$work/chronikctl"
      "$top/bin/chronikd" config check --config "$top/chronikd.yaml" >/dev/null || fail "the configuration file of ${file##*/} is not valid" ;;
    *-linux-arm64.tar.gz)
      if command -v qemu-aarch64-static >/dev/null; then
        [ "$(qemu-aarch64-static "$top/bin/chronikd" version)" = "v$version" ] || fail "chronikd for arm64 does not run"
        echo "release: ${file##*/}: chronikd prints its version under qemu"
      else
        echo "NOT RUN: the programs for arm64, because qemu-aarch64-static is not there"
      fi ;;
    *) echo "NOT RUN: the programs of ${file##*/}, because this is $(go env GOOS)/$arch; $(go version "$top/bin/chronikd" | sed 's/.*: //') built them" ;;
  esac
  rm -rf "$work/archive"
done
jq -e '.bomFormat == "CycloneDX" and (.components | length) > 20' "$out"/*-linux-"$arch".cdx.json >/dev/null || fail "the bill of materials lacks modules"

deb="$(find "$out" -name "chronik_*_$arch.deb")"
machine="$(uname -m)"
rpm="$(find "$out" -name "chronik-*.$machine.rpm")"
[ -n "$deb" ] && [ -n "$rpm" ] || fail "there is no .deb or no .rpm for $arch"
if command -v dpkg-deb >/dev/null; then
  dpkg-deb -x "$deb" "$work/deb"
  serve "$work/deb/usr/bin" "${deb##*/}"
else
  echo "NOT RUN: the .deb, because dpkg-deb is not there"
fi
mkdir "$work/rpm"
# Not rpm2cpio with cpio, which takes the names in it as absolute ones.
if command -v bsdtar >/dev/null; then
  bsdtar -xf "$rpm" -C "$work/rpm"
fi
if [ -x "$work/rpm/usr/bin/chronikd" ]; then
  serve "$work/rpm/usr/bin" "${rpm##*/}"
else
  echo "NOT RUN: the .rpm, because bsdtar is not there (Debian: libarchive-tools)"
fi
if [ -z "${QUICK:-}" ]; then
  PACKAGES="$out" scripts/packages-test.sh
fi

# ---- the image -------------------------------------------------------------------
image="$work/image"
mkdir -p "$image/layout" "$image/root"
tar -xf "$out/chronik-$version-image.tar" -C "$image/layout"
blob() { echo "$image/layout/blobs/${1/://}"; }
(cd "$image/layout/blobs/sha256" && for f in *; do [ "$(sha256sum <"$f")" = "$f  -" ] || exit 1; done) || fail "a blob of the image has another hash than its name"
index="$(blob "$(jq -r '.manifests[0].digest' "$image/layout/index.json")")"
manifest="$(blob "$(jq -r --arg a "$arch" '.manifests[] | select(.platform.architecture == $a and .platform.os == "linux").digest' "$index")")"
config="$(blob "$(jq -r .config.digest "$manifest")")"
layer="$(blob "$(jq -r '.layers[0].digest' "$manifest")")"
[ "sha256:$(zcat "$layer" | sha256sum | cut -d' ' -f1)" = "$(jq -r '.rootfs.diff_ids[0]' "$config")" ] || fail "the layer of the image is not that of its configuration"
[ "$(zcat "$layer" | wc -c)" -le 50000000 ] || fail "the image has more than 50 MB"
if command -v skopeo >/dev/null; then
  skopeo inspect --override-arch "$arch" "oci-archive:$out/chronik-$version-image.tar" >"$work/log" || fail "skopeo does not read the image"
  echo "release: skopeo reads the image"
fi
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! unshare --net --mount true 2>/dev/null; then
  echo "NOT RUN: the image's entrypoint, because it takes root, ip and namespaces"
else
  tar -xzpf "$layer" -C "$image/root" --numeric-owner
  mapfile -t vars < <(jq -r '.config.Env[]' "$config")
  mapfile -t entry < <(jq -r '.config.Entrypoint[]' "$config")
  mapfile -t check < <(jq -r '.config.Healthcheck.Test[1:][]' "$config")
  user="$(jq -r .config.User "$config")" volume="$(jq -r '.config.Volumes | keys[0]' "$config")"
  install -d -o "${user%:*}" -g "${user#*:}" "$image/volume"
  mkdir "$image/root/proc"
  # As an engine does: a network of its own, a root that is read only, and a volume.
  # shellcheck disable=SC2016 # the inner shell expands its own arguments
  unshare --net --mount --propagation private sh -c '
    ip link set lo up && mount -t proc proc "$1/proc" && mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" &&
    mount --bind "$2" "$1$3" && touch "$4" && exec sleep 3600' sh "$image/root" "$image/volume" "$volume" "$work/up" &
  space=$!
  until_true test -e "$work/up"
  inside() { nsenter -t "$space" -n -m env -i "${vars[@]}" "$(command -v chroot)" --userspec="$user" "$image/root" "$@"; }
  (exec nsenter -t "$space" -n -m env -i "${vars[@]}" "$(command -v chroot)" --userspec="$user" "$image/root" "${entry[@]}") >"$work/broker.log" 2>&1 &
  broker=$!
  until_true inside "${check[@]}"
  inside /usr/bin/chronikctl version >/dev/null
  # From outside of the root, which has no /etc/hosts: an engine adds it.
  ctl() { nsenter -t "$space" -n "$work/chronikctl" "$@"; }
  ctl topic create released >/dev/null
  seq 1000 | ctl produce released >/dev/null 2>&1
  ctl consume released | cmp - <(seq 1000) || fail "the image: other records come back"
  kill -TERM "$broker"
  wait "$broker" || { tail -5 "$work/broker.log"; fail "the image: the stop was not clean"; }
  broker=''
  kill "$space"
  wait "$space" 2>/dev/null || true
  space=''
  echo "release: the image's entrypoint: healthy as user $user with a read-only root, 1000 records in and out, stopped"
fi

# ---- the chart -------------------------------------------------------------------
helm="$(command -v helm || echo "$(go env GOPATH)/bin/helm")"
if ! [ -x "$helm" ]; then
  echo "NOT RUN: the chart, because helm is not there"
elif [ -n "${QUICK:-}" ]; then
  HELM_CACHE_HOME="$work/helm" "$helm" template broker "$out/chronik-$version.tgz" --kube-version 1.31.0 --set replicas=3 >"$work/rendered"
  grep -q "image: \"\?chronik:$version" "$work/rendered" || fail "the chart does not run the image of its version"
  echo "release: the chart is rendered"
else
  mkdir -p "$work/chart"
  tar -xzf "$out/chronik-$version.tgz" -C "$work/chart"
  CHART="$work/chart/chronik" PROGRAMS="$work/deb/usr/bin" scripts/helm.sh "$helm"
  echo "release: the chart ran the programs of the .deb"
fi

[ -n "${QUICK:-}" ] || scripts/install-page.sh
echo "release: $version is reproducible and runs"
