package tierread

import (
	"context"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/storage"
)

// maxRead bounds what one Read returns beyond its first batch, so that its buffer is one that the
// pool keeps, in bytes.
const maxRead = 8 << 20

// Read returns whole batches: the one that holds offset, which may begin below it, and following
// ones that begin below limit, up to max bytes in total. If atLeastOne is set, it returns the first
// one even if it is larger; otherwise Larger of the result is the size of one that does not fit. At
// the limit or the end of the copy the slice is empty.
//
// It waits for the first batch, and for what leads to it: the manifest, the footer, and the headers
// of batches before. Of the following ones it returns what the cache has, up to the part's end.
func (r *Reader) Read(ctx context.Context, c *Copy, offset, limit int64, max int, atLeastOne bool) (storage.Slice, error) {
	if offset < c.Start {
		return storage.Slice{}, c.outOfRange(offset)
	}
	if limit = min(limit, c.End); offset >= limit || max <= 0 && !atLeastOne {
		return storage.Slice{}, nil
	}
	l, err := r.parts(ctx, c)
	if err != nil {
		return storage.Slice{}, err
	}
	p, err := l.at(ctx, offset)
	for ok := true; ok && err == nil; p, ok, err = l.next(ctx, p) {
		q := request{offset: offset, limit: limit, max: int64(max), atLeastOne: atLeastOne}
		if s, found, err := q.read(ctx, l, p); found || err != nil {
			return s, err
		}
	}
	return storage.Slice{}, err // a hole, up to the end
}

// request is what Read is asked for.
type request struct {
	offset, limit, max int64
	atLeastOne         bool
}

// read is Read of one part. found is false if it has no batch with the offset or above.
func (q *request) read(ctx context.Context, l *parts, p cursor) (_ storage.Slice, found bool, err error) {
	w, err := l.walk(ctx, p.part())
	if err != nil {
		return storage.Slice{}, false, err
	}
	var first head
	for pos := w.before(q.offset); ; pos = first.end {
		if pos >= w.part.To {
			return storage.Slice{}, false, nil
		}
		w.forget(pos)
		if first, _, err = w.head(ctx, pos, true); err != nil {
			return storage.Slice{}, false, err
		}
		if first.LastOffset() >= q.offset {
			break
		}
	}
	size := first.end - first.pos
	switch {
	case first.BaseOffset() >= q.limit:
		return storage.Slice{}, true, nil
	case size > q.max && !q.atLeastOne:
		return storage.Slice{Larger: int(size)}, true, nil
	}
	next := first.LastOffset() + 1
	if _, err := w.hold(ctx, first.pos, first.end, true); err != nil {
		return storage.Slice{}, false, err
	}
	end, next := q.extend(ctx, w, first.pos, first.end, next)
	buf := l.r.opt.Pool.Get(int(end - first.pos))
	w.copy(buf.Bytes(), first.pos)
	l.r.readAhead(l, p, w, q.offset, next, int((end-1)/format.ChunkSize))
	return storage.Pooled(buf, int(end-first.pos)), true, nil
}

// extend returns where the batches end that follow one in the cache, as far as they fit, and the
// offset after them.
func (q *request) extend(ctx context.Context, w *walk, pos, end, next int64) (int64, int64) {
	for most := min(q.max, maxRead); end < w.part.To; {
		h, ok, err := w.head(ctx, end, false)
		if !ok || err != nil || h.BaseOffset() >= q.limit || h.end-pos > most {
			break
		}
		after := h.LastOffset() + 1
		if ok, err := w.hold(ctx, end, h.end, false); !ok || err != nil {
			break
		}
		end, next = h.end, after
	}
	return end, next
}
