package storage

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/record"
)

// The model reads like the broker: one request for several logs shares a budget, and only the first
// log with data returns a batch that exceeds it. Every answer is compared with what the model
// knows. A correct answer begins at the requested offset and skips nothing, so a consumer, which
// continues where the last answer ended, receives every record once and in order.

// consumersPerLog is how many consumers read each log at their own pace.
const consumersPerLog = 2

// reader fetches and looks up. At most one is active at a time.
type reader struct {
	w    *world
	rng  *rand.Rand
	logs []target
	// searched are the logs in which it looks up.
	searched []target

	stop atomic.Bool
	done chan struct{}
	err  error
}

// target is a log as the reader found it. The model may delete it meanwhile.
type target struct {
	m *mlog
	l *Log
}

// ackEnd returns the end of what is both acknowledged and known to the model: written records may
// be readable before their sink is notified.
func (t target) ackEnd() int64 {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return min(t.l.AckEnd(), t.m.cur.end())
}

// fetchPart is the part of a fetch for one log.
type fetchPart struct {
	target
	at, limit int64
	max       int
	one       bool // at least one batch
	before    view
	next      int64 // where a consumer continues
	ended     bool  // a consumer has nothing left to request below limit
}

// newReader returns a reader of all logs. If only is set, it looks up in that log alone.
func (w *world) newReader(only *mlog) *reader {
	r := &reader{w: w, rng: newRandom(w.rng.Uint64()), done: make(chan struct{})}
	for _, m := range w.logs {
		if m.l != nil && m.l.Offline() == nil {
			r.logs = append(r.logs, target{m, m.l})
			if only == nil || only == m {
				r.searched = append(r.searched, target{m, m.l})
			}
		}
	}
	return r
}

// act performs one read, in one of the ways of a client.
func (r *reader) act() {
	if len(r.logs) == 0 {
		return
	}
	switch n := r.rng.IntN(10); {
	case n < 3:
		r.anywhere()
	case n < 5:
		r.consume(r.rng.IntN(consumersPerLog))
	case len(r.searched) > 0:
		r.lookUp(r.searched[r.rng.IntN(len(r.searched))])
	}
}

// anywhere fetches from random offsets, some of which do not exist, up to random limits.
func (r *reader) anywhere() {
	var parts []*fetchPart
	for _, i := range r.rng.Perm(len(r.logs)) {
		t := r.logs[i]
		end := t.ackEnd()
		p := &fetchPart{target: t, limit: end, max: r.rng.IntN(9000)}
		start := t.l.logStart.Load()
		p.at = start - 1 + r.rng.Int64N(max(end-start, 0)+3)
		if r.rng.IntN(3) == 0 {
			p.limit = min(end, p.at+r.rng.Int64N(20))
		}
		if r.rng.IntN(5) == 0 {
			p.max = 0
		}
		parts = append(parts, p)
	}
	r.fetch(parts)
}

// consume continues one consumer of every log until all have reached the end at the beginning of
// the call. The first log that has data returns at least one batch, so each round advances one of
// them.
func (r *reader) consume(who int) {
	open := map[*mlog]*fetchPart{}
	for _, t := range r.logs {
		open[t.m] = &fetchPart{target: t, at: t.m.consumers[who], limit: t.ackEnd()}
	}
	for rounds := 0; len(open) > 0 && !r.w.disk.Crashed() && !r.stop.Load(); rounds++ {
		if rounds > 20000 {
			failf("%d consumers never reach the end of their logs", len(open))
		}
		var parts []*fetchPart
		for _, i := range r.rng.Perm(len(r.logs)) {
			if p := open[r.logs[i].m]; p != nil {
				p.limit = min(p.limit, p.ackEnd()) // a truncation may remove the rest
				p.max = r.rng.IntN(9000)
				parts = append(parts, p)
			}
		}
		r.fetch(parts)
		for _, p := range parts {
			p.at = p.next
			p.m.consumers[who] = p.at
			if p.ended || p.at >= p.limit {
				delete(open, p.m)
			}
		}
	}
}

// fetch requests the parts as the broker does: from memory alone if that has everything, otherwise
// with disk reads.
func (r *reader) fetch(parts []*fetchPart) {
	budget := r.rng.IntN(20000)
	if r.rng.IntN(2) == 0 && r.read(parts, budget, true) {
		return
	}
	r.read(parts, budget, false)
}

// read reports whether all parts were answered, which may be impossible from memory alone.
func (r *reader) read(parts []*fetchPart, budget int, memory bool) bool {
	first := true
	slices := make([]Slice, len(parts))
	defer func() {
		for i := range slices {
			slices[i].Release()
		}
	}()
	for i, p := range parts {
		p.before = p.m.view(p.l)
		most := max(min(p.max, budget), 0)
		p.one = first
		var s Slice
		var err error
		if memory {
			var ok bool
			if s, ok, err = p.l.ReadMemory(p.at, p.limit, most, first); !ok {
				return false
			}
		} else {
			s, err = r.w.cfg.readOf()(p.l, p.at, p.limit, most, first)
		}
		slices[i] = s
		p.judge(r.w, s, most, err)
		if s.Size > 0 {
			first, budget = false, budget-s.Size
		}
	}
	return true
}

// readOf returns the way to read logs: that of the log unless a rule is disabled.
func (cfg *modelConfig) readOf() func(l *Log, at, limit int64, max int, one bool) (Slice, error) {
	if cfg.read != nil {
		return cfg.read
	}
	return (*Log).Read
}

// judge fails the model unless the log may give the answer, and advances the consumer.
func (p *fetchPart) judge(w *world, s Slice, most int, err error) {
	after := p.m.view(p.l)
	p.next, p.ended = p.at, false
	if err != nil {
		p.judgeError(w, &after, err)
		return
	}
	start, end := min(p.before.start, after.start), max(p.before.end, after.end)
	if p.at < start || p.at > end {
		failf("%s: a read at %d was answered, but the log holds [%d, %d)", p.m.topic, p.at, start, end)
	}
	got := p.batches(s)
	switch n := len(got); {
	case !p.one && s.Size > most || s.Size > most && n > 1:
		failf("%s: a read of %d bytes at %d answered %d", p.m.topic, most, p.at, s.Size)
	case n > 0:
		p.next = got[n-1].LastOffset() + 1
	case p.one:
		p.ended = true // the check below finds no skipped record
	}
	why := ""
	for _, v := range [2]*view{&p.before, &after} {
		for i := range v.of {
			why = p.misses(v, &v.of[i], max(p.before.high, after.high), got, most)
			if why == "" || len(got) == 0 && replacedMeanwhile(&p.before, &after) {
				return
			}
		}
	}
	failf("%s [%d, %d): a read at %d up to %d of at most %d bytes, at least one %v: %s",
		p.m.topic, after.start, after.end, p.at, p.limit, most, p.one, why)
}

// judgeError fails the model unless an error has a cause. A consumer whose offset was removed
// continues at the start of the log.
func (p *fetchPart) judgeError(w *world, after *view, err error) {
	switch {
	case after.closed || w.disk.Crashed():
		p.ended = true
	case errors.Is(err, ErrOffsetOutOfRange):
		start, end := max(p.before.start, after.start), min(p.before.end, after.end)
		if p.at >= start && p.at <= end {
			failf("%s: the log holds [%d, %d), but a read at %d gets: %v", p.m.topic, start, end, p.at, err)
		}
		p.next = after.start
	default:
		w.diskError("read", err)
		p.ended = true
	}
}

// batches returns the batches of an answer, which are whole and in order.
func (p *fetchPart) batches(s Slice) (got []record.Batch) {
	size, next := 0, int64(0)
	for _, b := range s.Parts {
		for size += len(b); len(b) > 0; {
			one, rest, err := record.Next(b)
			if err == nil {
				err = one.CheckCRC()
			}
			switch {
			case err != nil:
				failf("%s: a read at %d: %v", p.m.topic, p.at, err)
			case one.BaseOffset() < next || one.LastOffset() < p.at || one.BaseOffset() >= p.limit:
				failf("%s: a read at %d up to %d has a batch at %d", p.m.topic, p.at, p.limit, one.BaseOffset())
			}
			got, b, next = append(got, one), rest, one.LastOffset()+1
		}
	}
	if size != s.Size {
		failf("%s: a read at %d has %d bytes and claims %d", p.m.topic, p.at, size, s.Size)
	}
	return got
}
