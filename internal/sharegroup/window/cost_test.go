package window

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// large returns the settings of a window that holds n records.
func large(n int64) Config { return Config{Locks: n, Deliveries: 5, Lock: time.Hour} }

// frayed returns a window with n acquired records. Every second one is acknowledged, so that each
// record is a run of its own.
func frayed(tb testing.TB, n int64) *Window {
	tb.Helper()
	w := New(large(n), 0)
	w.Take(Taking{Member: 1, Batches: []Batch{{Base: 0, Last: n - 1}}, Records: n}, nil)
	for o := int64(1); o < n; o += 2 {
		if _, err := w.Acknowledge(1, 0, []Ack{{o, o, []AckType{Accept}}}); err != nil {
			tb.Fatal(err)
		}
	}
	return w
}

// visited returns how many nodes of the tree a call visits.
func (w *Window) visited(call func()) int {
	before := w.tree.visits
	call()
	return w.tree.visits - before
}

// No call works in proportion to the window: each visits a few nodes for each run that it changes,
// in a window of 10,000 runs and in one of 300,000.
func TestNoCallWalksTheWindow(t *testing.T) {
	for _, n := range []int64{10_000, 300_000} {
		w := frayed(t, n)
		middle := n / 2 / 2 * 2 // acquired
		end := w.end
		cfg := w.cfg
		cfg.Locks *= 2
		w.SetConfig(cfg)
		single := func(o int64, by AckType) func() {
			return func() {
				if _, err := w.Acknowledge(1, 1, []Ack{{o, o, []AckType{by}}}); err != nil {
					t.Errorf("acknowledge %d: %v", o, err)
				}
			}
		}
		for _, c := range []struct {
			name string
			runs int // that the call changes
			call func()
		}{
			{"plan, nothing available", 1, func() { w.Plan(0) }},
			{"take a new batch", 1, func() {
				w.Take(Taking{Member: 2, From: end, Batches: []Batch{{Base: end, Last: end + 999}}, Records: 1000}, nil)
			}},
			{"accept in the middle", 1, single(middle, Accept)},
			{"release in the middle", 1, single(middle+100, Release)},
			{"plan, one available", 1, func() {
				if from, ok := w.Plan(0); !ok || from != middle+100 {
					t.Errorf("plan: %d %t", from, ok)
				}
			}},
			{"take the released record", 1, func() {
				got := w.Take(Taking{Member: 3, From: middle + 100, Batches: []Batch{{Base: 0, Last: n - 1}}, Records: 500}, nil)
				if len(got) != 1 || got[0] != (Delivery{middle + 100, middle + 100, 2}) {
					t.Errorf("take: %v", got)
				}
			}},
			{"renew", 1, single(middle+200, Renew)},
			{"an acknowledgement that fails", 1, func() {
				if _, err := w.Acknowledge(9, 1, []Ack{{middle, n - 2, []AckType{Accept}}}); err == nil {
					t.Error("it succeeds")
				}
			}},
			{"expire, nothing due", 1, func() { w.Expire(2) }},
			{"release a member with one record", 1, func() {
				if ended, _ := w.Release(3); ended != 1 {
					t.Errorf("%d records", ended)
				}
			}},
			{"release a member with one batch", 1, func() {
				if ended, _ := w.Release(2); ended != 1000 {
					t.Errorf("%d records", ended)
				}
			}},
			{"extend, next deadline, stats, due", 1, func() { w.Extend(1); w.NextDeadline(); w.Stats(); w.Due() }},
			{"letters", 1, func() { w.NextLetters(1000); w.Copied(middle, middle) }},
			{"accept at SPSO", 2, single(0, Accept)},
			{"the log starts above ten runs", 10, func() { w.StartMoved(w.start + 10) }},
		} {
			if visits := w.visited(c.call); visits > 64*c.runs {
				t.Errorf("%d runs: %s visits %d nodes for %d runs", n, c.name, visits, c.runs)
			}
		}
		runs := w.tree.runs()
		if visits := w.visited(func() { w.Begin() }); visits > 64*runs {
			t.Errorf("a write of %d runs visits %d nodes", runs, visits)
		}
		w.Written(1)
		single(middle+300, Accept)()
		for name, call := range map[string]func(){
			"begin a write of one run": func() { w.Begin() }, "repeat it": func() { w.Begin() }, "its answer": func() { w.Written(2) },
		} {
			if visits := w.visited(call); visits > 64 {
				t.Errorf("%d runs: %s visits %d nodes", n, name, visits)
			}
		}
		if ended, _ := w.Release(1); ended < n/2-20 {
			t.Errorf("member 1 had %d records", ended)
		}
		if bad := w.faults(); bad != "" {
			t.Error(bad)
		}
		if s := w.Stats(); s.Offsets[Acquired] != 0 || len(w.tree.locks.holds.chunks) != 0 {
			t.Errorf("%+v, %d chunks of holds", s, len(w.tree.locks.holds.chunks))
		}
	}
}

// A lock whose records were released and acquired by others does not lead its end to them.
func TestTheEndOfALockVisitsItsOwnRunsOnly(t *testing.T) {
	const n = 20_000
	w := New(large(n), 0)
	w.Take(Taking{Member: 1, Batches: []Batch{{Base: 0, Last: n - 1}}, Records: n}, nil)
	if _, err := w.Acknowledge(1, 0, []Ack{{1, n - 2, []AckType{Release}}}); err != nil {
		t.Fatal(err)
	}
	for o := int64(1); o < n-1; o++ {
		w.Take(Taking{Member: Member(2 + o%2), From: o, Batches: []Batch{{Base: 0, Last: n - 1}}, Records: 1, Strict: true}, nil)
	}
	if w.tree.runs() != n {
		t.Fatalf("%d runs", w.tree.runs())
	}
	if visits := w.visited(func() { w.Release(1) }); visits > 64*2 {
		t.Errorf("the end of a lock with 2 runs visits %d nodes", visits)
	}
	if bad := w.faults(); bad != "" {
		t.Error(bad)
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// 1,000,000 records in flight occupy at most RecordBytes each, however they are acknowledged, and
// mostly a quarter of that. The budget counts it when they are acquired, so acknowledgements, which
// are never refused, do not exceed it.
func TestTheMemoryOfAMillionRecords(t *testing.T) {
	const slack = 64 << 10
	single := func(w *Window, m Member, now time.Duration, o int64, by AckType) {
		if _, err := w.Acknowledge(m, now, []Ack{{o, o, []AckType{by}}}); err != nil {
			t.Fatal(err)
		}
	}
	second := func(w *Window, n int64) {
		for o := int64(1); o < n; o += 2 {
			single(w, 1, 0, o, Accept)
		}
	}
	for _, c := range []struct {
		name       string
		partitions int
		records    int64 // of a share partition
		batch      int64 // for each a member
		most       int   // bytes of a record in flight
		acks       func(w *Window, n int64)
	}{
		{"every second one", 100, 10_000, 10_000, 8, second},
		{"every second one, wide", 5, 200_000, 200_000, 8, second},
		{"every second one, backwards", 5, 200_000, 200_000, 8, func(w *Window, n int64) {
			for o := n - 1; o > 0; o -= 2 {
				single(w, 1, 0, o, Accept)
			}
		}},
		{"every second one in one request", 100, 10_000, 10_000, 12, func(w *Window, n int64) {
			types := make([]AckType, n-1)
			for o := range types {
				types[o] = Accept + AckType(o%2)
			}
			if _, err := w.Acknowledge(1, 0, []Ack{{1, n - 1, types}}); err != nil {
				t.Fatal(err)
			}
		}},
		{"half of them at random", 5, 200_000, 200_000, 12, func(w *Window, n int64) {
			for _, o := range rand.New(rand.NewPCG(1, 1)).Perm(int(n - 1))[:n/2] {
				single(w, 1, 0, int64(o+1), Accept)
			}
		}},
		{"every second one, 100 members", 100, 10_000, 100, 14, func(w *Window, n int64) {
			for o := int64(1); o < n; o += 2 {
				single(w, Member(1+o/100), 0, o, Accept)
			}
		}},
		{"renewed one by one at any time", 1, 200_000, 200_000, 23, func(w *Window, n int64) {
			r := rand.New(rand.NewPCG(1, 1))
			for _, o := range r.Perm(int(n)) {
				single(w, 1, time.Duration(r.Int64N(int64(w.cfg.Lock))), int64(o), Renew)
			}
		}},
		{"released one by one at any time", 1, 200_000, 200_000, 23, func(w *Window, n int64) {
			r := rand.New(rand.NewPCG(1, 1))
			for _, o := range r.Perm(int(n)) {
				single(w, 1, time.Duration(r.Int64N(int64(w.cfg.Lock))), int64(o), Release)
			}
		}},
		{"renewed and released in turn, at any time", 1, 200_000, 200_000, 32, func(w *Window, n int64) {
			r := rand.New(rand.NewPCG(1, 1))
			for _, o := range r.Perm(int(n)) {
				single(w, 1, time.Duration(r.Int64N(int64(w.cfg.Lock))), int64(o), []AckType{Renew, Release}[o%2])
			}
		}},
		{"batches", 100, 10_000, 100, 2, func(*Window, int64) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []*Window
			acquired, counted, reserved := 0, 0, 0
			before := heap()
			for range c.partitions {
				cfg := large(c.records)
				cfg.Retry, cfg.RetryMax = cfg.Lock, cfg.Lock
				w := New(cfg, 0)
				for at := int64(0); at < c.records; at += c.batch {
					w.Take(Taking{Member: Member(1 + at/c.batch), From: at, Records: c.batch,
						Batches: []Batch{{Base: at, Last: at + c.batch - 1}}}, nil)
				}
				acquired += w.Stats().Bytes
				c.acks(w, c.records)
				counted += w.Stats().Bytes
				reserved += w.reserved()
				all = append(all, w)
			}
			used, total := int(heap()-before), c.partitions*int(c.records)
			t.Logf("%.1f bytes of a record, %.1f MB counted without %.1f MB that are reserved; %.1f MB when they were acquired",
				float64(used)/float64(total), float64(counted-reserved)/1e6, float64(reserved)/1e6, float64(acquired)/1e6)
			if used > c.most*total {
				t.Errorf("%d bytes are used", used)
			}
			if exact := counted - reserved; exact < used*9/10-slack || exact > used*6/5+slack {
				t.Errorf("%d bytes are counted, and %d used", exact, used)
			}
			if counted > acquired+slack {
				t.Errorf("acknowledgements take %d bytes, after %d", counted, acquired)
			}
			runtime.KeepAlive(all)
		})
	}
}

// A share partition without records in flight is small.
func TestAnIdleWindowIsSmall(t *testing.T) {
	w := New(large(100), 0)
	w.Take(Taking{Member: 1, Batches: []Batch{{Base: 0, Last: 99}}, Records: 100}, nil)
	if _, err := w.Acknowledge(1, 0, []Ack{{0, 99, []AckType{Accept}}}); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Bytes > 1024 || s.Runs != 0 || s.Start != 100 {
		t.Errorf("%+v", s)
	}
}

// Each size is one share partition in which each record is a run. The window must not matter.
func BenchmarkAcknowledge(b *testing.B) {
	for _, n := range []int64{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := frayed(b, n)
			r := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				// Without an effect that lasts: a release is acquired again.
				o := 2 + r.Int64N(n/2-1)*2
				if _, err := w.Acknowledge(1, 0, []Ack{{o, o, []AckType{Renew}}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// An operation is a release, a plan and a take of one record.
func BenchmarkTakeReleased(b *testing.B) {
	for _, n := range []int64{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := frayed(b, n)
			cfg := w.cfg
			cfg.Deliveries = 1 << 15
			w.SetConfig(cfg)
			r := rand.New(rand.NewPCG(1, 1))
			batch := []Batch{{Base: 0, Last: n - 1}}
			var got []Delivery
			for b.Loop() {
				o := 2 + r.Int64N(n/2-1)*2
				if _, err := w.Acknowledge(1, 0, []Ack{{o, o, []AckType{Release}}}); err != nil {
					b.Fatal(err)
				}
				from, _ := w.Plan(0)
				if got = w.Take(Taking{Member: 1, From: from, Batches: batch, Records: 1, Strict: true}, got[:0]); len(got) != 1 {
					b.Fatal(from, o, got)
				}
			}
		})
	}
}

// An operation is a take of a batch of 100 records, its acceptance, and the write.
func BenchmarkBatches(b *testing.B) {
	w := New(large(10_000), 0)
	at := int64(0)
	batches, acks := make([]Batch, 1), []Ack{{Types: []AckType{Accept}}}
	var got []Delivery
	for b.Loop() {
		batches[0] = Batch{Base: at, Last: at + 99}
		got = w.Take(Taking{Member: 1, From: at, Batches: batches, Records: 100}, got[:0])
		acks[0].First, acks[0].Last = at, at+99
		if _, err := w.Acknowledge(1, 0, acks); err != nil || len(got) != 1 {
			b.Fatal(err, got)
		}
		w.Written(w.Begin().Seq)
		at += 100
	}
}
