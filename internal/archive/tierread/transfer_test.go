package tierread

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// large fills a log with a number of objects of three chunks each, and puts them in a manifest. A
// batch has almost half a chunk.
func (w *world) large(objects int) {
	w.t.Helper()
	for range objects {
		for range 6 {
			w.plain(format.ChunkSize/2-200, 5)
		}
		w.plain(100, 5)
		w.object(nil, nil)
	}
	w.manifest(true)
}

// read reads an offset, and returns the number of bytes, after it has checked them.
func (w *world) read(ctx context.Context, r *Reader, offset int64, most int) (int, error) {
	q := readCall{offset: offset, limit: math.MaxInt64, max: most, one: true}
	s, err := r.Read(ctx, &w.c, offset, q.limit, most, true)
	if err != nil {
		return 0, err
	}
	defer s.Release()
	if what := w.wrong(q, &s); what != "" {
		return 0, errors.New(what)
	}
	return s.Size, nil
}

// names matches the log objects of the copy.
var names = path.Join(prefix, "log", "*", "*", "*")

// gets returns how many calls of Get do has caused.
func (w *world) gets(do func()) int {
	before := w.s.Calls(faultstore.Get)
	do()
	return w.s.Calls(faultstore.Get) - before
}

// While the store hangs, callers return with their context, and a bounded number of transfers
// waits. When it has recovered, a caller gets what others have begun.
func TestAStoreThatHangsHoldsABoundedNumberOfTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(40)
		r := New(w.options(bounded(w.s), 256<<20))
		defer r.Close()
		_, err := w.read(t.Context(), r, 0, 1)
		must.OK(t, err)
		var running, most atomic.Int64
		hang := w.s.Add(faultstore.Rule{Ops: faultstore.Get, Hang: true, Before: func(faultstore.Call) {
			most.Store(max(most.Load(), running.Add(1)))
		}})
		for round := range 3 {
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					defer cancel()
					begin := time.Now()
					if _, err := w.read(ctx, r, 7+int64(i%39)*7, 1); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("round %d: %v", round, err)
					}
					if d := time.Since(begin); d > 500*time.Millisecond {
						t.Errorf("round %d: it waited for %v", round, d)
					}
				})
			}
			wg.Wait()
		}
		if n := w.s.Calls(faultstore.Get); most.Load() != 8 || r.Stats().Running != 8 || r.Stats().Waiting != 31 {
			t.Errorf("%d calls of Get at once, %d in all; %+v", most.Load(), n, r.Stats())
		}
		hang.Off()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		footers := w.gets(func() {
			for i := range 39 {
				if f := r.cache.peek(key{nonce: w.footerKey(t, r, i+1), chunk: footerOf}); f == nil {
					t.Errorf("the footer of object %d was not read", i+1)
				}
			}
		})
		if n := r.Stats().Running; footers != 0 || n != 0 {
			t.Errorf("%d transfers, %d calls", n, footers)
		}
		for i := range 39 {
			_, err := w.read(t.Context(), r, 7+int64(i)*7, 1)
			must.OK(t, err)
		}
	})
}

// A reader does not wait for transfers that others have begun without waiting for them, as fetches
// do that have enough local records.
func TestAReaderIsBeforeTransfersThatNoReaderWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 400
		w := newWorld(t)
		for range n {
			w.plain(100, 5)
			w.object(nil, nil)
		}
		w.manifest(true)
		r := New(w.options(w.s, 64<<20))
		defer r.Close()
		_, err := w.read(t.Context(), r, 0, 1)
		must.OK(t, err)
		w.s.Add(faultstore.Rule{Ops: faultstore.Get, Before: func(faultstore.Call) { time.Sleep(100 * time.Millisecond) }})
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range int64(n - 2) {
			if _, err := w.read(over, r, 1+i, 1); !errors.Is(err, context.Canceled) {
				t.Fatalf("offset %d: %v", 1+i, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err = w.read(ctx, r, n-1, 1)
		t.Log("after", time.Since(begin), r.Stats())
		must.OK(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := r.Stats(); s.Running != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// footerKey returns the nonce of an object of the copy.
func (w *world) footerKey(t *testing.T, r *Reader, i int) objects.Nonce {
	l, err := r.parts(t.Context(), &w.c)
	must.OK(t, err)
	return l.top.Parts[i].Run.Nonce
}

// A batch is read that takes many calls of its reader, and more memory than the cache has.
func TestALargeBatchOfASlowStoreIsRead(t *testing.T) {
	for _, cache := range []int64{0, 4 << 20, 16 << 20, 64 << 20} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.plain(100, 1)
			w.plain(9<<20, 2)
			w.plain(100, 3)
			w.object(nil, nil)
			w.manifest(true)
			w.s.Add(faultstore.Rule{Ops: faultstore.Get, Before: func(faultstore.Call) { time.Sleep(300 * time.Millisecond) }})
			r := New(w.options(w.s, cache))
			defer r.Close()
			attempts := 0
			for offset := int64(0); offset < w.c.End && attempts < 100; attempts++ {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				q := readCall{offset: offset, limit: w.c.End, max: 1000, one: true}
				s, err := r.Read(ctx, &w.c, q.offset, q.limit, q.max, q.one)
				cancel()
				switch {
				case err == nil:
					if what := w.wrong(q, &s); what != "" {
						t.Errorf("cache of %d bytes, offset %d: %s", cache, offset, what)
					}
					offset = s.Next()
					s.Release()
				case !errors.Is(err, context.DeadlineExceeded):
					t.Fatal(err)
				}
			}
			if n := w.s.Calls(faultstore.Get); attempts > 12 || n > 14 || r.Stats().CacheBytes > max(cache, 3<<20) {
				t.Errorf("cache of %d bytes: %d attempts, %d calls, %+v", cache, attempts, n, r.Stats())
			}
		})
	}
}

// A caller that gives up and asks again gets what its first call began to read.
func TestATransferContinuesWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(1)
		w.s.Add(faultstore.Rule{Ops: faultstore.Get, Before: func(faultstore.Call) { time.Sleep(2 * time.Second) }})
		r := New(w.options(w.s, 0))
		defer r.Close()
		attempts := 0
		begin := time.Now()
		for attempts < 100 {
			attempts++
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			_, err := w.read(ctx, r, 0, 1)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if d := time.Since(begin); d != 6*time.Second || w.s.Calls(faultstore.Get) != 3 {
			t.Errorf("%d attempts took %v and %d calls", attempts, d, w.s.Calls(faultstore.Get))
		}
	})
}

// Callers of the same bytes share a transfer.
func TestCallersShareATransfer(t *testing.T) {
	if n := shared(t, breakrules.Removed[Rule]{}); n != 3 {
		t.Errorf("a manifest, a footer and a chunk were read with %d calls", n)
	}
}

// shared returns how many calls of Get a hundred reads of the same offset at once cause.
func shared(t *testing.T, broken breakrules.Removed[Rule]) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(1)
		w.s.Add(faultstore.Rule{Ops: faultstore.Get, Before: func(faultstore.Call) { time.Sleep(time.Second) }})
		o := w.options(w.s, 0)
		o.Broken = broken
		r := New(o)
		defer r.Close()
		calls = w.gets(func() {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					_, err := w.read(t.Context(), r, 0, 1)
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	})
	return calls
}

// Bytes that do not match their checksum are an error; and only for those who read them.
func TestDamageIsAnErrorOfTheChunk(t *testing.T) {
	if err := damaged(t, breakrules.Removed[Rule]{}); !errors.Is(err, objects.ErrDamaged) {
		t.Error(err)
	}
}

// damaged reads a chunk that is damaged in the store, and others of its object.
func damaged(t *testing.T, broken breakrules.Removed[Rule]) error {
	w := newWorld(t)
	w.large(1)
	o := w.options(w.s, 0)
	o.Broken, o.Pause = broken, time.Hour
	r := w.reader(t, o)
	_, err := w.read(t.Context(), r, 0, 1)
	must.OK(t, err)
	damage := w.s.Add(faultstore.Rule{Ops: faultstore.Get, Alter: func(_ faultstore.Call, b []byte) []byte {
		b[len(b)/2+100] ^= 1
		return b
	}})
	_, err = w.read(t.Context(), r, 3, 1)
	damage.Off()
	if _, err := w.read(t.Context(), r, 6, 1); err != nil {
		t.Errorf("another chunk: %v", err)
	}
	return err
}

// A transfer that failed is not repeated for a second, and then it is.
func TestAFailureIsReturnedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(2)
		r := New(w.options(w.s, 0))
		defer r.Close()
		_, err := w.read(t.Context(), r, 0, 1)
		must.OK(t, err)
		for what, rule := range map[string]faultstore.Rule{
			"busy": {Err: faultstore.ErrInjected}, "not found": {Err: objects.ErrNotFound}, "refused": {Err: objects.ErrRefused},
		} {
			rule.Ops, rule.Name = faultstore.Get, names
			fault := w.s.Add(rule)
			calls := w.gets(func() {
				for range 10 {
					for _, offset := range []int64{9, 3, 6} { // another object; other chunks of the first
						if _, err := w.read(t.Context(), r, offset, 1); !errors.Is(err, rule.Err) {
							t.Errorf("%s: %v", what, err)
						}
					}
				}
			})
			fault.Off()
			if calls != 2 {
				t.Errorf("%s: %d calls", what, calls)
			}
			if _, err := w.read(t.Context(), r, 9, 1); !errors.Is(err, rule.Err) {
				t.Errorf("%s, and the store has recovered: %v", what, err)
			}
			time.Sleep(time.Second)
		}
		for _, offset := range []int64{3, 9} {
			_, err := w.read(t.Context(), r, offset, 1)
			must.OK(t, err)
		}
		if n := r.Stats().Errors; n != 6 {
			t.Errorf("%d errors", n)
		}
	})
}

// The transfers that wait run in the order in which they were asked for.
func TestTransfersRunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(10)
		o := w.options(w.s, 64<<20)
		o.Transfers = 1
		r := New(o)
		defer r.Close()
		_, err := w.read(t.Context(), r, 0, 1)
		must.OK(t, err)
		gate := make(chan struct{})
		var order []string
		w.s.Add(faultstore.Rule{Ops: faultstore.Get, Before: func(c faultstore.Call) {
			<-gate
			order = append(order, c.Name)
		}})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var want []string
		for i := range 9 {
			l, err := r.parts(t.Context(), &w.c)
			must.OK(t, err)
			want = append(want, prefix+l.top.Parts[9-i].Run.Name(id))
			_, err = w.read(ended, r, int64(9-i)*7, 1)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		close(gate)
		synctest.Wait()
		if fmt.Sprint(order) != fmt.Sprint(want) {
			t.Errorf("%v, and not %v", order, want)
		}
	})
}

// Transfers that wait and that no caller waits for are forgotten if there are many.
func TestAbandonedTransfersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(1)
		w.s.Add(faultstore.Rule{Ops: faultstore.Get, Hang: true})
		r := New(w.options(w.s, 0))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		live := make(chan error, 1)
		for i := range 3 * maxAbandoned {
			c := w.c
			c.Manifest = objects.NewNonce()
			ctx := ended
			if i == 20 {
				ctx = t.Context()
				go func() {
					_, err := r.Read(ctx, &c, 0, 1, 1, true)
					live <- err
				}()
				synctest.Wait()
				continue
			}
			if _, err := r.Read(ctx, &c, 0, 1, 1, true); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if s := r.Stats(); s.Waiting > maxAbandoned || s.Running != 8 || len(r.flights) != s.Waiting+s.Running {
			t.Errorf("%+v, %d flights", s, len(r.flights))
		}
		select {
		case err := <-live:
			t.Errorf("one with a caller: %v", err)
		default:
		}
		r.Close()
		if n := r.Stats().Running; n != 0 {
			t.Errorf("%d transfers run after Close", n)
		}
		if err := <-live; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := r.Read(t.Context(), &w.c, 0, 1, 1, true); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// Reads that follow each other find the next chunk in the cache, also that of the next object.
func TestReadsInOrderAreAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(4)
		r := New(w.options(w.s, 16<<20))
		defer r.Close()
		random := w.gets(func() { // offsets that no read ended at
			for _, offset := range []int64{8, 3, 15} {
				_, err := w.read(t.Context(), r, offset, 1)
				must.OK(t, err)
				synctest.Wait()
			}
		})
		if random != 1+2*3 || r.Stats().Ahead != 0 {
			t.Errorf("reads in no order: %d calls, %+v", random, r.Stats())
		}
		w.s.Add(faultstore.Rule{Ops: faultstore.Get, Before: func(faultstore.Call) { time.Sleep(time.Second) }})
		inOrder(t, w, 16<<20, format.ChunkSize/2, 1, 14)
		// The second read needs two chunks, and the first one continues none.
		inOrder(t, w, 16<<20, 2*format.ChunkSize, 2, 13)
		inOrder(t, w, 4<<20, format.ChunkSize/2, 12, 0) // an eighth has no space for a chunk
	})
}

// inOrder reads everything in order, and checks how many reads wait and how many transfers are
// ahead.
func inOrder(t *testing.T, w *world, cache int64, most, waits, ahead int) {
	r := New(w.options(w.s, cache))
	defer r.Close()
	waited, calls := 0, w.s.Calls(faultstore.Get)
	for offset := int64(0); offset < w.c.End; {
		begin := time.Now()
		s, err := r.Read(t.Context(), &w.c, offset, w.c.End, most, true)
		must.OK(t, err)
		if time.Now() != begin {
			waited++
		}
		offset = s.Next()
		s.Release()
		time.Sleep(3 * time.Second) // of the consumer
	}
	calls = w.s.Calls(faultstore.Get) - calls
	if s := r.Stats(); waited != waits || s.Ahead != int64(ahead) || calls != 17 || r.cache.ahead != 0 {
		t.Errorf("reads of %d bytes: %d waited, of %d calls; %+v", most, waited, calls, s)
	}
}

// Reads ahead take a small part of the cache and of the transfers, and none if others wait.
func TestReadsAheadAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(20)
		r := New(w.options(w.s, 64<<20))
		defer r.Close()
		for i := range int64(20) {
			_, err := w.read(t.Context(), r, 7*i, 1)
			must.OK(t, err)
		}
		w.s.Add(faultstore.Rule{Ops: faultstore.Get, Hang: true})
		for i := range int64(20) { // each continues the one before
			_, err := w.read(t.Context(), r, 7*i+1, 1)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if s := r.Stats(); s.Running != 4 || s.Waiting != 0 || s.Ahead != 4 {
			t.Errorf("%+v", s)
		}
	})
}

// A call waits for the first batch only, and one whose context has ended returns what the cache
// has.
func TestTheCacheNeedsNoTime(t *testing.T) {
	w := newWorld(t)
	w.large(1)
	r := w.reader(t, w.options(w.s, 0))
	if calls := w.gets(func() {
		n, err := w.read(t.Context(), r, 0, 100<<20)
		if err != nil || n != len(w.batches[0])+len(w.batches[1]) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}); calls != 3 {
		t.Errorf("it read more than the manifest, the footer and the first chunk: %d calls", calls)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if calls := w.gets(func() {
		n, err := w.read(ended, r, 0, 100<<20)
		if err != nil || n != len(w.batches[0])+len(w.batches[1]) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

// The search for aborted transactions reads no footer that has none of them.
func TestFootersWithoutAbortsAreNotRead(t *testing.T) {
	w := newWorld(t)
	w.transact(1, 10, 5)
	w.plain(10, 5)
	w.object(nil, nil)
	for range 10 {
		w.plain(10, 5)
		w.object(nil, nil)
		w.manifest(false)
	}
	w.finish(1, 0, 5) // aborted
	w.plain(10, 5)
	w.object(nil, nil)
	for range 10 {
		w.transact(2, 10, 5)
		w.finish(2, 0, 5)
		w.object(nil, nil)
	}
	w.manifest(true)
	r := w.reader(t, w.options(w.s, 0))
	calls := w.gets(func() {
		list, more, err := r.Aborted(t.Context(), &w.c, 0, 2)
		if err != nil || len(list) != 1 || more {
			t.Error(list, more, err)
		}
	})
	if calls != 3 { // the manifest, the first older one, and the footer with the marker
		t.Errorf("%d calls", calls)
	}
}

// Many goroutines read everything while the cache is small and the store fails.
func TestReadsAtOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 6 {
		for j := range 10 {
			w.transact(int64(j%3), 100_000+j*10_000, int64(i*10+j))
			w.finish(int64(j%2), 0, 3)
		}
		w.object(nil, nil)
		if i < 3 {
			w.manifest(false)
		}
	}
	w.manifest(true)
	o := w.options(w.s, 3<<20)
	o.Pause = time.Millisecond
	r := w.reader(t, o)
	w.s.Add(faultstore.Rule{Ops: faultstore.Get, From: 20, Count: 40, Err: faultstore.ErrInjected})
	w.s.Add(faultstore.Rule{Ops: faultstore.Get, From: 50, Count: 40, Alter: func(_ faultstore.Call, b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 4
		return b
	}})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // the same for each run
			for range 60 {
				offset := random.Int64N(w.c.End)
				q := readCall{offset: offset, limit: math.MaxInt64, max: 1 << random.IntN(22), one: true}
				s, err := r.Read(t.Context(), &w.c, offset, q.limit, q.max, q.one)
				if err != nil {
					continue
				}
				if what := w.wrong(q, &s); what != "" {
					t.Errorf("%+v: %s", q, what)
				}
				next := s.Next()
				s.Release()
				if list, _, err := r.Aborted(t.Context(), &w.c, offset, next); err == nil && len(list) != len(w.abortedIn(offset, next)) {
					t.Errorf("[%d, %d): %+v", offset, next, list)
				}
				if _, err := r.FindTime(t.Context(), &w.c, random.Int64N(60)); err != nil {
					continue
				}
				r.Stats()
			}
		})
	}
	wg.Wait()
	if n := w.pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not released", n)
	}
}

// What the Reader notes of the past is bounded.
func TestNotesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large(1)
		r := New(w.options(w.s, 0))
		defer r.Close()
		absent := func(n int) {
			for range n {
				c := w.c
				c.Manifest = objects.NewNonce()
				if _, err := r.Read(t.Context(), &c, 0, 1, 1, true); !errors.Is(err, objects.ErrNotFound) {
					t.Fatal(err)
				}
			}
		}
		absent(maxFailed)
		time.Sleep(time.Second)
		absent(10)
		if len(r.failed) != 10 {
			t.Errorf("%d failures, of which 10 count", len(r.failed))
		}
		absent(maxFailed)
		if len(r.failed) > maxFailed {
			t.Errorf("%d failures", len(r.failed))
		}
		for i := range int64(3 * maxEnds) {
			r.ends.add(readEnd{id, i})
			r.ends.add(readEnd{id, i})
		}
		_, first := r.ends.of[readEnd{id, 2 * maxEnds}]
		_, before := r.ends.of[readEnd{id, 2*maxEnds - 1}]
		if len(r.ends.of) != maxEnds || !first || before {
			t.Errorf("%d ends", len(r.ends.of))
		}
	})
}

// The cache has what was used last, within its bound.
func TestTheCacheHasWhatWasUsedLast(t *testing.T) {
	c := newCache(3*entryBytes + 30)
	k := func(n int) key { return key{chunk: n} }
	for i := range 3 {
		c.add(&entry{key: k(i), size: 10})
	}
	c.get(k(0))
	c.add(&entry{key: k(3), size: 10, ahead: true})
	if c.peek(k(0)) == nil || c.peek(k(1)) != nil || c.peek(k(2)) == nil || c.used != c.limit || c.ahead != entryBytes+10 {
		t.Errorf("%d of %d bytes, %d ahead", c.used, c.limit, c.ahead)
	}
	for n := range 2 { // the last one that is larger than half of it is kept until it is used
		c.add(&entry{key: k(9 + n), size: c.limit})
	}
	if c.peek(k(9)) != nil || c.peek(k(10)) == nil || c.used != c.limit || c.bytes() != 2*c.limit+entryBytes {
		t.Errorf("%d bytes of %d", c.bytes(), c.used)
	}
	if c.get(k(10)) == nil || c.get(k(10)) != nil || c.bytes() != c.limit {
		t.Errorf("%d bytes, after it was used", c.bytes())
	}
	c.add(&entry{key: k(3), size: 10, ahead: true})
	c.add(&entry{key: k(4), size: entryBytes / 2}) // replaces two
	if len(c.of) != 2 || c.ahead == 0 || c.used > c.limit {
		t.Errorf("%d entries with %d bytes, %d ahead", len(c.of), c.used, c.ahead)
	}
}
