#!/usr/bin/env bash
# kafka-python's integration tests, from its source distribution.
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
version=3.0.12
need python3
venv="$cache/kafka-python-$version"
if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  { python3 -m venv "$venv" &&
    "$venv/bin/pip" install -q pytest==9.2.0 pytest-mock==3.17.0 pytest-timeout==2.4.0 py==1.11.0 crc32c==2.9.post0 lz4==4.4.5 python-snappy==0.7.3 zstandard==0.25.0 \
      "kafka-python==$version" &&
    "$venv/bin/pip" download -q --no-deps --no-binary :all: -d "$venv" "kafka-python==$version" &&
    tar xzf "$venv/kafka_python-$version.tar.gz" -C "$venv"; } >"$work/pip.log" 2>&1 ||
    { tail -n 3 "$work/pip.log" >&2; rm -rf "$venv"; missing "kafka-python $version could not be installed: does this machine reach a Python package index?"; }
  touch "$venv/complete"
fi
cp -r "$venv/kafka_python-$version/test" "$work/test"
# The source distribution lacks the module that starts Kafka; with KAFKA_URI the tests use no more than this of it.
cp "$lib/kafka_python_service.py" "$work/test/service.py"
touch "$work/test/__init__.py"
mkdir -p "$work/root"
# As the suite configures Kafka.
brokers 1 --set node.id=0 --set num.partitions=4 --set group.min.session.timeout.ms=500 --set authorization=acl --set super-users=User:ANONYMOUS
export KAFKA_VERSION=4.3.0 KAFKA_URI="kafka://${BROKERS%%,*}" KAFKA_ROOT="$work/root" PYTHONDONTWRITEBYTECODE=1
pytest=("$venv/bin/python" -m pytest -q -p no:cacheprovider --timeout 120)
tests=(test/integration)
if [ -n "$CASES" ]; then
  mapfile -t tests < <("${pytest[@]}" --collect-only test/integration 2>/dev/null </dev/null | grep '::' | grep -E -- "$CASES")
  [ ${#tests[@]} != 0 ] || broken "no case matches $CASES"
fi
bounded 1200 "${pytest[@]}" --junitxml "$OUT/$name.xml" "${tests[@]}" >"$OUT/$name.log" 2>&1 </dev/null
[ -e "$OUT/$name.xml" ] || broken "pytest wrote no results" "$OUT/$name.log"
python3 "$lib/junit_results.py" "$OUT/$name.xml" "$OUT/$name.tsv"
