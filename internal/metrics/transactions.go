package metrics

import (
	"cmp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// RegisterTransactions registers the figures of transactions. Every scrape calls source.
func RegisterTransactions(reg prometheus.Registerer, source func() view.Transactions) error {
	var s scraped
	ids := s.gauge(nameTxnIDs, "Transactional ids that this broker coordinates.", "state")
	shards := s.gauge(nameTxnShards, "Partitions of __transaction_state by the state of their coordinator.", "state")
	waiting := s.gauge(nameTxnMarkersWaiting, "Transaction markers and flushes that wait for another broker.", "broker")
	parked := s.gauge(nameTxnParked, "Requests that wait for the end of a transaction.")
	undone := s.gauge(nameTxnUndone, "Transactions that were decided at least 30 seconds ago and have not ended, at most 100 of a shard.")
	gate := s.gauge(nameTxnGateWaiting, "Batches that wait until the transaction coordinator permits them.")
	undoneFor := s.gauge(nameTxnUndoneSeconds, "Time since the oldest of these transactions was decided; 0 without one.")
	raised := s.counter(nameTxnRaised, "Leader epochs of __transaction_state that were raised because a partition knew a later one.")
	limit := s.gauge(nameTxnMaxTimeout, "The broker's transaction.max.timeout.ms.")
	s.read = func(send sendFunc) {
		now := source()
		for state, n := range now.IDs {
			send(ids, float64(n), state)
		}
		for state, n := range now.Shards {
			send(shards, float64(n), state)
		}
		for broker, n := range now.Waiting {
			send(waiting, float64(n), strconv.Itoa(int(broker)))
		}
		send(parked, float64(now.Parked))
		send(undone, float64(len(now.Undone)))
		send(gate, float64(now.Gate))
		oldest := time.Duration(0)
		for i := range now.Undone {
			oldest = max(oldest, time.Since(now.Undone[i].Since))
		}
		send(undoneFor, oldest.Seconds())
		send(raised, float64(now.Raised))
		send(limit, now.MaxTimeout.Seconds())
	}
	return reg.Register(&s)
}

// RegisterOpenTransactions registers the open transactions of the partitions that this broker
// leads. Every scrape calls source. It exports the first MaxLags partitions by age. If each is
// false, it exports only the largest age.
func RegisterOpenTransactions(reg prometheus.Registerer, each bool, source func() []view.Held) error {
	var s scraped
	open := s.gauge(nameTxnOpen, "Open transactions of a partition that this broker leads.", "topic", "partition")
	lag := s.gauge(nameLSOLag, "Offsets that open transactions keep from readers of committed records.", "topic", "partition")
	age := s.gauge(nameLSOAge, "For how long an open transaction has held the last stable offset.", "topic", "partition")
	oldest := s.gauge(nameLSOAgeMax, "The longest time for which an open transaction has held a last stable offset; 0 without one.")
	s.read = func(send sendFunc) {
		all := source()
		sorts.Sort(all, func(a, b view.Held) int { return cmp.Compare(b.Age, a.Age) })
		most := time.Duration(0)
		for i := range all {
			p := &all[i]
			most = max(most, p.Age)
			if each && i < MaxLags {
				partition := strconv.Itoa(int(p.Partition))
				send(open, float64(p.Count), p.Topic, partition)
				send(lag, float64(p.Lag), p.Topic, partition)
				send(age, p.Age.Seconds(), p.Topic, partition)
			}
		}
		send(oldest, most.Seconds())
	}
	return reg.Register(&s)
}

// TransactionEnds counts and measures the transactions that this broker's coordinator ends.
type TransactionEnds struct {
	Ended    *prometheus.CounterVec   // result, reason
	Duration *prometheus.HistogramVec // result
	Marker   *prometheus.HistogramVec // result
	Refused  *prometheus.CounterVec   // error
	Crowded  *prometheus.CounterVec   // action
}

// NewTransactionEnds registers the metrics of a coordinator.
func NewTransactionEnds(reg prometheus.Registerer) *TransactionEnds {
	f := promauto.With(reg)
	return &TransactionEnds{
		Ended: counter(f, nameTxnEnded, "Transactions that were decided, by result and by what decided them.", "result", "reason"),
		Duration: histogram(f, nameTxnDuration, "Time from the first partition of a transaction to its decision.",
			[]float64{0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 900}, "result"),
		Marker: histogram(f, nameTxnMarkerSeconds, "Time from the decision of a transaction until all its markers are durable.",
			[]float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1, 5, 30}, "result"),
		Refused: counter(f, nameTxnMarkerRetries, "Transaction markers that a partition refused and that are repeated, by error.", "error"),
		Crowded: counter(f, nameTxnIDsCrowded, "What was done about too many transactional ids: those that were `removed` early, "+
			"and how often new ones were `refused` for a second.", "action"),
	}
}
