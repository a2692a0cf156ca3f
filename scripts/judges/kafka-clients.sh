#!/usr/bin/env bash
# Kafka's own integration tests of its clients, with brokers of chronik. java/judge.py describes the
# variables JOBS, CLASSES and LIMIT. Needs Java 17 and Maven.
exec python3 "$ROOT/scripts/judges/java/judge.py" kafka-clients kafka-clients-integration-tests org.apache.kafka.
