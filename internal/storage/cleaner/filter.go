package cleaner

import (
	"github.com/chronik-io/chronik/internal/record"
)

// Filter says what of a batch stays. It is given all batches of a log below the
// end of the map, in their order, and belongs to one pass.
type Filter struct {
	// Keys holds the last offset of each key in the part of the log that the pass
	// found dirty, and End is the offset where that part ends: what lies there or
	// beyond stays as it is.
	Keys *KeyMap
	End  int64
	// Last is the last offset that was found below End. The batch that it is in stays,
	// without records if need be: it tells where the log goes on.
	Last int64
	// Now is the time of the pass; Tombstones is for how long those that it is the
	// first to find last stay (delete.retention.ms). Milliseconds.
	Now, Tombstones int64
	// LastOf returns the last offset that a producer wrote, false where nothing is
	// known of it. The batch that ends there stays, without records if need be.
	LastOf func(producer int64) (int64, bool)
	// MaxInflated bounds what a batch may decompress to, in bytes.
	MaxInflated int64
	// Transactions follows them.
	Transactions *Transactions

	// Kept and Removed count records.
	Kept, Removed int64

	stays []uint64 // bits: the records of the batch at hand that stay
}

// Batch returns what is to stand in the place of a batch, nil for nothing, and
// whether that is another one. The error is of a batch that can't be read.
func (f *Filter) Batch(b record.Batch) (out record.Batch, changed bool, err error) {
	if b.BaseOffset() >= f.End {
		f.Kept += int64(b.Records())
		return b, false, nil
	}
	free, err := f.free(b)
	if err != nil {
		return nil, false, err
	}
	gone := free
	if b.Control() {
		at, set := b.DeleteHorizon()
		gone = free && set && f.Now >= at
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
	// What lies in part beyond the end may hide a value that this pass doesn't remove.
	if _, set := b.DeleteHorizon(); !set && b.LastOffset() < f.End && (tombstones || free && b.Control()) {
		horizon = f.Now + f.Tombstones
	}
	if kept == b.Records() && horizon == record.NoHorizon {
		return b, false, nil
	}
	out, err = b.Rewrite(f.MaxInflated, horizon, f.stay)
	return out, true, err
}

// free reports whether the records of a batch count for nothing: those of an aborted
// transaction, and a marker without one.
func (f *Filter) free(b record.Batch) (bool, error) {
	if b.Control() {
		return f.Transactions.Marker(b)
	}
	return f.Transactions.Data(b), nil
}

// needed reports whether a batch stays although none of its records does: the last
// one of a producer tells its sequence, the last one of the pass where the log goes on.
func (f *Filter) needed(b record.Batch) bool {
	if b.LastOffset() >= f.Last {
		return true
	}
	if b.ProducerID() < 0 {
		return false
	}
	last, ok := f.LastOf(b.ProducerID())
	return ok && last == b.LastOffset()
}

// records looks at the records of a batch, notes which stay, and says how many
// those are, and whether one of them has no value.
func (f *Filter) records(b record.Batch) (kept int32, tombstones bool, err error) {
	f.stays = f.stays[:0]
	at, set := b.DeleteHorizon()
	expired := set && f.Now >= at
	i := 0
	err = b.Each(f.MaxInflated, func(r record.Record) error {
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

// last is the rule for a record: it lies beyond the map, or is the last of its
// key, and not a tombstone whose time is over.
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
