package producers

import (
	"errors"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/record"
)

// Errors of Check and CheckMarker. The broker maps each to a protocol error.
var (
	ErrOutOfOrderSequence   = errors.New("out of order sequence number")
	ErrInvalidProducerEpoch = errors.New("producer epoch is older than the latest one")
	// ErrTransactionOpen: a batch outside of transactions, while one of its producer is open.
	ErrTransactionOpen = errors.New("a transaction of the producer is open")
	// ErrUnverified: the batch would begin a transaction, and the coordinator has not permitted it
	// since the last marker. The caller asks the coordinator again.
	ErrUnverified = errors.New("the transaction is not known to be ongoing")
	// ErrTooManyTransactions: the log has MaxOpen open transactions, or all logs together have
	// MaxOpenEverywhere.
	ErrTooManyTransactions = errors.New("too many transactions are open")
	// ErrCoordinatorFenced: a marker of a coordinator that has a successor. The error is a
	// *CoordinatorFenced.
	ErrCoordinatorFenced = errors.New("coordinator epoch is fenced")
	// ErrForeignMarker: a tool sent a marker with another coordinator epoch than that of the last
	// marker, or with a later producer epoch than the log knows.
	ErrForeignMarker = errors.New("a marker that no coordinator sent must have the epochs that DescribeProducers shows")
)

// CoordinatorFenced is an ErrCoordinatorFenced with the coordinator epoch that the log knows.
type CoordinatorFenced struct {
	Producer    int64
	Epoch, Sent int32
}

// Error implements error.
func (e *CoordinatorFenced) Error() string {
	return fmt.Sprintf("%v: the marker for producer %d has epoch %d, the log knows %d", ErrCoordinatorFenced, e.Producer, e.Sent, e.Epoch)
}

// Unwrap makes the error match ErrCoordinatorFenced.
func (e *CoordinatorFenced) Unwrap() error { return ErrCoordinatorFenced }

const (
	// MaxOpen bounds the open transactions of a log. Each takes about 200 bytes.
	MaxOpen = 10_000
	// MaxOpenEverywhere bounds those of all logs of a broker, to 64 MiB.
	MaxOpenEverywhere = 64 << 20 / 200
)

// Duplicate describes the batch that a retry repeats.
type Duplicate struct {
	BaseOffset, LastOffset, Timestamp int64
}

// Permit is what a transaction's coordinator said before a batch is appended. The zero value is
// that of a batch outside of transactions.
type Permit struct {
	Guard            *Guard
	CoordinatorEpoch int32
	// Bumps: the producer gets a new epoch with each transaction (transaction.version 2), so a
	// batch of an epoch that the log does not know must have sequence 0.
	Bumps bool
}

// Check reports whether a batch may be appended. dup is true if it repeats a remembered batch and
// must not be appended again. A batch without a producer id and the first batch of an unknown
// producer are always accepted, except that a batch begins a transaction only with a permit.
func (s *State) Check(b record.Batch, permit Permit) (d Duplicate, dup bool, err error) {
	id := b.ProducerID()
	if id < 0 {
		return d, false, nil
	}
	p := s.ids[id]
	first := b.BaseSequence()
	if p == nil {
		if !b.Transactional() {
			return d, false, nil
		}
		if first > 0 && permit.Bumps {
			return d, false, began(b)
		}
		return d, false, s.mayBegin(id, -1, permit)
	}
	epoch, latest := b.ProducerEpoch(), p.epoch()
	if epoch < latest {
		return d, false, fmt.Errorf("%w: producer %d sent epoch %d, the latest is %d", ErrInvalidProducerEpoch, id, epoch, latest)
	}
	if first >= 0 { // the offsets of a group have no sequence
		if d, dup, err = p.follows(b, latest); dup || err != nil {
			return d, dup, err
		}
	}
	if p.txn == nil && !b.Transactional() {
		return d, false, nil
	}
	switch t := p.now(); {
	case t.first >= 0 && b.Transactional() && epoch == latest:
		return d, false, nil
	case t.first >= 0:
		return d, false, fmt.Errorf("%w: that of producer %d since offset %d", ErrTransactionOpen, id, t.first)
	case b.Transactional():
		return d, false, s.mayBegin(id, t.coordinator, permit)
	}
	return d, false, nil
}

// follows compares the sequence of a batch with the remembered batches of its producer, whose
// latest epoch is not above that of the batch.
func (p *producer) follows(b record.Batch, latest int16) (d Duplicate, dup bool, err error) {
	epoch, first, last := b.ProducerEpoch(), b.BaseSequence(), b.LastSequence()
	newest := p.last()
	if epoch > latest || newest == nil || newest.epoch < epoch {
		if first != 0 {
			return d, false, began(b)
		}
		return d, false, nil
	}
	for _, m := range p.window(len(p.batches)) {
		if m.firstSeq == first && m.lastSeq == last {
			return Duplicate{m.lastOffset - int64(m.delta), m.lastOffset, m.timestamp}, true, nil
		}
	}
	if want := next(newest.lastSeq); first != want {
		return d, false, fmt.Errorf("%w: producer %d sent sequence %d, expected %d", ErrOutOfOrderSequence, b.ProducerID(), first, want)
	}
	return d, false, nil
}

// began is the error for the first batch of an epoch that does not have sequence 0.
func began(b record.Batch) error {
	return fmt.Errorf("%w: producer %d began epoch %d with sequence %d instead of 0", ErrOutOfOrderSequence, b.ProducerID(),
		b.ProducerEpoch(), b.BaseSequence())
}

// mayBegin returns why a transaction must not begin. coordinator is the epoch of the producer's
// coordinator that the log knows.
func (s *State) mayBegin(id int64, coordinator int32, permit Permit) error {
	switch {
	case s.opened >= MaxOpen:
		return fmt.Errorf("%w: %d in this partition", ErrTooManyTransactions, s.opened)
	case s.Everywhere != nil && s.Everywhere.Load() >= MaxOpenEverywhere:
		return fmt.Errorf("%w: %d in the partitions of this broker", ErrTooManyTransactions, s.Everywhere.Load())
	case permit.Guard == nil || s.guards[id] != permit.Guard:
		return fmt.Errorf("%w: producer %d", ErrUnverified, id)
	}
	return Fence{Coordinator: coordinator}.CheckPermit(id, permit.CoordinatorEpoch)
}

// next returns the sequence number after seq. It wraps to 0 after 2^31-1.
func next(seq int32) int32 {
	if seq == math.MaxInt32 {
		return 0
	}
	return seq + 1
}

// Sender describes the sender of a marker.
type Sender struct {
	// Bumps: the producer gets a new epoch with each transaction (transaction.version 2), and the
	// marker has the epoch after that of the transaction.
	Bumps bool
	// Foreign: a tool sent the marker, and not the transaction's coordinator.
	Foreign bool
}

// CheckMarker reports whether a marker may be appended. dup is true if it repeats the last marker
// of its producer, and nothing must be appended.
func (s *State) CheckMarker(b record.Batch, from Sender) (d Duplicate, dup bool, err error) {
	kind, coordinator, err := b.EndTxn()
	if err != nil {
		return d, false, err
	}
	if kind != record.Abort && kind != record.Commit {
		return d, false, fmt.Errorf("control record of type %d is not a transaction marker", kind)
	}
	t, f := noTransaction, NoFence()
	if p := s.ids[b.ProducerID()]; p != nil {
		t = p.now()
		f = t.fence(p.epoch())
	}
	m := Marker{Producer: b.ProducerID(), Epoch: b.ProducerEpoch(), Kind: kind, Coordinator: coordinator}
	if dup, err = f.CheckMarker(m, from); !dup {
		return d, false, err
	}
	return Duplicate{BaseOffset: t.marker, LastOffset: t.marker, Timestamp: b.MaxTimestamp()}, true, nil
}

// fence returns the Fence of a producer with this latest epoch.
func (t transaction) fence(epoch int16) Fence {
	return Fence{Epoch: epoch, Coordinator: t.coordinator, Open: t.first >= 0, Marked: t.marker >= 0, Last: t.kind}
}
