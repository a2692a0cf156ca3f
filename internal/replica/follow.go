package replica

import (
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
)

// Follow begins a subscription to the leader of an epoch. High watermarks that the leader reported
// before no longer count. The error matches ErrFencedEpoch or ErrUnknownEpoch.
func (p *Partition) Follow(epoch int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.followsLocked(epoch); err != nil {
		return fmt.Errorf("follow the leader of %s: %w", p, err)
	}
	p.follow.Follow()
	p.comparison.to.Store(0)
	p.lostLeader.Store(0)
	return nil
}

// Unfollow reports that the stream from the leader ended. Consumers can read here for
// Limits.Lag longer. It takes no locks.
func (p *Partition) Unfollow() { p.lostLeader.CompareAndSwap(0, int64(p.env.now())|1) }

// stale reports whether this broker follows no leader, and for longer than a replica may be behind.
// A consumer would wait here for ever without knowing that others have newer records.
func (p *Partition) stale() bool {
	lost := p.lostLeader.Load()
	return lost != 0 && p.env.now()-time.Duration(lost) >= p.env.limits.Lag
}

// followsLocked returns why this broker does not follow in an epoch. The caller holds mu.
func (p *Partition) followsLocked(epoch int32) error {
	r := p.role.Load()
	if err := r.checkEpoch(epoch); err != nil {
		return err
	}
	if r.leader {
		return fmt.Errorf("%w: this broker leads in epoch %d", ErrFencedEpoch, r.epoch)
	}
	return nil
}

// Replicated is one append from the stream of a leader. It may be reused after Done has run.
type Replicated struct {
	// Epoch is the leader epoch of the subscription, PrevEnd the end of the leader's log before the
	// append, High the leader's high watermark.
	Epoch   int32
	PrevEnd int64
	High    int64
	// Batches have offsets and epochs. Their bytes must not change before Done. If there are none,
	// the leader has no batches in [PrevEnd, GapEnd) and had GapEpoch there.
	Batches  []byte
	GapEnd   int64
	GapEpoch int32
	// Done is called exactly once, when the log has accepted the batches in order, or has refused
	// them with Err. The batches need not be written by then. Done may run before AppendReplicated
	// returns. It must neither block nor append.
	Done func(*Replicated)
	Err  error // matches ErrFencedEpoch, ErrUnknownEpoch, ErrNotLeader or an error of storage

	p     *Partition
	inner storage.Append
}

// AppendReplicated appends what the leader sent, and updates the leader's high watermark. With a
// batch, the log accepts it and the journal writes it when the batch runs. It does not block and
// does not allocate.
func (p *Partition) AppendReplicated(a *Replicated, batch *groupcommit.Batch) {
	p.mu.Lock()
	err := p.followsLocked(a.Epoch)
	p.mu.Unlock()
	if a.p, a.Err = p, err; err != nil {
		a.Err = fmt.Errorf("append replicated batches to %s in epoch %d: %w", p, a.Epoch, err)
		a.Done(a)
		return
	}
	a.inner = storage.Append{Kind: storage.Assigned, Batches: a.Batches, LeaderEpoch: a.Epoch, PrevEnd: a.PrevEnd, GapEnd: a.GapEnd,
		GapEpoch: a.GapEpoch, Sink: a}
	p.log.Append(&a.inner, batch)
}

// OffsetsAssigned implements storage.Sink.
func (a *Replicated) OffsetsAssigned(*storage.Append) {
	if a.Err = a.inner.Err; a.Err == nil {
		_ = a.p.LeaderHigh(a.Epoch, a.High) // a role that changed meanwhile makes it irrelevant
	}
	a.Done(a)
}

// LeaderHigh records the high watermark that the leader of an epoch reported. It must be called
// only while the log agrees with the leader's up to its end. The error matches ErrFencedEpoch or
// ErrUnknownEpoch.
func (p *Partition) LeaderHigh(epoch int32, high int64) error {
	p.mu.Lock()
	if err := p.followsLocked(epoch); err != nil {
		p.mu.Unlock()
		return fmt.Errorf("high watermark of the leader of %s: %w", p, err)
	}
	var effect progress.Effect
	ack := p.log.AckEnd()
	if p.follow.LeaderHigh(high, epoch, ack) {
		effect = progress.HighMoved
	}
	p.complete(effect, ack)
	return nil
}

// MayReset reports whether the log may be emptied, to begin again at an offset: nothing depends on
// its records, as far as this broker knows. The leader may know a newer record; then the follower
// asks again.
func (p *Partition) MayReset(epoch int32, to int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followsLocked(epoch) != nil || !p.role.Load().expendable(p.env.self) {
		return false
	}
	p.follow.Reset(to)
	return true
}

// MayTruncate reports whether the log may be truncated to an offset. Above the high watermark it
// always may. Below it, it may only if an unclean election has discarded records since the high
// watermark was reported; then lost is true, and the caller reports the loss. If the error matches
// ErrDiverged, the replica must be taken offline, and nothing may be truncated.
func (p *Partition) MayTruncate(epoch int32, to int64) (lost bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.followsLocked(epoch); err != nil {
		return false, fmt.Errorf("truncate %s: %w", p, err)
	}
	high, at, unclean := p.follow.High, p.follow.Epoch, p.role.Load().unclean
	if unclean == 0 {
		unclean = -1
	}
	lost, ok := p.follow.Truncate(to, unclean)
	if !ok {
		return false, fmt.Errorf("truncate %s to %d: %w: the high watermark was %d in epoch %d", p, to, ErrDiverged, high, at)
	}
	if lost {
		p.log.Rely(high)
	}
	return lost, nil
}
