#!/usr/bin/env bash
# Groups of Kafka's own consumers.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_kafka
# Small and quickly started: up to four of them run at a time and variant.
export KT_HEAP="${KT_HEAP:-128m}" KT_TIER="${KT_TIER:-1}"
group_of java "-protocol classic" "-protocol consumer" -- "$kt" class "$here/groups/Member.java"
[ -n "${QUICK:-}" ] && exit
group_of java-static "-static" "-static -protocol consumer" "-protocol mixed" -- "$kt" class "$here/groups/Member.java"
group_of java-more "-regex" "-regex -protocol consumer" "-assignor CooperativeStickyAssignor" -- "$kt" class "$here/groups/Member.java"
