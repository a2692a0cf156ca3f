#!/usr/bin/env bash
# Consumers that join no group but keep their offsets in one.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_python 'confluent_kafka, kafka' 'confluent-kafka kafka-python'
exec "$python" "$here/groups/simple.py"
