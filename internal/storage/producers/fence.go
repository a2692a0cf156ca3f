package producers

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
)

// Fence is what must be known of a producer to judge its transactional batches and its markers. A
// log derives it from its State. A coordinator that applies batches before its log has them keeps
// it itself. It is a value: the methods return the next one.
type Fence struct {
	Epoch       int16              // the latest one; -1: none is known
	Coordinator int32              // the largest epoch of the coordinators that sent markers; -1: none is known
	Open        bool               // a transaction is open
	Marked      bool               // a marker is known
	Last        record.ControlType // of the last marker; NoControl: none, or a compaction emptied it
}

// NoFence returns the Fence of an unknown producer.
func NoFence() Fence { return Fence{Epoch: -1, Coordinator: -1, Last: record.NoControl} }

// Marker is a transaction marker, without the batch that holds it.
type Marker struct {
	Producer    int64
	Epoch       int16
	Kind        record.ControlType // NoControl: a compaction emptied the batch
	Coordinator int32              // epoch of the coordinator that sent it; -1: not known
}

// Begin returns the Fence after a transactional batch.
func (f Fence) Begin(epoch int16) Fence {
	f.Open, f.Epoch = true, max(f.Epoch, epoch)
	return f
}

// End returns the Fence after a marker. A marker of an unknown producer is also remembered: it
// fences batches that are still on their way.
func (f Fence) End(m Marker) Fence {
	return Fence{Epoch: max(f.Epoch, m.Epoch), Coordinator: max(f.Coordinator, m.Coordinator), Marked: true, Last: m.Kind}
}

// Joins reports whether a transactional batch is part of the open transaction. If it is not, and
// there is no error, the batch would begin one and needs a permit.
func (f Fence) Joins(id int64, epoch int16) (bool, error) {
	switch {
	case epoch < f.Epoch:
		return false, fmt.Errorf("%w: producer %d sent epoch %d, the latest is %d", ErrInvalidProducerEpoch, id, epoch, f.Epoch)
	case f.Open && epoch > f.Epoch:
		return false, fmt.Errorf("%w: producer %d sent epoch %d, that of the transaction is %d", ErrTransactionOpen, id, epoch, f.Epoch)
	}
	return f.Open, nil
}

// CheckPermit returns why a coordinator's permit says nothing: a coordinator with a later epoch has
// sent markers, and the earlier one may not know that the transaction has ended.
func (f Fence) CheckPermit(id int64, coordinator int32) error {
	if coordinator < f.Coordinator {
		return fmt.Errorf("%w: the permit for producer %d is of coordinator epoch %d; the log has markers of epoch %d", ErrUnverified, id, coordinator,
			f.Coordinator)
	}
	return nil
}

// CheckMarker reports whether a marker may be appended. repeats is true if it repeats the last
// marker of its producer, and nothing must be appended.
func (f Fence) CheckMarker(m Marker, from Sender) (repeats bool, err error) {
	switch {
	case from.Foreign && (m.Coordinator != max(f.Coordinator, 0) || m.Epoch > max(f.Epoch, 0)):
		// It must fence nothing: no marker of the real coordinator would be accepted after it, and
		// the transaction would never end.
		return false, fmt.Errorf("%w: the marker for producer %d has epoch %d of coordinator epoch %d, the log knows %d of %d",
			ErrForeignMarker, m.Producer, m.Epoch, m.Coordinator, f.Epoch, f.Coordinator)
	case m.Coordinator < f.Coordinator:
		return false, &CoordinatorFenced{Producer: m.Producer, Sent: m.Coordinator, Epoch: f.Coordinator}
	case m.Epoch < f.Epoch:
		return false, fmt.Errorf("%w: a marker of producer %d has epoch %d, the latest is %d", ErrInvalidProducerEpoch, m.Producer, m.Epoch,
			f.Epoch)
	case !from.Bumps || m.Epoch > f.Epoch || !f.Marked && !f.Open:
		return false, nil
	case f.Open || f.Last != m.Kind && f.Last != record.NoControl:
		// The epoch of an open transaction is below that of its marker: this one is a late copy of
		// the marker before it (KAFKA-19446).
		return false, fmt.Errorf("%w: a marker of producer %d repeats epoch %d", ErrInvalidProducerEpoch, m.Producer, m.Epoch)
	}
	// That of a later coordinator is written again, so that the older one is fenced from now on.
	return m.Coordinator == f.Coordinator, nil
}
