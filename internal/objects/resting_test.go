package objects

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// worker is a store that works for a millisecond on each MiB.
type worker struct{ Store }

func (worker) Put(_ context.Context, _ string, body Body) error {
	p := make([]byte, 1<<20)
	for off := int64(0); off < body.Size(); off += int64(len(p)) {
		if _, err := body.ReadAt(p, off); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (worker) Get(_ context.Context, _ string, _ int64, p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}

// slow is a body whose reads take a millisecond each.
type slow int64

func (slow) ReadAt(p []byte, _ int64) (int, error) {
	time.Sleep(time.Millisecond)
	return len(p), nil
}

func (s slow) Size() int64 { return int64(s) }

// The reads of a body, what a store does with the bytes, and reads of the store rest.
func TestAStoreRests(t *testing.T) {
	const n = 100 // MiB
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rests := n * 3 * time.Millisecond
	for name, c := range map[string]struct {
		do   func(Store) error
		want time.Duration
	}{
		"put": {func(s Store) error { return s.Put(t.Context(), "x", slow(n<<20)) }, 2 * rests},
		"get": {func(s Store) error {
			for off := range int64(n) {
				if _, err := s.Get(t.Context(), "x", off<<20, make([]byte, 1<<20)); err != nil {
					return err
				}
			}
			return nil
		}, rests},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			must.OK(t, c.do(Resting(worker{}, pause.NewDuty())))
			if took, about := time.Since(begin), 15*time.Millisecond; took < c.want-about || took > c.want+about {
				t.Errorf("%s: %v, want %v", name, took, c.want)
			}
		})
	}
}

// A store passes on the errors of another one, and those of a body.
func TestAStoreThatRestsPassesErrorsOn(t *testing.T) {
	s := Resting(worker{}, nil)
	if err := s.Put(t.Context(), "x", truncated(1<<20)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// truncated is a body whose reads fail.
type truncated int64

func (truncated) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

func (s truncated) Size() int64 { return int64(s) }
