package metrics

import "github.com/prometheus/client_golang/prometheus"

// Transactions describes the transactions that this broker coordinates, for one scrape.
type Transactions struct {
	IDs map[string]int // transactional ids by state
	// Shards counts the coordinator's shards by state.
	Shards map[string]int
	// Waiting has the markers and flushes that wait for other brokers, by broker id.
	Waiting map[string]int
	Parked  int // requests that wait for the end of a transaction
	Undone  int // transactions that were decided long ago and lack markers
	Gate    int // batches that wait for a coordinator
}

// RegisterTransactions registers the figures of transactions. Every scrape calls source.
func RegisterTransactions(reg prometheus.Registerer, source func() Transactions) error {
	var s scraped
	ids := s.gauge(nameTxnIDs, "Transactional ids that this broker coordinates.", "state")
	shards := s.gauge(nameTxnShards, "Partitions of __transaction_state by the state of their coordinator.", "state")
	waiting := s.gauge(nameTxnMarkersWaiting, "Transaction markers and flushes that wait for another broker.", "broker")
	parked := s.gauge(nameTxnParked, "Requests that wait for the end of a transaction.")
	undone := s.gauge(nameTxnUndone, "Transactions that were decided at least 30 seconds ago and lack markers, at most 100 of a shard.")
	gate := s.gauge(nameTxnGateWaiting, "Batches that wait until the transaction coordinator permits them.")
	s.read = func(send sendFunc) {
		now := source()
		for state, n := range now.IDs {
			send(ids, float64(n), state)
		}
		for state, n := range now.Shards {
			send(shards, float64(n), state)
		}
		for broker, n := range now.Waiting {
			send(waiting, float64(n), broker)
		}
		send(parked, float64(now.Parked))
		send(undone, float64(now.Undone))
		send(gate, float64(now.Gate))
	}
	return reg.Register(&s)
}
