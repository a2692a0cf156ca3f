package share

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func from(ip string) netip.Prefix { return origin.Of(netip.MustParseAddr(ip)) }

func wantAllFree(t *testing.T, s *Share, free int) {
	t.Helper()
	if s.free != free {
		t.Errorf("%d places are free, want %d", s.free, free)
	}
	for c := range s.all {
		if p := s.Of(Class(c)); p.Held() != 0 || p.queued != 0 || len(p.groups) != 0 || len(p.turns) != 0 {
			t.Errorf("class %d: %d held, %d wait in %d groups", c, p.held, p.queued, len(p.groups))
		}
	}
}

// work takes places of a class with several goroutines, each time for some time, until ctx ends. It
// returns the time for which places were held.
func work(ctx context.Context, all *sync.WaitGroup, p *Places, goroutines int, each time.Duration) *atomic.Int64 {
	var held atomic.Int64
	for range goroutines {
		all.Go(func() {
			for ctx.Err() == nil && p.Take(ctx, nil, netip.Prefix{}) == nil {
				begin := time.Now()
				time.Sleep(each)
				held.Add(int64(time.Since(begin)))
				p.Leave()
			}
		})
	}
	return &held
}

// All classes together have half of the processors, whatever they want: small requests find the
// other half.
func TestBusyClassesLeaveHalfOfTheProcessors(t *testing.T) {
	if half := New().free; half != max(1, runtime.GOMAXPROCS(0)/2) {
		t.Errorf("%d places on %d processors", half, runtime.GOMAXPROCS(0))
	}
	synctest.Test(t, func(t *testing.T) {
		const processors = 8
		s := newShare(processors / 2)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var used [classes]*atomic.Int64
		// Classes whose work differs by a factor of 100, and who want each more than all
		// processors.
		for c, each := range [classes]time.Duration{Logins: time.Millisecond, Requests: 100 * time.Millisecond,
			Batches: 10 * time.Millisecond, Calls: 3 * time.Millisecond} {
			used[c] = work(ctx, &all, s.Of(Class(c)), processors, each)
		}
		for range 1000 {
			time.Sleep(7 * time.Millisecond)
			synctest.Wait()
			held := 0
			for c := range s.all {
				held += s.Of(Class(c)).Held()
			}
			if held != processors/2 {
				t.Fatalf("%d of %d processors compute for the classes", held, processors)
			}
		}
		cancel()
		all.Wait()
		want := 7 * time.Second // a quarter of four processors for 7 s
		for c, n := range used {
			if got := time.Duration(n.Load()); got < want*3/4 || got > want*5/4 {
				t.Errorf("class %d computed for %v, want about %v", c, got, want)
			}
		}
		wantAllFree(t, s, processors/2)
		stats, places := s.Stats()
		if places != processors/2 {
			t.Errorf("%d places", places)
		}
		for _, x := range stats {
			if want := time.Duration(used[x.Class].Load()); x.Used != want || x.Held != 0 || x.Waiting != 0 {
				t.Errorf("%v: %+v, want %v", x.Class, x, want)
			}
		}
	})
}

// A class has the places that no other one wants, and gives them up as soon as another one wants
// them. What it used alone is not held against it.
func TestAnIdleClassLendsItsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(4)
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		alone := work(ctx, &all, s.Of(Batches), 8, 10*time.Millisecond)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := time.Duration(alone.Load()); got < 39*time.Second {
			t.Errorf("alone it computed for %v in 10 s, with four places", got)
		}
		before := time.Duration(alone.Load())
		calls := work(ctx, &all, s.Of(Calls), 8, 10*time.Millisecond)
		time.Sleep(10 * time.Second)
		cancel()
		all.Wait()
		for what, got := range map[string]time.Duration{"the first": time.Duration(alone.Load()) - before,
			"the second": time.Duration(calls.Load())} {
			if got < 18*time.Second || got > 22*time.Second {
				t.Errorf("%s of two classes computed for %v in 10 s, want half of 40 s", what, got)
			}
		}
		wantAllFree(t, s, 4)
	})
}

// Short work does not wait behind the queue of another class: it gets the next place.
func TestAClassWaitsForOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(1)
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		work(ctx, &all, s.Of(Requests), 100, 100*time.Millisecond)
		for range 20 {
			time.Sleep(730 * time.Millisecond)
			begin := time.Now()
			must.OK(t, s.Of(Logins).Take(t.Context(), nil, netip.Prefix{}))
			if waited := time.Since(begin); waited > 100*time.Millisecond {
				t.Errorf("a login waited %v for requests of 100 ms", waited)
			}
			s.Of(Logins).Leave()
		}
		cancel()
		all.Wait()
		wantAllFree(t, s, 1)
	})
}

// Addresses take turns, however many goroutines of one of them wait; those of an address are served
// in the order of their arrival.
func TestPlacesAreSharedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(1)
		p := s.Of(Logins)
		must.OK(t, p.Take(t.Context(), nil, from("10.0.0.9")))
		var order []string
		for _, who := range []struct{ ip, name string }{
			{"10.0.0.1", "a1"}, {"10.0.0.1", "a2"}, {"10.0.0.1", "a3"}, {"10.0.0.2", "b1"},
			{"2001:db8::1", "c1"}, {"2001:db8::2", "c2"}, {"10.0.0.2", "b2"},
		} {
			go func() {
				if err := p.Take(t.Context(), nil, from(who.ip)); err != nil {
					t.Error(err)
				}
				order = append(order, who.name)
				p.Leave()
			}()
			synctest.Wait()
		}
		if p.Waiting() != 7 {
			t.Errorf("%d wait", p.Waiting())
		}
		p.Leave()
		synctest.Wait()
		if want := []string{"a1", "b1", "c1", "a2", "b2", "c2", "a3"}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
		wantAllFree(t, s, 1)
	})
}

// A full queue refuses the last of the address with the most, and then newcomers of that address.
func TestAFullQueueRefusesTheGreediest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(0)
		p := s.Of(Logins)
		ctx, cancel := context.WithCancel(t.Context())
		refused := 0
		take := func(ip string) {
			go func() {
				if err := p.Take(ctx, nil, from(ip)); errors.Is(err, ErrFull) {
					refused++
				}
			}()
			synctest.Wait()
		}
		for range MaxLogins {
			take("10.0.0.1")
		}
		take("10.0.0.2")
		if n := len(p.groups[from("10.0.0.1")].waiting); n != MaxLogins-1 || refused != 1 || len(p.groups) != 2 {
			t.Errorf("%d wait, %d were refused", n, refused)
		}
		take("10.0.0.1")
		if refused != 2 || p.Waiting() != MaxLogins {
			t.Errorf("%d were refused, %d wait", refused, p.Waiting())
		}
		cancel()
		synctest.Wait()
		wantAllFree(t, s, 0)
	})
}

// A wait ends with its context or with done, and loses no place.
func TestAWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(1)
		p := s.Of(Requests)
		must.OK(t, p.Take(t.Context(), nil, netip.Prefix{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Take(ctx, nil, netip.Prefix{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ended: %v", err)
		}
		done := make(chan struct{})
		close(done)
		if err := p.Take(t.Context(), done, netip.Prefix{}); !errors.Is(err, ErrDone) {
			t.Errorf("done: %v", err)
		}
		for range 100 { // the place and the end come at the same moment
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- p.Take(ctx, nil, netip.Prefix{}) }()
			synctest.Wait()
			cancel()
			p.Leave()
			if err := <-ended; err != nil {
				must.OK(t, p.Take(t.Context(), nil, netip.Prefix{}))
			}
		}
		p.Leave()
		wantAllFree(t, s, 1)
	})
}

func BenchmarkTake(b *testing.B) {
	p := New().Of(Batches)
	for b.Loop() {
		_ = p.Take(b.Context(), nil, netip.Prefix{})
		p.Leave()
	}
}
