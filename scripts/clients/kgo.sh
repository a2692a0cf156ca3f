#!/usr/bin/env bash
# franz-go with its defaults (idempotent, acks=all), four partitions.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec go run ./scripts/clients/kgo -brokers "$BOOTSTRAP" -records "$RECORDS" -prefix "kgo-$RUN"
