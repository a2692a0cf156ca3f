package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
)

var attempts = objects.Attempts{
	Attempt: 10 * time.Second, Rate: 1 << 20, Total: time.Minute, Pause: pause.Backoff{First: time.Second, Most: 4 * time.Second},
}

// calls are one call of each kind, except List, of an object "x" of 3 bytes.
func calls(ctx context.Context, s objects.Store) map[faultstore.Op]func() error {
	return map[faultstore.Op]func() error{
		faultstore.Put:    func() error { return s.Put(ctx, "x", bytes.NewReader([]byte("abc"))) },
		faultstore.Get:    func() error { _, err := s.Get(ctx, "x", 0, make([]byte, 3)); return err },
		faultstore.Copy:   func() error { return s.Copy(ctx, objects.Info{Name: "x", Size: 3}, "y") },
		faultstore.Delete: func() error { return s.Delete(ctx, "z") },
		faultstore.List:   func() error { return s.List(ctx, "", func(objects.Info) error { return nil }) },
	}
}

func TestARepeatingStoreIsAStore(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objects.Store { return objects.Repeat(store(t), attempts) })
}

func TestCallsThatFailAreRepeated(t *testing.T) {
	for what, rule := range map[string]faultstore.Rule{
		"an error":      {Err: faultstore.ErrInjected},
		"a lost answer": {Lost: faultstore.ErrInjected},
		"a hang":        {Hang: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := store(t)
			objecttest.Put(t, s, "x", []byte("abc"))
			for op, call := range calls(context.Background(), objects.Repeat(s, attempts)) {
				if op == faultstore.List && rule.Lost != nil {
					continue // its names are its answer
				}
				rule.Ops, rule.Count = op, 3
				fault := s.Add(rule)
				if err := call(); err != nil || fault.Hits() != 3 {
					t.Errorf("%s, call %d: %v after %d", what, op, err, fault.Hits())
				}
			}
			if got := objecttest.Get(t, s, "y"); string(got) != "abc" {
				t.Errorf("the copy is %q", got)
			}
		})
	}
}

// A Put that takes effect after another attempt has succeeded changes nothing.
func TestALateAttemptChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		s.Add(faultstore.Rule{Ops: faultstore.Put, Count: 1, Late: true})
		if err := objects.Repeat(s, attempts).Put(context.Background(), "x", bytes.NewReader([]byte("abc"))); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Release(); n != 1 || err != nil {
			t.Errorf("%d late calls, %v", n, err)
		}
		if got := objecttest.Get(t, s, "x"); string(got) != "abc" {
			t.Errorf("%q", got)
		}
	})
}

func TestFinalErrorsAreNotRepeated(t *testing.T) {
	for _, final := range []error{objects.ErrNotFound, objects.ErrRefused, objects.ErrFull, io.EOF} {
		s := store(t)
		s.Add(faultstore.Rule{Err: fmt.Errorf("wrapped: %w", final)})
		for op, call := range calls(context.Background(), objects.Repeat(s, attempts)) {
			if err := call(); !errors.Is(err, final) || s.Calls(op) != 1 {
				t.Errorf("call %d: %v after %d attempts", op, err, s.Calls(op))
			}
		}
	}
}

// unreadable is a body that counts its reads, which fail, perhaps after the end of the attempt.
type unreadable struct {
	after time.Duration
	reads *atomic.Int32
}

var errUnreadable = errors.New("the log is closed")

func (unreadable) Size() int64 { return 3 }

func (u unreadable) ReadAt([]byte, int64) (int, error) {
	u.reads.Add(1)
	time.Sleep(u.after)
	return 0, errUnreadable
}

// A body that cannot be read is no fault of the store. Whatever the store makes of it, the call
// ends with the error of the body.
func TestABodyThatCannotBeReadIsFinal(t *testing.T) {
	for _, after := range []time.Duration{0, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			reads := new(atomic.Int32)
			err := objects.Repeat(store(t), attempts).Put(context.Background(), "x", unreadable{after, reads})
			if n := reads.Load(); !errors.Is(err, errUnreadable) || after == 0 && n != 1 || n > 2 {
				t.Errorf("%v after %d reads", err, n)
			}
			time.Sleep(time.Minute) // a late attempt
		})
	}
	s := store(t)
	s.Add(faultstore.Rule{Ops: faultstore.Put, Err: faultstore.ErrInjected, Count: 2})
	if err := objects.Repeat(s, attempts).Put(context.Background(), "x", bytes.NewReader([]byte("abc"))); err != nil {
		t.Errorf("a body that can be read: %v", err)
	}
}

// Every call has a deadline, whatever its context: it fails after about its total time. A transfer
// has as much more as its bytes need.
func TestCallsEndWhenTheStoreHangs(t *testing.T) {
	for op := faultstore.Put; op <= faultstore.Delete; op <<= 1 {
		synctest.Test(t, func(t *testing.T) {
			s := store(t)
			s.Add(faultstore.Rule{Hang: true})
			begin := time.Now()
			err := calls(context.Background(), objects.Repeat(s, attempts))[op]()
			if d := time.Since(begin); err == nil || d < time.Minute || d > 75*time.Second {
				t.Errorf("call %d: %v after %v", op, err, d)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		s.Add(faultstore.Rule{Hang: true})
		begin := time.Now()
		err := objects.Repeat(s, attempts).Put(context.Background(), "x", bytes.NewReader(make([]byte, 100<<20)))
		if d := time.Since(begin); err == nil || d < 160*time.Second || d > 270*time.Second {
			t.Errorf("100 MiB: %v after %v", err, d)
		}
	})
}

func TestTheContextEndsTheAttempts(t *testing.T) {
	for op := faultstore.Put; op <= faultstore.Delete; op <<= 1 {
		synctest.Test(t, func(t *testing.T) {
			s := store(t)
			s.Add(faultstore.Rule{Err: faultstore.ErrInjected})
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			begin := time.Now()
			err := calls(ctx, objects.Repeat(s, attempts))[op]()
			if d := time.Since(begin); !errors.Is(err, faultstore.ErrInjected) || d != 3*time.Second {
				t.Errorf("call %d: %v after %v", op, err, d)
			}
		})
	}
}

// A list is repeated from its beginning, and its caller's error ends it. One that always stops at
// the same name ends.
func TestListsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t)
		for _, name := range []string{"a", "b", "c"} {
			objecttest.Put(t, s, name, []byte("x"))
		}
		stops := s.Add(faultstore.Rule{Ops: faultstore.List, Count: 2, Stop: 2})
		seen := map[string]int{}
		if err := objects.Repeat(s, attempts).List(context.Background(), "", func(in objects.Info) error {
			seen[in.Name]++
			return nil
		}); err != nil || seen["a"] != 3 || seen["b"] != 3 || seen["c"] != 1 || stops.Hits() != 2 {
			t.Errorf("%v, %v", seen, err)
		}
		own, n := errors.New("own"), 0
		if err := objects.Repeat(s, attempts).List(context.Background(), "", func(objects.Info) error {
			n++
			return own
		}); !errors.Is(err, own) || n != 1 {
			t.Errorf("%d calls, %v", n, err)
		}
		s.Add(faultstore.Rule{Ops: faultstore.List, Stop: 2})
		begin := time.Now()
		err := objects.Repeat(s, attempts).List(context.Background(), "", func(objects.Info) error { return nil })
		if d := time.Since(begin); !errors.Is(err, faultstore.ErrInjected) || d < 55*time.Second || d > 75*time.Second {
			t.Errorf("%v after %v", err, d)
		}
	})
}
