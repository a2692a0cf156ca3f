package replica

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

// MaxFreeze is the longest time for which partitions are frozen. It is well below the times after
// which brokers take each other for stalled.
const MaxFreeze = 500 * time.Millisecond

// FreezeID identifies a freeze: the epoch of the controller that asks for it, and its attempts,
// counted from 1.
type FreezeID struct{ Controller, Attempt int64 }

func (id FreezeID) compare(o FreezeID) int {
	return cmp.Or(cmp.Compare(id.Controller, o.Controller), cmp.Compare(id.Attempt, o.Attempt))
}

// Cut is where a snapshot cuts the log of a partition that this broker leads.
type Cut struct {
	metadata.TopicPartition
	// Epoch is the leader epoch in which this broker led. The cut is void if another epoch had
	// begun when the snapshot was marked.
	Epoch int32
	// Start is the log start, and End the end of what clients may know: every record that was
	// acknowledged, or visible to a reader, is below it. Not all records below it are committed.
	Start, End int64
	// Offline: the log can't be read.
	Offline bool
}

// freezing is the state of the freeze of a manager. While it is frozen, clients learn nothing new
// of its partitions: no high watermark rises, and no append and no deletion of records is answered
// with success. Appends, syncs, replication and reads continue.
//
// A freeze is the first half of a consistent cut. The flag is raised before the
// locks of the partitions are taken, and a partition decides under its lock what becomes visible.
// So what is decided after Freeze has taken a partition's lock waits, and what was decided before
// is below the partition's cut.
type freezing struct {
	on atomic.Bool // the flag that partitions read under their locks

	mu     sync.Mutex
	latest FreezeID // of the last freeze, whether it has ended or not
	timer  *time.Timer
	// held are the logs that the last freeze cut, until they are taken, another freeze begins or
	// its timer untaken fires. A timer of an earlier freeze may run late and does nothing then.
	held    map[metadata.TopicPartition]*Held
	untaken *time.Timer
}

// Freeze freezes all partitions and returns the cuts of those that this broker leads, in the order
// of their ids. Take reads their logs as they are cut. ok is false if id is not above that of an
// earlier freeze; then nothing happens. The freeze ends with Thaw, with another Freeze, and after
// MaxFreeze. The caller must have applied the metadata up to the revision that the freeze names.
// Freeze takes the lock of each partition, and waits for no disk.
func (m *Manager) Freeze(id FreezeID) (cuts []Cut, ok bool) {
	f := &m.env.freezing
	f.mu.Lock()
	defer f.mu.Unlock()
	if id.compare(f.latest) <= 0 {
		return nil, false
	}
	f.latest = id
	if f.timer != nil {
		f.timer.Stop()
	}
	f.on.Store(true)
	f.timer = time.AfterFunc(MaxFreeze, func() { m.Thaw(id) })
	held := make(map[metadata.TopicPartition]*Held, len(f.held))
	for _, p := range m.Partitions() {
		if h := p.cut(); h != nil {
			held[h.TopicPartition] = h
			cuts = append(cuts, h.Cut)
		}
	}
	f.hold(held)
	slices.SortFunc(cuts, func(a, b Cut) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	return cuts, true
}

// Frozen reports whether the freeze id has lasted until now. It reads a flag and no clock, so the
// answer is right also if this process was paused meanwhile.
func (m *Manager) Frozen(id FreezeID) bool {
	f := &m.env.freezing
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.on.Load() && f.latest == id
}

// Thaw ends the freeze id, and completes what has waited for its end. It has no effect if another
// one has begun.
func (m *Manager) Thaw(id FreezeID) { m.thaw(func(latest FreezeID) bool { return latest == id }) }

func (m *Manager) thaw(ends func(latest FreezeID) bool) {
	if !m.env.freezing.end(ends) {
		return
	}
	for _, p := range m.Partitions() {
		p.thawed()
	}
}

// end ends the freeze, if there is one that ends accepts, and reports whether there was.
func (f *freezing) end(ends func(latest FreezeID) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on.Load() || !ends(f.latest) {
		return false
	}
	f.timer.Stop()
	f.on.Store(false)
	return true
}

// cut cuts the partition, nil if this broker does not lead it.
func (p *Partition) cut() *Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.role.Load()
	if !r.leader {
		return nil
	}
	h := p.log.Hold() // before the end is read: nothing below it is replaced any more
	e, offline := p.Readable()
	return &Held{Cut{TopicPartition: p.tp(), Epoch: r.epoch, Start: h.First(), End: e.Ack, Offline: offline != nil}, h, p}
}

// frozen reports whether nothing new may become visible. The caller holds mu.
func (p *Partition) frozen() bool {
	return p.env.freezing.on.Load() && !breakrules.Removed[Rule]{}.Has(ShowFrozen)
}

// thawed makes visible what was not during a freeze.
func (p *Partition) thawed() {
	p.mu.Lock()
	p.wakeStarts()
	ack := p.log.AckEnd()
	effect := p.ownEnd(ack)
	if p.lead != nil && p.lead.High() > p.high.Load() || p.lead == nil && p.follow.High > p.high.Load() {
		effect |= progress.HighMoved
	}
	p.complete(effect, ack)
}
