# Sourced by the scripts of single clients. BOOTSTRAP, RECORDS, RUN and WORK come
# from run.sh. A script exits with 0 when all was right, with 77 when its client
# is not installed (after saying how to get it), else with another code.
set -euo pipefail
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
