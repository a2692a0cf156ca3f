#!/usr/bin/env bash
# readme.sh [PAGE]   runs the console blocks of README.md, or another page, word for
# word in this tree, one command after the other; their output must be what the page
# shows. A command that starts a broker (make run, bin/chronikd) goes to the
# background until it is ready; `make test` is left out where SKIP_TEST is set. A
# line … stands for any output, and … in a line for any text. The broker is on free ports: the variables that say
# so stand for the addresses that the page leaves out, and the ones that it names
# are replaced. The home directory is an empty one, for contexts and certificates.
# The broker is stopped and its data removed in the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
page="${1:-README.md}"
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

read -r one two < <(python3 scripts/free-ports.py 2)
kafka="127.0.0.1:$one" admin="127.0.0.1:$two"
# make needs the caches of the real home directory.
GOPATH="$(go env GOPATH)" GOCACHE="$(go env GOCACHE)" HOME="$work/home"
mkdir "$HOME"
export GOPATH GOCACHE HOME
export CHRONIK_LISTEN="$kafka" CHRONIK_ADMIN_LISTEN="$admin" CHRONIK_DATA_DIR="$work/data" CHRONIK_BROKERS="$kafka" CHRONIKCTL_ADMIN="$admin"
unset XDG_CONFIG_HOME

# Every command becomes work/N.cmd, the output shown below it work/N.want.
awk -v dir="$work" '
  /^```console$/ { inside = 1; next }
  /^```$/ { inside = 0 }
  inside && /^\$ / { n++; print substr($0, 3) > (dir "/" n ".cmd"); printf "" > (dir "/" n ".want"); next }
  inside { print > (dir "/" n ".want") }
' "$page"
[ -e "$work/1.cmd" ] || { echo "$page has no commands"; exit 1; }
sed -i "s/127\.0\.0\.1:9092/$kafka/g; s/localhost:9093/localhost:$one/g; s/127\.0\.0\.1:9644/$admin/g" "$work"/*.cmd "$work"/*.want

# secure init turns TLS of the admin port on.
grep -q "secure init" "$work"/*.cmd && CHRONIKCTL_ADMIN="https://$admin"
ready() { curl -fsk -o "$work/ready" "https://$admin/readyz" || curl -fs -o "$work/ready" "http://$admin/readyz"; }
start() { # start COMMAND-FILE
  setsid bash "$1" >"$work/run.log" 2>&1 &
  pid=$!
  # make run builds first: minutes in a fresh clone on a busy machine.
  for _ in $(seq 6000); do
    ready && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  ready || { echo "$page: $(cat "$1") did not start a broker:"; cat "$work/run.log"; exit 1; }
}
same() { # same WANT GOT: line by line, … is any number of lines, or any text in a line
  python3 - "$1" "$2" <<'PY'
import re, sys
want, got = (open(p, encoding="utf-8").read() for p in sys.argv[1:])
pattern = "".join("(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*") for line in want.splitlines(True))
sys.exit(re.fullmatch(pattern, got) is None)
PY
}

n=0
while n=$((n + 1)); [ -e "$work/$n.cmd" ]; do
  case "$(cat "$work/$n.cmd")" in
    "make run" | bin/chronikd | "bin/chronikd --"*)
      start "$work/$n.cmd"
      echo "$page: $(cat "$work/$n.cmd"): ready"
      continue ;;
    "make test")
      if [ -z "${SKIP_TEST:-}" ]; then bash "$work/$n.cmd" || exit 1; fi
      continue ;;
  esac
  bash "$work/$n.cmd" >"$work/got" 2>&1 || { echo "$page: $(cat "$work/$n.cmd") failed:"; cat "$work/got"; exit 1; }
  same "$work/$n.want" "$work/got" || { echo "$page: $(cat "$work/$n.cmd") prints something else than the page shows:"; diff "$work/$n.want" "$work/got"; exit 1; }
  echo "$page: $(cat "$work/$n.cmd")"
done
[ -n "$pid" ] || { echo "$page starts no broker"; exit 1; }
