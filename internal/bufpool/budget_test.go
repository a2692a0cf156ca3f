package bufpool

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestBudgetIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		ctx := t.Context()
		must.OK(t, b.Acquire(ctx, 60))
		var (
			mu    sync.Mutex
			order []int64
		)
		admitted := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(order)
		}
		for _, n := range []int64{80, 10, 30} {
			go func() {
				if err := b.Acquire(ctx, n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		if b.TryAcquire(1) {
			t.Error("overtook those who wait")
		}
		if admitted() != 0 {
			t.Fatalf("%v admitted before the first in line", order)
		}
		b.Release(60)
		synctest.Wait()
		if admitted() != 2 || b.Used() != 90 {
			t.Fatalf("admitted %v, used %d; want 80 and 10", order, b.Used())
		}
		b.Release(80)
		synctest.Wait()
		if admitted() != 3 || b.Used() != 40 {
			t.Fatalf("admitted %v, used %d", order, b.Used())
		}
	})
}

func TestBudgetAdmitsOneLargerThanItselfAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10)
		if !b.TryAcquire(1) {
			t.Fatal("refused one byte")
		}
		admitted := false
		go func() { admitted = b.Acquire(t.Context(), 1000) == nil }()
		synctest.Wait()
		if admitted {
			t.Fatal("admitted beside another")
		}
		b.Release(1)
		synctest.Wait()
		if !admitted || b.Used() != 1000 {
			t.Fatalf("admitted=%v used=%d", admitted, b.Used())
		}
		if b.TryAcquire(1) {
			t.Fatal("somebody was admitted beside it")
		}
		b.Release(1000)
	})
}

func TestBudgetForgetsWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10)
		b.TryAcquire(10)
		ctx, cancel := context.WithCancel(t.Context())
		var big, small error
		go func() { big = b.Acquire(ctx, 10) }()
		synctest.Wait()
		go func() { small = b.Acquire(t.Context(), 4) }()
		synctest.Wait()
		b.Release(5) // five free: only the next one fits
		cancel()
		synctest.Wait()
		if !errors.Is(big, context.Canceled) || small != nil {
			t.Fatalf("first in line: %v, second: %v", big, small)
		}
		if s := b.Stats(); s.Used != 9 || s.Waiting != 0 || s.Canceled != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

// Callers who need few bytes do not wait behind those who need more, and these get their turn
// although the others keep coming.
func TestASplitBudgetHasTwoQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewSplitBudget(800, 50)
		var (
			mu       sync.Mutex
			admitted []int64
		)
		acquire := func(n int64) {
			go func() {
				if b.Acquire(t.Context(), n) == nil {
					mu.Lock()
					admitted = append(admitted, n)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		expect := func(when string, want ...int64) {
			t.Helper()
			synctest.Wait()
			slices.Sort(admitted)
			if !slices.Equal(admitted, want) {
				t.Fatalf("%s: admitted %v, want %v", when, admitted, want)
			}
			admitted = nil
		}
		for range 6 {
			acquire(50)
		}
		acquire(300)
		expect("at first", 50, 50, 50, 50, 50, 50, 300)
		acquire(201)
		acquire(100)
		expect("200 of 800 are free", []int64(nil)...)
		acquire(50)
		expect("few bytes beyond the share while a larger caller waits", []int64(nil)...)
		b.Release(50)
		expect("250 are free", 201)
		b.Release(300)
		expect("349 are free", 50, 100)
		acquire(2000)
		b.Release(201)
		expect("100 are held by a larger caller", []int64(nil)...)
		b.Release(100)
		expect("six callers have more than the share of 100", []int64(nil)...)
		for range 4 {
			b.Release(50)
		}
		expect("they have their share", 2000)
		acquire(50)
		b.Release(50)
		expect("the share is theirs", 50)
	})
}

// TestBudgetModel compares a sequence of operations with a model in which the
// queue is a plain slice.
func TestBudgetModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(1, 50).Draw(rt, "size")
		b := NewBudget(size)
		var held []int64
		used := func() (sum int64) {
			for _, n := range held {
				sum += n
			}
			return sum
		}
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				n := rapid.Int64Range(1, 80).Draw(rt, "n")
				want := used() == 0 || used()+n <= size
				if got := b.TryAcquire(n); got != want {
					rt.Fatalf("took %d of %d with %d used: %v", n, size, used(), got)
				} else if got {
					held = append(held, n)
				}
			},
			"share": func(rt *rapid.T) {
				n, least := rapid.Int64Range(-3, 80).Draw(rt, "n"), rapid.Int64Range(0, 10).Draw(rt, "least")
				want := max(min(n, max((size-used())/8, least)), 0)
				if got := b.Share(n, least); got != want {
					rt.Fatalf("a share of %d of %d with %d used, want %d", got, size, used(), want)
				}
				held = append(held, want)
			},
			"give": func(rt *rapid.T) {
				if len(held) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(held)-1).Draw(rt, "i")
				b.Release(held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"": func(rt *rapid.T) {
				if b.Used() != used() {
					rt.Fatalf("used %d, model %d", b.Used(), used())
				}
			},
		})
	})
}

// TestBudgetNeverLeaks has many takers, some of which give up at any moment: the sum never exceeds
// the bound and is zero at the end.
func TestBudgetNeverLeaks(t *testing.T) {
	const size = 100
	b := NewBudget(size)
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range rounds {
				n := 1 + rnd.Int64N(60)
				ctx, cancel := context.WithCancel(context.Background())
				if rnd.IntN(3) == 0 {
					go cancel()
				}
				if b.Acquire(ctx, n) == nil {
					if u := b.Used(); u > size {
						t.Errorf("%d bytes of %d", u, size)
					}
					b.Release(n)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if s := b.Stats(); s.Used != 0 || s.Waiting != 0 {
		t.Fatalf("left over: %+v", s)
	}
}

func BenchmarkBudget(b *testing.B) {
	bud := NewBudget(1 << 20)
	ctx := context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if bud.Acquire(ctx, 350) == nil {
				bud.Release(350)
			}
		}
	})
}

// Among holders that keep their bytes, large ones are refused before small ones, and none gets more
// than is free.
func TestTryShareLeavesMemoryForOthers(t *testing.T) {
	b := NewBudget(800)
	if b.TryShare(101, 8) || !b.TryShare(100, 8) || b.TryShare(88, 8) || !b.TryShare(87, 8) || b.Used() != 187 {
		t.Fatalf("%d bytes are held", b.Used())
	}
	for b.TryShare(1, 8) {
		if b.Used() > 800 {
			t.Fatalf("%d bytes are held", b.Used())
		}
	}
	if free := 800 - b.Used(); free != 7 {
		t.Errorf("%d bytes are left over", free)
	}
	b.Release(b.Used())
	if b.TryShare(401, 2) || !b.TryShare(400, 2) || !b.TryShare(50, 8) {
		t.Error("what was given back is not there")
	}
}
