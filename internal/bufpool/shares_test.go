package bufpool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// taking starts a Take, and returns a function that reports what it has got, -1 while it waits.
func taking(t *testing.T, s *Shares[string], by Holder[string], n int64) func() int64 {
	got := int64(-1)
	go func() {
		if n, err := s.Take(t.Context(), by, n, n); err == nil {
			got = n
		}
	}()
	synctest.Wait()
	return func() int64 { synctest.Wait(); return got }
}

// An origin has at most half of what others leave, so that none keeps the others out. What needs
// few bytes does not wait behind what needs many.
func TestAnOriginLeavesHalfToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares[string](1000, 10)
		a, b, c, d := Holder[string]{Origin: "a"}, Holder[string]{Origin: "b"}, Holder[string]{Origin: "c"}, Holder[string]{Origin: "d"}
		if n, ok := s.Try(a, 1, 437); n != 437 || !ok { // half of 7/8
			t.Fatalf("the first origin gets %d", n)
		}
		first, second := taking(t, s, a, 20), taking(t, s, a, 30)
		if _, ok := s.Try(a, 20, 20); ok || first() >= 0 {
			t.Error("it gets more than half, or overtakes those who wait")
		}
		if n, ok := s.Try(a, 10, 10); !ok || n != 10 {
			t.Error("a small one waits behind large ones")
		}
		if n, ok := s.Try(b, 200, 200); !ok || n != 200 {
			t.Error("another origin finds nothing")
		}
		if n, ok := s.Try(c, 500, 500); !ok || n != 500 {
			t.Error("an origin that has nothing does not get what it needs, alone")
		}
		if _, ok := s.Try(d, 500, 500); ok {
			t.Error("two origins have more than their half")
		}
		s.Return(a, 437)
		s.Return(c, 500)
		if first() != 20 || second() != 30 {
			t.Errorf("those who wait got %d and %d", first(), second())
		}
		s.Return(a, 60)
		s.Return(b, 200)
		if x := s.Stats(); x.Used != 0 || x.Waiting != 0 || len(s.of) != 0 || x.Peak != 1147 {
			t.Errorf("%+v, %d origins", x, len(s.of))
		}
	})
}

// New holders of an origin leave some of its part to the others, who do not wait behind them.
func TestNewHoldersLeaveSomeToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares[string](1600, 0)
		fresh, known := Holder[string]{"a", true}, Holder[string]{Origin: "a"}
		if n, ok := s.Try(fresh, 1000, 600); n != 600 || !ok { // 7/8 of half of 7/8 are 613
			t.Fatalf("a new holder gets %d", n)
		}
		if _, ok := s.Try(fresh, 50, 50); ok {
			t.Error("new holders leave nothing to the others")
		}
		waits, behind := taking(t, s, fresh, 200), taking(t, s, fresh, 10)
		if n, ok := s.Try(known, 100, 90); n != 90 || !ok {
			t.Errorf("one that is not new gets %d", n)
		}
		next := taking(t, s, known, 100)
		if waits() >= 0 || behind() >= 0 || next() >= 0 {
			t.Error("they have more than their part")
		}
		s.Return(fresh, 400)
		if next() != 100 || waits() != 200 || behind() != 10 {
			t.Errorf("those who wait got %d, %d and %d", next(), waits(), behind())
		}
		s.Return(known, 190)
		s.Return(fresh, 410)
		if n, ok := s.Try(fresh, 600, 600); n != 600 || !ok {
			t.Fatalf("a new holder gets %d", n)
		}
		if n, ok := s.Try(known, 700, 700); n != 700 || !ok {
			t.Error("one that has nothing does not get what it needs while new ones have their part")
		}
		s.Return(fresh, 600)
		s.Return(known, 700)
		if x := s.Stats(); x.Used != 0 || x.Waiting != 0 || len(s.of) != 0 || s.alone[many].of != nil {
			t.Errorf("%+v, %d origins", x, len(s.of))
		}
	})
}

// A caller that gives up leaves the queue, and those behind it are served.
func TestSharesForgetWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := NewShares[string](1000, 0), Holder[string]{Origin: "a"}
		s.Try(a, 400, 400)
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { _, err = s.Take(ctx, a, 100, 100) }()
		synctest.Wait()
		behind := taking(t, s, a, 20)
		cancel()
		if got := behind(); got != 20 || !errors.Is(err, context.Canceled) {
			t.Errorf("the one behind has %d: %v", got, err)
		}
		s.Return(a, 420)
	})
}

// Whatever origins take and return, all together have the size, and one more each of a kind; and
// each caller gets what it needs in the end.
func TestSharesModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(1, 200).Draw(rt, "size")
		small := size / 20
		s := NewShares[int](size, small)
		type holding struct {
			by Holder[int]
			n  int64
		}
		var held []holding
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(rt, "return") {
				i := rapid.IntRange(0, len(held)-1).Draw(rt, "which")
				s.Return(held[i].by, held[i].n)
				held = append(held[:i], held[i+1:]...)
				continue
			}
			by := Holder[int]{rapid.IntRange(0, 4).Draw(rt, "from"), rapid.Bool().Draw(rt, "new")}
			least, own, alike := rapid.Int64Range(1, size).Draw(rt, "least"), int64(0), int64(0)
			for _, h := range held {
				if h.by.Origin == by.Origin {
					own += h.n
				}
				if h.by == by {
					alike += h.n
				}
			}
			n, ok := s.Try(by, least+rapid.Int64Range(0, size).Draw(rt, "more"), least)
			switch {
			case ok && n < least:
				rt.Fatalf("%d bytes instead of %d", n, least)
			case ok && by.New && own > 0 && own+n > size/2-size/2/smallPart:
				rt.Fatalf("new holders of an origin have %d of %d bytes", own+n, size)
			case ok && alike > 0 && own+n > size/2:
				rt.Fatalf("an origin has %d of %d bytes", own+n, size)
			case !ok && len(held) == 0:
				rt.Fatalf("nothing is held, and %d of %d bytes are refused", least, size)
			case ok:
				held = append(held, holding{by, n})
			}
			if x := s.Stats(); x.Used > 3*size {
				rt.Fatalf("%d of %d bytes are used", x.Used, size)
			}
		}
		for _, h := range held {
			s.Return(h.by, h.n)
		}
		if x := s.Stats(); x.Used != 0 || len(s.of) != 0 || s.alone[few].of != nil || s.alone[many].of != nil {
			rt.Fatalf("%+v is left", x)
		}
	})
}
