#!/usr/bin/env bash
# readme.sh [PAGE...]   runs the console blocks of README.md, or other pages, word for word in this
# tree, one command after the other; their output must be what the page shows. A command that starts
# a broker (make run, bin/chronikd) goes to the background until it is ready; `make test` is left out
# where SKIP_TEST is set. A line … stands for any output, and … in a line for any text. Brokers are on
# free ports: the variables that say so stand for the addresses that the page leaves out, and the ones
# that it names are replaced. The home directory is an empty one, for contexts and certificates.
# The brokers are stopped and their data removed in the end.
#
# A page that starts its brokers by `ssh broker-N systemctl start chronikd` gets up to five on this
# machine, with the configuration that its first YAML block shows: broker-N.example.com is one of
# them, /etc/chronik/chronikd.yaml and /var/lib/chronik are its files. After the blocks of such a
# page, the commands in its text, and those of the pages after it, are tried as well. These need not
# succeed, but must be commands that are known and answered. With NODES=3, `secure init` makes three
# brokers in the place of one, and all of them are started.
#
# A page that downloads a release gets it from the directory RELEASES, which has FROM and TO, two
# versions, as v0.1.0 and v0.1.1 of the page; its archives are of this processor. Such a page starts in
# the home directory, a cd lasts, and the processes whose ids it writes to files are stopped in the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
root="$PWD"
[ $# -gt 0 ] || set -- README.md
page="$1"
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-readme.XXXXXX")"
pids=()
stop() { # stop PID: and its group
  # make runs the broker as its child; both are in the group that setsid made.
  kill -TERM -- "-$1" 2>/dev/null
  # The shell goes at once, the broker when it has drained.
  for _ in $(seq 600); do kill -0 -- "-$1" 2>/dev/null || kill -0 "$1" 2>/dev/null || return; sleep 0.05; done
}
finish() {
  local n
  for n in "$work"/*.pid "$HOME"/*/*.pid; do [ ! -e "$n" ] || pids+=("$(cat "$n")"); done
  for n in "${pids[@]}"; do kill -TERM -- "-$n" 2>/dev/null || kill -TERM "$n" 2>/dev/null; done
  for n in "${pids[@]}"; do stop "$n"; done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

read -r -a ports < <(python3 scripts/free-ports.py 20)
kafka="127.0.0.1:${ports[0]}" admin="127.0.0.1:${ports[1]}"
# make needs the caches of the real home directory.
GOPATH="$(go env GOPATH)" GOCACHE="$(go env GOCACHE)" HOME="$work/home"
mkdir "$HOME" "$work/bin"
export GOPATH GOCACHE HOME
export CHRONIK_LISTEN="$kafka" CHRONIK_ADMIN_LISTEN="$admin" CHRONIK_DATA_DIR="$work/data" CHRONIK_BROKERS="$kafka" CHRONIKCTL_ADMIN="$admin"
unset XDG_CONFIG_HOME

# Every command becomes work/N.cmd, the output shown below it work/N.want.
awk -v dir="$work" '
  /^```console$/ { inside = 1; next }
  /^```$/ { inside = 0 }
  inside && more { cmd = cmd "\n" $0 }
  inside && /^\$ / { n++; cmd = substr($0, 3); printf "" > (dir "/" n ".want") }
  inside && (/^\$ / || more) { more = /\\$|&&$/; if (!more) print cmd > (dir "/" n ".cmd"); next }
  inside { print > (dir "/" n ".want") }
' "$page"
[ -e "$work/1.cmd" ] || { echo "$page has no commands"; exit 1; }
sed -i "s/127\.0\.0\.1:9092/$kafka/g; s/localhost:9093/localhost:${ports[0]}/g; s/127\.0\.0\.1:9644/$admin/g" "$work"/*.cmd "$work"/*.want

# secure init turns TLS of the admin port on.
grep -q "secure init" "$work"/*.cmd && CHRONIKCTL_ADMIN="https://$admin"
if [ "${NODES:-1}" = 3 ]; then
  unset CHRONIK_LISTEN CHRONIK_ADMIN_LISTEN CHRONIK_DATA_DIR CHRONIK_BROKERS CHRONIKCTL_ADMIN
  sed -i "s|--advertise localhost:${ports[0]}|--nodes localhost:${ports[0]},localhost:${ports[3]},localhost:${ports[6]}|
    s|~/chronik/chronikd.yaml|~/chronik/node-1/chronikd.yaml|" "$work"/*.cmd
  # There are three replicas and certificates, and no admin port that knows the super users.
  sed -i 's|^\(orders  *1  *\)1$|\13|; s|^renewed .*|…|; s|a rule denies it$|&…|; s|no rule allows it$|&…|' "$work"/*.want
fi
at="$root"
export work
if grep -q /releases/download/ "$work"/*.cmd; then
  : "${RELEASES:?names the directory with the releases FROM and TO}" "${FROM:?}" "${TO:?}"
  unset CHRONIK_LISTEN CHRONIK_ADMIN_LISTEN CHRONIK_DATA_DIR CHRONIKCTL_ADMIN
  at="$HOME"
  sed -i "s/0\.1\.0/$FROM/g; s/0\.1\.1/$TO/g; s/linux-amd64/linux-$(go env GOARCH)/g
    s/localhost:9096/localhost:${ports[3]}/g; s/localhost:9099/localhost:${ports[6]}/g" "$work"/*.cmd "$work"/*.want
  cat >"$work/bin/curl" <<'SH'
#!/usr/bin/env bash
# curl of a release: from files.
exec "$curl" "${@//https:\/\/github.com\/chronik-io\/chronik\/releases\/download\/v/file://$RELEASES/}"
SH
  chmod +x "$work/bin/curl"
  curl="$(command -v curl)"
  export curl RELEASES PATH="$work/bin:$PATH"
fi
if grep -q "ssh broker-" "$work"/*.cmd; then
  unset CHRONIK_LISTEN CHRONIK_ADMIN_LISTEN CHRONIK_DATA_DIR CHRONIK_BROKERS CHRONIKCTL_ADMIN
  replace=''
  for n in 1 2 3 4 5; do replace="$replace; s/broker-$n\.example\.com:9092/127.0.0.1:${ports[2 * n - 2]}/g"; done
  sed -i "$replace" "$work"/*.cmd "$work"/*.want
  for n in 1 2 3 4 5; do
    awk '/^```yaml$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$page" | sed "s/^\(node.id: \).*/\1$n/
      s/^\(advertise: \).*/\1\"broker-$n.example.com:9092\"/; s/^\(listen: \).*/\1\"127.0.0.1:${ports[2 * n - 2]}\"/
      s|/var/lib/chronik|$work/var/$n| $replace" >"$work/$n.yaml"
    echo "admin.listen: \"127.0.0.1:${ports[2 * n - 1]}\"" >>"$work/$n.yaml"
  done
  mkdir "$work/backup" "$work/var"
  cat >"$work/bin/ssh" <<'SH'
#!/usr/bin/env bash
# ssh broker-N COMMAND...: runs it for a broker of this machine.
set -euo pipefail
n="${1#broker-}"
shift
export CHRONIKCTL_ADMIN="$(sed -n 's/^admin.listen: "\(.*\)"/\1/p' "$work/$n.yaml")"
systemctl() { # systemctl start|stop|restart chronikd: until the broker is ready or gone
  if [ "$1" != start ]; then
    kill -TERM -- "-$(cat "$work/$n.pid")"
    for _ in $(seq 2400); do kill -0 -- "-$(cat "$work/$n.pid")" 2>/dev/null || break; sleep 0.05; done
    rm "$work/$n.pid"
  fi
  [ "$1" != stop ] || return 0
  setsid chronikd --config "$work/$n.yaml" >>"$work/$n.log" 2>&1 &
  echo $! >"$work/$n.pid"
  for _ in $(seq 2400); do
    ! chronikd health --admin-listen "$CHRONIKCTL_ADMIN" >/dev/null 2>&1 || return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.05
  done
  tail -3 "$work/$n.log"
  return 1
}
runuser() { # runuser -u USER -- COMMAND...: here, brokers run as the user who runs the page
  shift 3
  "$@"
}
eval "$(sed "s|/etc/chronik/chronikd.yaml|$work/$n.yaml|g; s|/var/lib/chronik|$work/var/$n|g; s|/backup|$work/backup|g" <<<"$*")"
SH
  chmod +x "$work/bin/ssh"
  export PATH="$work/bin:$root/bin:$PATH"
fi
ready() { curl -fsk -o "$work/ready" "https://$admin/readyz" || curl -fs -o "$work/ready" "http://$admin/readyz"; }
start() { # start COMMAND-FILE
  local i
  setsid bash "$1" >"$work/run.log" 2>&1 &
  pids+=($!)
  if [ "${NODES:-1}" = 3 ]; then
    for i in 2 3; do sed "s/node-1/node-$i/" "$1" >"$work/$i.start"; setsid bash "$work/$i.start" >"$work/run-$i.log" 2>&1 & pids+=($!); done
    bin/chronikctl --context secured cluster health --wait 2m >"$work/run.log" 2>&1 && return
    echo "$page: three brokers are not healthy:"
    cat "$work/run.log"
    exit 1
  fi
  # make run builds first: minutes in a fresh clone on a busy machine.
  for _ in $(seq 6000); do
    ready && break
    kill -0 "${pids[0]}" 2>/dev/null || break
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

run() { # run COMMAND-FILE: where the command before it ended
  local rc=0
  (
    cd "$at" || exit
    if [ -n "${FROM:-}" ] && grep -q -e --context "$1"; then unset CHRONIK_BROKERS; fi
    bash -c 'trap "pwd >\"$work/at\"" EXIT; . "$1"' bash "$1"
  ) || rc=$?
  at="$(cat "$work/at")"
  return "$rc"
}

n=0 since=$SECONDS
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
  tries=$((${NODES:-1} == 3 ? 10 : 1)) # what one of three brokers has changed takes effect on the others within a second
  until run "$work/$n.cmd" >"$work/got" 2>&1 && same "$work/$n.want" "$work/got"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { echo "$page: $(cat "$work/$n.cmd") fails, or prints something else than the page shows:"; diff "$work/$n.want" "$work/got"; exit 1; }
    sleep 0.3
  done
  echo "$page: $(cat "$work/$n.cmd")${RELEASES:+  ($((SECONDS - since)) s)}" && since=$SECONDS
done
if ! grep -q "ssh broker-" "$work"/*.cmd; then
  [ ${#pids[@]} != 0 ] || [ "$at" != "$root" ] || { echo "$page starts no broker"; exit 1; }
  exit
fi

# Commands in the text name what these have.
chronikctl topic create TOPIC >"$work/got" && printf 'one\n' | chronikctl produce TOPIC >"$work/got" || exit 1
chronikctl consume TOPIC --group GROUP --count 1 >"$work/got" || exit 1
for page in "$@"; do
  while read -r line; do
    code=0
    CHRONIKCTL_ADMIN="127.0.0.1:${ports[1]}" timeout 60 bash -c "$line" </dev/null >"$work/got" 2>&1 || code=$?
    # A command that the text names without its arguments exists, with these flags, if it has help.
    [ "$code" != 2 ] || ! bash -c "$line --help" >/dev/null 2>&1 || code=0
    case "$code" in
      0 | 1 | 4 | 5) echo "$page: $line: exit code $code" ;; # refused, a finding, not confirmed
      *) echo "$page: $line: exit code $code:"; cat "$work/got"; exit 1 ;;
    esac
  done < <(tr '\n' ' ' <"$page" | grep -oE '`chronikctl [^`…]*`' | tr -d '`' | sort -u)
done
