#!/usr/bin/env bash
# rdkafka's tests: Rust's client that uses librdkafka.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
. "$lib/cargo.sh"
crate rdkafka 0.39.0
cargo_build "test_admin test_high_consumers test_high_producers test_low_consumers test_low_producers test_metadata test_topic_partition_list test_transactions"
brokers 1 --set node.id=0 --set num.partitions=3 --set log.retention.ms=-1 # tests ask for broker 0, and write records of 1970
export KAFKA_HOST="$BROKERS" KAFKA_VERSION=4.3.0 RUST_LOG=off
cargo_suite 600
