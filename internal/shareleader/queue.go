package shareleader

import (
	"container/list"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// Fetch is a fetch that waits in the queues of share partitions.
type Fetch interface {
	// Try takes records if there are enough, and then leaves the queues. It may block for the disk.
	// Several goroutines may call it.
	Try()
}

// Queued is the place of a Fetch in the queue of a share partition.
type Queued struct {
	p    *Partition
	f    Fetch
	at   *list.Element // nil: it has left
	load uint64        // of the turn
	away bool          // others may pass it: it did not use its last turn
}

// Join puts a fetch at the end of the queue.
func (p *Partition) Join(f Fetch) *Queued {
	p.lock()
	defer p.unlock()
	pl := &Queued{p: p, f: f}
	if p.l.opt.Broken.Has(NewestFirst) {
		pl.at = p.queue.PushFront(pl)
	} else {
		pl.at = p.queue.PushBack(pl)
	}
	return pl
}

// Leave removes the fetch from the queue.
func (pl *Queued) Leave() {
	p := pl.p
	p.lock()
	defer p.unlock()
	if pl.at == nil {
		return
	}
	first := p.queue.Front() == pl.at
	p.queue.Remove(pl.at)
	pl.at = nil
	if first {
		p.wake()
	}
}

// wake lets the fetches in the queue try, on another goroutine.
func (p *Partition) wake() {
	if p.serving {
		p.again = true
		return
	}
	if p.queue.Len() == 0 {
		return
	}
	p.serving, p.again = true, false
	p.do(func() { p.l.opt.Go(p.serve) })
}

// serve lets the fetches try, in the order of their arrival, as long as there are records.
func (p *Partition) serve() {
	for {
		at := p.first()
		for at != nil {
			at.f.Try()
			at = p.next(at)
		}
		p.lock()
		if !p.again || p.queue.Len() == 0 {
			p.serving, p.allowed = false, nil
			p.unlock()
			return
		}
		p.again = false
		p.unlock()
	}
}

// first returns the first place of the queue, nil if there is none.
func (p *Partition) first() *Queued {
	p.lock()
	defer p.unlock()
	p.allowed = nil
	if front := p.queue.Front(); front != nil {
		return front.Value.(*Queued)
	}
	return nil
}

// next returns the place that may try after another one, nil if that makes no sense.
func (p *Partition) next(after *Queued) *Queued {
	p.lock()
	defer p.unlock()
	p.allowed = nil
	if after.at == nil { // it has left, with records or without
		if front := p.queue.Front(); front != nil {
			return front.Value.(*Queued)
		}
		return nil
	}
	if p.state == loading || p.state == ready && !p.available() {
		return nil
	}
	// It waits for more bytes, or its records are elsewhere. Others may want less.
	following := after.at.Next()
	if following == nil {
		return nil
	}
	p.allowed = following.Value.(*Queued)
	return p.allowed
}

// available reports whether there may be records to acquire.
func (p *Partition) available() bool {
	e := p.log.Ends()
	from, ok := p.w.Plan(e.LogStart)
	return ok && from < p.limit()
}

// limit is where reads end.
func (p *Partition) limit() int64 {
	e := p.log.Ends()
	if p.cfg.Committed {
		return e.LastStable
	}
	return e.HighWatermark
}

// Turn is the right to read and to take records. It ends with Queued.End.
type Turn struct {
	// From is where to read, and Epoch the leader epoch of the read.
	From  int64
	Epoch int32
	// Records bounds how many to take, so that others who wait get some.
	Records int64
	// Committed: the group gets no records of open or aborted transactions.
	Committed bool
}

// Turn gives the fetch the turn if there may be records for it. most is how many it wants. It
// reports false without an error if it must wait: for records, for those who wait longer, for a
// load, or because the memory is used up. The error ends the wait: the share partition has ended.
func (pl *Queued) Turn(most int64) (t Turn, ok bool, err *kerr.Error) {
	p := pl.p
	p.lock()
	defer p.unlock()
	if !p.leads() {
		return t, false, p.err
	}
	pl.away = false
	if p.state != ready || pl.at == nil || p.foremost() != pl && p.allowed != pl {
		p.missed = p.missed || p.turn != nil
		return t, false, nil
	}
	if p.turn != nil {
		p.missed = true
		return t, false, nil
	}
	now := p.l.now()
	if p.write != nil && now-p.began > writeTime && !p.l.opt.Broken.Has(TakeUnstored) {
		return t, false, nil
	}
	t.From, ok = p.w.Plan(p.log.Ends().LogStart)
	p.pump()
	if !ok || t.From >= p.limit() {
		return t, false, nil
	}
	s := p.w.Stats()
	if marks := int64(s.Runs) + 2*int64(s.Due) + s.Offsets[window.Acquired]; marks >= maxMarks {
		return t, false, nil
	}
	// On a broker with little memory a reservation is a part of it, or none would ever fit.
	enough := min(most, reservedRecords, p.l.opt.Memory.Size()/8/window.RecordBytes)
	if p.room() < enough && !p.l.opt.Broken.Has(TakeBeyond) {
		p.pressAt = now + pressed
		return t, false, nil
	}
	t.Records, t.Epoch, t.Committed = most, p.epoch, p.cfg.Committed
	if others := int64(p.queue.Len() - 1); others > 0 {
		free := s.Offsets[window.Available] + max(0, p.cfg.Locks-(s.End-s.Start))
		t.Records = min(most, max(1, free/(others+1)))
	}
	p.turn, pl.load = pl, p.load
	return t, true, nil
}

// foremost returns the fetch that waits longest, of those that others may not pass.
func (p *Partition) foremost() *Queued {
	for e := p.queue.Front(); e != nil; e = e.Next() {
		if pl := e.Value.(*Queued); !pl.away || p.l.opt.Broken.Has(WaitWithTurn) {
			return pl
		}
	}
	return nil
}

// full reports whether n more bytes exceed the bound of memory.
func (p *Partition) full(n int64) bool {
	m := p.l.opt.Memory
	return m.Used()+n > m.Size()
}

// End ends the turn. A fetch that has taken nothing, because it wants more than there is, keeps its
// place, and others pass it until it asks for the turn again.
func (pl *Queued) End() {
	p := pl.p
	p.lock()
	defer p.unlock()
	pl.end()
}

// Away is End for a fetch that cannot use its turn at present, as it waits for something else.
// There may be records for others, which try at once.
func (pl *Queued) Away() {
	p := pl.p
	p.lock()
	defer p.unlock()
	if p.l.opt.Broken.Has(WaitWithTurn) {
		return
	}
	pl.end()
	p.wake()
}

func (pl *Queued) end() {
	p := pl.p
	if p.turn != pl {
		return
	}
	p.turn, pl.away = nil, true
	if p.missed {
		p.missed = false
		p.wake()
	}
}

// Take acquires records that were read in the turn for the member of a session. It returns their
// ranges, and for how long they are locked. It reports false if the fetch is over: its session or
// the share partition has ended, or the memory was dropped since the turn began.
func (pl *Queued) Take(s *Session, t window.Taking) (got []window.Delivery, lock time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := pl.p
	p.lock()
	defer p.unlock()
	if s.ended || p.turn != pl || !p.leads() || p.state != ready || p.load != pl.load {
		return nil, 0, false
	}
	t.Member, t.Now = p.member(s.key.member).number, p.l.now()
	for i := range t.Batches {
		// Each record of a batch may become a run, whatever the window's width.
		if b := &t.Batches[i]; b.Last-b.Base >= widestBatch && !t.Strict {
			t.Strict, t.Records = true, widestBatch
		}
	}
	p.bound(&t)
	p.w.StartMoved(p.log.Ends().LogStart)
	got = p.w.Take(t, nil)
	p.pump()
	if len(got) > 0 {
		s.held[p] = struct{}{}
	}
	return got, p.cfg.Lock, true
}

// bound bounds an acquisition by the memory that is left, which others may have used since the turn
// began: acknowledgements of the records are not refused.
func (p *Partition) bound(t *window.Taking) {
	most := int64(0)
	for _, b := range t.Batches {
		most += b.Last - b.Base + 1
	}
	room := p.room()
	if most <= room || p.l.opt.Broken.Has(TakeBeyond) {
		return
	}
	if t.Strict, t.Records = true, min(t.Records, room); room == 0 {
		p.pressAt = t.Now + pressed
	}
}

// room returns for how many more records there is memory.
func (p *Partition) room() int64 {
	m := p.l.opt.Memory
	return max(0, m.Size()-m.Used()-windowBytes) / window.RecordBytes
}
