// Package upload puts what a log has since its last upload into an object store.
//
// From 64 MiB on, records become log objects, which a manifest lists. Fewer records are a piece of
// a pack, together with those of other partitions. Pieces that have become many are uploaded again
// as one, until they are enough for a log object (merge).
//
// A Batch is one round of all partitions that a broker leads, for one snapshot. It changes nothing
// that it is given: if the round fails, what it put is named nowhere, and the next round begins
// from the former state. It reads logs through an interface, and knows neither leaders nor the
// metadata: its caller ensures that the log is that of the snapshot.
package upload

import (
	"context"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
)

// Archived is what an archive has of a log that retention deletes from, as of one snapshot: the
// parts of a manifest, and pieces after them.
type Archived struct {
	// Manifest is nil if there are no log objects, and At its nonce.
	Manifest *format.Manifest
	At       objects.Nonce
	Pieces   []format.Part
}

// end returns the offset at which the archived records end, 0 if there are none.
func (a *Archived) end() int64 {
	if n := len(a.Pieces); n > 0 {
		return a.Pieces[n-1].End
	}
	if a.Manifest != nil {
		return a.Manifest.End
	}
	return 0
}

// from returns a without what is only below a log start. What is left has no hole.
func (a *Archived) from(start int64) *Archived {
	next := &Archived{Manifest: a.Manifest, At: a.At}
	if a.Manifest != nil && a.Manifest.End <= start {
		next.Manifest, next.At = nil, objects.Nonce{}
	}
	for i := range a.Pieces {
		if a.Pieces[i].End > start {
			next.Pieces = append(next.Pieces, a.Pieces[i])
		}
	}
	return next
}

// Options are a Batch's.
type Options struct {
	Store  objects.Store
	Prefix string // of the cluster's objects
	// ObjectBytes is from how many bytes on records become a log object, and PackBytes from how
	// many on a pack is put. Both are also about the largest size.
	ObjectBytes, PackBytes int64
	// Again reports whether a piece is uploaded again because its pack is old; nil: none is.
	Again func(*format.Part) bool
}

// Batch is one round of uploads. It must not be used concurrently.
type Batch struct {
	opt     Options
	pack    format.Pack
	waiting []slot // of the pieces in pack, in their order
}

// slot is where a piece of the pack goes: to the pieces of a log.
type slot struct {
	a *Archived
	i int
}

// NewBatch returns a Batch without uploads.
func NewBatch(o Options) *Batch { return &Batch{opt: o} }

// Add uploads what the log of the partition id has in [start, end) and former lacks. start is the
// log start, and both are between two batches, except that start may be within one. The result is
// valid after Close. It fails if the log or the store does; then the batch must not be used any
// longer.
func (b *Batch) Add(ctx context.Context, id format.ID, log Log, former *Archived, start, end int64) (*Archived, error) {
	next := former.from(start)
	from := max(next.end(), start)
	if from > end {
		return nil, fmt.Errorf("archive %x-%d: it ends at %d, and its archive at %d", id.Topic, id.Partition, end, from)
	}
	s, err := scan(log, from, end, b.opt.ObjectBytes)
	if err != nil {
		return nil, fmt.Errorf("archive %x-%d: %w", id.Topic, id.Partition, err)
	}
	bytes := make([]int64, len(next.Pieces))
	for i, p := range next.Pieces {
		bytes[i] = p.To - p.From
	}
	stay := len(bytes)
	switch {
	case sum(bytes)+s.size >= b.opt.ObjectBytes:
		stay = 0
	case s.size > 0:
		stay = merge(bytes, s.size)
	}
	if err := b.renew(ctx, id, log, next, stay, start); err != nil {
		return nil, err
	}
	if stay < len(next.Pieces) {
		from = max(next.Pieces[stay].Base, start)
		next.Pieces = next.Pieces[:stay]
	}
	fresh, err := b.rest(ctx, id, log, next, from, end)
	if err == nil && len(fresh) > 0 {
		err = b.list(ctx, id, next, fresh, start)
	}
	if err != nil {
		return nil, err
	}
	return next, nil
}

// renew uploads again those of the first pieces whose packs are old, as far as the log has them.
func (b *Batch) renew(ctx context.Context, id format.ID, log Log, a *Archived, stay int, start int64) error {
	for i := range a.Pieces[:stay] {
		p := a.Pieces[i]
		if b.opt.Again == nil || !b.opt.Again(&p) {
			continue
		}
		s, err := scan(log, max(p.Base, start), p.End, p.To-p.From+1) // one more, so that it reaches the end
		if err == nil && (s.size > p.To-p.From || p.Base >= start && s.size != p.To-p.From) {
			err = fmt.Errorf("%d bytes from offset %d on are %d now", p.To-p.From, p.Base, s.size)
		}
		if err == nil {
			err = b.piece(ctx, id, a, i, s, p.End)
		}
		if err != nil {
			return fmt.Errorf("archive %x-%d again: %w", id.Topic, id.Partition, err)
		}
	}
	return nil
}

// rest uploads [from, end), which continues a: as log objects while there is enough for them, and
// then as a piece. It returns the parts of the log objects.
func (b *Batch) rest(ctx context.Context, id format.ID, log Log, a *Archived, from, end int64) (fresh []format.Part, err error) {
	for {
		s, err := scan(log, from, end, b.opt.ObjectBytes)
		if err != nil {
			return nil, fmt.Errorf("archive %x-%d: %w", id.Topic, id.Partition, err)
		}
		if s.size < b.opt.ObjectBytes || len(a.Pieces) > 0 {
			if s.size > 0 {
				a.Pieces = append(a.Pieces, format.Part{})
				err = b.piece(ctx, id, a, len(a.Pieces)-1, s, end)
			}
			return fresh, err
		}
		part, err := b.object(ctx, id, s)
		if err != nil {
			return nil, err
		}
		fresh, from = append(fresh, part), s.end
	}
}

// object puts a log object.
func (b *Batch) object(ctx context.Context, id format.ID, s *source) (format.Part, error) {
	o, err := format.Build(format.Facts{ID: id, Base: s.base, End: s.end, Aborted: s.aborted, Epochs: s.epochs}, s, s.size)
	if err != nil {
		return format.Part{}, err
	}
	run := o.Run(objects.NewNonce())
	if err := b.opt.Store.Put(ctx, b.opt.Prefix+run.Name(id), o); err != nil {
		return format.Part{}, fmt.Errorf("archive %x-%d [%d, %d): %w", id.Topic, id.Partition, s.base, s.end, err)
	}
	return format.Whole(run, o.Log.Epoch), nil
}

// piece adds a piece to the pack, whose part becomes that of a with the index i.
func (b *Batch) piece(ctx context.Context, id format.ID, a *Archived, i int, s *source, end int64) error {
	batches := make([]byte, s.size)
	if _, err := s.ReadAt(batches, 0); err != nil {
		return err
	}
	if err := b.pack.Add(id, s.base, end, batches); err != nil {
		return err
	}
	if b.waiting = append(b.waiting, slot{a, i}); int64(b.pack.Len()) >= b.opt.PackBytes {
		return b.Close(ctx)
	}
	return nil
}

// list puts a manifest with further parts, and without those that are below the log start.
func (b *Batch) list(ctx context.Context, id format.ID, a *Archived, fresh []format.Part, start int64) error {
	if a.Manifest != nil {
		fresh = slices.Concat(a.Manifest.Parts, fresh)
	}
	for fresh[0].End <= start {
		fresh = fresh[1:]
	}
	m := &format.Manifest{ID: id, Base: fresh[0].Base, End: fresh[len(fresh)-1].End, Parts: fresh}
	sealed, err := m.Encode()
	if err != nil {
		return err
	}
	name := format.Name{Kind: objects.Manifest, Partition: id, Nonce: objects.NewNonce()}
	if err := objects.Write(ctx, b.opt.Store, b.opt.Prefix+name.String(), objects.Manifest, sealed); err != nil {
		return err
	}
	a.Manifest, a.At = m, name.Nonce
	return nil
}

// Close puts the pack, if it has pieces. The results of Add are valid then.
func (b *Batch) Close(ctx context.Context) error {
	if len(b.waiting) == 0 {
		return nil
	}
	name := format.Name{Kind: objects.Pack, Nonce: objects.NewNonce()}
	sealed, pieces := b.pack.Seal(name.Nonce)
	if err := objects.Write(ctx, b.opt.Store, b.opt.Prefix+name.String(), objects.Pack, sealed); err != nil {
		return err
	}
	for i, at := range b.waiting {
		at.a.Pieces[at.i] = pieces[i].Part
	}
	b.waiting = nil
	return nil
}
