#!/usr/bin/env bash
# librdkafka through confluent-kafka-python, idempotent, four partitions.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_python confluent_kafka confluent-kafka
exec "$python" "$here/confluent.py"
