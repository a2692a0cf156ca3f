package broker

import (
	"sync"
	"time"
)

// A client that reads damaged bytes fetches again, and most clients do so at once, since Kafka's
// protocol calls the error of a damaged batch (CORRUPT_MESSAGE) retriable. The first answer is sent
// at once. After that the same connection gets an answer for the same offset at most once in
// damageGap. Until then, or for max.wait.ms if that is longer, the fetch waits as if the partition
// had no records. Records of its other partitions end that wait as usual.

// damageGap is the least time between two answers that report the same damage to the same
// connection and contain no records.
const damageGap = 500 * time.Millisecond

// maxReports bounds how many reports of damage are remembered. Beyond it every damage counts as
// reported.
const maxReports = 4096

// damageReports remembers which damage was reported to which connections less than damageGap ago.
type damageReports struct {
	gap time.Duration // damageGap

	mu   sync.Mutex
	last map[damageReport]time.Time
}

type damageReport struct {
	connection uint64
	topic      [16]byte
	partition  int32
	offset     int64
}

// note records that damage is reported to a connection now.
func (d *damageReports) note(r damageReport, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = map[damageReport]time.Time{}
	}
	if len(d.last) >= maxReports {
		for old, at := range d.last {
			if now.Sub(at) >= d.gap {
				delete(d.last, old)
			}
		}
	}
	if len(d.last) < maxReports {
		d.last[r] = now
	}
}

// wait returns how long the damage need not be reported again, 0 if a report is due.
func (d *damageReports) wait(r damageReport, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.last[r]
	switch {
	case ok:
		return max(0, d.gap-now.Sub(at))
	case len(d.last) >= maxReports:
		return d.gap
	}
	return 0
}

func (op *fetchOp) damageReport(p *fetchPartition) damageReport {
	return damageReport{op.r.Connection, p.topic.ID, p.index, p.offset}
}

// delayDamage marks the parts whose damage was just reported to this connection, and returns how
// long the fetch must at least wait if no other part has records.
func (op *fetchOp) delayDamage(now time.Time) (least time.Duration) {
	for _, i := range op.waits {
		p := &op.parts[i]
		if !p.part.Log().DamagedAt(p.offset) {
			continue
		}
		wait := op.b.damage.wait(op.damageReport(p), now)
		p.delayed = wait > 0
		least = max(least, wait)
	}
	if least > 0 {
		op.minBytes = max(op.minBytes, 1) // even a client that does not want to wait waits here
	}
	return least
}
