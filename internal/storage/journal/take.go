package journal

import "time"

// quantum is how many bytes of one stream are taken before the next stream is served, so that
// 50 MB of one partition do not delay small entries.
const quantum = 64 << 10

// taken is what one write writes.
type taken struct {
	entries []*Entry
	part    *part // ends with this write, after the entries
	began   bool  // a large entry became the part, of which pieces are written from now on
	more    bool  // entries remain
	patient bool  // every taken entry may wait for the group's other writes
}

// take removes up to one write's worth of entries from the queues, round-robin over the streams. It
// takes at least one entry, or begins a part, if any may be written. As long as pieces of a part
// are to be written, it takes only small entries of other streams.
//
// take assigns LSNs under the same lock that removes entries from their queues: after Drop has
// returned, Assigned covers every entry of the stream that may still be written.
func (j *Journal) take(l limits, now time.Time) (t taken) {
	t.entries, t.patient = j.slice(), true
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.canPlaceLocked() {
		t.patient = false
		return t
	}
	j.fillLocked(&t, l, now)
	for _, e := range t.entries {
		e.LSN = j.next
		j.next++
	}
	if j.part != nil {
		j.part.owed = j.part.owed || len(t.entries) > 0
		if t.part = j.endPartLocked(); t.part != nil {
			t.part.entry.LSN = j.next
			j.next++
			t.patient = t.patient && t.part.entry.patient()
		}
	}
	j.assigned.Store(uint64(j.next - 1))
	j.waiting.taken(j.ready.all())
	t.more = j.waiting.entries > 0
	return t
}

// budget bounds what a write takes.
type budget struct {
	limits
	write int64 // bytes of frames
	bulk  int64 // of these, bytes of entries that are not small
	// reserved: only control entries may be written.
	reserved bool
}

func (b *budget) spent() bool { return b.write <= 0 || b.records <= 0 || b.bytes <= 0 }

// fillLocked moves entries from the queues to t.
func (j *Journal) fillLocked(t *taken, l limits, now time.Time) {
	g, p := &j.group, j.part
	b := budget{limits: l, write: j.maxWrite, bulk: j.maxWrite, reserved: j.noSpace}
	smallTraffic := j.SmallTraffic(now)
	switch {
	case p != nil:
		if closed, _ := j.waiting.verdict(now, j.opt.Absent); !closed {
			return
		}
		b.write, b.bulk = min(b.write, p.left()), 0
	case smallTraffic:
		b.bulk = 2 * j.sizes.piece
	}
	var held *Stream // the first one whose entry is left to the next write, with small ones behind it
	defer func() { j.serveNextLocked(held) }()
	for blocked := 0; j.ready.len() > blocked && !b.spent(); {
		s := j.ready.peek()
		if s.queue.len() > 0 && p == nil && !b.reserved {
			e := s.queue.peek()
			pieces := smallTraffic && j.sizes.inPieces(e)
			switch {
			case len(t.entries) == 0 && pieces:
				g.notice(e, j.sizes)
				j.beginPartLocked(s)
				t.began = true
				return
			case len(t.entries) > 0 && e.size() > b.write:
				return // the next write begins with this entry
			case len(t.entries) > 0 && e.size() >= j.sizes.small && (pieces || e.size() > b.bulk):
				if b.bulk = 0; held == nil {
					held = s
				}
			}
		}
		j.ready.pop()
		before := len(t.entries)
		if p == nil || s != p.entry.Stream || j.opt.Broken.Has(Overtake) {
			j.fillFrom(t, s, &b, smallTraffic)
		}
		switch {
		case s.queue.len() == 0:
			s.listed = false
			continue
		case len(t.entries) > before:
			blocked = 0
		default:
			blocked++
		}
		j.ready.push(s)
	}
}

// serveNextLocked makes the next write begin with a stream, if it is not nil. The order of the
// others stays.
func (j *Journal) serveNextLocked(s *Stream) {
	for s != nil && j.ready.peek() != s {
		j.ready.push(j.ready.pop())
	}
}

// fillFrom moves entries of one stream to t: about a quantum, and those that the budget allows.
func (j *Journal) fillFrom(t *taken, s *Stream, b *budget, smallTraffic bool) {
	for share := int64(quantum); s.queue.len() > 0 && share > 0 && !b.spent(); {
		e := s.queue.peek()
		first := len(t.entries) == 0 && j.part == nil
		if b.reserved && !e.control() || !first && (e.size() > b.write || e.size() >= j.sizes.small && e.size() > b.bulk) ||
			smallTraffic && !first && j.sizes.inPieces(e) {
			return
		}
		j.group.notice(e, j.sizes)
		t.entries = append(t.entries, s.queue.pop())
		j.waiting.count(e, -1)
		share -= e.size()
		b.write -= e.size()
		if e.size() >= j.sizes.small {
			b.bulk -= e.size()
		}
		b.records -= e.Records
		b.bytes -= int64(len(e.Payload))
		t.patient = t.patient && e.patient()
	}
}

// notice remembers when tiny entries arrive. Those of a stream that also has larger ones are part
// of a bulk load, which must not slow itself down. So are those of the broker's own logs: the
// commits of a transaction's large records, or of the offsets of their readers.
func (g *group) notice(e *Entry, s sizes) {
	switch {
	case e.size() >= s.small:
		e.Stream.bulk = e.arrived
	case e.size() < s.tiny && e.arrived.Sub(e.Stream.bulk) >= bulkFor && !e.Internal && !e.control() && !e.onWrite():
		if at := int64(e.arrived.Sub(g.start)); at-g.lastSmall.Load() > int64(smallFor/16) { // rarely: others read it
			g.lastSmall.Store(at)
		}
	}
}

// SmallTraffic reports whether small entries have arrived recently: large writers on the same disk
// should then write in small pieces.
func (j *Journal) SmallTraffic(now time.Time) bool {
	return int64(now.Sub(j.group.start))-j.group.lastSmall.Load() < int64(smallFor)
}
