package replica

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// ReadRequest is a request for batches.
type ReadRequest struct {
	Offset   int64
	MaxBytes int
	// AtLeastOne returns the first batch even if it exceeds MaxBytes.
	AtLeastOne bool
	// Committed limits the read to the last stable offset (read_committed).
	Committed bool
	// CurrentEpoch is the leader epoch that the reader knows, -1: none.
	CurrentEpoch int32
	// AnyReplica states that the reader accepts a replica that does not lead (KIP-392).
	AnyReplica bool
	// Lend states that the reader can use a loan (storage.Slice), and LendOnly that it has no
	// memory for anything else.
	Lend, LendOnly bool
	// FetchedEpoch is the epoch of the last batch that the reader has, -1: none. If the reader's
	// log diverges from this one, the result has the point (KIP-595).
	FetchedEpoch int32
	// Slow is what the reads of one answer have in common that wait for the object store; nil: this
	// read is one of its own.
	Slow *SlowReads
}

// SlowReads bounds how long several reads wait for the object store together.
type SlowReads struct {
	// Until is when none waits any longer, zero until the first one has set it.
	Until time.Time
	// Due reports whether the answer is due without the records that only the store has: then no
	// read waits for them, but the transfers begin. nil: it is not.
	Due func() bool
	// Empty: a read that has waited in vain has no records and no error, because the reader will
	// ask again.
	Empty bool
}

// ReadResult is the result of a read. Slice.Release must be called.
type ReadResult struct {
	storage.Slice
	HighWatermark, LastStable, LogStart int64
	// DivergingEpoch and DivergingEnd are the epoch and offset at which the reader's log diverges
	// from this one; -1 if it does not.
	DivergingEpoch int32
	DivergingEnd   int64
	localStart     int64
	// Aborted are the aborted transactions of which a reader of committed records must skip the
	// records in Slice, in the order of their markers.
	Aborted []txnindex.Entry
}

// MaxAborted is the largest length of ReadResult.Aborted: 1 MiB of an answer to a fetch.
const MaxAborted = 64 << 10

// Read returns batches below the high watermark, or below the last stable offset. The offsets in
// the result are valid even if it fails. It may read the disk.
//
// A replica that does not lead serves records up to its own high watermark, which may be behind the
// leader's. It cannot know whether a later offset exists, so it answers ErrOffsetNotAvailable: the
// reader would otherwise start again at the earliest or the latest offset.
func (p *Partition) Read(r ReadRequest) (ReadResult, error) {
	for {
		res, limit, err := p.prepareRead(r)
		if err != nil || res.DivergingEpoch >= 0 {
			return res, err
		}
		if r.Offset < p.log.Ends().LogStart {
			ok, err := p.readTier(&r, &res, limit)
			if ok {
				return res, err
			}
			continue
		}
		if err = p.readLog(&r, &res, limit); !errors.Is(err, storage.ErrOffsetOutOfRange) || r.Offset >= p.log.Ends().LogStart {
			return res, err
		}
	}
}

// readLog reads from the local log.
func (p *Partition) readLog(r *ReadRequest, res *ReadResult, limit int64) (err error) {
	read := p.log.Read
	switch {
	case r.LendOnly:
		read = p.log.LendOnly
	case r.Lend:
		read = p.log.Lend
	}
	if res.Slice, err = read(r.Offset, limit, r.MaxBytes, r.AtLeastOne); err != nil {
		return p.readError(err)
	}
	if r.Committed {
		// After the limit and the records, so that the list can only be too long.
		if res.Aborted, err = p.log.AbortedIn(r.Offset, &res.Slice, MaxAborted); err != nil {
			err = p.readError(err) // a loan that must be cut is read
			res.Release()
			res.Slice = storage.Slice{}
		}
	}
	return err
}

// readError returns the error of a failed read for a client. If bytes are damaged here and another
// replica has the records, the client must ask that one: the leader, or the next one, since this
// broker resigns as soon as the other one is in sync. Only the last replica reports the damage.
func (p *Partition) readError(err error) error {
	p.ReadFailed(err)
	if r := p.role.Load(); !errors.Is(err, storage.ErrCorrupt) || r.leader && (p.env.resign == nil || r.isr < 2 && !p.outlived()) {
		return err
	}
	//nolint:errorlint // it must not match ErrCorrupt
	return fmt.Errorf("%w: bytes of %s are damaged on this broker, and another replica has them: %v", ErrNotLeader, p, err)
}

// outlived reports whether a follower has all that is known to be damaged here. It can copy the
// rest, join the ISR and lead. It takes mu.
func (p *Partition) outlived() bool {
	damages := p.log.Damages()
	if len(damages) == 0 {
		return false // its extent is not known
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead != nil && p.lead.Passed(damages[len(damages)-1].Next)
}

// ReadMemory is Read without disk access. It never blocks; ok is false if the disk would be needed.
func (p *Partition) ReadMemory(r ReadRequest) (res ReadResult, ok bool, err error) {
	res, limit, err := p.prepareRead(r)
	if err != nil || res.DivergingEpoch >= 0 {
		return res, true, err
	}
	if r.Offset < res.localStart {
		return res, false, nil
	}
	res.Slice, ok, err = p.log.ReadMemory(r.Offset, limit, r.MaxBytes, r.AtLeastOne)
	if r.Committed && ok && err == nil {
		if res.Aborted, ok, err = p.log.AbortedInMemory(r.Offset, &res.Slice, MaxAborted); !ok || err != nil {
			res.Release()
			res.Slice = storage.Slice{}
		}
	}
	return res, ok, err
}

// Peek estimates how many bytes Read would return, up to max, without reading them. atOnce is true
// if Read would return at once whatever the number of bytes, with an error or because the logs
// diverge.
func (p *Partition) Peek(r ReadRequest, max int64) (bytes int64, atOnce bool) {
	res, limit, err := p.prepareRead(r)
	if err != nil || res.DivergingEpoch >= 0 {
		return 0, true
	}
	return p.log.Bytes(r.Offset, limit, max), false
}

// LocalBytes is Peek for records that the local log has: 0 for others, and if Read would fail.
func (p *Partition) LocalBytes(r ReadRequest, max int64) int64 {
	res, limit, err := p.prepareRead(r)
	if err != nil || res.DivergingEpoch >= 0 || r.Offset < res.localStart {
		return 0
	}
	return p.log.Bytes(r.Offset, limit, max)
}

// prepareRead does everything that Read does before it reads. limit is the end offset of the read.
func (p *Partition) prepareRead(r ReadRequest) (res ReadResult, limit int64, err error) {
	role := p.role.Load()
	e, offline := p.Readable()
	res = ReadResult{HighWatermark: e.HighWatermark, LastStable: e.LastStable, LogStart: e.LogStart, DivergingEpoch: -1, DivergingEnd: -1,
		localStart: e.LocalStart}
	if err := cmp.Or(p.mayRead(role, &r), offline); err != nil {
		return res, 0, err
	}
	if !role.leader && r.Offset >= e.LogStart && p.behind(&r, e.HighWatermark) {
		return res, 0, fmt.Errorf("read %s at %d, where the high watermark of this replica is %d: %w", p, r.Offset, e.HighWatermark,
			ErrOffsetNotAvailable)
	}
	if r.Offset > e.LogEnd || r.FetchedEpoch > role.epoch {
		if err := p.current(role); err != nil {
			return res, 0, fmt.Errorf("read %s at %d, which holds [%d, %d): %w", p, r.Offset, e.LogStart, e.LogEnd, err)
		}
	}
	if r.FetchedEpoch >= 0 {
		epoch, end := p.epochEnd(role, r.FetchedEpoch)
		switch {
		case end < 0:
			return res, 0, fmt.Errorf("%w: %s does not know the end of epoch %d, which offset %d follows", p.outOfRange(role), p,
				r.FetchedEpoch, r.Offset)
		case r.Offset >= e.LogStart && (epoch < r.FetchedEpoch || end < r.Offset):
			res.DivergingEpoch, res.DivergingEnd = epoch, end
			return res, 0, nil
		}
	}
	if r.Offset < e.LogStart && !role.leader && p.tiers() {
		return res, 0, fmt.Errorf("read %s at %d, which begins at %d as far as this broker knows: %w", p, r.Offset, e.LogStart,
			role.notLeader())
	}
	if r.Offset > e.LogEnd || r.Offset < e.LogStart {
		return res, 0, fmt.Errorf("%w: offset %d of %s, which holds [%d, %d)", p.outOfRange(role), r.Offset, p, e.LogStart, e.LogEnd)
	}
	if r.Committed {
		return res, e.LastStable, nil
	}
	return res, e.HighWatermark, nil
}

// outOfRange returns the error for a reader of records that are not here. The leader knows whether
// they exist, and so does a replica in sync, whose log begins where the leader's does. Another one
// may begin later, as after a repair that left out records, until it is copied again.
func (p *Partition) outOfRange(r *role) error {
	if r.leader || r.insync(p.env.self) && p.log.Flaw() == nil {
		return storage.ErrOffsetOutOfRange
	}
	return r.notLeader()
}

// readable returns the offsets of the partition, or why a request with an epoch may not read.
func (p *Partition) readable(r *role, epoch int32) (Ends, error) {
	e, offline := p.Readable()
	return e, cmp.Or(p.leads(r, epoch), offline)
}

// leads returns why the role does not allow a read with an epoch, nil if it does.
func (p *Partition) leads(r *role, epoch int32) error {
	if err := r.check(epoch); err != nil {
		return fmt.Errorf("read %s: %w", p, err)
	}
	return nil
}

// behind reports whether a reader has more records than this replica knows to be committed.
func (p *Partition) behind(r *ReadRequest, high int64) bool {
	last, _ := p.log.LastEpoch()
	return r.Offset > high || r.FetchedEpoch > last
}

// mayRead is leads for a request that may accept a replica that does not lead.
func (p *Partition) mayRead(r *role, req *ReadRequest) error {
	if r.leader || !req.AnyReplica {
		return p.leads(r, req.CurrentEpoch)
	}
	err := r.checkEpoch(req.CurrentEpoch)
	if err == nil && (r.epoch < 0 || p.stale() || p.voided(r)) {
		err = r.notLeader()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", p, err)
	}
	return nil
}

// voided reports whether an unclean election may have discarded what this replica, which does not
// lead, has as committed: no leader since has reported a high watermark that covers it.
func (p *Partition) voided(r *role) bool { return r.unclean > max(p.highEpoch.Load(), 0) }

// current returns an error if this broker leads and another one may lead by now, without this one's
// knowledge. A reader who has records that are not here must ask that one: from this one it would
// learn that they are lost, and start again at the earliest or the latest offset.
func (p *Partition) current(r *role) error {
	switch {
	case !r.leader || r.replicas < 2:
		return nil
	case !p.env.leaseLive():
		return errNoLease()
	case p.offered(r):
		return errOffered()
	}
	return nil
}

// epochEnd returns the end offset of an epoch. The current epoch ends at the log end, even if
// nothing was appended in it.
func (p *Partition) epochEnd(r *role, epoch int32) (int32, int64) {
	if epoch == r.epoch {
		return epoch, p.log.Ends().LogEnd
	}
	if t := p.tier.Load(); t != nil && len(t.Epochs) > 0 && epoch < p.log.EpochAt(p.log.Ends().LogStart) {
		known := p.Known()
		return known.End(epoch, p.log.Ends().LogEnd)
	}
	return p.log.EpochEnd(epoch)
}

// Special timestamps of ListOffset, defined by the protocol.
const (
	Latest        int64 = -1
	Earliest      int64 = -2
	MaxTimestamp  int64 = -3 // KIP-734
	EarliestLocal int64 = -4 // KIP-405: the earliest in local storage
	LatestTiered  int64 = -5 // KIP-1005: the last that the object store has; none without any
	EarliestToGo  int64 = -6 // KIP-1023: the earliest that the object store lacks; none if it gets none
)

// ListOffset returns the first record with a timestamp of at least ts, or the offset for a special
// timestamp. Offset -1 means that there is none. Epoch is the leader epoch at that offset: at the
// log end the current one, which also stands for an unknown one at the log start.
func (p *Partition) ListOffset(ts int64, currentEpoch int32, committed bool) (storage.Timestamp, error) {
	none := storage.Timestamp{Offset: -1, Time: -1, Epoch: -1}
	r := p.role.Load()
	e, err := p.readable(r, currentEpoch)
	if err != nil {
		return none, err
	}
	limit := e.HighWatermark
	if committed {
		limit = e.LastStable
	}
	switch ts {
	case Latest, MaxTimestamp:
		if limit < r.epochStart && !r.sole {
			return none, fmt.Errorf("list offsets of %s: %w", p, ErrOffsetNotAvailable)
		}
		if ts == MaxTimestamp {
			found, err := p.maxTime(limit)
			if err != nil {
				err = p.readError(err)
			}
			return found, err
		}
		return storage.Timestamp{Offset: limit, Time: -1, Epoch: r.epoch}, nil
	case Earliest:
		return p.at(r, e.LogStart), nil
	case EarliestLocal:
		return p.at(r, e.LocalStart), nil
	case LatestTiered:
		if t := p.tier.Load(); t != nil && t.Start < t.End {
			return p.at(r, t.End-1), nil
		}
		return none, nil
	case EarliestToGo:
		t := p.tier.Load()
		switch {
		case !t.Empty():
			return p.at(r, t.End), nil
		case p.log.Config().Cleanup.CopyFirst:
			return p.at(r, e.LogStart), nil
		}
		return none, nil
	}
	found, err := p.findTime(ts, limit)
	if err != nil {
		return found, p.readError(err)
	}
	if found.Offset < 0 && limit < r.epochStart && !r.sole {
		return none, fmt.Errorf("list offsets of %s: %w", p, ErrOffsetNotAvailable) // it may be above limit
	}
	return found, nil
}

// at returns an offset with its leader epoch.
func (p *Partition) at(r *role, offset int64) storage.Timestamp {
	epoch := p.log.EpochAt(offset)
	if offset < p.log.Ends().LogStart {
		known := p.Known()
		epoch = known.At(offset)
	}
	if epoch < 0 {
		epoch = r.epoch
	}
	return storage.Timestamp{Offset: offset, Time: -1, Epoch: epoch}
}

// EpochEnd returns the largest known epoch not above epoch, and the offset after its last record;
// (-1, -1) if unknown (OffsetForLeaderEpoch).
func (p *Partition) EpochEnd(currentEpoch, epoch int32) (int32, int64, error) {
	r := p.role.Load()
	if _, err := p.readable(r, currentEpoch); err != nil {
		return -1, -1, err
	}
	if err := p.current(r); err != nil {
		return -1, -1, fmt.Errorf("epochs of %s: %w", p, err)
	}
	e, end := p.epochEnd(r, epoch)
	return e, end, nil
}

// Epochs returns the leader epochs of the log of the leader in an epoch, which is the last of them.
// It fails if this broker does not lead in that epoch.
func (p *Partition) Epochs(currentEpoch int32) (epochs.Cache, error) {
	r := p.role.Load()
	if _, err := p.readable(r, currentEpoch); err != nil {
		return epochs.Cache{}, err
	}
	known := p.Known()
	err := p.current(r)
	if last := known.Latest(); err == nil && last != r.epoch { // another role begins, or the log is ahead of the metadata
		err = fmt.Errorf("%w: %d, that of the log is %d", ErrFencedEpoch, r.epoch, last)
	}
	if err != nil {
		return epochs.Cache{}, fmt.Errorf("epochs of %s: %w", p, err)
	}
	return known, nil
}
