package upload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Archived is what an archive has of a log, as of one snapshot: first large parts, which are never
// merged, and then pieces. The large parts of a log that is not compacted are in a manifest.
type Archived struct {
	compacted bool
	at        objects.Nonce // of the manifest; zero: there is none
	end       int64         // of the manifest
	manifest  *format.Manifest
	// changed: manifest is not the object that at names.
	changed bool
	large   []format.Part // of a compacted log
	pieces  []format.Part
}

// ArchivedIn returns what a snapshot has of a log. An empty one is that of a log which is not
// archived.
func (b *Batch) ArchivedIn(p *format.Partition) *Archived {
	a := &Archived{compacted: p.State == format.Compacted, at: p.Manifest, end: p.Archived, pieces: p.Parts}
	if a.compacted {
		n := len(p.Parts)
		for n > 0 && p.Parts[n-1].Bytes() < b.opt.ObjectBytes {
			n--
		}
		a.large, a.pieces = p.Parts[:n:n], p.Parts[n:]
	}
	return a
}

// Fill sets the state and the parts of a partition. The store must have them: see Stored.
func (a *Archived) Fill(p *format.Partition) {
	p.State, p.Manifest, p.Archived, p.Parts = format.Kept, a.at, a.end, a.pieces
	if a.compacted {
		p.State, p.Parts = format.Compacted, slices.Concat(a.large, a.pieces)
	}
}

// Stored reports whether the store has all of it: no piece waits for its pack.
func (a *Archived) Stored() bool {
	return !slices.ContainsFunc(a.pieces, func(p format.Part) bool { return p.Run.Nonce == objects.Nonce{} })
}

// End returns the offset at which the archived records end, 0 if there are none.
func (a *Archived) End() int64 {
	if n := len(a.pieces); n > 0 {
		return a.pieces[n-1].End
	}
	if n := len(a.large); n > 0 {
		return a.large[n-1].End
	}
	return a.end
}

// from returns a without what is only below a log start.
func (a *Archived) from(start int64) *Archived {
	next := *a
	if a.end <= start {
		next.at, next.end, next.manifest, next.changed = objects.Nonce{}, 0, nil, false
	}
	above := func(list []format.Part) []format.Part {
		return slices.DeleteFunc(slices.Clone(list), func(p format.Part) bool { return p.End <= start })
	}
	next.large, next.pieces = above(a.large), above(a.pieces)
	return &next
}

// load reads the manifest, unless a has it.
func (b *Batch) load(ctx context.Context, id format.ID, a *Archived) error {
	if a.manifest != nil || a.at == (objects.Nonce{}) {
		return nil
	}
	m, err := format.ReadManifest(ctx, b.store, b.opt.Prefix, id, a.at)
	if err == nil && m.End != a.end {
		err = fmt.Errorf("%w: the manifest of %x-%d ends at %d and not at %d", format.ErrContradiction, id.Topic, id.Partition, m.End,
			a.end)
	}
	if err == nil {
		a.manifest = m
	}
	return err
}

// last returns the last part, nil if there is none, and the list that ends with it. If the manifest
// has only older parts, it reads the last of these.
func (b *Batch) last(ctx context.Context, id format.ID, a *Archived) (*[]format.Part, error) {
	m := a.manifest
	switch {
	case len(a.pieces) > 0:
		return &a.pieces, nil
	case m == nil:
		return nil, nil
	case len(m.Parts) == 0 && len(m.Older) == 0:
		a.at, a.end, a.manifest, a.changed = objects.Nonce{}, 0, nil, false
		return nil, nil
	case len(m.Parts) == 0:
		n := len(m.Older) - 1
		older, err := m.Older[n].Read(ctx, b.store, b.opt.Prefix, id)
		if err != nil {
			return nil, err
		}
		m.Older, m.Parts = m.Older[:n:n], older.Parts
	}
	return &m.Parts, nil
}

// Agree returns of what is archived of a log that is not compacted the beginning that the log has
// too, by leader epochs: an election may have undone what lies above. known are those of the log,
// which may lack some below its start: Log.EpochEnd would have each of these end at the log start,
// which may be above t.Start by now. Two logs with a batch of one leader epoch at one offset have
// the same records up to there. The result has nothing above t.End. A part of which the log has the
// beginning is read and cut there.
func (b *Batch) Agree(ctx context.Context, t *Target, known *epochs.Cache, former *Archived) (*Archived, error) {
	if former.compacted {
		return nil, errors.New("a compacted log is compared by its bytes")
	}
	if b.opt.Broken.Has(TrustFormer) {
		return former, nil
	}
	a := former.from(t.Start)
	if err := b.load(ctx, t.ID, a); err != nil {
		return nil, err
	}
	if a.manifest != nil { // a copy: former stays as it is
		m := *a.manifest
		a.manifest = &m
	}
	if first := a.first(); first > t.Start { // the log began later once
		return &Archived{}, nil
	}
	agrees := func(last int64, epoch int32) bool {
		end, ok := known.Ends(epoch)
		return ok && last < end && last < t.End
	}
	for {
		list, err := b.last(ctx, t.ID, a)
		if err != nil || list == nil {
			return a, err
		}
		n := len(*list) - 1
		p := &(*list)[n]
		if agrees(p.End-1, p.Epoch) {
			return a.from(t.Start), nil
		}
		cut, ok := format.Part{}, false
		if _, end := known.End(p.Epoch, math.MaxInt64); p.Base < min(end, t.End) { // it may agree in part
			if cut, ok, err = p.Cut(ctx, b.store, b.opt.Prefix, t.ID, func(h record.Batch) bool {
				return agrees(h.LastOffset(), h.LeaderEpoch())
			}); err != nil {
				return nil, err
			}
		}
		if *list = slices.Clone((*list)[:n]); ok {
			*list = append(*list, cut)
		}
		if list != &a.pieces {
			a.changed = true
			a.end = a.manifest.Base
			if k := len(a.manifest.Parts); k > 0 {
				a.end = a.manifest.Parts[k-1].End
			} else if k := len(a.manifest.Older); k > 0 {
				a.end = a.manifest.Older[k-1].End
			}
			a.manifest.End = a.end
		}
		if ok {
			return a.from(t.Start), nil
		}
	}
}

// first returns where the parts begin, 0 if there are none.
func (a *Archived) first() int64 {
	switch {
	case a.manifest != nil:
		return a.manifest.Base
	case len(a.large) > 0:
		return a.large[0].Base
	case len(a.pieces) > 0:
		return a.pieces[0].Base
	}
	return 0
}

// Same returns of what is archived of a compacted log the parts whose bytes are those of the log,
// up to the first that differs. It reads them from the log.
func (b *Batch) Same(ctx context.Context, t *Target, former *Archived) (*Archived, error) {
	a := former.from(t.Start)
	if b.opt.Broken.Has(TrustFormer) {
		return a, nil
	}
	if first := a.first(); first > t.Start { // a hole begins the log, or it began later once
		s, err := b.scan(ctx, t.Log, t.Start, first, 1)
		if err != nil {
			return nil, err
		}
		if s.size > 0 {
			return &Archived{}, nil
		}
	}
	for _, list := range []*[]format.Part{&a.large, &a.pieces} {
		for i := range *list {
			same, err := b.same(ctx, t, &(*list)[i])
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
			if *list = (*list)[:i:i]; list == &a.large {
				a.pieces = nil
			}
			return a, nil
		}
	}
	return a, nil
}

// same reports whether a part is a whole run, and the log has the same bytes.
func (b *Batch) same(ctx context.Context, t *Target, p *format.Part) (bool, error) {
	if p.Base < t.Start || p.End > t.End || p.From != 0 || p.To != p.Run.Len {
		return false, nil
	}
	s, err := b.scan(ctx, t.Log, p.Base, p.End, p.Run.Len+1)
	if err != nil {
		return false, err
	}
	return s.base == p.Base && s.size == p.Run.Len && s.sum == p.Run.Sum, nil
}

// IsCompacted reports whether the log was compacted.
func (a *Archived) IsCompacted() bool { return a.compacted }
