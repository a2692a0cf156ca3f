package tier

import (
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/view"
)

// counts are what a Copier has done since the start.
type counts struct{ objects, bytes, failures atomic.Int64 }

// Copying returns how far the copies of a partition have got that this broker leads.
func (c *Copier) Copying(p *replica.Partition) (x view.Copying) {
	x.Pending, x.PendingBytes = c.pending(p)
	c.mu.Lock()
	f, failing := c.failures[p.TopicPartition()]
	c.mu.Unlock()
	if failing {
		x.Error, x.FailingMs = f.Err.Error(), f.Since.UnixMilli()
	}
	return x
}

// pending returns the records of a partition that could be copied and are not, and about how many
// bytes they have.
func (c *Copier) pending(p *replica.Partition) (records, bytes int64) {
	log := p.Log()
	if !log.Config().Cleanup.CopyFirst {
		return 0, 0
	}
	from, to := c.copyable(p, p.Tier())
	if from >= to {
		return 0, 0
	}
	return to - from, log.SizeOf(from, to)
}

// Tiering adds up what this broker leads and has copied. Its Reads are empty.
func (c *Copier) Tiering() view.Tiering {
	x := view.Tiering{Objects: c.counts.objects.Load(), Copied: c.counts.bytes.Load(), Failures: c.counts.failures.Load()}
	for _, p := range c.opt.Partitions() {
		t := p.Tier()
		if t == nil && !p.Log().Config().Cleanup.CopyFirst {
			continue
		}
		if leader, _ := p.Leader(); leader != c.opt.Self {
			continue
		}
		x.Partitions++
		if t != nil {
			x.Bytes += t.Bytes
		}
		records, bytes := c.pending(p)
		x.Pending += records
		x.PendingBytes += bytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x.Failing = len(c.failures)
	return x
}
