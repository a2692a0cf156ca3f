#!/usr/bin/env bash
# chronikctl, each codec.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
ctl="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/bin/chronikctl"
[ -x "$ctl" ] || missing "bin/chronikctl is not built: make build"
export CHRONIK_BROKERS="$BOOTSTRAP"
records ctl >"$WORK/ctl.in"
sed 's/^/source=ctl\t/' "$WORK/ctl.in" >"$WORK/ctl.want"
for codec in $codecs; do
  topic="ctl-$RUN-$codec"
  "$ctl" topic create "$topic" --partitions 1 >/dev/null
  "$ctl" produce "$topic" -k '|' -H source=ctl --compression "$codec" <"$WORK/ctl.in" 2>"$WORK/ctl.err" || { cat "$WORK/ctl.err"; exit 1; }
  "$ctl" consume "$topic" -k '|' --headers >"$WORK/ctl.got"
  same "chronikctl, $codec" "$WORK/ctl.want" "$WORK/ctl.got"
  "$ctl" topic delete "$topic" --yes >/dev/null
done
