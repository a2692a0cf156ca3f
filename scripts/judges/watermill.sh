#!/usr/bin/env bash
# Watermill's tests of its publisher and subscriber for Kafka, which use sarama.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
go_module github.com/ThreeDotsLabs/watermill-kafka/v3 v3.0.6
brokers 3
export WATERMILL_TEST_KAFKA_BROKERS="$BROKERS"
go_suite pkg/kafka 900
python3 "$lib/go_asked.py" "$dir/pkg/kafka" kafkaBrokers >"$work/asked"
python3 "$lib/go_results.py" "$OUT/$name.json" "$work/list" "$OUT/$name.tsv" "$work/asked"
