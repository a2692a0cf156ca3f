#!/usr/bin/env bash
# Groups of librdkafka consumers, through confluent-kafka-python.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python="$root/.cache/venv/bin/python"
[ -x "$python" ] || python=python3
"$python" -c 'import confluent_kafka' 2>/dev/null ||
  missing "confluent-kafka is not installed: python3 -m venv .cache/venv && .cache/venv/bin/pip install confluent-kafka"
variants=("-protocol classic" "-protocol consumer")
[ -n "${QUICK:-}" ] || variants+=("-static" "-static -protocol consumer" "-regex" "-regex -protocol consumer" "-protocol mixed"
  "-assignor cooperative-sticky" "-assignor range -protocol consumer")
group_of confluent "${variants[@]}" -- "$python" "$here/groups/confluent.py"
