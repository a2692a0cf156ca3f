package tierread

import (
	"context"
	"fmt"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/record"
)

// walk reads the batches of one part of a copy. It holds the chunks that it has read, so that the
// cache may drop them.
type walk struct {
	l      *parts
	part   *format.Part
	footer *format.Log
	first  int      // number of the chunk held[0]
	held   [][]byte // chunks from first on
	header [record.HeaderSize]byte
}

// head is the header of a batch, and where the batch is.
type head struct {
	record.Batch // the header only
	pos, end     int64
}

func (l *parts) walk(ctx context.Context, part *format.Part) (*walk, error) {
	f, err := l.footer(ctx, part)
	if err != nil {
		return nil, err
	}
	return &walk{l: l, part: part, footer: f}, nil
}

// before returns where the search for an offset begins.
func (w *walk) before(offset int64) int64 {
	return max(w.part.From, w.footer.Before(offset).Pos)
}

// forget releases the chunks before a position.
func (w *walk) forget(pos int64) {
	n := min(max(int(pos/format.ChunkSize)-w.first, 0), len(w.held))
	w.held, w.first = w.held[n:], w.first+n
}

// hold holds the chunks with the bytes [pos, end), in addition to those that it has and that touch
// them. It fails if a transfer does. If wait is false, it uses the cache only, and returns false if
// that does not have all of them.
func (w *walk) hold(ctx context.Context, pos, end int64, wait bool) (bool, error) {
	first, last := int(pos/format.ChunkSize), int((end-1)/format.ChunkSize)
	if first < w.first || first > w.first+len(w.held) {
		w.held, w.first = nil, first
	}
	next := w.first + len(w.held)
	if wait && next < last {
		chunks, err := w.several(ctx, next, last)
		if err != nil {
			return false, err
		}
		w.held = append(w.held, chunks...)
		next += len(chunks)
	}
	for i := next; i <= last; i++ {
		var chunk []byte
		if wait {
			var err error
			if chunk, err = w.chunk(ctx, i); err != nil {
				return false, err
			}
		} else if chunk = w.l.r.cached(key{nonce: w.part.Run.Nonce, chunk: i}); chunk == nil {
			return false, nil
		}
		if err := w.fits(i, chunk); err != nil {
			return false, err
		}
		w.held = append(w.held, chunk)
	}
	return true, nil
}

// fits returns an error unless a chunk has the size that the part says.
func (w *walk) fits(i int, chunk []byte) error {
	if want := min(format.ChunkSize, w.part.Run.Len-int64(i)*format.ChunkSize); int64(len(chunk)) != want {
		return fmt.Errorf("%w: chunk %d of object %v has %d bytes instead of %d", format.ErrContradiction, i, w.part.Run.Nonce,
			len(chunk), want)
	}
	return nil
}

// several returns the chunks from first to last if the cache lacks more than one of them, and
// otherwise none. One transfer gets them all: it keeps what it has while it waits for the rest, so
// that also a batch is read that is larger than the cache, or that a slow store returns only after
// its readers have given up many times.
func (w *walk) several(ctx context.Context, first, last int) ([][]byte, error) {
	r, k := w.l.r, key{nonce: w.part.Run.Nonce, chunk: first, last: last}
	if !r.lacks(k) {
		return nil, nil
	}
	id, run, f := w.l.c.ID, w.part.Run, w.footer
	v, err := r.get(ctx, k, func(ctx context.Context, s objects.Store) (any, int64, error) {
		var chunks [][]byte
		size := int64(0)
		for i := first; i <= last; i++ {
			chunk := r.cached(key{nonce: run.Nonce, chunk: i})
			if chunk == nil {
				v, _, err := r.loadChunk(id, run, f, i)(ctx, s)
				if err != nil {
					return nil, 0, err
				}
				chunk = v.([]byte)
			}
			chunks, size = append(chunks, chunk), size+int64(len(chunk))
		}
		return chunks, size, nil
	})
	if err != nil {
		return nil, err
	}
	chunks := v.([][]byte)
	for i := range chunks {
		if err := w.fits(first+i, chunks[i]); err != nil {
			return nil, err
		}
	}
	r.store(key{nonce: run.Nonce, chunk: last}, chunks[len(chunks)-1]) // the next batch begins in it
	return chunks, nil
}

// lacks reports whether the cache lacks more than one of the chunks of k, or they are being read.
func (r *Reader) lacks(k key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[k] != nil || r.cache.peek(k) != nil {
		return true
	}
	n := 0
	for i := k.chunk; i <= k.last && n < 2; i++ {
		if r.cache.peek(key{nonce: k.nonce, chunk: i}) == nil {
			n++
		}
	}
	return n > 1
}

// store adds a chunk to the cache.
func (r *Reader) store(k key, chunk []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.cache.peek(k) == nil {
		r.cache.add(&entry{key: k, value: chunk, size: int64(len(chunk))})
	}
}

// cached returns a chunk if the cache has it, nil if not.
func (r *Reader) cached(k key) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.cache.get(k)
	if e == nil {
		return nil
	}
	r.stats.Hits++
	return e.value.([]byte)
}

func (w *walk) chunk(ctx context.Context, i int) ([]byte, error) {
	v, err := w.l.r.get(ctx, key{nonce: w.part.Run.Nonce, chunk: i}, w.l.r.loadChunk(w.l.c.ID, w.part.Run, w.footer, i))
	if err != nil {
		return nil, err
	}
	return v.([]byte), nil
}

func (r *Reader) loadChunk(id format.ID, run format.Run, f *format.Log, i int) load {
	return func(ctx context.Context, s objects.Store) (any, int64, error) {
		name, at := r.opt.Prefix()+run.Name(id), int64(i)*format.ChunkSize
		p := make([]byte, min(format.ChunkSize, f.Len-at))
		if r.opt.Broken.Has(TrustChunks) {
			_, err := s.Get(ctx, name, at, p)
			return p, int64(len(p)), err
		}
		p, err := f.ReadChunk(ctx, s, name, i, p)
		return p, int64(len(p)), err
	}
}

// copy copies the held bytes from a position on into p.
func (w *walk) copy(p []byte, pos int64) {
	for n := 0; n < len(p); {
		at := pos + int64(n)
		n += copy(p[n:], w.held[int(at/format.ChunkSize)-w.first][at%format.ChunkSize:])
	}
}

// head returns the header of the batch at a position, and true. It is valid until the next call. If
// wait is false, the result is false unless the cache has it.
func (w *walk) head(ctx context.Context, pos int64, wait bool) (h head, ok bool, err error) {
	end := pos + record.HeaderSize
	if end > w.part.To {
		return h, false, w.contradicts(pos, "it ends within a batch")
	}
	if ok, err := w.hold(ctx, pos, end, wait); !ok {
		return h, false, err
	}
	i, at := int(pos/format.ChunkSize)-w.first, pos%format.ChunkSize
	h = head{pos: pos}
	if c := w.held[i]; at+record.HeaderSize <= int64(len(c)) {
		h.Batch = record.Batch(c[at : at+record.HeaderSize])
	} else {
		w.copy(w.header[:], pos)
		h.Batch = record.Batch(w.header[:])
	}
	size, err := record.PeekSize(h.Batch)
	if err != nil {
		return h, false, w.contradicts(pos, err.Error())
	}
	h.end = pos + int64(size)
	if h.end > w.part.To || h.BaseOffset() < w.part.Base || h.LastOffset() < h.BaseOffset() || h.LastOffset() >= w.part.End {
		return h, false, w.contradicts(pos, fmt.Sprintf("a batch of %d bytes has offsets %d to %d", size, h.BaseOffset(), h.LastOffset()))
	}
	return h, true, nil
}

// contradicts is the error for verified bytes that are not the batches that a part has.
func (w *walk) contradicts(pos int64, what string) error {
	p := w.part
	return fmt.Errorf("%w: object %v, position %d of the batches [%d, %d) in bytes %d to %d: %s", format.ErrContradiction, p.Run.Nonce,
		pos, p.Base, p.End, p.From, p.To, what)
}

// batch returns the batch of a header, which aliases a chunk or is a copy.
func (w *walk) batch(ctx context.Context, h *head) (record.Batch, error) {
	if _, err := w.hold(ctx, h.pos, h.end, true); err != nil {
		return nil, err
	}
	i, at := int(h.pos/format.ChunkSize)-w.first, h.pos%format.ChunkSize
	if c := w.held[i]; at+h.end-h.pos <= int64(len(c)) {
		return record.Batch(c[at : at+h.end-h.pos]), nil
	}
	b := make([]byte, h.end-h.pos)
	w.copy(b, h.pos)
	return b, nil
}
