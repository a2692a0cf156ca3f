#!/usr/bin/env bash
# All of Kafka's command-line tools, on the brokers of run.sh; SECTIONS="topics groups" only these.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafka
[ -r "$KAFKA_TOOLS/cli-smoke.sh" ] || missing "the steps are not there: $KAFKA_TOOLS/cli-smoke.sh (set KAFKA_TOOLS)"
mkdir -p "$WORK/cli"
# shellcheck disable=SC2086 # several sections
if [ -n "${KAFKA:-}" ]; then
  sections="${SECTIONS:-}"
  exec "$root/scripts/kafka/smoke" "$BOOTSTRAP" ${sections:+--sections "${sections// /,}"}
elif [ -n "${BROKERS:-}" ]; then
  # run.sh restarts the brokers and stops them.
  exec env -u PIDS -u RESTARTS KEEP="$WORK/cli" "$root/scripts/cli-smoke.sh" ${SECTIONS:-}
fi
exec env KEEP="$WORK/cli" "$root/scripts/cli-smoke.sh" ${SECTIONS:-}
