# Sourced by the scripts of single clients. BOOTSTRAP, RECORDS, RUN and WORK come
# from run.sh. A script exits with 0 when all was right, with 77 when its client
# is not installed (after saying how to get it), else with another code.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
codecs="none gzip snappy lz4 zstd"

# records PREFIX   writes RECORDS lines KEY|VALUE, every one different.
records() {
  awk -v n="$RECORDS" -v p="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%s-key-%d|%s value number %d of %d\n", p, i % 997, p, i, n }'
}

missing() { echo "$*"; exit 77; }

# python is the interpreter that has confluent-kafka and kafka-python.
python="$root/.cache/venv/bin/python"
[ -x "$python" ] || python=python3
# need_python MODULE PACKAGE   MODULE is an expression that only the installed package can import.
need_python() {
  "$python" -c "import $1" 2>/dev/null ||
    missing "$2 is not installed: python3 -m venv .cache/venv && .cache/venv/bin/pip install $2"
}

# need_kafka   checks that kt, Kafka's own tools and clients, can run in the version KAFKA_VERSION.
kt="$root/scripts/kafka/kt"
need_kafka() {
  local said
  said="$("$kt" --classpath 2>&1 >/dev/null)" || missing "Kafka's own tools and clients can't run: $said"
}

# need_kafkajs   lets node find kafkajs.
need_kafkajs() {
  local version=2.2.4
  command -v node >/dev/null || missing "node is not installed"
  export NODE_PATH="$root/.cache/kafkajs-$version/node_modules"
  [ ! -d "$NODE_PATH/kafkajs" ] || return 0
  command -v npm >/dev/null || missing "kafkajs is not there and npm is not installed"
  npm install --silent --prefix "${NODE_PATH%/node_modules}" "kafkajs@$version" >"$WORK/npm.log" 2>&1 ||
    { tail -5 "$WORK/npm.log"; missing "kafkajs $version could not be installed: does this machine reach a registry?"; }
}

# need_sarama NAME SOURCE [MODULE@VERSION...]   builds a program in a module of its own under .cache,
# and sets program.
need_sarama() {
  local version=v1.61.1 dir
  dir="$root/.cache/$1-$version"
  program="$dir/$1"
  mkdir -p "$dir"
  grep -v '^//go:build ignore$' "$2" >"$WORK/$1.go"
  if cmp -s "$WORK/$1.go" "$dir/main.go" && [ -x "$program" ]; then return 0; fi
  cp "$WORK/$1.go" "$dir/main.go"
  (
    cd "$dir"
    [ -f go.mod ] || go mod init "$1"
    GOFLAGS=-mod=mod go get "github.com/IBM/sarama@$version" "${@:3}"
    GOFLAGS=-mod=mod go build -o "$1" .
  ) >"$WORK/$1.log" 2>&1 || { tail -5 "$WORK/$1.log"; rm -rf "$dir"; missing "sarama $version could not be built: does this machine reach a Go module proxy?"; }
}

# same WHAT WANT GOT   compares two files byte for byte.
same() {
  if cmp -s "$2" "$3"; then return 0; fi
  echo "$1: what was read is not what was written ($(wc -l <"$2") lines written, $(wc -l <"$3") read):"
  diff "$2" "$3" | head -5
  exit 1
}

# restarts   prints how many brokers were restarted so far.
restarts() { grep -cs '^restarted' "$WORK/restarts" || true; }

# round_done BEFORE   reports whether, with RESTARTS=1, each broker was stopped and killed since there
# were BEFORE restarts. Without it there is nothing to wait for.
round_done() { [ -z "${RESTARTS:-}" ] || [ "$(restarts)" -ge $(($1 + 6)) ]; }

# group_of NAME VARIANT... -- PROGRAM [ARG...]   takes PROGRAM, a consumer as in
# groups/events.go, through the life of a group, once per VARIANT (flags of
# ./groups) and all at once: most of their time is waiting. Each has a broker, or NODES=3, of
# its own, which are killed; BOOTSTRAP is not used.
group_of() {
  local name="$1" variants=() pids=() i failed=0
  shift
  while [ "$1" != -- ]; do variants+=("$1"); shift; done
  shift
  local dir="$WORK/$name"
  mkdir -p "$dir"
  (cd "$root" && go build -o "$dir/groups" ./scripts/clients/groups)
  for i in "${!variants[@]}"; do
    mkdir -p "$dir/$i"
    # shellcheck disable=SC2086 # a variant is several flags
    "$dir/groups" -chronikd "$root/bin/chronikd" -nodes "${NODES:-1}" -dir "$dir/$i" ${variants[i]} -- "$@" >"$dir/$i/out" 2>&1 &
    pids+=($!)
  done
  for i in "${!variants[@]}"; do
    if wait "${pids[i]}"; then
      echo "$name ${variants[i]:-as it comes}: $(tail -1 "$dir/$i/out")"
    else
      failed=1
      echo "FAIL $name ${variants[i]:-as it comes}:"
      cat "$dir/$i/out"
    fi
  done
  return $failed
}
