#!/usr/bin/env bash
# librdkafka through kcat: default settings make the topic by themselves; each
# codec, plain and idempotent.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v kcat >/dev/null || missing "kcat is not installed: apt-get install kcat"
records kcat >"$WORK/kcat.in"
sed 's/$/|source=kcat/' "$WORK/kcat.in" >"$WORK/kcat.want"
for codec in $codecs; do
  for idempotent in false true; do
    topic="kcat-$RUN-$codec-$idempotent"
    kcat -b "$BOOTSTRAP" -P -t "$topic" -K '|' -H source=kcat -z "$codec" -X "enable.idempotence=$idempotent" <"$WORK/kcat.in"
    kcat -b "$BOOTSTRAP" -C -t "$topic" -o beginning -e -q -f '%k|%s|%h\n' >"$WORK/kcat.got"
    same "kcat $codec idempotent=$idempotent" "$WORK/kcat.want" "$WORK/kcat.got"
  done
done
