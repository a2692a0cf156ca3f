#!/usr/bin/env bash
# Groups of kafka-python consumers. It does not speak KIP-848.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python="$root/.cache/venv/bin/python"
[ -x "$python" ] || python=python3
"$python" -c 'import kafka' 2>/dev/null ||
  missing "kafka-python is not installed: python3 -m venv .cache/venv && .cache/venv/bin/pip install kafka-python"
variants=("-protocol classic")
[ -n "${QUICK:-}" ] || variants+=("-static" "-regex" "-assignor cooperative-sticky")
group_of kafka-python "${variants[@]}" -- "$python" "$here/groups/kafka_python.py"
