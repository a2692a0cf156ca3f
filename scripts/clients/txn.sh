#!/usr/bin/env bash
# Transactions of every client library, all at once: two producers with one transactional id commit,
# abort and fence each other, and commit offsets of a group. A read_committed reader must see what was
# committed, and a read_uncommitted one everything; the group's offset must be the committed one. kgo
# runs in both protocols, with a GroupTransactSession. LIBRARIES="kgo java" names some of them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prefix="txn-$RUN"

run_kgo() { (cd "$root" && go run ./scripts/clients/txn/kgo -brokers "$BOOTSTRAP" -prefix "$prefix-kgo"); }
run_java() {
  need_kafka
  KT_LOG=ERROR "$kt" class "$here/txn/Transactions.java" "$BOOTSTRAP" "$prefix-java"
}
run_confluent() {
  need_python confluent_kafka confluent-kafka
  "$python" "$here/txn/confluent.py" "$prefix-confluent"
}
run_kafka-python() {
  need_python 'kafka; kafka.KafkaProducer.init_transactions' kafka-python
  "$python" "$here/txn/kafka_python.py" "$prefix-kafka-python"
}
run_kafkajs() {
  need_kafkajs
  node "$here/txn/kafkajs.js" "$prefix-kafkajs"
}
run_sarama() {
  need_sarama sarama-txn "$here/txn/sarama.go"
  "$program" "$prefix-sarama"
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
