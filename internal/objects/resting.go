package objects

import (
	"context"
	"sync"

	"github.com/chronik-io/chronik/internal/pause"
)

// Resting returns a store for background work: its reads rest, and what is put from memory. A body
// that rests itself must not be put there, since its time would count twice.
func Resting(s Store, duty *pause.Duty) Store { return &resting{Store: s, duty: duty} }

type resting struct {
	Store
	duty *pause.Duty
}

// Put implements Store.
func (r *resting) Put(ctx context.Context, name string, body Body) error {
	return r.Store.Put(ctx, name, &restingBody{Body: body, duty: r.duty}) //nolint:wrapcheck // it is a Store
}

// Get implements Store.
func (r *resting) Get(ctx context.Context, name string, off int64, p []byte) (int, error) {
	work := r.duty.Begin()
	n, err := r.Store.Get(ctx, name, off, p)
	work.Rest(n)
	return n, err //nolint:wrapcheck // it is a Store
}

// restingBody is a body that rests before each read, for the time since the one before: that of the
// read, and of what a store does with its bytes.
type restingBody struct {
	Body
	duty *pause.Duty

	mu   sync.Mutex // a call of Put that hangs may read while another one does
	read int        // the bytes of the last read; 0: there was none
	work pause.Work // on them
}

// ReadAt implements Body.
func (b *restingBody) ReadAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	if b.read == 0 {
		b.work = b.duty.Begin()
	} else {
		b.work.Rest(b.read)
	}
	b.read = len(p)
	b.mu.Unlock()
	n, err := b.Body.ReadAt(p, off)
	return n, err //nolint:wrapcheck // a store expects io.EOF
}
