#!/usr/bin/env bash
# librdkafka's suite, from the sources that its client for JavaScript brings: the tests that ask a broker (-L), in their quick
# form (-Q). Each test runs in a process of its own, because one that fails may end the process.
#
# LIBRDKAFKA_LIMIT   seconds that one test may take (default 240)
. "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
version=1.10.1
limit="${LIBRDKAFKA_LIMIT:-240}"
need npm make xargs cc c++ python3
sources="$cache/librdkafka-in-$version"
if [ ! -e "$sources/complete" ]; then
  rm -rf "$sources"
  mkdir -p "$sources"
  (cd "$sources" && npm pack --silent "@confluentinc/kafka-javascript@$version" && tar xzf ./*.tgz) >"$work/npm.log" 2>&1 ||
    { tail -n 3 "$work/npm.log" >&2; missing "@confluentinc/kafka-javascript could not be fetched: does this machine reach the npm registry?"; }
  (cd "$sources/package/deps/librdkafka" && ./configure --disable-gssapi --disable-optimization && make -j2 libs && make -C tests build) >"$work/build.log" 2>&1 ||
    broken "librdkafka does not build; it needs the headers of OpenSSL, zlib and curl" "$work/build.log"
  touch "$sources/complete"
fi
cd "$sources/package/deps/librdkafka/tests" || exit 1
brokers 3 --set num.partitions=4 --set authorization=acl --set super-users=User:ANONYMOUS
{
  echo "metadata.broker.list=$BROKERS"
  echo "test.topic.random=true"
} >"$work/test.conf"
# Kafka's commands that tests call; chronikctl stands for them.
mkdir -p "$work/kafka/bin" "$OUT/reports"
cp "$lib/librdkafka/kafka-topics.sh" "$lib/librdkafka/kafka-acls.sh" "$work/kafka/bin/"
export RDKAFKA_TEST_CONF="$work/test.conf" TEST_KAFKA_VERSION=4.2.0 KAFKA_PATH="$work/kafka" LD_LIBRARY_PATH="$PWD/../src:$PWD/../src-cpp"
python3 "$lib/librdkafka/tests.py" list test.c >"$work/tests"
# one NUMBER   runs the tests whose names begin with NUMBER.
one() {
  TESTS="$1" TEST_REPORT="$OUT/reports/$1.json" timeout --foreground -k 10 "$limit" ./test-runner -p1 -L -Q >"$OUT/reports/$1.log" 2>&1 </dev/null
  echo $? >"$OUT/reports/$1.rc"
}
export -f one
export limit OUT
grep -E -- "${CASES:-.}" "$work/tests" | cut -d_ -f1 | sort -u >"$work/numbers"
# 0081 counts the rules, so it comes before those below.
if grep -qx 0081 "$work/numbers"; then bounded $((limit + 30)) bash -c 'one 0081'; fi
# The suite configures Kafka so that its authorizer lets everybody do what no rule is about. In chronik, rules that
# a super-user makes allow everything to the user of the tests; from then on there is no super-user, so that tests can deny rights.
if [ ${#pids[@]} != 0 ]; then
  for resource in 'topic:*' 'group:*' 'transactional-id:*' 'user:*' 'delegation-token:*' cluster; do
    "$CHRONIKCTL" --brokers "$BROKERS" --yes acl add User:ANONYMOUS all "$resource" >"$work/acl.log" 2>&1 || broken "the rule for $resource could not be added" "$work/acl.log"
  done
  again super-users=User:ANONYMOUS super-users=User:nobody
fi
grep -vx 0081 "$work/numbers" >"$work/others"
bounded 7200 xargs -r -a "$work/others" -P 2 -I{} bash -c 'one {}'
python3 "$lib/librdkafka/tests.py" results "$OUT/reports" "$work/tests" "$limit" "${CASES:-.}" >"$OUT/$name.tsv"
