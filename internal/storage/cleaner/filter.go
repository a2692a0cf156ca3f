package cleaner

import (
	"github.com/chronik-io/chronik/internal/record"
)

// Filter decides what compaction keeps of each batch. It processes all batches of a log below the
// end of the map, in order, and serves one pass.
type Filter struct {
	// Keys holds the last offset of each key in the dirty part of the log. End is the end offset of
	// that part. Records at or beyond End are kept.
	Keys *KeyMap
	End  int64
	// Last is the last offset below End that the pass has read. The batch with this offset is kept,
	// without records if necessary: the log continues behind it.
	Last int64
	// Now is the time of the pass. Tombstones is how long a tombstone stays after the first pass
	// that found it to be the last record of its key (delete.retention.ms). Both in milliseconds.
	Now, Tombstones int64
	// IsLast reports whether the last batch or the last marker of a producer ends at an offset. The
	// marker is kept as it is, the batch without records if necessary: a replica that has nothing
	// but the log learns from them the producer's sequence, its epoch and its coordinator's.
	IsLast func(producer, offset int64) bool
	// Inflate bounds what reading a compressed batch uses.
	Inflate record.Limits
	// Transactions knows the outcomes of the log's transactions.
	Transactions *Transactions

	// Kept and Removed count records.
	Kept, Removed int64
	// Free reports that the last batch has no effect: its transaction was aborted, or it is the
	// marker of a transaction of which the pass has found no batch.
	Free bool

	stays []uint64 // bits: which records of the current batch are kept
}

// Batch returns what replaces a batch, nil for nothing, and reports whether that differs from the
// batch. It fails if the batch cannot be read.
func (f *Filter) Batch(b record.Batch) (out record.Batch, changed bool, err error) {
	if b.BaseOffset() >= f.End {
		f.Kept += int64(b.Records())
		f.Free = false
		return b, false, nil
	}
	free, err := f.free(b)
	if err != nil {
		return nil, false, err
	}
	f.Free = free
	gone := free
	if b.Control() {
		at, set := b.DeleteHorizon()
		gone = free && set && f.Now >= at && !f.IsLast(b.ProducerID(), b.LastOffset())
	}
	kept, tombstones := int32(0), false
	if !gone {
		if kept, tombstones, err = f.records(b); err != nil {
			return nil, false, err
		}
	}
	f.Kept += int64(kept)
	f.Removed += int64(b.Records() - kept)
	if kept == 0 {
		switch {
		case !f.needed(b):
			return nil, true, nil
		case b.Records() == 0:
			return b, false, nil
		}
		return b.Empty(), true, nil
	}
	horizon := record.NoHorizon
	// If the batch extends beyond End, its tombstone may hide a value that this pass keeps.
	if _, set := b.DeleteHorizon(); !set && b.LastOffset() < f.End && (tombstones || free && b.Control()) {
		horizon = f.Now + f.Tombstones
	}
	if kept == b.Records() && horizon == record.NoHorizon {
		return b, false, nil
	}
	out, err = b.Rewrite(f.Inflate, horizon, f.stay)
	return out, true, err
}

// free reports whether a batch has no effect: it belongs to an aborted transaction, or it is a
// marker of a transaction of which no records are left.
func (f *Filter) free(b record.Batch) (bool, error) {
	if b.Control() {
		return f.Transactions.Marker(b)
	}
	return f.Transactions.Data(b), nil
}

// needed reports whether a batch is kept even without records: it is the last one of its producer,
// or of the pass, behind which the log continues.
func (f *Filter) needed(b record.Batch) bool {
	if b.LastOffset() >= f.Last {
		return true
	}
	return b.ProducerID() >= 0 && f.IsLast(b.ProducerID(), b.LastOffset())
}

// records finds out which records of a batch are kept. It returns their number, and reports whether
// one of them is a tombstone.
func (f *Filter) records(b record.Batch) (kept int32, tombstones bool, err error) {
	f.stays = f.stays[:0]
	at, set := b.DeleteHorizon()
	expired := set && f.Now >= at
	i := 0
	err = b.Each(f.Inflate, func(r record.Record) error {
		if i%64 == 0 {
			f.stays = append(f.stays, 0)
		}
		if b.Control() || f.last(&r, expired) {
			f.stays[i/64] |= 1 << (i % 64)
			kept++
			tombstones = tombstones || r.Value == nil
		}
		i++
		return nil
	})
	return kept, tombstones, err
}

// last reports whether a record is kept: it is beyond the map, or the last of its key and not an
// expired tombstone.
func (f *Filter) last(r *record.Record, expired bool) bool {
	if r.Offset >= f.End {
		return true
	}
	if r.Key == nil {
		return false
	}
	if last, ok := f.Keys.Get(r.Key); ok && last > r.Offset {
		return false
	}
	return r.Value != nil || !expired
}

func (f *Filter) stay(i int32) bool { return f.stays[i/64]>>(i%64)&1 == 1 }
