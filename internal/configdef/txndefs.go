package configdef

import "time"

// Transactions has the settings of transactions and of the topic of their coordinator; Kafka's
// names are transaction.* and transactional.*.
type Transactions struct {
	MaxTimeout                  time.Duration // that a producer may ask for
	Expiration, ExpirationCheck time.Duration // of transactional ids without a transaction
	MaxIDs                      int           // of a partition of __transaction_state
	Partitions                  int32
	ReplicationFactor           int16 // fewer if there are fewer brokers
	MinISR                      int32
	SegmentBytes                int32
}

// transactionDefs are the broker configs of transactions.
func transactionDefs() []*Def {
	return []*Def{
		brokerDef("transaction.max.timeout.ms", Int, "900000",
			"The maximum transaction.timeout.ms, in milliseconds, that a producer may request. A transaction that is open for longer than its timeout is aborted.",
			importance(High), atLeast(1)),
		brokerDef("transactional.id.expiration.ms", Int, "604800000",
			"The number of milliseconds for which the coordinator keeps a transactional id that has no transaction. "+
				"Each id that is kept takes memory; a producer that returns later is a new one.",
			importance(High), atLeast(1)),
		brokerDef("transactional.id.max.per.partition", Int, "20000",
			"The maximum number of transactional ids in a partition of __transaction_state. If there are more, those without a transaction for the longest time, at least 15 minutes, are removed; if there are none, new ones are refused with a retriable error.",
			importance(Low), atLeast(100)),
		brokerDef("transaction.remove.expired.transaction.cleanup.interval.ms", Int, "3600000",
			"The interval in milliseconds between two checks for expired transactional ids.", importance(Low), atLeast(1)),
		brokerDef("transaction.partition.verification.enable", Boolean, "true",
			"Whether a batch that begins a transaction in a partition is appended only with the permission of the transaction's coordinator. It cannot be disabled, because transactions could then stay open forever.",
			importance(Low), dynamic(), bounded("true", alwaysVerified)),
		brokerDef("transaction.state.log.num.partitions", Int, "50",
			"The number of partitions with which __transaction_state is created. It must not change, because it determines the partition of each transactional id.",
			importance(High), between(1, 10_000)),
		brokerDef("transaction.state.log.replication.factor", Short, "3",
			"The number of replicas with which __transaction_state is created, or fewer if there are fewer brokers.", importance(High),
			atLeast(1)),
		brokerDef("transaction.state.log.min.isr", Int, "2",
			"The min.insync.replicas with which __transaction_state is created. With fewer replicas, their number counts.",
			importance(High), atLeast(1)),
		brokerDef("transaction.state.log.segment.bytes", Int, "104857600",
			"The segment.bytes with which __transaction_state is created; small segments are compacted and loaded sooner.", importance(High),
			atLeast(1<<20)),
	}
}

// alwaysVerified refuses false.
func alwaysVerified(d *Def, v value) error {
	if !v.b {
		return d.invalid("false", "chronik always verifies; leave the config out")
	}
	return nil
}

func (f *reader) transactions() Transactions {
	return Transactions{
		MaxTimeout:        milliseconds(f.value("transaction.max.timeout.ms").n),
		Expiration:        milliseconds(f.value("transactional.id.expiration.ms").n),
		ExpirationCheck:   milliseconds(f.value("transaction.remove.expired.transaction.cleanup.interval.ms").n),
		MaxIDs:            int(f.value("transactional.id.max.per.partition").n),
		Partitions:        int32(f.value("transaction.state.log.num.partitions").n),
		ReplicationFactor: int16(f.value("transaction.state.log.replication.factor").n),
		MinISR:            int32(f.value("transaction.state.log.min.isr").n),
		SegmentBytes:      int32(f.value("transaction.state.log.segment.bytes").n),
	}
}
