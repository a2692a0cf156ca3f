package tierread

import (
	"context"
	"fmt"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
)

var noTimestamp = storage.Timestamp{Offset: -1, Time: -1, Epoch: -1}

// FindTime returns the first record of a copy with a timestamp of at least ts, in ms. Offset -1
// means that there is none.
func (r *Reader) FindTime(ctx context.Context, c *Copy, ts int64) (storage.Timestamp, error) {
	if c.Start >= c.End {
		return noTimestamp, nil
	}
	l, err := r.parts(ctx, c)
	if err != nil {
		return noTimestamp, err
	}
	p, err := l.at(ctx, c.Start)
	if err != nil {
		return noTimestamp, err
	}
	for {
		var ok bool
		p, ok, err = l.find(ctx, p, func(newest, _ int64) bool { return newest >= ts })
		if err != nil || !ok {
			return noTimestamp, err
		}
		found := noTimestamp
		err = l.newer(ctx, p.part(), ts, func(w *walk, h *head) (more bool, err error) {
			found, err = w.timestamp(ctx, h, ts)
			return found.Offset < 0, err
		})
		if err != nil || found.Offset >= 0 {
			return found, err
		}
		p.i++
	}
}

// newer calls each for the batches of a part that may have records of the copy with timestamps of
// at least ts, until it returns false or an error.
func (l *parts) newer(ctx context.Context, part *format.Part, ts int64, each func(*walk, *head) (more bool, err error)) error {
	w, err := l.walk(ctx, part)
	if err != nil {
		return err
	}
	offset, ok := w.footer.BeforeTime(ts)
	if !ok {
		return nil
	}
	var h head
	for pos := w.before(max(offset, l.c.Start)); pos < part.To; pos = h.end {
		w.forget(pos)
		if h, _, err = w.head(ctx, pos, true); err != nil {
			return err
		}
		if h.BaseOffset() >= l.c.End {
			return nil
		}
		if h.Newest() < ts || h.LastOffset() < l.c.Start {
			continue
		}
		if more, err := each(w, &h); err != nil || !more {
			return err
		}
	}
	return nil
}

// timestamp returns the first record of a batch with a timestamp of at least ts.
func (w *walk) timestamp(ctx context.Context, h *head, ts int64) (storage.Timestamp, error) {
	b, err := w.batch(ctx, h)
	if err != nil {
		return noTimestamp, err
	}
	return w.timestampIn(b, ts)
}

func (w *walk) timestampIn(b record.Batch, ts int64) (storage.Timestamp, error) {
	offset, at, ok, err := b.FindTimestamp(ts, w.l.c.Start, w.l.r.opt.Limits)
	if err != nil {
		return noTimestamp, fmt.Errorf("search for a timestamp in the batch at offset %d of %v: %w", b.BaseOffset(), w.l.c, err)
	}
	if !ok {
		return noTimestamp, nil
	}
	return storage.Timestamp{Offset: offset, Time: at, Epoch: b.LeaderEpoch()}, nil
}

// MaxTime returns the first record of a copy with the largest timestamp. Offset -1 means that there
// is none.
func (r *Reader) MaxTime(ctx context.Context, c *Copy) (storage.Timestamp, error) {
	if c.Start >= c.End {
		return noTimestamp, nil
	}
	l, err := r.parts(ctx, c)
	if err != nil {
		return noTimestamp, err
	}
	most, err := l.newest(ctx)
	if err != nil || most < 0 {
		return noTimestamp, err
	}
	return r.FindTime(ctx, c, most)
}

// newest returns the largest timestamp of a copy, -1 if it has none.
func (l *parts) newest(ctx context.Context) (most int64, err error) {
	if most, err = l.newestOf(ctx, l.top, -1); err != nil {
		return -1, err
	}
	for i := len(l.top.Older) - 1; i >= 0; i-- {
		o := &l.top.Older[i]
		if o.Newest <= most || o.End <= l.c.Start || o.Base >= l.c.End {
			continue
		}
		m, err := l.older(ctx, i)
		if err != nil {
			return -1, err
		}
		if most, err = l.newestOf(ctx, m, most); err != nil {
			return -1, err
		}
	}
	return most, nil
}

// newestOf returns the largest timestamp of the parts of a manifest, or most if that is larger. It
// reads batches only of parts that do not have their whole run in the copy.
func (l *parts) newestOf(ctx context.Context, m *format.Manifest, most int64) (int64, error) {
	cut := func(p *format.Part) bool {
		return p.From > 0 || p.To < p.Run.Len || p.Base < l.c.Start || p.End > l.c.End
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; !cut(p) {
			most = max(most, p.Run.Newest)
		}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		if !cut(p) || p.Run.Newest <= most || p.End <= l.c.Start || p.Base >= l.c.End {
			continue
		}
		err := l.newer(ctx, p, most+1, func(w *walk, h *head) (more bool, err error) {
			if h.BaseOffset() >= l.c.Start {
				most = max(most, h.Newest())
				return true, nil
			}
			b, err := w.batch(ctx, h) // the copy begins within the batch: find ever larger timestamps
			for err == nil && most < b.Newest() {
				t, e := w.timestampIn(b, most+1)
				if err = e; t.Offset < 0 {
					break
				}
				most = t.Time
			}
			return true, err
		})
		if err != nil {
			return -1, err
		}
	}
	return most, nil
}
