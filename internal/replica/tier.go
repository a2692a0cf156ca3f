package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// ErrTier means that records are only in the object store, and could not be read there. They may be
// readable later.
var ErrTier = errors.New("records that only the object store has")

// Tiers reads records that only the object store has. Its methods wait for the store at most until
// the context ends.
type Tiers interface {
	// Read is storage.Log.Read for offsets of [t.Start, t.End).
	Read(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, offset, limit int64, max int, atLeastOne bool) (
		storage.Slice, error)
	// Aborted returns aborted transactions with markers from an offset on that have records below
	// limit, in the order of their markers: all with markers below t.End, and perhaps some with
	// later ones. more reports that the local log may have others, with markers from t.End on.
	Aborted(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, from, limit int64) (
		list []txnindex.Entry, more bool, err error)
	// FindTime returns the first record of [t.Start, t.End) with a timestamp of at least ts, and
	// MaxTime the first with the largest one. Offset -1 means that there is none.
	FindTime(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, ts int64) (storage.Timestamp, error)
	MaxTime(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier) (storage.Timestamp, error)
}

// TierOptions are about records that the object store has.
type TierOptions struct {
	Reads Tiers
	// ReadWait and LookupWait bound how long a read of records, or a search for a time, waits for
	// the store.
	ReadWait, LookupWait time.Duration
	// Alter changes what the object store has of a partition. The error matches
	// metadata.ErrConflict if it was refused; after any other one the outcome is unknown.
	Alter func(ctx context.Context, x *metadata.TierChange) (revision int64, err error)
	// Applied waits until Apply was called with a revision of the metadata.
	Applied func(ctx context.Context, revision int64) error
}

// Tier returns what the object store has of the partition, as the newest image that was applied
// names it; nil: nothing.
func (p *Partition) Tier() *metadata.Tier { return p.tier.Load() }

// setTier follows the metadata. Readers that wait below a new start can be answered.
func (p *Partition) setTier(t *metadata.Tier) {
	before := p.Ends().LogStart
	p.tier.Store(t)
	if p.Ends().LogStart != before {
		p.StartMoved()
	}
}

// tiers reports whether the object store may have records below the local log. A follower's log
// begins where its leader's does, although its metadata may not name the copy yet.
func (p *Partition) tiers() bool { return p.tier.Load() != nil || p.log.Config().Cleanup.CopyFirst }

// startOf returns the log start if the local log has these ends. The metadata name it, so that it
// never moves back: what they have deleted stays deleted, also if the log of a later leader has it.
func (p *Partition) startOf(e storage.Ends) int64 {
	t := p.tier.Load()
	switch {
	case t == nil || t.Start > p.AgreesTo(t, e):
		return e.LogStart
	case t.Empty():
		return max(t.Start, e.LogStart)
	}
	return t.Start
}

// AgreesTo returns up to where a log with these ends surely continues what the object store has:
// its end, or where an unclean election may have begun that no leader has compared yet. It is not
// below the local log: from there on the log has its own records.
func (p *Partition) AgreesTo(t *metadata.Tier, e storage.Ends) int64 {
	if !p.undone(t) {
		return e.LogEnd
	}
	return max(p.laterThan(t, e), e.LogStart)
}

// undone reports whether an unclean election may have undone some of t, and no leader has compared
// it since.
func (p *Partition) undone(t *metadata.Tier) bool { return t.Epoch < p.role.Load().unclean }

// laterThan returns where the records of a log with these ends begin that are later than t; it may
// be below the local log. The role names only the newest unclean election: what begins after the
// epoch of t may be of another one.
func (p *Partition) laterThan(t *metadata.Tier, e storage.Ends) int64 {
	own := p.log.Epochs()
	if _, end := own.End(t.Epoch, e.LogEnd); end >= 0 {
		return end
	}
	return e.LogEnd
}

// servable returns t without what a reader must not get of it: a part may extend into what an
// election has undone. Recovered metadata may name what one has undone that they do not know.
func (p *Partition) servable(t *metadata.Tier, e storage.Ends) *metadata.Tier {
	if !p.undone(t) && !p.recovered(t) {
		return t
	}
	read := *t
	read.End = min(t.End, p.laterThan(t, e))
	return &read
}

// Deleted implements storage.Observer.
func (p *Partition) Deleted() int64 {
	if p.tier.Load() == nil {
		return 0
	}
	return p.startOf(p.log.Ends())
}

// Copied implements storage.Observer. Nothing counts as copied while the store may have records
// that an unclean election has undone, or may no longer have what recovered metadata name. What the
// log has of later epochs than the copy never does: it is not what the store has at these offsets.
// A disk may have lost records without a trace, and no election is unclean then.
func (p *Partition) Copied() int64 {
	t := p.tier.Load()
	switch {
	case t.Empty() && !p.log.Config().Cleanup.CopyFirst: // nothing waits for a copy
		return math.MaxInt64
	case t == nil || p.undone(t) || p.recovered(t):
		return 0
	}
	return min(t.End, p.laterThan(t, p.log.Ends()))
}

// recovered reports whether the metadata were recovered from an older state, and no leader has
// compared t with the store since.
func (p *Partition) recovered(t *metadata.Tier) bool {
	g := p.env.generation.Load()
	return g != nil && t.Generation != *g
}

// readTier reads from an offset below the local log, up to where the log continues what the store
// has. ok is false if the caller must begin again: the local log or the metadata have changed. If
// the store does not answer in time, the transfer continues, and a later read gets the records.
func (p *Partition) readTier(r *ReadRequest, res *ReadResult, limit int64) (ok bool, err error) {
	t, ends := p.tier.Load(), p.log.Ends()
	if r.Offset >= ends.LogStart || t == nil || r.Offset < t.Start {
		return false, nil
	}
	read := p.servable(t, ends)
	switch {
	case r.Offset >= read.End:
		return true, p.gap(read, ends.LogStart)
	case r.LendOnly:
		res.Larger = 1 // a batch, at least
		return true, nil
	}
	slow := r.Slow
	if slow == nil {
		slow = &SlowReads{}
	}
	if slow.Until.IsZero() {
		slow.Until = time.Now()
		if slow.Due == nil || !slow.Due() {
			slow.Until = slow.Until.Add(p.env.tier.ReadWait)
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), slow.Until)
	defer cancel()
	s, err := p.env.tier.Reads.Read(ctx, p.tp(), read, r.Offset, min(limit, read.End), r.MaxBytes, r.AtLeastOne)
	if err == nil && r.Committed && s.Size > 0 {
		res.Aborted, err = p.abortedAcross(ctx, read, r.Offset, &s)
	}
	changed := p.tier.Load() != t // it may name other objects by now, and none of what was read
	if err == nil && !changed {
		res.Slice = s
		return true, nil
	}
	s.Release()
	switch {
	case changed:
		return false, nil
	case slow.Empty && errors.Is(err, context.DeadlineExceeded):
		return true, nil
	}
	return true, fmt.Errorf("%w: %s: %w", ErrTier, p, err)
}

// abortedAcross returns the aborted transactions that a reader of s, which is from the object
// store, must know of. Their markers may be in the local log: the last stable offset that bounds
// the read was determined before. A log that begins between the records and the marker does not
// know the transaction; then the store does.
func (p *Partition) abortedAcross(ctx context.Context, t *metadata.Tier, offset int64, s *storage.Slice) ([]txnindex.Entry, error) {
	list, more, err := p.env.tier.Reads.Aborted(ctx, p.tp(), t, offset, s.Next())
	if err != nil {
		return nil, err
	}
	if !more {
		return s.Shorten(list, MaxAborted), nil
	}
	if list, err = p.log.AbortedAfter(t.End, s, list, MaxAborted); err != nil {
		return nil, fmt.Errorf("aborted transactions of %s above %d: %w", p, t.End, err)
	}
	return list, nil
}

// gap returns the error for an offset that neither the local log has nor, as far as this broker
// knows, the object store: it surely has the records of t only.
func (p *Partition) gap(t *metadata.Tier, local int64) error {
	return fmt.Errorf("%w: %s begins at %d on this disk, and copies of it are known up to %d only", ErrTier, p, local, t.End)
}

// Known returns the leader epochs of the whole log, as far as they are known. The result is
// independent of the partition.
func (p *Partition) Known() epochs.Cache {
	t := p.tier.Load()
	if t == nil {
		return p.log.Epochs()
	}
	entries := make([]epochs.Entry, len(t.Epochs))
	for i, e := range t.Epochs {
		entries[i] = epochs.Entry{Epoch: e.Epoch, Start: e.Start}
	}
	all, err := epochs.Of(entries)
	if err != nil { // a Tier is decoded only if they are in order
		return p.log.Epochs()
	}
	return p.KnownWith(all)
}

// KnownWith returns the leader epochs of the whole log if those of a copy are the ones of the
// records below the local log, except for later ones than the local log allows there: an election
// has undone these. The local log has the epoch of the record below its start, unless it began
// there as a copy of another log. It takes ownership of copied.
func (p *Partition) KnownWith(copied epochs.Cache) epochs.Cache {
	own, start := p.log.Epochs(), p.log.Ends().LogStart
	copied.CutEnd(start)
	last := own.At(start - 1)
	if last < 0 {
		last = own.At(start)
	}
	if last >= 0 {
		copied = copied.Until(last)
	}
	for _, e := range own.Entries() {
		copied.Assign(e.Epoch, e.Start)
	}
	return copied
}

// cutTier moves the start of what the object store has of a partition to an offset, in the
// metadata, if it begins below. The replicas need not confirm it: the next leader has the metadata
// of its election, which are later. It returns when the image has it.
func (m *Manager) cutTier(ctx context.Context, p *Partition, to int64) error {
	for {
		t := p.tier.Load()
		if t == nil || to <= t.Start { // a copy that has begun must not bring back what is deleted
			return nil
		}
		r := p.role.Load()
		rec := m.newest().Partition(p.tp())
		if !r.leader || rec == nil || rec.Leader != p.env.self || rec.LeaderEpoch != r.epoch {
			return r.notLeader()
		}
		next := t.From(to)
		if t.Epoch >= r.unclean && !p.recovered(t) { // what is below was committed in this epoch; see laterThan
			next.Epoch = r.epoch
		}
		revision, err := m.opt.Tier.Alter(ctx, &metadata.TierChange{TopicPartition: p.tp(), Next: &next, Was: t.Revision,
			Record: rec.Revision, Collection: -1})
		if newer, refused := metadata.Refused(err); refused {
			revision, err = newer, nil
		}
		if err == nil {
			err = m.opt.Tier.Applied(ctx, revision)
		}
		if err != nil {
			return fmt.Errorf("delete records of %s below %d: %w", p, to, err)
		}
	}
}

// cutTiers is cutTier for many deletions at once. It returns the error of each.
func (m *Manager) cutTiers(ctx context.Context, list []*Partition, moves []storage.StartMove) []error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	free := make(chan struct{}, cutsAtOnce)
	for i, p := range list {
		if p.Tier() == nil {
			continue
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			errs[i] = m.cutTier(ctx, p, moves[i].To)
		})
	}
	all.Wait()
	return errs
}

// cutsAtOnce is how many changes of the metadata a deletion of records waits for at a time.
const cutsAtOnce = 64

// TierEpochs returns the leader epochs of the offsets from start up to end as a Tier has them.
func TierEpochs(all *epochs.Cache, start, end int64) (list []metadata.EpochStart) {
	known := all.Within(start, end)
	known = known.Latter(metadata.MaxTierEpochs)
	for _, e := range known.Entries() {
		list = append(list, metadata.EpochStart{Epoch: e.Epoch, Start: e.Start})
	}
	return list
}

// timesBelow searches the records that only the object store has. search gets what it has of them.
// It waits for the store, up to LookupWait for each change of the metadata meanwhile; so do
// findTime and maxTime.
func (p *Partition) timesBelow(search func(context.Context, *metadata.Tier) (storage.Timestamp, error)) (storage.Timestamp, error) {
	for {
		t, ends := p.tier.Load(), p.log.Ends()
		if t == nil || t.Start >= min(t.End, ends.LogStart) {
			return storage.Timestamp{Offset: -1, Time: -1, Epoch: -1}, nil
		}
		below := *p.servable(t, ends)
		if below.End < ends.LogStart {
			return storage.Timestamp{}, p.gap(&below, ends.LogStart)
		}
		below.End = ends.LogStart
		ctx, cancel := context.WithTimeout(context.Background(), p.env.tier.LookupWait)
		found, err := search(ctx, &below)
		cancel()
		if err == nil || p.tier.Load() == t {
			if err != nil {
				err = fmt.Errorf("%w: %s: %w", ErrTier, p, err)
			}
			return found, err
		}
	}
}

// findTime returns the first record below limit with a timestamp of at least ts.
func (p *Partition) findTime(ts, limit int64) (storage.Timestamp, error) {
	found, err := p.timesBelow(func(ctx context.Context, t *metadata.Tier) (storage.Timestamp, error) {
		return p.env.tier.Reads.FindTime(ctx, p.tp(), t, ts)
	})
	if err != nil || found.Offset >= 0 {
		return found, err
	}
	return p.log.FindTime(ts, limit)
}

// maxTime returns the first record below limit with the largest timestamp.
func (p *Partition) maxTime(limit int64) (storage.Timestamp, error) {
	older, err := p.timesBelow(func(ctx context.Context, t *metadata.Tier) (storage.Timestamp, error) {
		return p.env.tier.Reads.MaxTime(ctx, p.tp(), t)
	})
	if err != nil {
		return older, err
	}
	found, err := p.log.MaxTime(limit)
	if err == nil && older.Offset >= 0 && older.Time >= found.Time {
		found = older
	}
	return found, err
}
