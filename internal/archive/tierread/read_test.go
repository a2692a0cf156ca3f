package tierread

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// bounded is a store whose calls have bounds, as a broker's has.
func bounded(s objects.Store) objects.Store {
	return objects.Repeat(s, objects.Attempts{Attempt: 30 * time.Second, Rate: 1 << 30, Total: 2 * time.Minute,
		Pause: pause.Backoff{First: 200 * time.Millisecond, Most: 10 * time.Second}})
}

// check calls every method once, and fails unless each result is what the log has, or an error that
// allowed accepts.
func (w *world) check(t *rapid.T, ctx context.Context, r *Reader, allowed func(error) bool) {
	bad := func(err error) bool {
		if err != nil && !allowed(err) {
			t.Fatal(err)
		}
		return err != nil
	}
	c := w.c
	q := w.drawRead(t)
	for range rapid.IntRange(1, 8).Draw(t, "reads in order") {
		s, err := r.Read(ctx, &c, q.offset, q.limit, q.max, q.one)
		if bad(err) {
			break
		}
		if what := w.wrong(q, &s); what != "" {
			t.Fatalf("a read %+v of %+v: %s: %d bytes, larger %d", q, c, what, s.Size, s.Larger)
		}
		if s.Size == 0 {
			break
		}
		from := q.offset
		q.offset = s.Next()
		s.Release()
		list, more, err := r.Aborted(ctx, &c, from, q.offset)
		if bad(err) {
			break
		}
		if want := w.abortedIn(from, q.offset); !slices.Equal(list, want) {
			t.Fatalf("aborted in [%d, %d) of %+v: %+v, want %+v", from, q.offset, c, list, want)
		}
		for _, e := range w.aborted {
			if !more && e.Last >= c.End && e.First < q.offset {
				t.Fatalf("%+v is above the copy, and there is no more", e)
			}
		}
	}
	ts := rapid.Int64Range(0, w.maxTime().Time+2).Draw(t, "ts")
	if got, err := r.FindTime(ctx, &c, ts); !bad(err) {
		if want := w.find(func(_, at int64) bool { return at >= ts }); got != want {
			t.Fatalf("the first of %d in %+v: %+v, want %+v", ts, c, got, want)
		}
	}
	if got, err := r.MaxTime(ctx, &c); !bad(err) {
		if want := w.maxTime(); got != want {
			t.Fatalf("the newest in %+v: %+v, want %+v", c, got, want)
		}
	}
}

// Whatever the copy, the cache and the faults of the store are, a result is what the log had, or an
// error. Without faults, it is no error.
func TestEveryResultIsWhatTheLogHad(t *testing.T) {
	rapid.Check(t, inBubble(t, func(t *rapid.T) { aWalk(t, breakrules.Removed[Rule]{}) }))
}

// inBubble runs a property with a clock of its own. A failure ends it outside, where rapid sees it.
func inBubble(t *testing.T, property func(*rapid.T)) func(*rapid.T) {
	return func(rt *rapid.T) {
		var failure any
		synctest.Test(t, func(*testing.T) {
			defer func() { failure = recover() }()
			property(rt)
		})
		if failure != nil {
			panic(failure)
		}
	}
}

func aWalk(t *rapid.T, broken breakrules.Removed[Rule]) {
	w := newWorld(t)
	w.draw(t)
	o := w.options(bounded(w.s), rapid.Int64Range(0, 40<<20).Draw(t, "cache"))
	o.Transfers, o.Broken = rapid.IntRange(1, 8).Draw(t, "transfers"), broken
	r := New(o)
	defer r.Close()
	for range rapid.IntRange(1, 10).Draw(t, "steps") {
		var faults []*faultstore.Fault
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			faults = append(faults, w.s.Add(drawFault(t)))
		}
		ctx, cancel := context.Background(), func() {}
		if rapid.Bool().Draw(t, "in a hurry") {
			ctx, cancel = context.WithTimeout(ctx, rapid.SampledFrom([]time.Duration{0, 500 * time.Millisecond}).Draw(t, "time"))
		}
		before := len(faults)
		w.check(t, ctx, r, func(err error) bool {
			return before > 0 || ctx.Err() != nil && errors.Is(err, ctx.Err())
		})
		cancel()
		for _, f := range faults {
			f.Off()
		}
		if len(faults) > 0 { // the transfers that hang end, and then the pause after them
			time.Sleep(10 * time.Minute)
			synctest.Wait()
		}
		limit := max(o.CacheBytes, 2*(format.ChunkSize+entryBytes))
		r.mu.Lock()
		kept := r.cache.used
		r.mu.Unlock()
		if used := r.Stats().CacheBytes; kept > limit || used > limit+9*format.ChunkSize { // and one batch
			t.Fatalf("the cache has %d of %d bytes", used, limit)
		}
	}
	w.check(t, context.Background(), r, func(error) bool { return false })
	if n := w.pool.Outstanding(); n != 0 {
		t.Fatalf("%d buffers were not released", n)
	}
}

// Verified bytes that are not the batches of a part are an error.
func TestPartsThatContradictTheirObjects(t *testing.T) {
	for what, change := range map[string]func(p *format.Part){
		"a beginning within a batch": func(p *format.Part) { p.From++ },
		"an end within a batch":      func(p *format.Part) { p.To-- },
		"an end within a header":     func(p *format.Part) { p.To = p.From + 20 },
		"a base within a batch":      func(p *format.Part) { p.Base += 2 },
		"an end below the batches":   func(p *format.Part) { p.End-- },
		"another checksum":           func(p *format.Part) { p.Run.Sum++ },
		"another timestamp":          func(p *format.Part) { p.Run.Newest++ },
		"other aborts":               func(p *format.Part) { p.Run.FirstAborted = 1 },
	} {
		w := newWorld(t)
		w.begin(10)
		w.plain(100, 1, 2, 3)
		w.object(nil, nil)
		intact := w.parts
		w.manifest(true)
		good := w.c
		for _, cached := range []bool{false, true} { // the footer
			r := w.reader(t, w.options(w.s, 0))
			if w.c = good; cached {
				_, err := w.read(t.Context(), r, 10, 1)
				must.OK(t, err)
			}
			w.parts = slices.Clone(intact)
			change(&w.parts[0])
			at := w.parts[0].Base
			w.manifest(true)
			w.c.Start = at
			_, err := r.Read(t.Context(), &w.c, at, 100, 1000, true)
			if !errors.Is(err, format.ErrContradiction) && !errors.Is(err, objects.ErrDamaged) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// Only the records and markers of the copy count, wherever it begins and ends.
func TestACopyThatBeginsAndEndsWithinAPart(t *testing.T) {
	w := newWorld(t)
	w.plain(1, 90, 10, 20) // offsets 0 to 2
	w.transact(1, 1, 15)
	w.plain(1, 80, 12)
	w.finish(1, record.Abort, 70)
	w.object(nil, nil)
	w.manifest(true)
	r := w.reader(t, w.options(w.s, 0))
	for _, c := range []struct{ start, end, at int64 }{{0, 7, 0}, {1, 7, 4}, {1, 4, 2}, {2, 4, 2}, {3, 4, 3}, {5, 7, 6}} {
		w.c.Start, w.c.End = c.start, c.end
		if got, err := r.MaxTime(t.Context(), &w.c); err != nil || got != w.maxTime() || got.Offset != c.at {
			t.Errorf("[%d, %d): %+v, %v", c.start, c.end, got, err)
		}
		list, more, err := r.Aborted(t.Context(), &w.c, c.start, c.end)
		if err != nil || !slices.Equal(list, w.abortedIn(c.start, c.end)) || more != (c.end < 7) {
			t.Errorf("[%d, %d): %+v, more: %v, %v", c.start, c.end, list, more, err)
		}
	}
}

func TestAnEmptyCopy(t *testing.T) {
	w := newWorld(t)
	w.plain(1, 5)
	w.object(nil, nil)
	w.manifest(true)
	w.c.Start = w.c.End
	r := w.reader(t, w.options(w.s, 0))
	if s, err := r.Read(t.Context(), &w.c, 1, 5, 100, true); s.Size > 0 || err != nil {
		t.Error(s, err)
	}
	found, err := r.FindTime(t.Context(), &w.c, 1)
	newest, err2 := r.MaxTime(t.Context(), &w.c)
	if found.Offset >= 0 || newest.Offset >= 0 || err != nil || err2 != nil {
		t.Error(found, err, newest, err2)
	}
	if list, more, err := r.Aborted(t.Context(), &w.c, 1, 1); len(list) > 0 || more || err != nil {
		t.Error(list, more, err)
	}
}

func drawFault(t *rapid.T) faultstore.Rule {
	rule := faultstore.Rule{Ops: faultstore.Get, From: rapid.IntRange(1, 6).Draw(t, "first"), Count: rapid.IntRange(0, 4).Draw(t, "calls")}
	at := rapid.Uint().Draw(t, "at")
	switch rapid.IntRange(0, 4).Draw(t, "fault") {
	case 0:
		rule.Err = faultstore.ErrInjected
	case 1:
		rule.Err = objects.ErrNotFound
	case 2:
		rule.Hang = true
	case 3:
		rule.Alter = func(_ faultstore.Call, b []byte) []byte {
			if len(b) > 0 {
				b[at%uint(len(b))] ^= 1 << (at % 8)
			}
			return b
		}
	case 4:
		rule.Alter = func(_ faultstore.Call, b []byte) []byte { return b[:at%uint(len(b)+1)] }
	}
	return rule
}

func TestOffsetsBelowTheCopyAreOutOfRange(t *testing.T) {
	w := newWorld(t)
	w.begin(5)
	w.plain(1, 1, 2, 3)
	w.object(nil, nil)
	w.manifest(true)
	w.c.Start = 6
	r := w.reader(t, w.options(w.s, 0))
	if _, err := r.Read(t.Context(), &w.c, 5, 10, 100, true); !errors.Is(err, storage.ErrOffsetOutOfRange) {
		t.Error(err)
	}
	if _, _, err := r.Aborted(t.Context(), &w.c, 5, 10); !errors.Is(err, storage.ErrOffsetOutOfRange) {
		t.Error(err)
	}
	if list, more, err := r.Aborted(t.Context(), &w.c, 8, 10); len(list) > 0 || !more || err != nil {
		t.Error(list, more, err)
	}
	other := w.c
	other.ID.Partition++
	for range 2 { // from the store, and with the cache
		_, err := r.Read(t.Context(), &other, 6, 10, 100, true)
		if !errors.Is(err, objects.ErrNotFound) && !errors.Is(err, format.ErrContradiction) {
			t.Error(err)
		}
		s, err := r.Read(t.Context(), &w.c, 6, 10, 100, true)
		if s.Release(); err != nil && !errors.Is(err, objects.ErrNotFound) {
			t.Error(err)
		}
	}
	if _, err := r.FindTime(t.Context(), &w.c, 1); err != nil && !errors.Is(err, objects.ErrNotFound) {
		t.Error(err)
	}
	fresh := w.reader(t, w.options(w.s, 0))
	_, err := fresh.MaxTime(t.Context(), &w.c)
	must.OK(t, err)
	if _, err := fresh.FindTime(t.Context(), &other, 100); !errors.Is(err, format.ErrContradiction) {
		t.Error(err)
	}
	longer := w.c
	longer.End++
	if _, err := w.reader(t, w.options(w.s, 0)).Read(t.Context(), &longer, 6, 10, 100, true); !errors.Is(err, format.ErrContradiction) {
		t.Error(err)
	}
}
