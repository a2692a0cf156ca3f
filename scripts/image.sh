#!/usr/bin/env bash
# image.sh [TAG]   builds deploy/docker/Dockerfile, and tries the image: its size,
# its user, its health check, and that clients outside of it write and read.
#
# Uses Docker or podman if one answers and has, or can fetch, the base image. Otherwise,
# as root, buildah (Debian: buildah busybox-static iproute2 jq) builds with chroot
# isolation, and the script runs the image's root as an engine would, as far as that
# is possible without one: its user, variables and command, a read-only root, a network
# namespace; no cgroups and no seccomp. If the base image cannot be fetched there
# either, the build stage consists of this machine's Go and a static busybox: the image
# contains nothing of that stage but the binaries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tag="${1:-chronik:dev}"
most=50 # MB
[ -x bin/chronikctl ] || { echo "bin/chronikctl is missing: make build"; exit 1; }
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-image.XXXXXX")"
: >"$work/log"
args=(-f deploy/docker/Dockerfile -t "$tag" --build-arg "GOPROXY=$(go env GOPROXY)"
  --build-arg "VERSION=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)")

# Each way of running the image gives these: start, health, logs, ctl, stop, gone.
base="$(sed -n 's/^ARG GO_IMAGE=//p' deploy/docker/Dockerfile)"
engine=
for e in docker podman; do
  if ! command -v "$e" >/dev/null || ! "$e" info >/dev/null 2>&1; then continue; fi
  if "$e" image inspect "$base" >/dev/null 2>&1 || timeout 300 "$e" pull -q "$base" >"$work/pull.log" 2>&1; then engine="$e"; break; fi
  echo "$e answers and cannot fetch $base: $(tail -n 1 "$work/pull.log")"
done
if [ -n "$engine" ]; then
  container=
  build() {
    "$engine" build "${args[@]}" .
    size="$("$engine" image inspect -f '{{.Size}}' "$tag")"
    port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
    at="localhost:$port"
  }
  start() {
    if [ -n "$container" ]; then "$engine" start "$container" >/dev/null; return; fi
    container="$("$engine" run -d --read-only -p "127.0.0.1:$port:9092" -e "CHRONIK_ADVERTISE=$at" "$tag")"
  }
  health() { "$engine" exec "$container" /usr/bin/chronikd health; }
  logs() { "$engine" logs "$container" 2>&1; }
  ctl() { bin/chronikctl --brokers "$at" "$@"; }
  stop() { "$engine" stop -t 60 "$container" >/dev/null && [ "$("$engine" inspect -f '{{.State.ExitCode}}' "$container")" = 0 ]; }
  gone() { [ -z "$container" ] || "$engine" rm -f -v "$container" >/dev/null; }
else
  [ "$(id -u)" = 0 ] || { echo "NOT RUN: the image, because no container engine can build it, and without one the build requires root"; exit 0; }
  for tool in buildah busybox ip jq; do
    command -v "$tool" >/dev/null || { echo "NOT RUN: the image, because no container engine can build it, and $tool is not installed (Debian: buildah busybox-static iproute2 jq)"; exit 0; }
  done
  at=localhost:9092 space='' broker=''
  store=(--root "$work/store" --runroot "$work/run" --storage-driver vfs)
  b() { buildah "${store[@]}" "$@"; }
  go_image() { # a stand-in for $base, as far as the build stage needs it
    local base root
    base="$(b from scratch)"
    root="$(b mount "$base")"
    mkdir -p "$root/bin" "$root/tmp" "$root/etc/ssl/certs" "$root/usr/local" "$root/go/pkg/mod" "$root/root/.cache/go-build"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for name in sh mkdir echo; do ln -s busybox "$root/bin/$name"; done
    cp -a "$(go env GOROOT)" "$root/usr/local/go"
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    b config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOTOOLCHAIN=local "$base"
    b commit -q --rm "$base" localhost/chronik-go >/dev/null
  }
  build() {
    local volumes=()
    if ! timeout 60 buildah "${store[@]}" pull -q "$base" >"$work/build.log" 2>&1; then
      echo "$base cannot be fetched: the build stage is this machine's $(go env GOVERSION)"
      go_image
      args+=(--build-arg GO_IMAGE=localhost/chronik-go)
      volumes=(-v "$(go env GOMODCACHE):/go/pkg/mod" -v "$(go env GOCACHE):/root/.cache/go-build")
    fi
    b build --isolation chroot --format docker "${volumes[@]}" "${args[@]}" . >"$work/build.log" 2>&1 || { tail -20 "$work/build.log"; exit 1; }
    b push -q "$tag" "docker-archive:$work/image.tar"
    size="$(stat -c %s "$work/image.tar")"
    b inspect --type image "$tag" | jq .Docker.config >"$work/config"
    mapfile -t vars < <(jq -r '.Env[]' "$work/config")
    mapfile -t entry < <(jq -r '.Entrypoint[]' "$work/config")
    mapfile -t check < <(jq -r '.Healthcheck.Test[1:][]' "$work/config")
    user="$(jq -r .User "$work/config")"
    volume="$(jq -r '.Volumes | keys[0]' "$work/config")"
    root="$(b mount "$(b from "$tag")")"
    mkdir -p "$root/proc"
    # shellcheck disable=SC2016 # the inner shell expands its own arguments
    unshare --net --mount --propagation private sh -c '
      ip link set lo up && mount -t proc proc "$1/proc" && mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" &&
      mount --bind "$2" "$1$3" && touch "$4" && exec sleep 3600' sh "$root" "$work/volume" "$volume" "$work/up" &
    space=$!
  }
  inside() { nsenter -t "$space" -n -m env -i "${vars[@]}" "$(command -v chroot)" --userspec="$user" "$root" "$@"; }
  start() {
    until_true test -e "$work/up"
    # One process all the way: what is started here becomes the broker.
    (exec nsenter -t "$space" -n -m env -i "${vars[@]}" "$(command -v chroot)" --userspec="$user" "$root" "${entry[@]}") >>"$work/log" 2>&1 &
    broker=$!
  }
  health() { inside "${check[@]}"; }
  logs() { cat "$work/log"; }
  ctl() { nsenter -t "$space" -n bin/chronikctl --brokers "$at" "$@"; }
  stop() {
    local pid="$broker"
    broker=
    kill -TERM "$pid" && wait "$pid"
  }
  gone() {
    [ -z "$broker" ] || stop
    [ -z "$space" ] || { kill "$space" && wait "$space"; }
    b rm --all >/dev/null
  }
fi
finish() {
  local rc=$?
  [ "$rc" = 0 ] || logs | tail -20
  gone 2>/dev/null || true
  rm -rf "$work"
  exit "$rc"
}
trap finish EXIT
until_true() { # until_true COMMAND...: up to 60 s
  for _ in $(seq 300); do
    if "$@" >"$work/said" 2>&1; then return 0; fi
    sleep 0.2
  done
  echo "never: $*"
  cat "$work/said"
  exit 1
}

# A new volume has the owner and mode of the directory that it covers; without an
# engine that is done here.
install -d -o 65532 -g 65532 "$work/volume" 2>/dev/null || true
build
[ "$((size / 1000000))" -le "$most" ] || { echo "the image has $((size / 1000000)) MB, more than $most"; exit 1; }
echo "image $tag: $((size / 1000000)) MB"
start
until_true health
echo "health: $(cat "$work/said")"
logs >"$work/logs"
grep -q "the broker advertises $at" "$work/logs" || { echo "it does not say which address it advertises"; exit 1; }

seq 1000 >"$work/sent"
ctl topic create image-test
ctl produce image-test <"$work/sent"
ctl consume image-test >"$work/read"
cmp "$work/sent" "$work/read"
stop || { echo "the stop was not clean"; exit 1; }
start
until_true health
ctl consume image-test | cmp - "$work/sent"
stop || { echo "the stop was not clean"; exit 1; }
echo "image: built with ${engine:-buildah}; 1000 records written and read from outside, and again after a stop and a start"
