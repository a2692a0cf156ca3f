package format

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/record"
)

// errCut ends a search for the border of a part.
var errCut = errors.New("the part is cut")

// Cut returns the beginning of a part, up to the first batch that keep refuses; keep gets only the
// headers. ok is false if nothing is left. Cut reads the whole run and verifies it.
func (p *Part) Cut(ctx context.Context, s objects.Store, prefix string, id ID, keep func(record.Batch) bool) (cut Part, ok bool,
	err error) {
	cut = *p
	cut.End, cut.To = p.Base, p.From
	last, ended := record.Batch(nil), false
	sc := scanner{}
	sc.each = func(b record.Batch, pos int64) error {
		if last != nil {
			cut.To, cut.End, cut.Epoch = p.From+pos, last.LastOffset()+1, last.LeaderEpoch()
		}
		if !keep(b) {
			ended = true
			return errCut
		}
		last = append(last[:0], b...)
		return nil
	}
	err = ReadPart(ctx, s, prefix, id, p, func(b []byte) error {
		if ended {
			return nil // the rest is read, because the checksum covers it
		}
		if err := sc.write(b); !errors.Is(err, errCut) {
			return err
		}
		return nil
	})
	if err != nil {
		return Part{}, false, err
	}
	if !ended {
		return *p, true, sc.end()
	}
	return cut, cut.From < cut.To, nil
}

// All returns the parts of a manifest and of those with its older parts, in their order. It reads
// these.
func (m *Manifest) All(ctx context.Context, s objects.Store, prefix string) ([]Part, error) {
	var list []Part
	for i := range m.Older {
		older, err := m.Older[i].Read(ctx, s, prefix, m.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, older.Parts...)
	}
	return append(list, m.Parts...), nil
}

// Read reads the manifest of the partition id that o names.
func (o *Older) Read(ctx context.Context, s objects.Store, prefix string, id ID) (*Manifest, error) {
	m, err := ReadManifest(ctx, s, prefix, id, o.Nonce)
	if err == nil {
		err = m.is(o)
	}
	return m, err
}

// is returns an error unless m has what o says: all parts of its range, in no other manifest.
func (m *Manifest) is(o *Older) error {
	if OlderOf(m, o.Nonce) != *o || len(m.Older) > 0 {
		return fmt.Errorf("%w: the older parts of %x-%d in manifest %v are %+v, and not %+v", ErrContradiction, m.ID.Topic, m.ID.Partition,
			o.Nonce, OlderOf(m, o.Nonce), *o)
	}
	return nil
}
