#!/usr/bin/env bash
# rskafka's integration tests.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
. "$lib/cargo.sh"
crate rskafka 0.6.0
brokers 3 --set auto.create.topics.enable=false
export TEST_INTEGRATION=1 TEST_BROKER_IMPL=kafka KAFKA_CONNECT="$BROKERS"
cargo_suite 300 "client consumer produce_consume producer" --features full
