package storage

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/storage/journal"
)

// carryBroken is carry for a log whose segment failed: what the journal holds
// of it is read back and written to the journal's head, frame by frame, so that
// one dead file does not pin the journal of a thousand others. It returns the
// bytes that this takes, 0 if nothing was carried.
func (l *Log) carryBroken(all *atomic.Int64, budget int64) int64 {
	if !l.tryOwn() {
		return 0
	}
	defer l.disown()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.RLock()
	c := brokenCarry{l: l, all: all, from: l.rp.offset, flushed: l.flushed}
	oldest, through := l.oldestLocked(), l.flushedLSN
	rest := l.tail.chunks[l.tail.flushed:]
	ok := l.mode == journalled && l.failure != nil && !l.carrying && !l.closed && oldest != math.MaxUint64 &&
		(len(rest) == 0 || rest[len(rest)-1].ready)
	if len(rest) > 0 {
		through = max(through, rest[len(rest)-1].last)
	}
	l.mu.RUnlock()
	if !ok {
		return 0
	}
	size, err := c.read(oldest, through, budget)
	c.size = size
	if err != nil || len(c.entries) == 0 {
		if err != nil && !errors.Is(err, errTooMuch) {
			l.dir.logOnce(l, "frames of a failed partition could not be carried forward, they hold the journal", err)
		}
		return 0
	}
	l.setCarrying(true)
	c.all.Add(size)
	if err := l.dir.journal.Submit(c.entries...); err != nil {
		l.setCarrying(false)
		c.all.Add(-size)
		return 0
	}
	return size
}

func (l *Log) isCarrying() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.carrying
}

func (l *Log) setCarrying(on bool) {
	l.mu.Lock()
	l.carrying = on
	l.mu.Unlock()
}

var errTooMuch = errors.New("the log has more in the journal than may be carried")

// brokenCarry is one attempt; it is told of its entries in their order.
type brokenCarry struct {
	l       *Log
	all     *atomic.Int64
	from    int64 // the recovery point, and the end of what is in segments, when it began
	flushed int64
	entries []*journal.Entry
	size    int64 // of their payloads
	told    int
	failed  bool
}

// read makes an entry of every frame that the log still needs.
func (c *brokenCarry) read(oldest, through journal.LSN, budget int64) (size int64, err error) {
	j, at := c.l.dir.journal, c.from
	err = j.Read(j.Oldest(oldest), through, func(f journal.Frame) error {
		if f.Stream != c.l.id || f.LSN < oldest || f.NextEnd <= at {
			return nil
		}
		if size += int64(len(f.Payload)); size > budget {
			return errTooMuch
		}
		if f.PrevEnd != at {
			return ErrCorrupt
		}
		at = f.NextEnd
		c.entries = append(c.entries, &journal.Entry{
			Stream: c.l.stream, Type: journal.Batches, Carried: true, Payload: slices.Clone(f.Payload), PrevEnd: f.PrevEnd, NextEnd: f.NextEnd, Owner: c,
		})
		return nil
	})
	return size, err
}

// Durable is journal.Owner.
func (c *brokenCarry) Durable(_ *journal.Entry, err error) {
	c.failed = c.failed || err != nil
	if c.told++; c.told < len(c.entries) {
		return
	}
	defer c.all.Add(-c.size)
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.carrying = false
	if c.failed || l.rp.offset != c.from || l.flushed != c.flushed {
		return // the old frames remain those that count
	}
	first := c.entries[0].LSN
	l.rp.lsn = max(l.rp.lsn, first-1)
	if l.lowestUnsynced != 0 {
		l.lowestUnsynced, l.flushedLSN = first, c.holder(c.flushed)
	}
	for _, k := range l.tail.chunks[l.tail.flushed:] {
		if last := c.holder(k.next); last != 0 {
			k.first, k.last = c.holder(k.base+1), last
		}
	}
}

// holder returns the LSN of the entry that ends at or behind an offset.
func (c *brokenCarry) holder(end int64) journal.LSN {
	for _, e := range c.entries {
		if e.NextEnd >= end {
			return e.LSN
		}
	}
	return 0
}
