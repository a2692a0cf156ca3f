#!/usr/bin/env bash
# rskafka's integration tests.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
. "$lib/cargo.sh"
crate rskafka 0.6.0 rsasl 2.3.1
cargo_build "client consumer produce_consume producer" --features full
brokers 3 --set auto.create.topics.enable=false --set log.retention.ms=-1 # tests write records of 1970
export TEST_INTEGRATION=1 TEST_BROKER_IMPL=kafka KAFKA_CONNECT="$BROKERS"
cargo_suite 300
