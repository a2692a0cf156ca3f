#!/usr/bin/env bash
# rivals.sh [RIVAL...]   brokers that promise what chronik promises, under the same loads and the same losses
#                        of power. docs/rivals.md has the results.
#
# RIVAL: chronik kafka kafka-flush nats nats-default klite (default: those that can be had), and tansu, which
#        takes half an hour to build on two processors; with TANSU=FILE it is one of the default.
# PARTS="speed power"   loads, in turns with chronik; losses of power under load.
# ROUNDS=3 TIME=4s      counted rounds of each comparison, measured time of each run.
# CUTS=5 RATE=4000      losses of power of each broker; records per second meanwhile.
# KAFKA_VERSION=4.4.0   the version of Kafka (that in scripts/kafka/pom.xml); it needs Java and Maven.
# NATS=FILE KLITE=FILE TANSU=FILE   the programs. NATS and tansu are built without them, at the versions below.
#
# In the part power, each broker has its data on scripts/rivals/powerfs: what no sync covered is lost. That
# needs root and /dev/fuse.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
nats_version=v2.15.3 tansu_version=0.6.0
bench="$root/bin/chronik-bench" chronikd="${CHRONIKD:-$root/bin/chronikd}" cache="$root/.cache/rivals"
rounds="${ROUNDS:-3}" time="${TIME:-4s}" cuts="${CUTS:-5}" rate="${RATE:-4000}"
work="$(mktemp -d "${TMPDIR:-/tmp}/chronik-rivals.XXXXXX")"
mkdir -p "$cache"
export GOBIN="$cache" PEER_CACHE="$work"

pid='' addr='' power='' own='' own_addr=''
# gone PID   reports whether a process has ended.
gone() { ! grep -q '^State:.[^Z]' "/proc/$1/status" 2>/dev/null; }
end() { # PID: and waits
  [ -n "$1" ] || return 0
  kill -TERM "$1" 2>/dev/null
  for _ in $(seq 300); do
    gone "$1" && return
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null
}
finish() {
  trap - EXIT
  end "$pid"
  end "$own"
  end "$power"
  umount -l "$work/disk" 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '%s\n' "$@"; }
answers() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
ready() { # PORT LOG: waits until the broker takes connections
  for _ in $(seq 1200); do
    answers "$1" && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  say "rivals: the broker did not start:"
  tail -n 20 "$2"
  return 1
}

# have NAME   builds a rival's program if it is not there; fails with a line if that can't be done.
have() {
  case $1 in
    chronik) ;;
    kafka*) "$root/scripts/kafka/kt" --classpath >/dev/null || { say "$1 cannot be started"; return 1; } ;;
    nats*)
      NATS="${NATS:-$cache/nats-server}"
      [ -x "$NATS" ] || CGO_ENABLED=0 go install "github.com/nats-io/nats-server/v2@$nats_version" || return 1
      [ -x "$cache/jetstream" ] || (cd "$root/scripts/rivals" && go install ./jetstream) ;;
    klite) [ -x "${KLITE:-}" ] || { say "klite: set KLITE to its program (go build ./cmd/klite in its repository)"; return 1; } ;;
    tansu)
      TANSU="${TANSU:-$cache/bin/tansu}"
      [ -x "$TANSU" ] || cargo install --root "$cache" --version "$tansu_version" --features libsql tansu || return 1 ;;
    *) say "rivals: unknown rival $1"; return 1 ;;
  esac
}

# begin NAME DIR PORT   starts a broker and waits until it answers; sets pid and addr.
begin() {
  local name="$1" dir="$2" port="$3" log="$work/$1.log" up
  mkdir -p "$dir"
  addr="127.0.0.1:$port"
  case $name in
    chronik) "$chronikd" --data-dir "$dir" --listen "$addr" --admin-listen off >"$log" 2>&1 & ;;
    kafka | kafka-flush)
      up=(--port "$port" --dir "$dir")
      [ "$name" = kafka ] || up+=(-c log.flush.interval.messages=1)
      "$root/scripts/kafka/up" "${up[@]}" >"$log" 2>&1 || { cat "$log"; return 1; }
      pid="$(cat "$dir/node1/pid")"
      return 0 ;;
    nats | nats-default)
      # Its default writes to the page cache and syncs every two minutes.
      printf 'listen: "%s"\njetstream { store_dir: "%s"\n%s\nmax_file_store: 60GB }\n' "$addr" "$dir" \
        "$([ "$name" = nats ] && echo 'sync_interval: always')" >"$work/$name.conf"
      "$NATS" -c "$work/$name.conf" >"$log" 2>&1 & ;;
    klite) "$KLITE" --listen "$addr" --advertised-addr "$addr" --data-dir "$dir" --wal-max-disk-size 10737418240 >"$log" 2>&1 & ;;
    tansu) # its database is found relative to the working directory
      (cd "$dir" && exec "$TANSU" --cluster-id rivals --listener-url "tcp://$addr" --advertised-listener-url "tcp://$addr" \
        --storage-engine sqlite://tansu.db) >"$log" 2>&1 & ;;
  esac
  pid=$!
  ready "$port" "$log"
}

table() { grep -vE '^(discarded )?round |^$'; }
# field NAME...   these figures of the last flow of a run's JSON, or of jetstream's.
field() {
  python3 -c 'import json, sys
run = json.loads(sys.stdin.read().strip().splitlines()[-1] if sys.argv[1] == "line" else sys.stdin.read())
flow = run["flows"][-1] if "flows" in run else run
figures = {**flow, **flow.get("latency", {})}
print(*("%.0f" % figures[name] for name in sys.argv[2:]))' "$@"
}
topic() { echo "rivals-$$-$RANDOM"; }

speed() { # NAME PORT
  local name="$1" load round
  begin "$name" "$work/$name" "$2" || return
  say "" "## $name, speed: $(version "$name")"
  case $name in
    nats*)
      for load in "-c 128" "-c 1"; do
        for round in 0 $(seq "$rounds"); do
          # shellcheck disable=SC2086 # several words
          sync # as chronik-bench compare does
          say "$load chronik: $("$bench" --bootstrap-servers "$own_addr" --create-topic --topic "$(topic)" --admin off $load -s 256 -d "$time" --warmup 2s --json |
            field all records_per_second p50_us p99_us p99_9_us) records/s, p50, p99, p99.9 in us" "$load $name: $("$cache/jetstream" -server "nats://$addr" $load -s 256 -d "$time" -warmup 2s |
            field line records_per_second p50_us p99_us p99_9_us) records/s, p50, p99, p99.9 in us"
        done
      done ;;
    *)
      for load in "-c 128 -s 256" "-c 1 -s 256" "--batched -s 1024"; do
        say "" "$load"
        # shellcheck disable=SC2086 # several words
        "$bench" compare --a "$own_addr" --name-a chronik --pid-a "$own" --b "$addr" --name-b "$name" --pid-b "$pid" --admin off \
          --rounds "$rounds" --discard 1 --create-topic --topic "$(topic)" -d "$time" --warmup 2s $load 2>&1 | table
      done ;;
  esac
  end "$pid"
  pid=''
  rm -rf "${work:?}/$name"
}

version() {
  case $1 in
    nats*) "$NATS" --version ;;
    klite) "$KLITE" --version ;;
    tansu) "$TANSU" --version ;;
    chronik) "$chronikd" --version | head -n 1 ;;
    *) "$root/scripts/kafka/kt" --version ;;
  esac
}

# losses NAME PORT   the load runs on while the power is lost and the broker starts again. In the end, every record
# that was acknowledged must be there.
losses() {
  local name="$1" port="$2" cut load control disk="$work/disk" seconds=10s
  [[ $name != kafka* ]] || seconds=60s # it takes longer to start
  mkdir -p "$disk"
  rm -f "$work/powerfs"
  "$cache/powerfs" "$disk" >"$work/powerfs" 2>"$work/powerfs.log" &
  power=$!
  until [ -s "$work/powerfs" ]; do kill -0 "$power" || { cat "$work/powerfs.log"; return 1; }; sleep 0.05; done
  control="http://$(cat "$work/powerfs")"
  say "" "## $name, losses of power: $(version "$name")"
  begin "$name" "$disk/data" "$port" || return
  for cut in $(seq "$cuts"); do
    case $name in
      nats*) "$cache/jetstream" -server "nats://$addr" -c 16 -s 256 -rate "$rate" -d "$seconds" -warmup 0s -verify >"$work/load" 2>"$work/load.log" & ;;
      *) "$bench" --bootstrap-servers "$addr" --create-topic --topic "power-$cut" --admin off -c 16 -s 256 --rate "$rate" -d "$seconds" --warmup 0s --verify --json \
        >"$work/load" 2>"$work/load.log" & ;;
    esac
    load=$!
    # What is older than a few seconds is on the disk anyway, as with a kernel that writes back.
    sleep 2
    curl -fsS --max-time 20 -X POST "$control/writeback" || return
    sleep "$((1 + RANDOM % 3)).$((RANDOM % 10))"
    curl -fsS --max-time 20 -X POST "$control/cut" || return
    disown "$pid" 2>/dev/null # or the shell would report that it was killed
    kill -KILL "$pid"
    until gone "$pid"; do sleep 0.05; done
    say "cut $cut: $(curl -fsS --max-time 60 -X POST "$control/restore")"
    if ! begin "$name" "$disk/data" "$port"; then
      kill -TERM "$load"
      wait "$load"
      break
    fi
    wait "$load"
    grep -v "was created and remains" "$work/load.log" | tail -n 2
    python3 - "$work/load" <<'PY'
import json, sys
text = open(sys.argv[1]).read()
try:
    run = json.loads(text)
except ValueError:
    run = json.loads(text.strip().splitlines()[-1]) if text.strip() else {}
v = run.get("verify") or run
print("  acknowledged %s, lost %s" % (v.get("acknowledged"), v.get("lost", v.get("missing"))))
PY
  done
  end "$pid"
  end "$power"
  umount -l "$disk" 2>/dev/null # if powerfs was killed, because the broker did not end
  pid='' power=''
}

(cd "$root/scripts/rivals" && CGO_ENABLED=0 go install ./powerfs) || exit 1
ports=($(python3 "$root/scripts/free-ports.py" 12)) || exit 1
rivals=()
for name in "${@:-chronik kafka kafka-flush nats nats-default klite ${TANSU:+tansu}}"; do
  for one in $name; do have "$one" && rivals+=("$one"); done
done
say "machine: $(nproc) CPUs, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $(date -u +%F)"
if [[ " ${PARTS:-speed power} " = *" speed "* ]]; then
  for name in "${rivals[@]}"; do
    [ "$name" != chronik ] || continue
    begin chronik "$work/chronik" "${ports[0]}" || exit 1
    own="$pid" own_addr="$addr" pid=''
    speed "$name" "${ports[4]}"
    end "$own"
    own=''
    rm -rf "$work/chronik" # the loads of all rivals together would fill the disk
  done
fi
if [[ " ${PARTS:-speed power} " = *" power "* ]]; then
  for name in "${rivals[@]}"; do losses "$name" "${ports[4]}"; done
fi
