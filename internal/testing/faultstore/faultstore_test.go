package faultstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
)

func make1(t *testing.T) *Store {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	return New(s)
}

func TestWithoutRulesItIsAStore(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objects.Store { return make1(t) })
}

func TestRulesActOnTheCallsThatTheyPick(t *testing.T) {
	s, ctx := make1(t), context.Background()
	busy := s.Add(Rule{Ops: Put, Name: "a/*", From: 2, Count: 2, Err: ErrInjected})
	for i, fails := range []bool{false, true, true, false} {
		if err := s.Put(ctx, "a/x", bytes.NewReader([]byte("x"))); errors.Is(err, ErrInjected) != fails {
			t.Errorf("put %d: %v", i, err)
		}
		must.OK(t, s.Put(ctx, "b/x", bytes.NewReader([]byte("x"))))
	}
	if busy.Hits() != 2 || s.Calls(Put) != 8 || s.Calls(Any) != 8 {
		t.Errorf("%d hits of %d calls", busy.Hits(), s.Calls(Any))
	}
	below := s.Add(Rule{Name: "a/", Err: ErrInjected})
	if err := s.Delete(ctx, "a/b/c"); !errors.Is(err, ErrInjected) {
		t.Errorf("a name below the beginning: %v", err)
	}
	below.Off()
	must.OK(t, s.Delete(ctx, "a/b/c"))
}

func TestALostAnswerHasItsEffect(t *testing.T) {
	s, ctx := make1(t), context.Background()
	s.Add(Rule{Ops: Put, Lost: ErrInjected})
	if err := s.Put(ctx, "x", bytes.NewReader([]byte("x"))); !errors.Is(err, ErrInjected) {
		t.Errorf("put: %v", err)
	}
	if got := objecttest.Get(t, s, "x"); string(got) != "x" {
		t.Errorf("%q", got)
	}
}

func TestALatePutTakesEffectWhenItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make1(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Add(Rule{Ops: Put, Late: true})
		s.Add(Rule{Ops: Delete, Hang: true})
		for call, err := range map[string]error{
			"put": s.Put(ctx, "x", bytes.NewReader([]byte("x"))), "delete": s.Delete(ctx, "x"),
		} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", call, err)
			}
		}
		if got := objecttest.List(t, s, ""); len(got) != 0 {
			t.Errorf("before: %v", got)
		}
		if n, err := s.Release(); n != 1 || err != nil {
			t.Errorf("released %d: %v", n, err)
		}
		if got := objecttest.List(t, s, ""); len(got) != 1 {
			t.Errorf("after: %v", got)
		}
	})
}

func TestAStaleListAndOneThatStops(t *testing.T) {
	s, ctx := make1(t), context.Background()
	objecttest.Put(t, s, "a/old", []byte("x"))
	objecttest.Put(t, s, "b/old", []byte("x"))
	must.OK(t, s.Remember())
	must.OK(t, s.Delete(ctx, "a/old"))
	objecttest.Put(t, s, "a/new", []byte("x"))
	stale := s.Add(Rule{Ops: List, Stale: true})
	if got := objecttest.List(t, s, "a/"); len(got) != 1 || got["a/new"] == 1 {
		t.Errorf("a stale list: %v", got)
	} else if _, old := got["a/old"]; !old {
		t.Errorf("a stale list: %v", got)
	}
	stale.Off()
	s.Add(Rule{Ops: List, Stop: 1})
	names := 0
	if err := s.List(ctx, "", func(objects.Info) error { names++; return nil }); !errors.Is(err, ErrInjected) || names != 1 {
		t.Errorf("%d names: %v", names, err)
	}
}

func TestReadsAreAlteredAndTruncated(t *testing.T) {
	s, p := make1(t), make([]byte, 3)
	objecttest.Put(t, s, "x", []byte("abcdef"))
	s.Add(Rule{Ops: Get, Count: 1, Alter: func(_ Call, b []byte) []byte { b[1] ^= 1; return b }})
	s.Add(Rule{Ops: Get, Count: 1, Alter: func(_ Call, b []byte) []byte { return b[:2] }})
	if n, err := s.Get(context.Background(), "x", 0, p); n != 3 || err != nil || string(p) != "acc" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if n, err := s.Get(context.Background(), "x", 0, p); n != 2 || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", p[:n], err)
	}
	if got := objecttest.Get(t, s, "x"); string(got) != "abcdef" {
		t.Errorf("the object is %q", got)
	}
}

func TestAFullStoreRefusesBytes(t *testing.T) {
	s, ctx := make1(t), context.Background()
	s.SetQuota(5)
	objecttest.Put(t, s, "x", []byte("abc"))
	if err := s.Put(ctx, "y", bytes.NewReader([]byte("abc"))); !errors.Is(err, objects.ErrFull) {
		t.Errorf("put: %v", err)
	}
	s.SetQuota(-1)
	objecttest.Put(t, s, "y", []byte("abc"))
}

func TestAStoreKeepsOtherBytesThanItAcknowledges(t *testing.T) {
	s := make1(t)
	s.Add(Rule{Ops: Put, Count: 1, Alter: truncated})
	objecttest.Put(t, s, "x", []byte("abcdef"))
	objecttest.Put(t, s, "y", []byte("abcdef"))
	if x, y := objecttest.Get(t, s, "x"), objecttest.Get(t, s, "y"); string(x) != "abc" || string(y) != "abcdef" {
		t.Errorf("%q, %q", x, y)
	}
	s.Add(Rule{Ops: List, Lacks: func(in objects.Info) bool { return in.Size == 3 }})
	if got := objecttest.List(t, s, ""); len(got) != 1 {
		t.Errorf("the list has %v", got)
	}
}

// Every call fails in every way that it has: before or after its effect, and after a loss of power
// the store has what it acknowledged.
func TestEveryCallFails(t *testing.T) {
	seen := map[string]int{}
	for c := range EveryCall(t) {
		objecttest.Put(t, c.Store, "a", []byte("former"))
		c.Begin()
		_, err := c.Store.Get(t.Context(), "a", 0, make([]byte, 6))
		if err == nil {
			err = c.Store.Put(t.Context(), "b", bytes.NewReader([]byte("content")))
		}
		c.End()
		got := objecttest.List(t, c.Store, "")
		if _, ok := got["b"]; len(got) == 0 || err == nil && !ok {
			t.Errorf("%s: %v is left after %v", c.What, got, err)
		}
		if c.Killed && !errors.Is(err, ErrKilled) {
			t.Errorf("%s: %v", c.What, err)
		}
		if c.rules[0].Hits() > 0 {
			seen[c.f.what]++
		}
	}
	if testing.Short() || race.Detector {
		return
	}
	if seen["fails"] != 2 || seen["is the last one before a loss of power"] != 2 || seen["finds the store full"] != 1 ||
		seen["returns altered bytes"] != 1 {
		t.Errorf("%v", seen)
	}
}
