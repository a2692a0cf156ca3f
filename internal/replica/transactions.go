package replica

import (
	"time"

	"github.com/chronik-io/chronik/internal/storage/producers"
)

// OpenTransactions returns the producers with an open transaction in the log, in the order of first
// offsets: those whose markers are missing. It counts records that are not committed.
func (p *Partition) OpenTransactions() []producers.Producer { return p.log.OpenTransactions() }

// Unstable is what readers of committed records wait for.
type Unstable struct {
	// Records is the number of offsets between the last stable offset and the high watermark.
	Records int64
	// Holder is the producer whose transaction has been open for longest in the log, if Open.
	Holder producers.Producer
	Open   bool
	// Age is for how long it has been open, by the wall clock; see producers.Producer.Since.
	Age time.Duration
}

// Unstable returns what readers of committed records wait for at a time. It is cheap if no
// transaction is open.
func (p *Partition) Unstable(now time.Time) (u Unstable) {
	e := p.Ends()
	u.Records = e.HighWatermark - e.LastStable
	if u.Holder, u.Open = p.log.OldestTransaction(); u.Open {
		u.Age = max(0, now.Sub(time.UnixMilli(u.Holder.Since)))
	}
	return u
}
