#!/usr/bin/env bash
# Stands for Kafka's kafka-topics.sh where librdkafka's tests call it, by means of chronikctl.
set -euo pipefail
what='' topic='' partitions='' flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --bootstrap-server) brokers="$2"; shift;;
    --create | --delete | --alter) what="${1#--}";;
    --topic) topic="$2"; shift;;
    --partitions) partitions="$2"; shift;;
    --replication-factor) flags+=(--replication-factor "$2"); shift;;
    --config) flags+=(--config "$2"); shift;;
    *) echo "kafka-topics.sh: $1 is not what this program stands for" >&2; exit 1;;
  esac
  shift
done
ctl() { "$CHRONIKCTL" --brokers "$brokers" --yes "$@"; }
case $what in
  create) ctl topic create "$topic" --partitions "${partitions:--1}" "${flags[@]}";;
  delete) ctl topic delete "$topic";;
  alter) ctl topic add-partitions "$topic" --to "$partitions";;
  *) echo "kafka-topics.sh: one of --create, --alter and --delete is needed" >&2; exit 1;;
esac
