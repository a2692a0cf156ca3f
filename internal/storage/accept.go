package storage

import (
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// Whether a log accepts an append depends on these, in this order:
//
//	the log and its directory have not failed           for all
//	space is not low, and was measured recently         not for the end of a transaction, for which
//	                                                    readers wait, nor for what a leader sends: it
//	                                                    has decided that its records are accepted, and
//	                                                    a replica that refused them would leave the ISR
//	                                                    while its disk still has room
//	the role allows this use of the log in the epoch    for all
//	the batches continue the log or their producers     see check and continues
//
// The first two need no lock: the queue asks before it waits for memory and when it takes a group,
// and others ask by Refusal what would happen. The others hold while the offsets are assigned.

// Refusal returns the error with which an append of a kind would be refused now, nil if it would be
// queued. Of the kind Coordinator, the end of a transaction may be accepted nevertheless. It does
// not block.
func (l *Log) Refusal(kind Kind) error {
	if err := l.Err(); err != nil {
		return err
	}
	if kind == Assigned || kind == Marker {
		return nil
	}
	g, internal := &l.dir.guard, l.cfg.Load().Cleanup.Internal
	if err := g.refuses(internal); err != nil {
		return err
	}
	if !internal && g.stale() {
		return errOverdue
	}
	return nil
}

// refusal is Refusal for an append.
func (l *Log) refusal(a *Append) error {
	if a.ends() {
		return l.Refusal(Marker)
	}
	return l.Refusal(a.Kind)
}

// refuse ends the appends of a group that are refused. None of their offsets was assigned. It
// returns the others, in order.
func (l *Log) refuse(group []*Append) (rest []*Append) {
	low := 0
	for _, a := range group {
		err := l.refusal(a)
		if err == nil {
			rest = append(rest, a)
			continue
		}
		if errors.Is(err, ErrLowSpace) {
			low++
		}
		a.Err = err
		a.Sink.OffsetsAssigned(a)
	}
	l.dir.stats.refused.Add(float64(low))
	return rest
}

// ends reports whether the append ends a transaction. Readers of committed records wait for it.
func (a *Append) ends() bool {
	if a.Kind != Coordinator {
		return a.Kind == Marker
	}
	for p := a.Batches; len(p) > 0; {
		b, rest, err := record.Next(p)
		if err != nil {
			return false
		}
		if b.Control() {
			return true
		}
		p = rest
	}
	return false
}

// fenced returns why the role of the log does not allow an append, nil if it does. The caller holds
// producersMu.
func (l *Log) fenced(a *Append) error {
	f, use := l.fence, loglife.Own
	if a.Kind == Assigned {
		use = loglife.Copied
	}
	if a.LeaderEpoch == f.epoch && f.role.Allows(use) || l.dir.opt.broken.has(skipFence) {
		return nil
	}
	why := fmt.Sprintf("the log has epoch %d", f.epoch)
	switch {
	case f.role == loglife.NoRole:
		why = "the log has no leader epoch yet"
	case a.LeaderEpoch != f.epoch:
	case f.role == loglife.Held:
		why = "records of this epoch were discarded, or the log has records of a later one"
	case f.role == loglife.Leading:
		why = "the log leads"
	case f.role == loglife.Following:
		why = "the log follows a leader"
	}
	return fmt.Errorf("append to %s in leader epoch %d: %w: %s", l, a.LeaderEpoch, ErrFencedEpoch, why)
}
