#!/usr/bin/env bash
# Kafka's own integration tests of its Streams library, with brokers of chronik. java/judge.py describes the
# variables JOBS, CLASSES and LIMIT. Needs Java 17 and Maven.
exec python3 "$ROOT/scripts/judges/java/judge.py" kafka-streams kafka-streams-integration-tests org.apache.kafka.
