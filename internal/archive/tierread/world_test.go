package tierread

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
)

const prefix = "cluster/"

var id = format.ID{Topic: [16]byte{1}, Partition: 2}

// helper is a *testing.T, a *testing.B or a *rapid.T.
type helper interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a log, and its copy in a store.
type world struct {
	t       helper
	s       *faultstore.Store
	pool    bufpool.Pool
	batches []record.Batch      // of the log, and above the copy
	aborted []txnindex.Entry    // of the log
	records []storage.Timestamp // of the complete log; nil: not known yet
	open    map[int64]int64     // the first offset of each open transaction
	epoch   int32
	end     int64 // of the log; a hole may be before it
	covered int64 // the end of the parts
	c       Copy
	at      int            // batches before it are in parts
	parts   []format.Part  // in no manifest yet
	older   []format.Older // that the next manifest names
}

func newWorld(t helper) *world {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	return &world{t: t, s: faultstore.New(s), open: map[int64]int64{}, c: Copy{ID: id}}
}

// begin sets the log start.
func (w *world) begin(offset int64) { w.c.Start, w.end, w.covered = offset, offset, offset }

func (w *world) append(b record.Batch) {
	w.batches, w.end = append(w.batches, b), b.LastOffset()+1
}

// build returns a batch of records with values of a size and timestamps.
func (w *world) build(o record.BatchOptions, base int64, size int, times ...int64) record.Batch {
	w.t.Helper()
	r := record.NewBuilder(o)
	for i, ts := range times {
		value := bytes.Repeat([]byte{byte(base) + byte(i)}, size)
		r.Append(ts, nil, value, nil)
	}
	b, err := r.Build()
	must.OK(w.t, err)
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(w.epoch)
	return b
}

func (w *world) plain(size int, times ...int64) {
	w.t.Helper()
	w.append(w.build(record.BatchOptions{}, w.end, size, times...))
}

// transact appends a batch of a producer's transaction.
func (w *world) transact(producer int64, size int, times ...int64) {
	w.t.Helper()
	if _, ok := w.open[producer]; !ok {
		w.open[producer] = w.end
	}
	w.append(w.build(record.BatchOptions{Producer: &record.Producer{ID: producer}, Transactional: true}, w.end, size, times...))
}

// finish appends the marker of a producer's transaction.
func (w *world) finish(producer int64, kind record.ControlType, ts int64) {
	first, ok := w.open[producer]
	if !ok {
		return
	}
	delete(w.open, producer)
	at := w.end
	b := record.EndTxnMarker(producer, 0, kind, 0, ts)
	b.SetBaseOffset(at)
	b.SetLeaderEpoch(w.epoch)
	w.append(b)
	if kind == record.Abort {
		e := txnindex.Entry{Producer: producer, First: first, Last: at, Stable: at + 1}
		for _, o := range w.open {
			e.Stable = min(e.Stable, o)
		}
		w.aborted = append(w.aborted, e)
	}
}

// object puts the batches from at on as a log object, of which the part has all except the first
// few bytes and the last batches. Those, and other aborted transactions, do not belong to the log:
// it was cut, or they are below its start.
func (w *world) object(before, behind []record.Batch, others ...txnindex.Entry) {
	w.t.Helper()
	own := w.batches[w.at:]
	w.at = len(w.batches)
	var content []byte
	f := format.Facts{ID: id, Base: w.covered, End: w.end}
	sizes := [3]int64{}
	for i, list := range [][]record.Batch{before, own, behind} {
		for _, b := range list {
			if n := len(f.Epochs); n == 0 || f.Epochs[n-1].Epoch != b.LeaderEpoch() {
				f.Epochs = append(f.Epochs, epochs.Entry{Epoch: b.LeaderEpoch(), Start: b.BaseOffset()})
			}
			content = append(content, b...)
			sizes[i] += int64(len(b))
			f.Base, f.End = min(f.Base, b.BaseOffset()), max(f.End, b.LastOffset()+1)
		}
	}
	for _, e := range w.aborted {
		if w.covered <= e.Last && e.Last < w.end {
			f.Aborted = append(f.Aborted, e)
		}
	}
	f.Aborted = append(f.Aborted, others...)
	slices.SortFunc(f.Aborted, func(a, b txnindex.Entry) int { return cmp.Compare(a.Last, b.Last) })
	o, err := format.Build(f, bytes.NewReader(content), int64(len(content)))
	must.OK(w.t, err)
	run := o.Run(objects.NewNonce())
	must.OK(w.t, w.s.Put(context.Background(), prefix+run.Name(id), o))
	w.parts = append(w.parts, format.Part{Base: w.covered, End: w.end, From: sizes[0], To: sizes[0] + sizes[1],
		Epoch: own[len(own)-1].LeaderEpoch(), Run: run})
	w.covered = w.end
}

// manifest puts a manifest with the parts that are in none. If it is not the copy's, the next one
// names it as older.
func (w *world) manifest(last bool) {
	w.t.Helper()
	m := &format.Manifest{ID: id, Parts: w.parts, Base: w.parts[0].Base, End: w.parts[len(w.parts)-1].End}
	if last {
		if m.Older = w.older; len(w.older) > 0 {
			m.Base = w.older[0].Base
		}
	}
	sealed, err := m.Encode()
	must.OK(w.t, err)
	name := format.Name{Kind: objects.Manifest, Partition: id, Nonce: objects.NewNonce()}
	must.OK(w.t, objects.Write(context.Background(), w.s, prefix+name.String(), objects.Manifest, sealed))
	w.parts = nil
	if w.c.Manifest, w.c.End = name.Nonce, m.End; !last {
		w.older = append(w.older, format.OlderOf(m, name.Nonce))
	}
}

// draw fills the log and the copy at random.
func (w *world) draw(t *rapid.T) {
	w.begin(rapid.Int64Range(0, 1000).Draw(t, "base"))
	clock := int64(1000)
	w.fill(t, &clock)
	for left := rapid.IntRange(1, 6).Draw(t, "objects"); left > 0; left-- {
		var before, behind []record.Batch
		var aborted []txnindex.Entry
		if base := w.covered; base > 0 && rapid.IntRange(0, 2).Draw(t, "batches before") == 0 {
			b := w.build(record.BatchOptions{}, base-1, rapid.SampledFrom([]int{3, 70_000, 1_100_000}).Draw(t, "size"), clock+5)
			if rapid.Bool().Draw(t, "a marker before") {
				b = record.EndTxnMarker(88, 0, record.Abort, 0, 0)
				b.SetBaseOffset(base - 1)
				aborted = append(aborted, txnindex.Entry{Producer: 88, First: max(base-9, 0), Last: base - 1, Stable: base})
			}
			b.SetLeaderEpoch(w.batches[w.at].LeaderEpoch())
			before = append(before, b)
		}
		if rapid.IntRange(0, 2).Draw(t, "batches behind") == 0 {
			b := w.build(record.BatchOptions{}, w.end, 10, clock+9)
			marker := record.EndTxnMarker(77, 0, record.Abort, 0, 0)
			marker.SetBaseOffset(w.end + 1)
			marker.SetLeaderEpoch(w.epoch)
			behind = append(behind, b, marker)
			aborted = append(aborted, txnindex.Entry{Producer: 77, First: w.end - 1, Last: w.end + 1, Stable: w.end + 2})
		}
		w.object(before, behind, aborted...)
		last := left == 1
		if last || rapid.IntRange(0, 2).Draw(t, "another manifest") == 0 {
			w.manifest(last)
		}
		if len(behind) > 0 {
			w.epoch++
		}
		w.fill(t, &clock)
	}
	// The copy begins within the first part, and ends somewhere.
	first := w.batches[0]
	if rapid.Bool().Draw(t, "the log starts later") {
		first = rapid.SampledFrom(w.batches[:max(1, w.at/3)]).Draw(t, "first batch")
		w.c.Start = rapid.Int64Range(first.BaseOffset(), first.LastOffset()).Draw(t, "start")
	}
	if rapid.IntRange(0, 3).Draw(t, "the copy ends earlier") == 0 {
		b := rapid.SampledFrom(w.batches[:w.at]).Draw(t, "last batch")
		w.c.End = max(b.LastOffset(), first.LastOffset()) + 1
	}
}

// fill appends batches at random.
func (w *world) fill(t *rapid.T, clock *int64) {
	sizes := []int{1, 1, 50, 1000, 30_000, 200_000, 900_000, 2_500_000}[:race.Some(8, 5)]
	for n := rapid.IntRange(1, 12).Draw(t, "batches"); n > 0; n-- {
		size := rapid.SampledFrom(sizes).Draw(t, "size")
		if rapid.IntRange(0, race.Some(5, 30)).Draw(t, "up to a border") == 0 { // the next header may be in two chunks
			at := 0
			for _, b := range w.batches[w.at:] {
				at += len(b)
			}
			w.plain(max(format.ChunkSize-at%format.ChunkSize-130+rapid.IntRange(0, 60).Draw(t, "less"), 1), *clock)
		}
		times := make([]int64, rapid.IntRange(1, 3).Draw(t, "records"))
		for i := range times {
			switch rapid.IntRange(0, 9).Draw(t, "time") {
			case 0:
				times[i] = -1
			case 1:
				times[i] = rapid.Int64Range(0, *clock).Draw(t, "earlier time")
			default:
				*clock += rapid.Int64Range(0, 3).Draw(t, "step")
				times[i] = *clock
			}
		}
		producer := rapid.Int64Range(0, 3).Draw(t, "producer")
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0, 1:
			w.plain(size, times...)
		case 2, 3:
			w.transact(producer, size, times...)
		case 4:
			w.finish(producer, record.Abort, *clock)
		default:
			w.finish(producer, record.Commit, *clock)
		}
		if rapid.IntRange(0, 9).Draw(t, "a hole") == 0 {
			w.end += rapid.Int64Range(1, 9).Draw(t, "offsets")
		}
		if rapid.IntRange(0, 9).Draw(t, "an election") == 0 {
			w.epoch++
		}
	}
	if w.at == len(w.batches) {
		w.plain(1, *clock)
	}
}

func (w *world) options(store objects.Store, cache int64) Options {
	return Options{Open: func() (objects.Store, error) { return store, nil }, Prefix: func() string { return prefix },
		CacheBytes: cache, Pool: &w.pool}
}

// readCall is a call of Read.
type readCall struct {
	offset, limit int64
	max           int
	one           bool
}

func (w *world) drawRead(t *rapid.T) readCall {
	q := readCall{offset: rapid.Int64Range(w.c.Start, w.c.End).Draw(t, "offset"), limit: math.MaxInt64,
		max: rapid.SampledFrom([]int{0, 1, 100, 5000, 100_000, 1 << 20, 5 << 20, 20 << 20}).Draw(t, "max"),
		one: rapid.Bool().Draw(t, "one")}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		q.limit = rapid.Int64Range(w.c.Start, w.c.End+5).Draw(t, "limit")
	}
	return q
}

// wrong returns what is wrong with the answer to a read, "" if it is right.
func (w *world) wrong(q readCall, s *storage.Slice) string {
	got := bytes.Join(s.Parts, nil)
	limit := min(q.limit, w.c.End)
	if len(got) != s.Size {
		return "size"
	}
	if q.offset >= limit || q.max == 0 && !q.one {
		if s.Size > 0 || s.Larger > 0 {
			return "not empty"
		}
		return ""
	}
	i := 0
	for i < len(w.batches) && w.batches[i].LastOffset() < q.offset {
		i++
	}
	first := record.Batch(nil)
	if i < len(w.batches) {
		first = w.batches[i]
	}
	switch {
	case first == nil || first.BaseOffset() >= limit:
		if s.Size > 0 || s.Larger > 0 {
			return "not empty above the limit"
		}
		return ""
	case len(first) > q.max && !q.one:
		if s.Size > 0 || s.Larger != len(first) {
			return "not the larger one"
		}
		return ""
	case s.Size == 0 || s.Larger > 0:
		return "empty"
	case s.Size > max(q.max, len(first)):
		return "too large"
	}
	for ; len(got) > 0; i++ {
		b := w.batches[i]
		if b.BaseOffset() >= limit {
			return "above the limit"
		}
		if !bytes.HasPrefix(got, b) {
			return "other bytes"
		}
		got = got[len(b):]
	}
	return ""
}

// abortedIn returns the aborted transactions with records in [from, to) that have their markers in
// the copy.
func (w *world) abortedIn(from, to int64) (list []txnindex.Entry) {
	for _, e := range w.aborted {
		if e.Last >= from && e.Last < w.c.End && e.First < to {
			list = append(list, e)
		}
	}
	return list
}

// find returns the first record of the copy that match accepts.
func (w *world) find(match func(offset, ts int64) bool) storage.Timestamp {
	if w.records == nil {
		for _, b := range w.batches {
			must.OK(w.t, b.Each(record.Limits{}, func(r record.Record) error {
				w.records = append(w.records, storage.Timestamp{Offset: r.Offset, Time: r.Timestamp, Epoch: b.LeaderEpoch()})
				return nil
			}))
		}
	}
	for _, r := range w.records {
		if w.c.Start <= r.Offset && r.Offset < w.c.End && match(r.Offset, r.Time) {
			return r
		}
	}
	return noTimestamp
}

func (w *world) maxTime() storage.Timestamp {
	most := int64(-1)
	w.find(func(_, ts int64) bool { most = max(most, ts); return false })
	if most < 0 {
		return noTimestamp
	}
	return w.find(func(_, ts int64) bool { return ts == most })
}

// reader returns a Reader that the test closes.
func (w *world) reader(t testing.TB, o Options) *Reader {
	r := New(o)
	t.Cleanup(r.Close)
	return r
}
