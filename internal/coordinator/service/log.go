package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/storage"
)

// partitionLog implements coordinator.Log on a replicated partition. It knows nothing about the
// meaning of the records. Its methods may be called concurrently.
type partitionLog struct {
	part      *replica.Partition
	purgatory *purgatory.Purgatory
	inflate   record.Limits // of a load
}

// newPartitionLog returns the log of a partition. Loads wait in purgatory for records to be
// committed. They inflate batches at places; nil: they take none.
func newPartitionLog(part *replica.Partition, park *purgatory.Purgatory, places *share.Places) *partitionLog {
	return &partitionLog{part: part, purgatory: park, inflate: record.Limits{Bytes: inflated, Places: places}}
}

// Append implements coordinator.Log with acks=all. A marker counts when it is durable, even if the
// topic's profile promises less: its coordinator never sends it again.
func (l *partitionLog) Append(epoch int32, records []coordinator.Record, now time.Time, batch *groupcommit.Batch,
	done func(error),
) {
	batches, n, err := build(records, now)
	if err != nil {
		done(fmt.Errorf("append to %s: %w", l.part, err))
		return
	}
	l.part.Append(&replica.Append{
		LeaderEpoch: epoch, Acks: replica.AcksAll, Kind: storage.Coordinator, Durable: ends(records),
		Batches: record.Accepted{Bytes: batches, Batches: n, Records: len(records), MaxTimestamp: now.UnixMilli(), AppendTime: -1},
		Done:    func(a *replica.Append) { done(elsewhere(a.Err)) },
	}, batch)
}

// ends reports whether one of the records is a marker.
func ends(records []coordinator.Record) bool {
	return slices.ContainsFunc(records, func(r coordinator.Record) bool { return r.Marker != nil })
}

// build returns the n batches of records: one for each marker and each run of records with the same
// producer. A run of more than maxRun bytes is split between events, so that a frame of the
// replication can carry each batch. A transactional batch has no sequence number, as in Kafka: the
// coordinator appends each once.
func build(records []coordinator.Record, now time.Time) (batches []byte, n int, err error) {
	for {
		run := firstRun(records)
		if size, _ := measure(run); size > mostRun {
			return nil, 0, fmt.Errorf("records of %d bytes that belong together are more than %d", size, mostRun)
		}
		batch, err := buildOne(run, now)
		if err != nil {
			return nil, 0, err
		}
		if n++; n == 1 {
			batches = batch // not copied: nearly always the only one
		} else {
			batches = append(batches, batch...)
		}
		if records = records[len(run):]; len(records) == 0 {
			return batches, n, nil
		}
	}
}

// Bounds in bytes. From maxRun on, a batch contains no further event. An event of more than mostRun
// is an error: no frame of the replication could carry it. A load inflates more than that: it must
// read whatever the log has.
const (
	maxRun   = 1 << 20
	mostRun  = 64 << 20
	inflated = 1 << 30
)

// firstRun returns the records up to the first one with another producer, or a single marker, or
// the records of some events.
func firstRun(records []coordinator.Record) []coordinator.Record {
	size := 0
	for i, r := range records {
		if i > 0 && (records[i-1].Marker != nil || r.Marker != nil) || r.Producer != records[0].Producer || r.Begins && size >= maxRun {
			return records[:i]
		}
		size += r.Size()
	}
	return records
}

// buildOne builds a batch of records with the same producer, or of one marker.
func buildOne(records []coordinator.Record, now time.Time) (record.Batch, error) {
	var o record.BatchOptions
	if len(records) > 0 && records[0].Producer.Transactional {
		p := records[0].Producer
		if m := records[0].Marker; m != nil {
			kind := record.Abort
			if m.Commit {
				kind = record.Commit
			}
			return record.EndTxnMarker(p.ID, p.Epoch, kind, m.CoordinatorEpoch, now.UnixMilli()), nil
		}
		o.Transactional, o.Producer = true, &record.Producer{ID: p.ID, Epoch: p.Epoch, Sequence: -1}
	}
	size, repeats := measure(records)
	if repeats {
		o.Compression = packed
	}
	b := record.NewBuilder(o)
	b.Grow(size)
	for _, r := range records {
		b.Append(now.UnixMilli(), r.Key, r.Value, nil)
	}
	return b.Build()
}

// packed is how runs are stored that repeat names. lz4 needs less time than writing the bytes.
var packed = func() record.Compression {
	c, err := record.CompressWith(record.Lz4, record.DefaultLevels().Lz4)
	if err != nil {
		panic(err) // the level is a constant
	}
	return c
}()

// Bounds, in bytes, of a run that is compressed, and of a record in it. A reader needs the memory
// of the largest record of a compressed batch, whatever the memory of its broker.
const (
	packedFrom   = 8 << 10
	packedRecord = 64 << 10
)

// measure returns about how many bytes a run has, and whether that is so much that its records
// repeat names. Each committed offset contains the names of its group and topic, which a request
// has once. A client could otherwise have the disk written for some hundred times the bytes that it
// sends.
func measure(records []coordinator.Record) (size int, repeats bool) {
	largest := 0
	for _, r := range records {
		size += r.Size()
		largest = max(largest, r.Size())
	}
	return size, size >= packedFrom && largest <= packedRecord
}

// Ready implements coordinator.Log.
func (l *partitionLog) Ready(epoch int32, marker bool) error {
	kind := storage.Coordinator
	if marker {
		kind = storage.Marker
	}
	return elsewhere(l.part.Refusal(epoch, kind))
}

// elsewhere makes the errors of a partition that this broker does not lead in the shard's epoch
// match ErrNotCoordinator: clients then look for the coordinator. The shard is notified later.
func elsewhere(err error) error {
	if errors.Is(err, replica.ErrFencedEpoch) || errors.Is(err, replica.ErrNotLeader) {
		return fmt.Errorf("%w: %w", coordinator.ErrNotCoordinator, err)
	}
	return err
}

const (
	readBytes = 1 << 20
	// waitTime bounds a wait, so that an abandoned one does not stay in the purgatory.
	waitTime = time.Second
)

// Load implements coordinator.Log. It reads at least once, which checks the epoch.
func (l *partitionLog) Load(ctx context.Context, epoch int32, apply func(coordinator.Record) error) error {
	ends, err := l.part.Readable()
	if err != nil {
		return fmt.Errorf("load %s: %w", l.part, err)
	}
	for offset := ends.LogStart; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := l.read(offset, ends.LogEnd, epoch, apply)
		if err != nil {
			return fmt.Errorf("load %s at offset %d: %w", l.part, offset, elsewhere(err))
		}
		if next >= ends.LogEnd {
			return nil
		}
		if next == offset {
			l.wait(ctx, offset, epoch)
		}
		offset = next
	}
}

// read applies the committed records from offset up to end that a single read returns. It returns
// the offset to continue at, which is the same if no record is committed there yet.
func (l *partitionLog) read(offset, end int64, epoch int32, apply func(coordinator.Record) error) (next int64, err error) {
	res, err := l.part.Read(replica.ReadRequest{Offset: offset, MaxBytes: readBytes, AtLeastOne: true, CurrentEpoch: epoch,
		FetchedEpoch: -1})
	if err != nil {
		return offset, err
	}
	defer res.Release()
	next = offset
	for _, rest := range res.Parts {
		for len(rest) > 0 {
			var b record.Batch
			if b, rest, err = record.Next(rest); err != nil {
				return next, err
			}
			lost := coordinator.Record{Doubtful: l.part.LostSince(b.LeaderEpoch()), Rise: l.part.RiseSince(b.LeaderEpoch())}
			if next, err = applyBatch(b, next, end, lost, l.inflate, apply); err != nil || next >= end {
				return next, err
			}
		}
	}
	if next == offset && res.HighWatermark > offset {
		return min(res.HighWatermark, end), nil // a gap left by compaction
	}
	return next, nil
}

// applyBatch applies the records of a batch that are in [from, end), or its marker. x has what they
// have in common.
func applyBatch(b record.Batch, from, end int64, x coordinator.Record, limits record.Limits,
	apply func(coordinator.Record) error,
) (next int64, err error) {
	if b.Transactional() {
		x.Producer = coordinator.Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch(), Transactional: true}
	}
	if b.Control() {
		m, err := marker(b)
		if err == nil && m != nil && b.LastOffset() >= from && b.LastOffset() < end {
			x.Marker = m
			err = apply(x)
		}
		return b.LastOffset() + 1, err
	}
	err = b.Each(limits, func(r record.Record) error {
		if r.Offset < from || r.Offset >= end {
			return nil
		}
		x.Key, x.Value = r.Key, r.Value
		return apply(x)
	})
	return b.LastOffset() + 1, err
}

// marker returns the marker in a control batch, nil if it is not one.
func marker(b record.Batch) (*coordinator.Marker, error) {
	kind, epoch, err := b.EndTxn()
	if err != nil || kind != record.Abort && kind != record.Commit && b.Records() > 0 {
		return nil, err
	}
	return &coordinator.Marker{Commit: kind == record.Commit, CoordinatorEpoch: epoch, Emptied: kind == record.NoControl}, nil
}

// wait waits until the record at offset is committed, the role of the partition changes, waitTime
// has passed, or ctx ends.
func (l *partitionLog) wait(ctx context.Context, offset int64, epoch int32) {
	w := &waiting{l: l, offset: offset, epoch: epoch, over: make(chan struct{})}
	id := l.part.Log().ID()
	l.purgatory.Watch(w, time.Now().Add(waitTime), purgatory.Key{Topic: id.Topic, Partition: id.Partition})
	select {
	case <-w.over:
	case <-ctx.Done():
	}
}

// waiting is a purgatory.Op.
type waiting struct {
	l      *partitionLog
	offset int64
	epoch  int32
	over   chan struct{} // closed by purgatory: TryComplete or Expire, once
}

// TryComplete implements purgatory.Op.
func (w *waiting) TryComplete(int) bool {
	_, atOnce := w.l.part.Peek(replica.ReadRequest{Offset: w.offset, CurrentEpoch: w.epoch, FetchedEpoch: -1}, 1)
	if !atOnce && w.l.part.Ends().HighWatermark <= w.offset {
		return false
	}
	close(w.over)
	return true
}

// Expire implements purgatory.Op.
func (w *waiting) Expire() { close(w.over) }
