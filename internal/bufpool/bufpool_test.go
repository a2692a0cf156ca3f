package bufpool

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClassHoldsWhatWasAskedAndWastesAtMostAThird(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1<<maxClass+10).Draw(t, "n")
		i, size := classOf(n)
		if size < n {
			t.Fatalf("class of %d bytes has %d", n, size)
		}
		if n > 1<<minClass && size-n > size/3+1 {
			t.Fatalf("%d of %d bytes would be unused", size-n, size)
		}
		if i >= classes {
			t.Fatalf("class %d of %d", i, classes)
		}
		if i > 0 {
			if j, smaller := classOf(n - 1); j == i-1 && smaller >= n {
				t.Fatalf("%d fits the smaller class of %d", n, smaller)
			}
		}
	})
}

func TestEveryClassIndexHasOneSize(t *testing.T) {
	sizes := map[int]int{}
	for n := 1; n <= 1<<maxClass; n += 127 {
		i, size := classOf(n)
		if was, ok := sizes[i]; ok && was != size {
			t.Fatalf("class %d has sizes %d and %d", i, was, size)
		}
		sizes[i] = size
	}
	if len(sizes) != classes {
		t.Fatalf("%d classes used, %d exist", len(sizes), classes)
	}
}

func TestI15ABufferReturnsWithItsLastReference(t *testing.T) {
	var p Pool
	for _, n := range []int{-1, 0, 1, 513, 1 << 20, 1<<maxClass + 1} {
		b := p.Get(n)
		if len(b.Bytes()) != max(n, 0) || b.Len() != max(n, 0) {
			t.Fatalf("got %d bytes, asked for %d", len(b.Bytes()), n)
		}
		b.Retain()
		b.Release()
		other := p.Get(n)
		if p.Outstanding() != 2 || n > 0 && &other.Bytes()[0] == &b.Bytes()[0] {
			t.Fatal("gone with a reference left")
		}
		other.Release()
		if n > 0 {
			b.Bytes()[n-1] = 1
		}
		b.Release()
		if p.Outstanding() != 0 {
			t.Fatal("not returned with the last reference")
		}
	}
}

func TestI15UseAfterReleaseIsFound(t *testing.T) {
	if !Invariants {
		t.Skip("ownership is checked with -race or -tags invariants")
	}
	mustPanic := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: not noticed", name)
			}
		}()
		f()
	}
	released := func() *Buffer {
		var p Pool
		b := p.Get(100)
		b.Release()
		return b
	}
	mustPanic("second release", func() { released().Release() })
	mustPanic("read", func() { released().Bytes() })
	mustPanic("retain", func() { released().Retain() })
	mustPanic("late write", func() {
		mem := make([]byte, 64)
		poison(mem)
		mem[7] = 0
		checkPoison(mem)
	})
	var p Pool
	b := p.Get(600)
	data := b.Bytes()
	b.Release()
	if data[0] != poisonByte || data[599] != poisonByte {
		t.Error("released memory still looks like data")
	}
	again := p.Get(600)
	mustPanic("old handle after reuse", func() { b.Bytes() })
	again.Release()
}
