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
