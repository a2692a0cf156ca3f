# Sourced by judges. ROOT, CHRONIKD, CHRONIKCTL, OUT and CASES come from run.sh, and the working directory
# is empty.
#
# BROKERS=HOST:PORT,...   the brokers to judge, which run already, such as Kafka's; without it a judge
#                         starts chronikd on the loopback interface.
set -uo pipefail
lib="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
name="$(basename "$0" .sh)"
cache="$ROOT/.cache/judges"
work="$PWD"
mkdir -p "$cache"

# runs PID   reports whether a process has not ended.
runs() { [ -e "/proc/$1/stat" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }

pids=()
# stop   ends what start and brokers have started, and what a suite has restarted (whose process ids are in
# pids/), and waits for it. What does not end within a minute is killed.
stop() {
  local pid file
  trap - EXIT
  for file in "$work"/pids/*; do
    [[ $file == *.args || ! -e $file ]] || pids+=("$(cat "$file")")
  done
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null; done
  for pid in "${pids[@]}"; do
    for _ in $(seq 600); do
      runs "$pid" || continue 2
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
  done
  pids=()
}
trap stop EXIT
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM

# missing TEXT   ends the judge: something that it needs is not installed.
missing() { echo "$name: $*" >&2; exit 77; }
# broken TEXT [FILE]   ends the judge: it cannot judge. Shows the end of FILE.
broken() {
  echo "$name: $1" >&2
  [ -z "${2:-}" ] || tail -n 15 "$2" >&2
  exit 1
}
# need PROGRAM...   ends the judge if a program is not installed.
need() {
  local program
  for program; do command -v "$program" >/dev/null || missing "$program is not installed"; done
}

# start LOG COMMAND...   starts a process that ends with the judge.
start() {
  local log="$1"
  shift
  "$@" >"$log" 2>&1 </dev/null &
  pids+=($!)
}

# bounded SECONDS COMMAND...   runs a command with a time limit, and ends it and what it started if the judge is ended
# meanwhile. Further limits below it need timeout --foreground.
bounded() {
  local child
  timeout -k 10 "$@" &
  child=$!
  pids+=("$child")
  wait "$child"
}

# within SECONDS WHAT COMMAND...   waits until COMMAND succeeds; ends the judge after SECONDS.
within() {
  local end=$((SECONDS + $1)) what="$2"
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || broken "$what did not happen in time"
    sleep 0.2
  done
}

# ports N   prints N free ports in a row.
ports() { python3 "$ROOT/scripts/free-ports.py" "$1"; }

# brokers N [FLAG...]   starts N brokers that form a cluster and sets BROKERS, unless it is set.
brokers() {
  if [ -n "${BROKERS:-}" ]; then export BROKERS; return 0; fi
  cluster broker "$@"
}

# ready NAME ADMIN   waits until the broker NAME with the admin port ADMIN is ready.
ready() {
  local pid
  pid="$(cat "$work/pids/$1")"
  for _ in $(seq 600); do
    ! curl -fsS --max-time 5 "http://$2/readyz" >/dev/null 2>&1 || return 0
    runs "$pid" || broken "$1 has ended" "$OUT/$1.log"
    sleep 0.1
  done
  broken "$1 did not become ready" "$OUT/$1.log"
}

# again OLD NEW   stops all brokers, and starts them again with the argument NEW in place of OLD.
again() {
  local file pid args i
  for file in "$work"/pids/*; do
    pid="$(cat "$file")"
    cp "/proc/$pid/cmdline" "$work/again-${file##*/}"
    kill -TERM "$pid"
  done
  for file in "$work"/pids/*; do
    pid="$(cat "$file")"
    for _ in $(seq 600); do
      runs "$pid" || break
      sleep 0.1
    done
    mapfile -d '' -t args <"$work/again-${file##*/}"
    for i in "${!args[@]}"; do [ "${args[i]}" != "$1" ] || args[i]="$2"; done
    start "$OUT/${file##*/}.again.log" env -u CHRONIK_PORT -u CHRONIK_ADMIN_PORT -u CHRONIK_CLUSTER "${args[@]}"
    echo "${pids[-1]}" >"$file"
  done
  for file in "$work"/pids/*; do
    ready "${file##*/}" "$(tr '\0' '\n' <"$work/again-${file##*/}" | grep -A 1 -x -- --admin-listen | tail -n 1)"
  done
}

# cluster NAME N [FLAG...]   starts N brokers that form a cluster, with directories NAME1, NAME2, … below the working
# directory, and sets BROKERS. With PROXIED=PORT each has a second listener: broker i listens on
# 127.0.0.1:(listener[i-1]) there and advertises 127.0.0.1:(PORT+i-1), where a proxy must listen.
cluster() {
  local prefix="$1" n="$2" i all seeds=() list
  shift 2
  read -ra all < <(ports $((3 * n)))
  for i in $(seq 0 $((n - 1))); do seeds+=("127.0.0.1:${all[i]}"); done
  list="$(IFS=,; echo "${seeds[*]}")"
  listener=("${all[@]:2*n:n}")
  (umask 077 && head -c 32 /dev/urandom | base64 >"$work/$prefix.secret")
  for i in $(seq 0 $((n - 1))); do
    local flags=("$@") broker="$prefix$((i + 1))"
    [ "$n" = 1 ] || flags+=(--set cluster.name="$prefix" --set node.id=$((i + 1)) --set cluster.seeds="$list"
      --set cluster.secret.file="$work/$prefix.secret")
    if [ -n "${PROXIED:-}" ]; then
      printf 'listeners:\n- name: default\n- {name: proxied, listen: "127.0.0.1:%d", advertise: "127.0.0.1:%d"}\n' \
        "${listener[i]}" $((PROXIED + i)) >"$work/$broker.yaml"
      flags+=(--config "$work/$broker.yaml" --set broker.rack=$((i + 1)))
    fi
    start "$OUT/$broker.log" env -u CHRONIK_PORT -u CHRONIK_ADMIN_PORT -u CHRONIK_CLUSTER "$CHRONIKD" \
      --data-dir "$work/$broker" --listen "${seeds[i]}" --advertise "${seeds[i]}" --admin-listen "127.0.0.1:${all[n + i]}" "${flags[@]}"
    mkdir -p "$work/pids"
    echo "${pids[-1]}" >"$work/pids/$broker"
  done
  for i in $(seq 0 $((n - 1))); do ready "$prefix$((i + 1))" "127.0.0.1:${all[n + i]}"; done
  export BROKERS="$list"
}

# result CASE RESULT [REASON]   adds a line to the results.
result() { printf '%s\t%s\t%s\n' "$1" "$2" "${3:-}" >>"$OUT/$name.tsv"; }

# attempt CASE SECONDS COMMAND...   runs a command with a time limit, as a case that passes if it exits
# with 0. Its last line that is not empty is the reason if it does not.
attempt() {
  local case="$1" limit="$2" rc log
  shift 2
  if [ -n "$CASES" ] && ! grep -qE -- "$CASES" <<<"$case"; then return 0; fi
  log="$OUT/$case.log"
  rc=0
  bounded "$limit" "$@" >"$log" 2>&1 </dev/null || rc=$?
  case $rc in
    0) result "$case" pass;;
    124 | 137) result "$case" fail "did not end within $limit s";;
    *) result "$case" fail "$(grep -v '^ *$' "$log" | tail -n 1 | tr '\t' ' ' | cut -c 1-300)";;
  esac
}

# check CASE COMMAND...   as attempt, for a function of the judge that limits its own time.
check() {
  local case="$1"
  shift
  if [ -n "$CASES" ] && ! grep -qE -- "$CASES" <<<"$case"; then return 0; fi
  if "$@" >"$OUT/$case.log" 2>&1; then result "$case" pass; else result "$case" fail "$(tail -n 1 "$OUT/$case.log" | cut -c 1-300)"; fi
}

# upto SECONDS COMMAND...   waits until COMMAND succeeds; fails after SECONDS.
upto() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    if [ $SECONDS -ge $end ]; then echo "not within the time: $*"; return 1; fi
    sleep 1
  done
}

# go_module MODULE VERSION   sets dir to the sources of a Go module.
go_module() {
  need go
  dir="$(cd "$work" && GOFLAGS=-mod=mod go mod download -json "$1@$2" 2>"$work/download.log" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"
  [ -d "$dir" ] || { tail -n 3 "$work/download.log" >&2; missing "$1 $2 could not be downloaded: does this machine reach a Go module proxy?"; }
}

# go_suite PACKAGE SECONDS FLAG...   builds the tests of a package of the module in dir, and runs them with the flags of
# go test (-tags goes to the build). SECONDS bounds the whole run.
go_suite() {
  local package="$1" limit="$2" tags=() flags=()
  shift 2
  while [ $# -gt 0 ]; do
    case $1 in
      -tags) tags=(-tags "$2"); shift 2;;
      *) flags+=("$1"); shift;;
    esac
  done
  (cd "$dir" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off go test -c "${tags[@]}" -o "$work/suite.test" "./$package") >"$work/build.log" 2>&1 ||
    broken "the suite does not build" "$work/build.log"
  [ -z "$CASES" ] || flags+=("-test.run=$CASES")
  # The tests run in the directory of their package, as with go test.
  cd "$dir/$package" || exit 1
  bounded $((limit + 30)) go tool test2json -t "$work/suite.test" -test.v=test2json -test.timeout "${limit}s" "${flags[@]}" \
    >"$OUT/$name.json" 2>"$OUT/$name.err" </dev/null
  cd "$work" || exit 1
  (cd "$dir/$package" && "$work/suite.test" -test.list "${CASES:-.}" </dev/null 2>/dev/null) | grep '^Test' >"$work/list"
}
