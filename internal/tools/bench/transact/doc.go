// Package transact measures transactions on one broker or, alternately, on two: transactions per
// second by the number of partitions and producers, the times of EndTxn and of the first produce
// after it, and the latency of a read_committed consumer.
//
// It promises that every figure is of transactions whose commit was acknowledged, and that ratios
// are computed within a round. A load without a success ends the measurement. cmd/chronik-bench
// offers it as `txn`. Its clients are kgo's; it knows nothing of the broker's insides.
package transact
