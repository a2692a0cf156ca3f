#!/usr/bin/env bash
# Consumers that join no group but keep their offsets in one.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python="$root/.cache/venv/bin/python"
[ -x "$python" ] || python=python3
"$python" -c 'import confluent_kafka, kafka' 2>/dev/null ||
  missing "a client is not installed: python3 -m venv .cache/venv && .cache/venv/bin/pip install confluent-kafka kafka-python"
exec "$python" "$here/groups/simple.py"
