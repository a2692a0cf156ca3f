#!/usr/bin/env bash
# Transactions of every client library, all at once: two producers with one transactional id commit,
# abort and fence each other, and commit offsets of a group. A read_committed reader must see what was
# committed, and a read_uncommitted one everything; the group's offset must be the committed one. kgo
# runs in both protocols, with a GroupTransactSession. LIBRARIES="kgo java" names some of them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
kt="$KAFKA_TOOLS/kt" sarama=v1.61.1 kafkajs=2.2.4 prefix="txn-$RUN"
python="$root/.cache/venv/bin/python"
[ -x "$python" ] || python=python3
export NODE_PATH="$root/.cache/kafkajs-$kafkajs/node_modules"

run_kgo() { (cd "$root" && go run ./scripts/clients/txn/kgo -brokers "$BOOTSTRAP" -prefix "$prefix-kgo"); }
run_java() {
  [ -x "$kt" ] || missing "Kafka's own tools are not there: $kt (set KAFKA_TOOLS)"
  KT_LOG=ERROR "$kt" class "$here/txn/Transactions.java" "$BOOTSTRAP" "$prefix-java"
}
run_confluent() {
  "$python" -c 'import confluent_kafka' 2>/dev/null ||
    missing "confluent-kafka is not installed: python3 -m venv .cache/venv && .cache/venv/bin/pip install confluent-kafka"
  "$python" "$here/txn/confluent.py" "$prefix-confluent"
}
run_kafka-python() {
  "$python" -c 'import kafka; kafka.KafkaProducer.init_transactions' 2>/dev/null ||
    missing "kafka-python is not installed: python3 -m venv .cache/venv && .cache/venv/bin/pip install kafka-python"
  "$python" "$here/txn/kafka_python.py" "$prefix-kafka-python"
}
run_kafkajs() {
  command -v node >/dev/null || missing "node is not installed"
  if ! [ -d "$NODE_PATH/kafkajs" ]; then
    command -v npm >/dev/null || missing "kafkajs is not there and npm is not installed"
    npm install --silent --prefix "${NODE_PATH%/node_modules}" "kafkajs@$kafkajs" ||
      missing "kafkajs $kafkajs could not be installed: does this machine reach a registry?"
  fi
  node "$here/txn/kafkajs.js" "$prefix-kafkajs"
}
run_sarama() {
  local dir="$root/.cache/sarama-txn-$sarama"
  mkdir -p "$dir"
  grep -v '^//go:build ignore$' "$here/txn/sarama.go" >"$WORK/sarama-txn.go"
  if ! cmp -s "$WORK/sarama-txn.go" "$dir/main.go" || ! [ -x "$dir/txn" ]; then
    cp "$WORK/sarama-txn.go" "$dir/main.go"
    (
      cd "$dir"
      [ -f go.mod ] || go mod init sarama-txn
      GOFLAGS=-mod=mod go get "github.com/IBM/sarama@$sarama"
      GOFLAGS=-mod=mod go build -o txn .
    ) || { rm -rf "$dir"; missing "sarama $sarama could not be built: does this machine reach a Go module proxy?"; }
  fi
  "$dir/txn" "$prefix-sarama"
}

declare -A pids
failed=0 absent=0
for name in ${LIBRARIES:-kgo java confluent kafka-python kafkajs sarama}; do
  "run_$name" >"$WORK/txn-$name.out" 2>&1 &
  pids[$name]=$!
done
for name in "${!pids[@]}"; do
  rc=0
  wait "${pids[$name]}" || rc=$?
  case $rc in
    0) echo "transactions of $name: right";;
    77) absent=1; cat "$WORK/txn-$name.out";;
    *) failed=1; echo "FAIL transactions of $name:"; tail -20 "$WORK/txn-$name.out";;
  esac
done
[ "$failed" = 0 ] || exit 1
[ "$absent" = 0 ] || exit 77
