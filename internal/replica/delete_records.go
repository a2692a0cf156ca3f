package replica

import (
	"context"
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
	// storage.ErrFailed if the new start could not be made durable, ErrTimedOut if other replicas
	// did not confirm it in time.
	Low int64
	Err error
}

// DeleteRecords moves the log starts of partitions and sets Low and Err of each. It returns when
// the new starts are durable, after one checkpoint per log directory, and when every replica that
// may be elected has them: otherwise the records would come back with the next leader. The context
// bounds the wait for other replicas, after which Err matches ErrTimedOut although this broker has
// deleted the records. It writes to the disk.
func (m *Manager) DeleteRecords(ctx context.Context, list []Deletion) {
	partitions := make([]*Partition, len(list))
	moves := make([]storage.StartMove, 0, len(list))
	at := make([]int, 0, len(list)) // index in list of each move
	for i := range list {
		d := &list[i]
		d.Low = -1
		if partitions[i], d.Err = m.Partition(d.Topic, d.Partition); d.Err != nil {
			continue
		}
		move, err := partitions[i].deletable(d.Offset)
		if c := move.Log.Config().Cleanup; err == nil && c.Compact && !c.Delete {
			err = fmt.Errorf("delete records of %s: %w", partitions[i], ErrPolicy)
		}
		if d.Err = err; err == nil {
			moves, at = append(moves, move), append(at, i)
		}
	}
	led := make([]*Partition, len(moves))
	for k := range moves {
		led[k] = partitions[at[k]]
	}
	kept := 0
	for k, err := range m.cutTiers(ctx, led, moves) {
		if list[at[k]].Err = err; err == nil {
			moves[kept], at[kept], led[kept] = moves[k], at[k], led[k]
			kept++
		}
	}
	moves = moves[:kept]
	m.opt.Storage.MoveStarts(moves)
	for k := range moves {
		d := &list[at[k]]
		if _, d.Err = led[k].deleted(ctx, &moves[k]); d.Err == nil {
			// The first copy of the partition may have begun meanwhile, and must not bring it back.
			d.Err = m.cutTier(ctx, led[k], moves[k].To)
		}
		if d.Err == nil {
			d.Low = led[k].Ends().LogStart
		}
	}
}

// DeleteRecords deletes the records of one partition below an offset, under any cleanup.policy; see
// Manager.DeleteRecords.
func (p *Partition) DeleteRecords(ctx context.Context, offset int64) (low int64, err error) {
	move, err := p.deletable(offset)
	if err != nil {
		return -1, err
	}
	moves := []storage.StartMove{move}
	p.log.Dir().MoveStarts(moves)
	return p.deleted(ctx, &moves[0])
}

// deletable returns the move of the log start for a Deletion, or an error if there may be none.
func (p *Partition) deletable(offset int64) (storage.StartMove, error) {
	r := p.role.Load()
	move := storage.StartMove{Log: p.log, To: offset, Only: storage.Only{Is: true, Epoch: r.epoch, Leads: true}}
	e, err := p.readable(r, -1)
	if err != nil {
		return move, err
	}
	switch {
	case offset == HighWatermark:
		move.To = e.HighWatermark
	case offset < 0 || offset > e.HighWatermark:
		return move, fmt.Errorf("%w: delete records of %s below %d: the high watermark is %d", storage.ErrOffsetOutOfRange, p, offset,
			e.HighWatermark)
	}
	return move, nil
}

// deleted returns the outcome of a move, when all replicas that may be elected have it.
func (p *Partition) deleted(ctx context.Context, m *storage.StartMove) (low int64, err error) {
	if errors.Is(m.Err, storage.ErrFencedEpoch) {
		return -1, fmt.Errorf("delete records of %s: %w", p, p.role.Load().notLeader())
	}
	if m.Err != nil {
		return -1, m.Err
	}
	for {
		low, moved, err := p.lowestStart(m.To)
		if err != nil || moved == nil {
			return low, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return -1, fmt.Errorf("delete records of %s below %d on all in-sync replicas: %w", p, m.To, ErrTimedOut)
		}
	}
}

// lowestStart returns the log start that this broker and all replicas that may be elected have made
// durable, where own is that of this broker. If it is below own, moved is closed when it may have
// changed.
func (p *Partition) lowestStart(own int64) (low int64, moved <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead == nil {
		return -1, nil, fmt.Errorf("delete records of %s: %w", p, p.role.Load().notLeader())
	}
	p.lead.OwnLogStart(own)
	if low = p.lead.MinLogStart(); low >= own && !p.frozen() {
		return p.Ends().LogStart, nil, nil
	}
	if p.starts == nil {
		p.starts = make(chan struct{})
	}
	return low, p.starts, nil
}

// wakeStarts wakes those who wait for the log starts of followers. The caller holds mu.
func (p *Partition) wakeStarts() {
	if p.starts != nil {
		close(p.starts)
		p.starts = nil
	}
}
