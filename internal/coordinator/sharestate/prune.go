package sharestate

import "github.com/chronik-io/chronik/internal/coordinator"

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
}

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
	case s.incomplete > 0 || s.foreign || p.busy || e.End < p.mark:
		// A version that knows these records may need them, and so may a repair of the log.
		s.out.Reply(to, Pruned{-1, s.memory})
	case p.mark < 0:
		p.mark, p.round = e.End, p.round+1
		s.out.Reply(to, Pruned{-1, s.memory})
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
	s.out.Reply(p.to, Pruned{p.mark, s.memory})
	p.mark, p.round, p.busy = p.end, p.round+1, false
}
