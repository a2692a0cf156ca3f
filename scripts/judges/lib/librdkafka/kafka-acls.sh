#!/usr/bin/env bash
# Stands for Kafka's kafka-acls.sh where librdkafka's tests call it, by means of chronikctl.
set -euo pipefail
what='' user='' operation='' topic='' flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --bootstrap-server) brokers="$2"; shift;;
    --add | --remove) what="${1#--}";;
    --force) ;;
    --allow-principal) user="$2"; shift;;
    --deny-principal) user="$2" flags+=(--deny); shift;;
    --operation) operation="${2,,}"; shift;;
    --allow-host | --deny-host) flags+=(--host "$2"); shift;;
    --topic) topic="$2"; shift;;
    *) echo "kafka-acls.sh: $1 is not what this program stands for" >&2; exit 1;;
  esac
  shift
done
exec "$CHRONIKCTL" --brokers "$brokers" --yes acl "$what" "$user" "$operation" "topic:$topic" "${flags[@]}"
