#!/usr/bin/env bash
# Groups of kafka-python consumers. It does not speak KIP-848.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_python kafka kafka-python
variants=("-protocol classic")
[ -n "${QUICK:-}" ] || variants+=("-static" "-regex" "-assignor cooperative-sticky")
group_of kafka-python "${variants[@]}" -- "$python" "$here/groups/kafka_python.py"
