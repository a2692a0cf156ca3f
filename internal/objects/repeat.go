package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
)

// Attempts bounds the calls of a Store. All fields must be set; without a Pause, attempts follow at
// once.
type Attempts struct {
	// Attempt is the time of one attempt in which no byte is transferred; Rate, in bytes per
	// second, adds the time of its bytes: a store that is slower counts as hanging.
	Attempt time.Duration
	Rate    int64
	// Total is the time of a call with all its attempts, in addition to that of its bytes. A List
	// has it from the last name on.
	Total time.Duration
	// Pause is the time between attempts.
	Pause pause.Backoff
}

// Repeat returns a Store that repeats each failed call of under, until it succeeds, the error is
// final, or the time is over. ErrNotFound, ErrRefused, ErrFull and io.EOF are final, and so is an
// error of the body of a Put, which Put returns. So every call has a deadline, whatever its
// context; that of a List moves with its names. Calls with equal arguments have equal effects, so
// an attempt whose answer was lost, or that takes effect late, does no harm.
func Repeat(under Store, a Attempts) Store { return &repeating{under, a} }

type repeating struct {
	under Store
	a     Attempts
}

// errBody marks errors of a body: the store is not their cause, and no attempt at it ends them.
var errBody = errors.New("read the object to put")

// final reports whether another attempt would have the same result.
func final(err error) bool {
	for _, last := range []error{ErrNotFound, ErrRefused, ErrFull, io.EOF, errBody} {
		if errors.Is(err, last) {
			return true
		}
	}
	return false
}

// errHangs is the cause of the end of an attempt.
var errHangs = errors.New("the object store does not answer in time")

// transfer returns the time that n bytes may take.
func (r *repeating) transfer(n int64) time.Duration {
	return time.Duration(float64(n) / float64(r.a.Rate) * float64(time.Second))
}

// repeat calls do as Repeat describes; bytes is how many bytes an attempt transfers.
func (r *repeating) repeat(ctx context.Context, bytes int64, do func(context.Context) error) error {
	extra := r.transfer(bytes)
	ctx, cancel := context.WithTimeoutCause(ctx, r.a.Total+extra, errHangs)
	defer cancel()
	for failures := 1; ; failures++ {
		attempt, stop := context.WithTimeoutCause(ctx, r.a.Attempt+extra, errHangs)
		err := do(attempt)
		if err != nil && attempt.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(attempt), err)
		}
		stop()
		if err == nil || final(err) || pause.Sleep(ctx, r.a.Pause.Spread(failures)) != nil {
			return counted(err, failures)
		}
	}
}

// counted adds the number of attempts to an error, if there were several.
func counted(err error, n int) error {
	if err == nil || n == 1 || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w (attempt %d)", err, n)
}

// Put implements Store.
func (r *repeating) Put(ctx context.Context, name string, body Body) error {
	b := &noting{Body: body}
	return r.repeat(ctx, body.Size(), func(ctx context.Context) error {
		err := r.under.Put(ctx, name, b)
		if failed := b.failed.Load(); err != nil && failed != nil {
			err = fmt.Errorf("%w: %w", errBody, *failed)
		}
		return err
	})
}

// noting is a body that notes its first error. A store may return another one for it.
type noting struct {
	Body
	failed atomic.Pointer[error]
}

// ReadAt implements Body.
func (b *noting) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.Body.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed.CompareAndSwap(nil, &err)
	}
	return n, err //nolint:wrapcheck // a store expects io.EOF
}

// Get implements Store.
func (r *repeating) Get(ctx context.Context, name string, off int64, p []byte) (n int, err error) {
	err = r.repeat(ctx, int64(len(p)), func(ctx context.Context) (err error) {
		n, err = r.under.Get(ctx, name, off, p)
		return err
	})
	return n, err
}

// Copy implements Store.
func (r *repeating) Copy(ctx context.Context, from Info, to string) error {
	return r.repeat(ctx, from.Size, func(ctx context.Context) error { return r.under.Copy(ctx, from, to) })
}

// Delete implements Store.
func (r *repeating) Delete(ctx context.Context, name string) error {
	return r.repeat(ctx, 0, func(ctx context.Context) error { return r.under.Delete(ctx, name) })
}

// List implements Store. A list may have millions of names, so its time as a whole has no bound.
// Each attempt lists from the first name on. It ends when no name has come for the time of an
// attempt, and the last attempt ends the call when none has come for Total that is new.
func (r *repeating) List(ctx context.Context, prefix string, each func(Info) error) error {
	last, most := time.Now(), 0
	for failures := 1; ; failures++ {
		var own error // of each, which is not repeated
		attempt, stop := context.WithCancelCause(ctx)
		watch := time.AfterFunc(r.a.Attempt, func() { stop(errHangs) })
		names := 0
		err := r.under.List(attempt, prefix, func(in Info) error {
			watch.Reset(r.a.Attempt)
			if names++; names > most {
				last, most = time.Now(), names
			}
			own = each(in)
			return own
		})
		watch.Stop()
		if err != nil && own == nil && attempt.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(attempt), err)
		}
		stop(nil)
		if err == nil || own != nil || final(err) {
			return err
		}
		if time.Since(last) >= r.a.Total || pause.Sleep(ctx, r.a.Pause.Spread(failures)) != nil {
			return counted(err, failures)
		}
	}
}
