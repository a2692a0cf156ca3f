package cleaner

import (
	"errors"

	"github.com/chronik-io/chronik/internal/record"
)

// Mapper fills the key map of a pass. It processes the batches of the dirty part of a log in order.
type Mapper struct {
	Keys *KeyMap
	// From is the first dirty offset.
	From int64
	// Inflate bounds what reading a compressed batch uses.
	Inflate record.Limits
	// Transactions starts at the first dirty offset.
	Transactions *Transactions

	// End is the offset behind the mapped records. Last is the last offset of the last mapped
	// batch; if the map is full, it is the offset before End.
	End, Last int64
}

var errFull = errors.New("the map is full")

// Batch adds a batch. It returns false if the map has no space for one of its keys; then End is the
// offset of that record.
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
		err = b.Each(m.Inflate, func(r record.Record) error {
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
