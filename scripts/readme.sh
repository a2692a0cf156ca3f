#!/usr/bin/env bash
# readme.sh   runs README.md's console blocks word for word in this tree, on free
# ports: the first command in the background until it is ready, `make test`
# unless SKIP_TEST is set, then the others; their output must be what README
# shows. The broker is stopped and its data removed in the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-readme.XXXXXX")"
pid=
finish() {
  # make runs the broker as its child; both are in the group that setsid made.
  if [ -n "$pid" ]; then
    kill -TERM -- "-$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    # The shell goes at once, the broker when it has drained.
    for _ in $(seq 600); do kill -0 -- "-$pid" 2>/dev/null || break; sleep 0.05; done
  fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
export CHRONIK_LISTEN="127.0.0.1:$(free)" CHRONIK_ADMIN_LISTEN="127.0.0.1:$(free)" CHRONIK_DATA_DIR="$work/data"
export CHRONIK_BROKERS="$CHRONIK_LISTEN"

# Every command becomes work/N.cmd, the output shown below it work/N.want.
awk -v dir="$work" '
  /^```console$/ { inside = 1; next }
  /^```$/ { inside = 0 }
  inside && /^\$ / { n++; print substr($0, 3) > (dir "/" n ".cmd"); printf "" > (dir "/" n ".want"); next }
  inside { print > (dir "/" n ".want") }
' README.md
[ "$(cat "$work/1.cmd")" = "make run" ] && [ "$(cat "$work/2.cmd")" = "make test" ] || { echo "README.md's first two commands are not make run and make test"; exit 1; }

ready() { curl -fs -o "$work/ready" "http://$CHRONIK_ADMIN_LISTEN/readyz"; }
setsid bash "$work/1.cmd" >"$work/run.log" 2>&1 &
pid=$!
for _ in $(seq 1200); do
  ready && break
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
ready || { echo "make run did not start a broker:"; cat "$work/run.log"; exit 1; }
echo "README: make run is ready"

n=2
if [ -z "${SKIP_TEST:-}" ]; then bash "$work/2.cmd" || exit 1; fi
while n=$((n + 1)); [ -e "$work/$n.cmd" ]; do
  bash "$work/$n.cmd" >"$work/got" 2>&1 || { echo "README: $(cat "$work/$n.cmd") failed:"; cat "$work/got"; exit 1; }
  diff "$work/$n.want" "$work/got" || { echo "README: $(cat "$work/$n.cmd") prints something else than README shows"; exit 1; }
  echo "README: $(cat "$work/$n.cmd")"
done
