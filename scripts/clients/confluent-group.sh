#!/usr/bin/env bash
# Groups of librdkafka consumers, through confluent-kafka-python.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_python confluent_kafka confluent-kafka
variants=("-protocol classic" "-protocol consumer")
[ -n "${QUICK:-}" ] || variants+=("-static" "-static -protocol consumer" "-regex" "-regex -protocol consumer" "-protocol mixed"
  "-assignor cooperative-sticky" "-assignor range -protocol consumer")
group_of confluent "${variants[@]}" -- "$python" "$here/groups/confluent.py"
