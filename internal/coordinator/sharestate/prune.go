package sharestate

import (
	"errors"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// Prune asks up to which offset the log may be deleted. The answer is a Pruned. It is also the
// beginning of the next round: what the answer to the next Prune permits is at most End of this
// one. So the caller prunes each time when the log has grown by some bytes, which bounds how often
// an idle state is written again.
type Prune struct {
	// End is the log end, read before the event is submitted.
	End int64
}

// Pruned is the answer to a Prune.
type Pruned struct {
	// To is the offset of the first record that a load needs, at most; -1: nothing may be deleted.
	// All states have a snapshot at or above it, which is committed.
	To int64
	// Bytes is about how many bytes the snapshots of all states have: what a prune writes at most,
	// and what a load reads at least.
	Bytes int64
	// Why is why nothing may be deleted as long as the shard is in memory or until someone acts;
	// nil: prunes delete, from the second one after a load on.
	Why error
}

// Why nothing is pruned.
var (
	// ErrIncomplete: a repair of the log may bring the snapshots back.
	ErrIncomplete = errors.New("states have updates but no snapshot, as records were deleted or lost; set the positions of " +
		"their share partitions (docs/share-groups.md)")
	// ErrForeign: a version that knows the records may need what is before them.
	ErrForeign = errors.New("it has records that this version does not know; run the version that wrote them")
)

// pruning is the progress of prunes. A round begins at the log end, mark. When each state has had a
// snapshot since then, a load needs no record below mark. Offsets of records need not be known.
type pruning struct {
	mark  int64 // -1: none since the load
	round uint64
	// busy: states that had no snapshot in this round get one. to is the request that waits for
	// that, and end its End.
	busy bool
	to   coordinator.Ticket
	end  int64
}

// snapshotOld is deferred: states without a snapshot in this round get one.
type snapshotOld struct{}

// beginPrune handles a Prune.
func (s *Shard) beginPrune(to coordinator.Ticket, e Prune) {
	p := &s.prune
	switch {
	case s.foreign:
		s.out.Reply(to, Pruned{-1, s.memory, ErrForeign})
	case s.incomplete > 0:
		s.out.Reply(to, Pruned{-1, s.memory, ErrIncomplete})
	case p.busy || e.End < p.mark:
		s.out.Reply(to, Pruned{-1, s.memory, nil})
	case p.mark < 0:
		p.mark, p.round = e.End, p.round+1
		s.out.Reply(to, Pruned{-1, s.memory, nil})
	default:
		p.busy, p.to, p.end = true, to, e.End
		s.out.Defer(snapshotOld{})
	}
}

// snapshotOld writes snapshots of states that had none in this round, some of them in each event,
// and answers the Prune after the last one.
func (s *Shard) snapshotOld() {
	p := &s.prune
	for s.oldest != nil && s.oldest.round < p.round && !s.cfg.Broken.Has(PruneIdle) {
		if s.bytes >= eventBytes {
			s.out.Defer(snapshotOld{})
			return
		}
		s.emitSnapshot(s.oldest.key, s.oldest.snapshot()) // it is the newest now
	}
	s.out.Reply(p.to, Pruned{p.mark, s.memory, nil})
	p.mark, p.round, p.busy = p.end, p.round+1, false
}
