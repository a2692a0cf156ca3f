package storage

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// compactedTxns is a compacted log with transactions, and what was written to it.
type compactedTxns struct {
	t    testing.TB
	rng  *rand.Rand
	fsys *crashfs.FS
	d    *Dir
	l    *Log
	all  []appended
	high int64    // compaction has assumed that nothing below it is ever truncated
	said []string // what was done
}

// appended is a batch of a producer, -1 for none, or a marker.
type appended struct {
	base, next int64
	producer   int64
	txn        bool
	marker     record.ControlType // NoControl: it is data
	written    []written
}

func (w *compactedTxns) say(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

// open opens the log. Its key map is so small that most passes end before the dirty part does.
func (w *compactedTxns) open() {
	w.d, w.l = compactLog(w.t, w.fsys, "sync", func(o *Options) { o.Cleaning.KeyBytes = 1 })
	c := w.l.Config()
	c.Cleanup.Tombstones = 0
	w.l.Configure(c)
	lead(w.l)
}

// write appends records of a producer, in its transaction or outside of one.
func (w *compactedTxns) write(producer int64, txn bool) {
	o := record.BatchOptions{Transactional: txn}
	if producer >= 0 {
		p, known := w.l.Producer(producer)
		if !known {
			p.LastSequence = -1
		}
		o.Producer = &record.Producer{ID: producer, Epoch: p.Epoch, Sequence: p.LastSequence + 1}
	}
	b, x := record.NewBuilder(o), appended{producer: producer, txn: txn, marker: record.NoControl}
	for range 1 + w.rng.IntN(4) {
		r := written{key: fmt.Append(nil, "key ", w.rng.IntN(800))}
		if w.rng.IntN(6) > 0 {
			r.value = fmt.Append(nil, len(w.all), "-", len(x.written))
		}
		b.Append(time.Now().UnixMilli(), r.key, r.value, nil)
		x.written = append(x.written, r)
	}
	data, err := b.Build()
	must(w.t, err)
	a := ok(w.t, map[bool]func(*Log, []byte) *Append{true: transact, false: send}[txn](w.l, data))
	x.base, x.next = a.Base, a.Next
	w.all = append(w.all, x)
}

func (w *compactedTxns) mark(producer int64, kind record.ControlType) {
	p, _ := w.l.Producer(producer)
	a := ok(w.t, endTxn(w.l, producer, p.Epoch+int16(w.rng.IntN(2)), kind, producers.Sender{}))
	w.all = append(w.all, appended{base: a.Base, next: a.Next, producer: producer, txn: true, marker: kind})
}

// want returns the values that a reader of committed records must find, and where it stops.
func (w *compactedTxns) want() (values map[string]string, unstable int64) {
	values, unstable = map[string]string{}, math.MaxInt64
	committed, open := map[int]bool{}, map[int64][]int{}
	for i, x := range w.all {
		switch {
		case !x.txn:
			committed[i] = true
		case x.marker == record.NoControl:
			open[x.producer] = append(open[x.producer], i)
		default:
			for _, k := range open[x.producer] {
				committed[k] = x.marker == record.Commit
			}
			delete(open, x.producer)
		}
	}
	for _, list := range open {
		unstable = min(unstable, w.all[list[0]].base)
	}
	start := w.l.logStart.Load()
	for i, x := range w.all {
		for k, r := range x.written {
			if committed[i] && x.base < unstable && x.base+int64(k) >= start {
				applyRecord(values, r.key, r.value)
			}
		}
	}
	return values, unstable
}

// applyRecord applies a record to the values of a log.
func applyRecord(values map[string]string, key, value []byte) {
	if delete(values, string(key)); value != nil {
		values[string(key)] = string(value)
	}
}

// check reads the committed records, and compares them with what was written.
func (w *compactedTxns) check() {
	w.t.Helper()
	want, unstable := w.want()
	if got := w.l.FirstUnstable(math.MaxInt64); got != unstable {
		w.t.Fatalf("%q: the first unstable offset is %d, want %d", w.said, got, unstable)
	}
	got, start, end := map[string]string{}, w.l.logStart.Load(), min(unstable, w.l.Ends().Durable)
	size := []int{1, 300, 3000, 1 << 20}[w.rng.IntN(4)]
	for at := start; at < end; {
		s, err := w.l.Read(at, end, size, true)
		must(w.t, err)
		list, err := w.l.AbortedIn(at, &s, math.MaxInt)
		must(w.t, err)
		all, err := sliceBatches(&s)
		s.Release()
		must(w.t, err)
		if len(all) == 0 {
			break
		}
		seen := consume(all, list)
		for _, b := range all {
			if at = b.LastOffset() + 1; !seen[b.BaseOffset()] {
				continue
			}
			must(w.t, b.Each(record.Limits{}, func(r record.Record) error {
				if r.Offset >= start {
					applyRecord(got, r.Key, r.Value)
				}
				return nil
			}))
		}
	}
	if !maps.Equal(want, got) {
		w.t.Fatalf("%q: a reader finds %v, want %v", w.said, got, want)
	}
}

// step does something to the log.
func (w *compactedTxns) step() {
	e := w.l.Ends()
	switch w.rng.IntN(10) {
	case 0:
		w.say("kill at %d", e.LogEnd)
		image := w.fsys.KillImage(1)
		_ = w.d.Close()
		w.fsys = image
		w.open()
	case 1:
		w.say("restart at %d", e.LogEnd)
		must(w.t, w.d.Close())
		w.open()
	case 2:
		w.say("the indexes are lost")
		for _, s := range w.l.segments {
			_ = w.fsys.Remove(s.AbortedPath()) // some have none
			if w.rng.IntN(2) == 0 {
				_ = w.fsys.Remove(s.ProducersPath())
			}
			s.Expect(s.AbortedMark())
		}
	case 3:
		to := e.LogStart + w.rng.Int64N(e.LogEnd-e.LogStart+1)/4
		w.say("start %d of %d", to, e.LogEnd)
		must(w.t, w.l.SetLogStart(to))
	case 4:
		least := max(e.LogStart, w.high)
		to := least + w.rng.Int64N(e.LogEnd-least+1)
		w.say("truncate to %d of %d", to, e.LogEnd)
		must(w.t, w.l.Truncate(to))
		lead(w.l)
		for end := w.l.Ends().LogEnd; len(w.all) > 0 && w.all[len(w.all)-1].next > end; {
			w.all = w.all[:len(w.all)-1]
		}
	default:
		must(w.t, w.l.flushAndSync())
		must(w.t, w.l.roll())
		w.l.attempts.retry, w.high = time.Time{}, e.LogEnd
		did := w.d.compactNext()
		if w.say("compact at %d: %t", e.LogEnd, did); w.l.attempts.failures > 0 {
			w.t.Fatalf("%q: the pass failed", w.said)
		}
		w.l.dir.memory.evict(w.l, math.MaxInt64, 0) // so that readers come to the segments
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Readers of committed records find the last committed value of each key of a compacted log,
// whatever became of its transactions, through restarts, truncations and the loss of its indexes.
func TestCompactedTransactions(t *testing.T) {
	for seed := range uint64(race.Some(6, 2)) {
		w := &compactedTxns{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fsys: crashfs.New(seed)}
		w.say("seed %d", seed)
		w.open()
		for range 12 {
			for range 10 + w.rng.IntN(60) {
				switch producer := int64(w.rng.IntN(4)); w.rng.IntN(10) {
				case 0, 1:
					w.write(-1, false)
				case 2, 3:
					kind := record.Commit
					if seed%3 > 0 { // otherwise none is aborted
						kind = record.ControlType(w.rng.IntN(2))
					}
					w.mark(producer, kind)
				default:
					w.write(producer, true)
				}
			}
			synced(t, w.l)
			w.step()
			w.check()
		}
		must(t, w.d.Close())
	}
}
