package window

import (
	"errors"
	"iter"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
)

// AckType is how a member acknowledges a record. The numbers are those of the protocol.
type AckType int8

// The types.
const (
	// Gap states that an offset has no record.
	Gap AckType = 0
	// Accept states that a record was processed.
	Accept AckType = 1
	// Release returns a record for another delivery.
	Release AckType = 2
	// Reject states that a record cannot be processed.
	Reject AckType = 3
	// Renew begins the lock duration again (KIP-1222).
	Renew AckType = 4
)

// Ack is what a member acknowledges of a range of offsets.
type Ack struct {
	First, Last int64
	// Types has one type for all offsets, or one for each.
	Types []AckType
}

// The errors of Acknowledge. The comments name their codes in the protocol.
var (
	// ErrInvalidRequest means a range that no member could acknowledge (INVALID_REQUEST).
	ErrInvalidRequest = errors.New("invalid acknowledgement")
	// ErrInvalidState means that the member does not hold a record (INVALID_RECORD_STATE).
	ErrInvalidState = errors.New("the record is not acquired by the member")
)

// Acknowledge applies what a member acknowledges in a request: all of it, or with an error nothing.
// Ranges are in the order of their offsets. Records below SPSO are skipped, and succeed. With
// ErrDropped, earlier acknowledgements without an answer may be stored or not.
//
// The request may be answered when the write wait is stored, or at once if wait is 0. A repetition
// of an acknowledgement that is not stored yet succeeds, and waits for the same write. One that is
// stored already is ErrInvalidState.
//
// The caller checks whether the request may renew locks. Acknowledge costs O(log n) for each run
// that it reads or changes.
func (w *Window) Acknowledge(m Member, now time.Duration, acks []Ack) (wait uint64, err error) {
	if w.dropped {
		return 0, ErrDropped
	}
	if err := validate(acks); err != nil {
		return 0, err
	}
	k := acknowledging{w: w, member: m, now: now}
	for p := range parts(acks) {
		if err = k.check(p); err != nil && !w.cfg.Broken.Has(ApplyPart) {
			return 0, err
		}
	}
	for p := range parts(acks) {
		k.apply(p)
	}
	w.advance()
	return k.wait, err
}

// validate checks acknowledgements without the window.
func validate(acks []Ack) error {
	for i, a := range acks {
		n := a.Last - a.First + 1 // not positive if it overflows
		if a.First < 0 || n <= 0 || len(a.Types) != 1 && int64(len(a.Types)) != n {
			return ErrInvalidRequest
		}
		for _, t := range a.Types {
			if t < Gap || t > Renew {
				return ErrInvalidRequest
			}
		}
		if i == 0 {
			continue
		}
		switch before := acks[i-1]; {
		case a.First < before.Last:
			return ErrInvalidRequest
		// Kafka, too, lets a range begin with the last offset of the range before.
		case a.First == before.Last && a.at(a.First) != before.at(a.First):
			return ErrInvalidState
		}
	}
	return nil
}

// at returns the type of an offset.
func (a *Ack) at(offset int64) AckType {
	if len(a.Types) == 1 {
		return a.Types[0]
	}
	return a.Types[offset-a.First]
}

// part is a range of offsets that is acknowledged with one type.
type part struct {
	first, last int64
	by          AckType
}

// parts yields the longest ranges with one type. Each offset is in one of them only.
func parts(acks []Ack) iter.Seq[part] {
	return func(yield func(part) bool) {
		next := int64(0)
		for _, a := range acks {
			for p := (part{first: max(a.First, next)}); p.first <= a.Last; p.first = p.last + 1 {
				p.by, p.last = a.at(p.first), a.Last
				if len(a.Types) > 1 {
					for p.last = p.first; p.last < a.Last && a.at(p.last+1) == p.by; p.last++ {
					}
				}
				if !yield(p) {
					return
				}
			}
			next = a.Last + 1
		}
	}
}

// acknowledging is an Acknowledge that is in progress.
type acknowledging struct {
	w      *Window
	member Member
	now    time.Duration
	wait   uint64
	// renewed is the grant of the renewed locks, and delayed that of the last released records.
	renewed, delayed uint32
	delay            time.Duration // of delayed
}

// check reports whether a part can be applied.
func (k *acknowledging) check(p part) error {
	w := k.w
	if p.last >= w.end {
		return ErrInvalidRequest
	}
	for at := max(p.first, w.start); at <= p.last; {
		r := w.tree.get(at)
		if !k.holds(r) && !k.repeats(r, p.by) {
			return ErrInvalidState
		}
		at = r.last() + 1
	}
	return nil
}

// holds reports whether the member holds the records of a run.
func (k *acknowledging) holds(r run) bool {
	if r.state != Acquired {
		return false
	}
	return k.w.tree.locks.grants.at(r.ref).member == k.member || k.w.cfg.Broken.Has(AnyMember)
}

// repeats reports whether the member has acknowledged the records of a run in this way, and that is
// not durable yet.
func (k *acknowledging) repeats(r run, by AckType) bool {
	member := Member(r.ref)
	if r.flags&held != 0 {
		member = k.w.tree.locks.grants.at(r.ref).member
	}
	if r.flags&(dirty|sent) == 0 || member != k.member {
		return false
	}
	lost := r.state == Archived || r.state == Archiving
	switch by {
	case Gap, Reject:
		return lost
	case Accept:
		return r.state == Acknowledged
	case Release:
		return r.state == Available || r.state == Delayed || lost && int(r.count) >= k.w.cfg.Deliveries
	}
	return false
}

// apply applies a part that check has accepted.
func (k *acknowledging) apply(p part) {
	w := k.w
	if p.first < w.start && !w.cfg.Broken.Has(AnswerBelowStart) {
		k.wait = max(k.wait, w.startWrite(min(p.last+1, w.start)))
	}
	for at := max(p.first, w.start); at <= p.last && at < w.end; {
		r := w.tree.get(at)
		last := min(r.last(), p.last)
		switch {
		case k.holds(r):
			k.change(r, at, last, p.by)
		case w.cfg.Broken.Has(AnswerRepetition):
		case r.flags&dirty != 0:
			k.wait = w.writes + 1
		case r.flags&sent != 0:
			k.wait = max(k.wait, w.writes)
		}
		at = last + 1
	}
}

// change applies an acknowledgement to offsets of a run that the member holds.
func (k *acknowledging) change(r run, first, last int64, by AckType) {
	w := k.w
	of := r.ref
	to := run{count: r.count, ref: uint32(k.member), flags: dirty}
	w.counts.Acknowledged[by] += last - first + 1
	switch by {
	case Renew:
		to.state, to.flags = Acquired, r.flags
		if w.cfg.Broken.Has(FirstDeadline) {
			return
		}
		if k.renewed == 0 {
			k.renewed = w.granted(k.member, k.now, w.cfg.Lock, false)
		}
		w.tree.set(r, first, last, to, k.renewed)
		return
	case Gap:
		to.state = Archived
	case Accept:
		to.state = Acknowledged
	case Reject:
		to = w.dead(to)
	case Release:
		of = 0
		if to = w.release(r, k.member); to.state == Available {
			of = k.delayFor(int(r.count))
		}
		w.exhausted(to.state, last-first+1)
		if of != 0 {
			to.state = Delayed
		}
		w.tree.set(r, first, last, to, of)
		k.wait = w.writes + 1
		return
	}
	if !w.cfg.Broken.Has(AckKeepsLock) {
		of = 0
	}
	w.tree.set(r, first, last, to, of)
	k.wait = w.writes + 1
}

// delayFor returns the grant of the retry delay after a delivery; 0: there is no delay.
func (k *acknowledging) delayFor(count int) uint32 {
	cfg := &k.w.cfg
	delay := pause.Backoff{First: cfg.Retry, Most: cfg.RetryMax}.After(count)
	if delay <= 0 || cfg.Broken.Has(RetryAtOnce) {
		return 0
	}
	if k.delayed == 0 || k.delay != delay {
		k.delayed, k.delay = k.w.granted(k.member, k.now, delay, true), delay
	}
	return k.delayed
}

// startWrite returns the write with which SPSO is stored that is at or above an offset; 0: it is
// stored.
func (w *Window) startWrite(start int64) uint64 {
	switch {
	case w.stored >= start:
		return 0
	case w.write != nil && w.write.Start >= start:
		return w.writes
	}
	w.startDue = true
	return w.writes + 1
}
