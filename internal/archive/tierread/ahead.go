package tierread

import (
	"github.com/chronik-io/chronik/internal/archive/format"
)

const (
	// One of aheadShare parts of the cache is for what no caller has asked for yet.
	aheadShare = 8
	// maxEnds is of how many reads the Reader knows where they ended.
	maxEnds = 1024
)

// readEnds are the offsets at which the last reads ended. A read that begins at one of them
// continues another one.
type readEnds struct {
	of    map[readEnd]struct{}
	order []readEnd // in a circle
	at    int       // the oldest of them
}

type readEnd struct {
	id     format.ID
	offset int64
}

func (e *readEnds) add(x readEnd) {
	if e.of == nil {
		e.of = make(map[readEnd]struct{}, maxEnds)
	}
	if _, ok := e.of[x]; ok {
		return
	}
	e.of[x] = struct{}{}
	if len(e.order) < maxEnds {
		e.order = append(e.order, x)
		return
	}
	delete(e.of, e.order[e.at])
	e.order[e.at] = x
	e.at = (e.at + 1) % maxEnds
}

// readAhead begins to read the chunk after chunk i of a part, or the first one of the next part, if
// the read at an offset, which has ended at next, continues another one.
func (r *Reader) readAhead(l *parts, p cursor, w *walk, offset, next int64, i int) {
	id := l.c.ID
	r.mu.Lock()
	defer r.mu.Unlock()
	_, continues := r.ends.of[readEnd{id, offset}]
	r.ends.add(readEnd{id, next})
	if !continues || next >= l.c.End {
		return
	}
	run := w.part.Run
	if i++; int64(i)*format.ChunkSize < w.part.To {
		r.begin(key{nonce: run.Nonce, chunk: i}, r.loadChunk(id, run, w.footer, i), nil)
		return
	}
	part := l.cachedNext(p)
	if part == nil || part.Base >= l.c.End {
		return
	}
	run, i = part.Run, int(part.From/format.ChunkSize)
	footer := key{nonce: run.Nonce, chunk: footerOf}
	chunk := func() {
		if e := r.cache.peek(footer); e != nil {
			if f := e.value.(*format.Log); f.Has(id, &run) {
				r.begin(key{nonce: run.Nonce, chunk: i}, r.loadChunk(id, run, f, i), nil)
			}
		}
	}
	if r.cache.peek(footer) != nil {
		chunk()
	} else {
		r.begin(footer, r.loadFooter(id, run), chunk)
	}
}

// cachedNext returns the part after that of p, nil without one or if its manifest is not in the
// cache. The caller holds mu.
func (l *parts) cachedNext(p cursor) *format.Part {
	if p.i+1 < len(p.m.Parts) {
		return &p.m.Parts[p.i+1]
	}
	m := l.top
	if p.older++; p.older < len(l.top.Older) {
		e := l.r.cache.peek(key{nonce: l.top.Older[p.older].Nonce, chunk: manifestOf})
		if e == nil {
			return nil
		}
		m = e.value.(*format.Manifest)
	} else if p.older > len(l.top.Older) {
		return nil
	}
	if len(m.Parts) == 0 {
		return nil
	}
	return &m.Parts[0]
}

// begin begins a transfer that no caller waits for, unless half of all that may run do, or the
// cache has enough that no caller has asked for. So none begins while others wait. then is called
// with mu held if the transfer succeeds, and must not wait. The caller holds mu.
func (r *Reader) begin(k key, do load, then func()) {
	if r.closed || r.cache.peek(k) != nil || r.flights[k] != nil || r.failure(k) != nil ||
		2*r.running >= r.opt.Transfers {
		return
	}
	coming := int64(1) // transfers ahead, with this one
	for _, f := range r.flights {
		if f.ahead {
			coming++
		}
	}
	if r.cache.ahead+coming*(format.ChunkSize+entryBytes) > r.cache.limit/aheadShare {
		return
	}
	r.stats.Ahead++
	r.start(&flight{key: k, load: do, ahead: true, then: then, done: make(chan struct{})})
}
