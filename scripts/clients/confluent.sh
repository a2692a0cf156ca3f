#!/usr/bin/env bash
# librdkafka through confluent-kafka-python, idempotent, four partitions.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="$here/../../.cache/venv/bin/python"
[ -x "$python" ] || python=python3
"$python" -c 'import confluent_kafka' 2>/dev/null ||
  missing "confluent-kafka is not installed: python3 -m venv .cache/venv && .cache/venv/bin/pip install confluent-kafka"
exec "$python" "$here/confluent.py"
