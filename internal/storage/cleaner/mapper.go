package cleaner

import (
	"errors"

	"github.com/chronik-io/chronik/internal/record"
)

// Mapper fills the map of a pass. It is given the batches of the dirty part of a
// log in their order.
type Mapper struct {
	Keys *KeyMap
	// From is the first dirty offset.
	From int64
	// MaxInflated bounds what a batch may decompress to, in bytes.
	MaxInflated int64
	// Transactions follows them from the first dirty offset on.
	Transactions *Transactions

	// End is the offset after what the map covers, Last the one before that.
	End, Last int64
}

var errFull = errors.New("the map is full")

// Batch takes the next batch. It returns false where the map has no room for one of
// its keys: End is the offset of that record then.
func (m *Mapper) Batch(b record.Batch) (more bool, err error) {
	if b.LastOffset() < m.From {
		return true, nil
	}
	counts := !b.Control()
	if counts {
		counts = !m.Transactions.Data(b)
	} else if _, err := m.Transactions.Marker(b); err != nil {
		return false, err
	}
	if counts {
		err = b.Each(m.MaxInflated, func(r record.Record) error {
			if r.Key == nil || r.Offset < m.From {
				return nil
			}
			if !m.Keys.Put(r.Key, r.Offset) {
				m.End, m.Last = r.Offset, r.Offset-1
				return errFull
			}
			return nil
		})
	}
	if errors.Is(err, errFull) {
		return false, nil
	}
	if err == nil {
		m.End, m.Last = b.LastOffset()+1, b.LastOffset()
	}
	return err == nil, err
}
