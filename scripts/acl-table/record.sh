#!/usr/bin/env bash
# record.sh [SETS [SEED]]   writes what Kafka's authorizer decides for random access rules and requests to
#                           internal/security/acl/testdata. Needs Java and Kafka's jars.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools=scripts/kafka
out="internal/security/acl/testdata/kafka-$("$tools/kt" --version)-decisions.gz"
trap 'rm -f "$out.new"' EXIT
KT_JVM=-Dfile.encoding=UTF-8 "$tools/kt" class scripts/acl-table/Decisions.java "${1:-400}" "${2:-43}" | gzip -9n >"$out.new"
mv "$out.new" "$out"
ls -l "$out"
