package storage

import "github.com/chronik-io/chronik/internal/storage/producers"

// noProducers returns an empty producer state with the log's bounds.
func (l *Log) noProducers() producers.State {
	return producers.State{Expiry: l.dir.opt.ProducerExpiry, Limit: l.dir.opt.ProducersPerLog}
}
