package purgatory

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(n int) Key { return Key{Topic: [16]byte{7}, Partition: int32(n)} }

// counter is an Op that completes when enough has been added to it.
type counter struct {
	need     int64
	have     atomic.Int64
	inside   atomic.Bool
	complete atomic.Int32
	expired  atomic.Int32
	left     atomic.Int32 // calls of Abandon
	last     atomic.Int32 // the key of the last try
	wrong    atomic.Bool  // a promise was broken
}

func (c *counter) enter() func() {
	if c.inside.Swap(true) || c.ends() > 0 {
		c.wrong.Store(true) // concurrent with itself, or after the end
	}
	return func() { c.inside.Store(false) }
}

func (c *counter) TryComplete(i int) bool {
	defer c.enter()()
	c.last.Store(int32(i))
	if c.have.Load() < c.need {
		return false
	}
	c.complete.Add(1)
	return true
}

func (c *counter) Expire() {
	defer c.enter()()
	c.expired.Add(1)
}

func (c *counter) Abandon() {
	defer c.enter()()
	c.left.Add(1)
}

// ends returns how often the operation has ended.
func (c *counter) ends() int32 { return c.complete.Load() + c.expired.Load() + c.left.Load() }

// client is a Client that is gone when its context is canceled.
type client struct{ ctx context.Context }

func (c client) OnClose(fn func()) func() bool { return context.AfterFunc(c.ctx, fn) }

// empty checks that the purgatory refers to nothing.
func empty(t interface{ Errorf(string, ...any) }, p *Purgatory) {
	keys := 0
	for i := range p.shard {
		keys += len(p.shard[i].keys)
	}
	if p.Waiting() != 0 || len(p.all) != 0 || keys != 0 {
		t.Errorf("%d wait, %d are remembered, %d keys", p.Waiting(), len(p.all), keys)
	}
}

func TestAnOperationEndsByWhatComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		at := &counter{}
		p.Watch(at, time.Now().Add(time.Hour), key(1))
		event, never := &counter{need: 2}, &counter{need: 1}
		p.Watch(event, time.Now().Add(time.Hour), key(1), key(2))
		p.Watch(never, time.Now().Add(time.Minute), key(1))
		event.have.Store(1)
		p.Check(key(2))
		if event.last.Load() != 1 || at.complete.Load() != 1 || p.Waiting() != 2 {
			t.Fatalf("tried key %d, %d wait", event.last.Load(), p.Waiting())
		}
		event.have.Store(2)
		p.Check(key(3))
		if event.complete.Load() != 0 {
			t.Fatal("woken by a key that it does not wait for")
		}
		p.Check(key(1))
		if event.complete.Load() != 1 || event.last.Load() != 0 {
			t.Fatal("not woken by its key")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if never.expired.Load() != 1 {
			t.Fatal("not expired at its deadline")
		}
		never.have.Store(1)
		p.Check(key(1))
		time.Sleep(2 * time.Hour)
		for _, c := range []*counter{at, event, never} {
			if c.complete.Load()+c.expired.Load() != 1 || c.wrong.Load() {
				t.Errorf("%+v", c)
			}
		}
		empty(t, p)
	})
}

func TestADeadlineThatHasPassedExpiresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		c := &counter{need: 1}
		p.Watch(c, time.Now().Add(-time.Second))
		synctest.Wait()
		if c.expired.Load() != 1 {
			t.Error("still waits")
		}
		empty(t, p)
	})
}

func TestCloseExpiresWhatWaitsAndWhatComes(t *testing.T) {
	p := New()
	list := []*counter{{need: 1}, {need: 1}, {need: 1}, {need: 1}, {}}
	p.Watch(list[0], time.Now().Add(time.Hour), key(1), key(2))
	p.Watch(list[1], time.Now().Add(time.Hour), key(1))
	p.Watch(list[2], time.Now().Add(time.Hour))
	p.Close()
	p.Watch(list[3], time.Now().Add(time.Hour), key(1))
	p.Watch(list[4], time.Now().Add(time.Hour), key(1))
	p.Close()
	for i, c := range list {
		if want := int32(1); i < 4 && c.expired.Load() != want || i == 4 && c.complete.Load() != want || c.wrong.Load() {
			t.Errorf("%d: %+v", i, c)
		}
	}
	empty(t, p)
}

func TestAnOperationEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		ctx, leave := context.WithCancel(t.Context())
		gone, stays, served := &counter{need: 1}, &counter{need: 1}, &counter{}
		p.WatchFor(client{ctx}, gone, time.Now().Add(time.Hour), key(1))
		p.WatchFor(client{t.Context()}, stays, time.Now().Add(time.Hour), key(1))
		p.WatchFor(client{ctx}, served, time.Now().Add(time.Hour), key(1))
		leave()
		synctest.Wait()
		if gone.left.Load() != 1 || stays.ends() != 0 || served.left.Load() != 0 || p.Waiting() != 1 {
			t.Fatalf("%+v, %+v, %+v; %d wait", gone, stays, served, p.Waiting())
		}
		late := &counter{need: 1} // its client has gone already
		p.WatchFor(client{ctx}, late, time.Now().Add(time.Hour), key(1))
		synctest.Wait()
		stays.have.Store(1)
		p.Check(key(1))
		for _, c := range []*counter{gone, stays, served, late} {
			if c.ends() != 1 || c.wrong.Load() {
				t.Errorf("%+v", c)
			}
		}
		empty(t, p)
	})
}

// meddler causes an event while Watch is between two steps of its registration. The Op's own first
// try is the only hook for that, so it causes the event.
type meddler struct {
	counter
	p     *Purgatory
	tries int
}

func (m *meddler) TryComplete(i int) bool {
	if m.tries++; m.tries == 1 {
		m.have.Store(1) // after this check, before the registration
		m.p.Check(key(1))
		return false
	}
	return m.counter.TryComplete(i)
}

func TestAnEventBeforeTheRegistrationIsNotLost(t *testing.T) {
	p := New()
	m := &meddler{counter: counter{need: 1}, p: p}
	p.Watch(m, time.Now().Add(time.Hour), key(1))
	if m.complete.Load() != 1 {
		t.Error("the event was lost")
	}
	empty(t, p)
}

func registered(p *Purgatory, k Key) int {
	s := p.of(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys[k])
}

func TestAnOperationThatEndsWhileItRegistersLeavesNothing(t *testing.T) {
	p := New()
	c := &counter{need: 1}
	second := p.of(key(2))
	second.mu.Lock() // Watch gets no further than the first key
	var wg sync.WaitGroup
	wg.Go(func() { p.Watch(c, time.Now().Add(time.Hour), key(1), key(2)) })
	for registered(p, key(1)) == 0 {
		time.Sleep(time.Microsecond)
	}
	c.have.Store(1)
	p.Check(key(1))
	second.mu.Unlock()
	wg.Wait()
	if c.complete.Load() != 1 || c.wrong.Load() {
		t.Errorf("%+v", c)
	}
	empty(t, p)
}

// gated is an operation that blocks when it is tried.
type gated struct {
	counter
	tried func()
}

func (g *gated) TryComplete(i int) bool {
	defer g.tried()
	return g.counter.TryComplete(i)
}

// A goroutine that causes an event for which many operations wait continues; another goroutine
// tries them, and it misses no event that comes meanwhile.
func TestManyOperationsDoNotDelayTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		gate, shut := make(chan struct{}), false
		const n = 10 * maxInline
		ops := make([]*gated, n)
		for i := range ops {
			ops[i] = &gated{counter{need: 2}, func() {
				if shut {
					<-gate
				}
			}}
			p.Watch(ops[i], time.Now().Add(time.Hour), key(1))
		}
		shut = true
		for range 2 {
			for _, op := range ops {
				op.have.Add(1)
			}
			p.Check(key(1)) // returns although the first one that is tried blocks
			synctest.Wait()
		}
		close(gate) // that operation was tried before the second event
		synctest.Wait()
		for i, op := range ops {
			if op.complete.Load() != 1 || op.wrong.Load() {
				t.Fatalf("operation %d: %+v", i, &op.counter)
			}
		}
		empty(t, p)
		if left := len(p.of(key(1)).sweeps); left > 0 {
			t.Errorf("%d sweeps are left", left)
		}
	})
}

func TestACloseWaitsForSweeps(t *testing.T) {
	for range 100 {
		p := New()
		for range 10 * maxInline {
			p.Watch(&counter{need: 1}, time.Now().Add(time.Hour), key(1))
		}
		p.Check(key(1))
		p.Close()
		p.Check(key(1))
		s := p.of(key(1))
		s.mu.Lock()
		left := len(s.sweeps)
		s.mu.Unlock()
		if left > 0 {
			t.Fatal("a sweep runs after the Close")
		}
	}
}

// Watchers, events, deadlines and a Close all at once: every operation ends exactly once, one whose
// events have all come ends by them, and nothing remains.
func TestEveryOperationEndsExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New()
		ops := make([]*counter, rapid.IntRange(1, 30).Draw(t, "operations"))
		keys := make([][]Key, len(ops))
		for i := range ops {
			ops[i] = &counter{need: int64(rapid.IntRange(0, 4).Draw(t, "need"))}
			for range rapid.IntRange(1, 20).Draw(t, "keys") {
				keys[i] = append(keys[i], key(rapid.IntRange(0, 5).Draw(t, "key")))
			}
		}
		closing, soon, leaving := rapid.Bool().Draw(t, "close"), rapid.Bool().Draw(t, "soon"), rapid.Bool().Draw(t, "leave")
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		deadline := time.Hour
		if soon {
			deadline = 50 * time.Microsecond
		}
		var wg sync.WaitGroup
		for i, op := range ops {
			wg.Go(func() { p.WatchFor(client{ctx}, op, time.Now().Add(deadline), keys[i]...) })
			wg.Go(func() {
				for range op.need {
					op.have.Add(1)
					p.Check(keys[i][0])
				}
			})
		}
		if closing {
			wg.Go(p.Close)
		}
		if leaving {
			wg.Go(leave)
		}
		wg.Wait()
		if !closing && !soon && !leaving {
			for i, op := range ops {
				if op.complete.Load() != 1 {
					t.Errorf("operation %d missed its events", i)
				}
			}
		}
		p.Close()
		for p.Waiting() > 0 { // a timer's Expire or an Abandon is still running
			time.Sleep(time.Microsecond)
		}
		for i, op := range ops {
			if op.ends() != 1 || op.wrong.Load() {
				t.Errorf("operation %d: completed %d times, expired %d times, abandoned %d times", i, op.complete.Load(), op.expired.Load(),
					op.left.Load())
			}
		}
		empty(t, p)
	})
}

func BenchmarkWatchAndCheck(b *testing.B) {
	p := New()
	b.ReportAllocs()
	for b.Loop() {
		c := &counter{need: 1}
		p.Watch(c, time.Now().Add(time.Hour), key(1))
		c.have.Store(1)
		p.Check(key(1))
	}
}
