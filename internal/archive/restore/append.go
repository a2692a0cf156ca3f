package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/pkg/durability"
)

// copied is the profile of logs while they are copied: it waits for no sync.
var copied = durability.Profile{Name: "os", Ack: durability.Written, Sync: durability.SyncOS}

// appender copies the batches of a partition into its log. Without a log it only verifies them.
type appender struct {
	w   *writer
	p   *format.Partition
	log *storage.Log
	// next is where the log ends. What an earlier call has copied is below it.
	next      int64
	epoch     int32  // of the last batch
	from      int64  // where the next part begins, 0 for the first
	batchFrom int64  // where the next batch begins at the earliest
	rest      []byte // the beginning of a batch
}

// copy copies all parts, and leaves the log with the start and the end of the snapshot.
func (a *appender) copy(ctx context.Context) error {
	if a.log != nil && a.next > a.p.End {
		return fmt.Errorf("%w: the log ends at %d, and the snapshot at %d", format.ErrContradiction, a.next, a.p.End)
	}
	err := a.w.s.parts(ctx, a.p, func(part *format.Part) error { return a.part(ctx, part) })
	if err == nil && a.p.State == format.Kept && max(a.from, a.p.Start) != a.p.End {
		err = fmt.Errorf("%w: the parts end at %d and not at %d", format.ErrContradiction, a.from, a.p.End)
	}
	if err != nil || a.log == nil {
		return err
	}
	if a.next < a.p.End {
		if err := a.gap(ctx); err != nil {
			return err
		}
	}
	if a.log.Ends().LogStart >= a.p.Start {
		return nil
	}
	moves := []storage.StartMove{{Log: a.log, To: a.p.Start}}
	a.w.storage.MoveStarts(moves)
	if err := moves[0].Err; err != nil {
		return failure(a.log, err)
	}
	return nil
}

// part copies the batches of a part.
func (a *appender) part(ctx context.Context, part *format.Part) error {
	hole := part.Base > max(a.from, a.p.Start) && a.p.State == format.Kept
	if hole || part.Base < a.from {
		return fmt.Errorf("%w: a part has offsets from %d on after %d", format.ErrContradiction, part.Base, a.from)
	}
	a.from = part.End
	if a.log != nil && part.End <= a.next {
		a.w.done.Bytes.Add(part.Bytes())
		return nil // an earlier call has copied it
	}
	s := a.w.s
	err := format.ReadPart(ctx, s.store, s.prefix, a.p.ID, part, func(b []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a.w.done.Bytes.Add(int64(len(b)))
		a.rest = append(a.rest, b...)
		return a.batches(ctx, part)
	})
	if err == nil && len(a.rest) > 0 {
		err = fmt.Errorf("%w: the part [%d, %d) ends within a batch", format.ErrContradiction, part.Base, part.End)
	}
	return err
}

// batches copies the whole batches of rest.
func (a *appender) batches(ctx context.Context, part *format.Part) error {
	begin, at := 0, 0 // of what is appended, and of the next batch
	for at < len(a.rest) {
		b, _, err := record.Next(a.rest[at:])
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return fmt.Errorf("%w: at offset %d or after: %w", format.ErrContradiction, a.batchFrom, err)
		}
		if err := a.fits(b, part); err != nil {
			return err
		}
		a.epoch, a.batchFrom = b.LeaderEpoch(), b.LastOffset()+1
		if b.LastOffset() < max(a.p.Start, a.next) { // deleted, or copied by an earlier call
			at += b.Size()
			begin = at // nothing accepted is before it, because offsets rise
			continue
		}
		if !b.Control() {
			a.w.done.Records.Add(int64(b.Records()))
		}
		at += b.Size()
	}
	if at > begin && a.log != nil {
		if err := a.append(ctx, &storage.Append{Batches: a.rest[begin:at]}); err != nil {
			return err
		}
	}
	a.rest = a.rest[:copy(a.rest, a.rest[at:])]
	return nil
}

// fits returns an error unless b can be the next batch of the part.
func (a *appender) fits(b record.Batch, part *format.Part) error {
	var wrong string
	switch base, last, epoch := b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(); {
	case last < base:
		wrong = "it ends before it begins"
	case base < part.Base || last >= part.End:
		wrong = fmt.Sprintf("the part has the offsets [%d, %d)", part.Base, part.End)
	case base < a.batchFrom:
		wrong = fmt.Sprintf("the batch before it ends at %d", a.batchFrom-1)
	case epoch < a.epoch:
		wrong = fmt.Sprintf("the batch before it has epoch %d", a.epoch)
	case epoch > a.p.Epoch:
		wrong = fmt.Sprintf("the snapshot was taken in epoch %d", a.p.Epoch)
	default:
		return nil
	}
	return fmt.Errorf("%w: batch [%d, %d] of leader epoch %d: %s", format.ErrContradiction, b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(),
		wrong)
}

// gap moves the end of the log to that of the snapshot: the last batches were removed by a
// compaction.
func (a *appender) gap(ctx context.Context) error {
	epoch, _ := a.log.LastEpoch()
	return a.append(ctx, &storage.Append{GapEnd: a.p.End, GapEpoch: max(epoch, 0)})
}

// append appends batches or a gap, and waits until the log has taken them.
func (a *appender) append(ctx context.Context, x *storage.Append) error {
	done := make(sink, 1)
	x.Kind, x.LeaderEpoch, x.PrevEnd, x.Sink = storage.Assigned, a.p.Epoch, a.next, done
	a.log.Append(x, nil)
	select {
	case <-done:
	case <-ctx.Done(): // the disk hangs; the log may use the bytes later
		a.rest = nil
		return context.Cause(ctx)
	}
	if x.Err != nil {
		return failure(a.log, x.Err)
	}
	a.next = x.Next
	return nil
}

// sink implements storage.Sink.
type sink chan struct{}

// OffsetsAssigned implements storage.Sink.
func (s sink) OffsetsAssigned(*storage.Append) { s <- struct{}{} }
