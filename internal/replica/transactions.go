package replica

import (
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// OpenTransactions returns the producers with an open transaction in the log, in the order of first
// offsets: those whose markers are missing. It counts records that are not committed.
func (p *Partition) OpenTransactions() []producers.Producer { return p.log.OpenTransactions() }

// Unstable is what readers of committed records wait for.
type Unstable struct {
	// Records is the number of offsets between the last stable offset and the high watermark.
	Records int64
	// Held: a transaction holds the last stable offset. Holder is its producer. Open: it has no
	// marker; otherwise its marker is not below the high watermark.
	Held, Open bool
	Holder     producers.Producer
	// Age is how long ago that transaction began, by the wall clock; see producers.Producer.Since.
	Age time.Duration
}

// Unstable returns what readers of committed records wait for at a time. It is cheap if no
// transaction is open.
func (p *Partition) Unstable(now time.Time) (u Unstable) {
	e := p.Ends()
	u.Records = e.HighWatermark - e.LastStable
	if x, held := p.log.OldestTransaction(); held {
		u.Held, u.Open, u.Holder, u.Age = true, x.Open, x.Producer, max(0, now.Sub(time.UnixMilli(x.Since)))
	}
	return u
}

// Unstable returns the partitions of this broker with a transaction that readers of committed
// records wait for, or waited for a moment ago, in any order. The time that it takes depends on
// their number.
func (m *Manager) Unstable() (list []*Partition) {
	logs := m.opt.Storage.Unstable()
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, l := range logs {
		if p := m.partitions[metadata.TopicPartition{Topic: l.ID().Topic, Partition: l.ID().Partition}]; p != nil && p.log == l {
			list = append(list, p)
		}
	}
	return list
}
