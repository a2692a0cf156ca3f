package tierread

import (
	"context"
	"fmt"
	"sort"
	"unsafe"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
)

// parts are those of a copy, in the order of their offsets.
type parts struct {
	r   *Reader
	c   *Copy
	top *format.Manifest // the one that the copy names
}

// cursor is where a part is in the copy.
type cursor struct {
	older int // which older manifest of top it is in; len(top.Older): it is in top
	m     *format.Manifest
	i     int
}

func (p *cursor) part() *format.Part { return &p.m.Parts[p.i] }

// parts returns those of a copy.
func (r *Reader) parts(ctx context.Context, c *Copy) (*parts, error) {
	v, err := r.get(ctx, key{nonce: c.Manifest, chunk: manifestOf}, func(ctx context.Context, s objects.Store) (any, int64, error) {
		m, err := format.ReadManifest(ctx, s, r.opt.Prefix(), c.ID, c.Manifest)
		return m, manifestBytes(m), err
	})
	if err != nil {
		return nil, err
	}
	m := v.(*format.Manifest)
	if m.ID != c.ID || c.Start < m.Base || c.End > m.End {
		return nil, fmt.Errorf("%w: manifest %v has [%d, %d) of %x-%d, and not [%d, %d) of %v", format.ErrContradiction, c.Manifest,
			m.Base, m.End, m.ID.Topic, m.ID.Partition, c.Start, c.End, c)
	}
	return &parts{r, c, m}, nil
}

// older returns an older manifest.
func (l *parts) older(ctx context.Context, i int) (*format.Manifest, error) {
	o, id := l.top.Older[i], l.c.ID
	v, err := l.r.get(ctx, key{nonce: o.Nonce, chunk: manifestOf}, func(ctx context.Context, s objects.Store) (any, int64, error) {
		m, err := o.Read(ctx, s, l.r.opt.Prefix(), id)
		return m, manifestBytes(m), err
	})
	if err != nil {
		return nil, err
	}
	m := v.(*format.Manifest)
	if m.ID != id || m.Base != o.Base || m.End != o.End || len(m.Older) > 0 {
		return nil, fmt.Errorf("%w: manifest %v is that of other parts than [%d, %d) of %v", format.ErrContradiction, o.Nonce, o.Base,
			o.End, l.c)
	}
	return m, nil
}

// at returns where the part is that has an offset of the copy.
func (l *parts) at(ctx context.Context, offset int64) (p cursor, err error) {
	p = cursor{older: len(l.top.Older), m: l.top}
	if n := sort.Search(p.older, func(i int) bool { return l.top.Older[i].End > offset }); n < p.older {
		p.older = n
		if p.m, err = l.older(ctx, n); err != nil {
			return p, err
		}
	}
	p.i = sort.Search(len(p.m.Parts), func(i int) bool { return p.m.Parts[i].End > offset })
	return p, nil
}

// next returns where the part after another one is.
func (l *parts) next(ctx context.Context, p cursor) (_ cursor, ok bool, err error) {
	p.i++
	return l.find(ctx, p, func(int64, int64) bool { return true })
}

// find returns the first part from p on whose run is wanted: of which want returns true for Newest
// and FirstAborted. Of the older manifests it reads those that have such a run. ok is false if the
// copy ends before.
func (l *parts) find(ctx context.Context, p cursor, want func(newest, aborted int64) bool) (_ cursor, ok bool, err error) {
	for {
		for ; p.i < len(p.m.Parts); p.i++ {
			if part := p.part(); want(part.Run.Newest, part.Run.FirstAborted) {
				return p, part.Base < l.c.End, nil
			}
		}
		if p.older >= len(l.top.Older) {
			return p, false, nil
		}
		for p.older++; p.older < len(l.top.Older); p.older++ {
			if o := &l.top.Older[p.older]; want(o.Newest, o.FirstAborted) {
				break
			}
		}
		if p.m = l.top; p.older < len(l.top.Older) {
			if p.m, err = l.older(ctx, p.older); err != nil {
				return p, false, err
			}
		}
		p.i = 0
	}
}

// footer returns the footer of the log object that a part is in.
func (l *parts) footer(ctx context.Context, part *format.Part) (*format.Log, error) {
	v, err := l.r.get(ctx, key{nonce: part.Run.Nonce, chunk: footerOf}, l.r.loadFooter(l.c.ID, part.Run))
	if err != nil {
		return nil, err
	}
	f := v.(*format.Log)
	if !f.Has(l.c.ID, &part.Run) {
		return nil, fmt.Errorf("%w: object %v has other batches than [%d, %d) of %v", format.ErrContradiction, part.Run.Nonce,
			part.Run.Base, part.Run.End, l.c)
	}
	return f, nil
}

func (r *Reader) loadFooter(id format.ID, run format.Run) load {
	return func(ctx context.Context, s objects.Store) (any, int64, error) {
		f, err := format.OpenLog(ctx, s, r.opt.Prefix(), id, &run)
		if err != nil {
			return nil, 0, err
		}
		return f, footerBytes(f), nil
	}
}

// manifestBytes returns the memory of a manifest.
func manifestBytes(m *format.Manifest) int64 {
	if m == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*m)) + sliceBytes(m.Older) + sliceBytes(m.Parts)
}

// footerBytes returns the memory of a footer.
func footerBytes(f *format.Log) int64 {
	return int64(unsafe.Sizeof(*f)) + sliceBytes(f.Chunks) + sliceBytes(f.Positions) +
		sliceBytes(f.Times) + sliceBytes(f.Aborted) + sliceBytes(f.Epochs)
}

func sliceBytes[T any](s []T) int64 {
	var x T
	return int64(cap(s)) * int64(unsafe.Sizeof(x))
}
