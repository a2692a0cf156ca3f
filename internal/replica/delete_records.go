package replica

import (
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/storage"
)

// ErrPolicy reports that the topic is only compacted, so clients may not delete its records.
var ErrPolicy = errors.New("cleanup.policy is compact: only compaction removes records")

// HighWatermark as the offset of a Deletion selects the partition's high watermark, as in the
// protocol.
const HighWatermark int64 = -1

// Deletion is a request to delete the records of one partition below an offset (DeleteRecords,
// KIP-107).
type Deletion struct {
	Topic     [16]byte
	Partition int32
	// Offset becomes the log start. It is HighWatermark or at most the high watermark.
	Offset int64

	// Results. Low is the log start, -1 on error. Err matches an error of this package or of
	// storage: ErrUnknownPartition, ErrNotLeader, ErrOffline, ErrPolicy,
	// storage.ErrOffsetOutOfRange if Offset is negative or above the high watermark,
	// storage.ErrFailed if the new start could not be made durable.
	Low int64
	Err error
}

// DeleteRecords moves the log starts of partitions and sets Low and Err of each. It returns when
// the new starts are durable, after one checkpoint per log directory. It writes to the disk.
func (m *Manager) DeleteRecords(list []Deletion) {
	partitions := make([]*Partition, len(list))
	moves := make([]storage.StartMove, 0, len(list))
	at := make([]int, 0, len(list)) // index in list of each move
	for i := range list {
		d := &list[i]
		d.Low = -1
		if partitions[i], d.Err = m.Partition(d.Topic, d.Partition); d.Err != nil {
			continue
		}
		to, err := partitions[i].deletable(d.Offset)
		if d.Err = err; err == nil {
			moves, at = append(moves, storage.StartMove{Log: partitions[i].log, To: to}), append(at, i)
		}
	}
	m.opt.Storage.MoveStarts(moves)
	for k := range moves {
		d, p := &list[at[k]], partitions[at[k]]
		d.Low, d.Err = p.deleted(&moves[k])
	}
}

// DeleteRecords deletes the records of one partition below an offset; see Manager.DeleteRecords.
func (p *Partition) DeleteRecords(offset int64) (low int64, err error) {
	to, err := p.deletable(offset)
	if err != nil {
		return -1, err
	}
	moves := []storage.StartMove{{Log: p.log, To: to}}
	p.log.Dir().MoveStarts(moves)
	return p.deleted(&moves[0])
}

// deletable returns the offset below which a Deletion deletes records, or an error if it may not.
func (p *Partition) deletable(offset int64) (int64, error) {
	r, high := p.role.Load(), p.Ends().HighWatermark
	if err := p.readable(r, -1); err != nil {
		return 0, err
	}
	if c := p.log.Config().Cleanup; c.Compact && !c.Delete {
		return 0, fmt.Errorf("delete records of %s: %w", p, ErrPolicy)
	}
	switch {
	case offset == HighWatermark:
		return high, nil
	case offset < 0 || offset > high:
		return 0, fmt.Errorf("%w: delete records of %s below %d: the high watermark is %d", storage.ErrOffsetOutOfRange, p, offset, high)
	}
	return offset, nil
}

// deleted returns the outcome of a move.
func (p *Partition) deleted(m *storage.StartMove) (low int64, err error) {
	if m.Err != nil {
		return -1, m.Err
	}
	return p.log.Ends().LogStart, nil
}
