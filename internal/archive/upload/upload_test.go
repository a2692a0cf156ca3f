package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "cluster/"

var id = format.ID{Topic: [16]byte{1}}

// world is a log, its archive in a store, and what the log has had.
type world struct {
	t        testing.TB
	s        *faultstore.Store
	m        *storage.Manager
	log      *storage.Log
	epoch    int32
	archived format.Partition
	rules    breakrules.Removed[Rule]
	bytes    []byte // of all batches, from offset 0 on
	bases    []int64
	at       []int // position of each batch in bytes
	aborted  []txnindex.Entry
	number   int64
	older    int // the most manifests with older parts
}

func newWorld(t testing.TB) *world {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	return newWorldIn(t, faultstore.New(s))
}

// newWorldIn is newWorld with a store.
func newWorldIn(t testing.TB, s *faultstore.Store) *world {
	t.Helper()
	set, err := durability.NewSet()
	must.OK(t, err)
	profile, err := set.Lookup("sync")
	must.OK(t, err)
	cfg := storage.Config{Profile: profile,
		Segment: segment.Limits{Bytes: 64 << 10, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 10 << 20}}
	m, err := storage.Open([]storage.Location{{Path: "/d"}}, storage.Options{FS: vfs.Memory(), JournalFileSize: 1 << 20,
		Config: func(string, storage.ID) storage.Config { return cfg }})
	must.OK(t, err)
	logs, err := m.CreateIn(m.Dirs()[0], []storage.Spec{{ID: storage.ID{Topic: id.Topic}, Topic: "t", Config: cfg}})
	must.OK(t, err)
	logs[0].SetLeaderEpoch(0, false)
	return &world{t: t, s: s, m: m, log: logs[0], archived: format.Partition{ID: id, State: format.Kept}}
}

// end returns the log end.
func (w *world) end() int64 { return w.log.Ends().LogEnd }

type sink chan struct{}

func (s sink) OffsetsAssigned(*storage.Append) { close(s) }

// append appends a batch as a follower does, and waits until it is durable.
func (w *world) append(b record.Batch) {
	w.t.Helper()
	end := w.end()
	b.SetBaseOffset(end)
	b.SetLeaderEpoch(w.epoch)
	done := make(sink)
	a := &storage.Append{Kind: storage.Assigned, Batches: b, LeaderEpoch: w.epoch, PrevEnd: end, Sink: done}
	w.log.Append(a, nil)
	<-done
	must.OK(w.t, a.Err)
	for w.log.AckEnd() < a.Next {
		time.Sleep(10 * time.Microsecond)
	}
	w.at, w.bases, w.bytes = append(w.at, len(w.bytes)), append(w.bases, end), append(w.bytes, b...)
}

// plain appends a batch of records with a value of size bytes.
func (w *world) plain(records, size int) {
	w.t.Helper()
	w.append(w.build(record.BatchOptions{}, records, size))
}

func (w *world) build(o record.BatchOptions, records, size int) record.Batch {
	w.t.Helper()
	r := record.NewBuilder(o)
	for range records {
		r.Append(int64(len(w.bytes)), nil, make([]byte, size), nil)
	}
	b, err := r.Build()
	must.OK(w.t, err)
	return b
}

// abort appends a transaction of a batch, other records in between, and its abort marker.
func (w *world) abort(producer int64, between, size int) {
	w.t.Helper()
	first := w.end()
	w.append(w.build(record.BatchOptions{Producer: &record.Producer{ID: producer}, Transactional: true}, 1, 10))
	for range between {
		w.plain(1, size)
	}
	last := w.end()
	w.append(record.EndTxnMarker(producer, 0, record.Abort, 0, int64(len(w.bytes))))
	w.aborted = append(w.aborted, txnindex.Entry{Producer: producer, First: first, Last: last})
}

// from returns the bytes of the batches from the one on that has an offset.
func (w *world) from(offset int64) []byte {
	i, found := slices.BinarySearch(w.bases, offset)
	if !found {
		i--
	}
	return w.bytes[w.at[i]:]
}

// cut truncates the log to an end, as after an unclean election.
func (w *world) cut(end int64) {
	w.t.Helper()
	cuts := []storage.Truncation{{Log: w.log, End: end}}
	w.m.Truncate(cuts)
	must.OK(w.t, cuts[0].Err)
	end = w.end()
	n, _ := slices.BinarySearch(w.bases, end)
	if n < len(w.bases) {
		w.bytes, w.bases, w.at = w.bytes[:w.at[n]], w.bases[:n], w.at[:n]
	}
	w.aborted = slices.DeleteFunc(w.aborted, func(e txnindex.Entry) bool { return e.Last >= end })
	w.epoch++
	w.log.SetLeaderEpoch(w.epoch, false)
}

// snapshot archives what the log has, and verifies that it can be read from the store.
func (w *world) snapshot(o Options) error {
	if err := w.upload(o); err != nil {
		return err
	}
	return w.verify()
}

// parts is a Log whose reads end anywhere: the next one of the same batches may be shorter or
// longer, as that of a file is after that of memory.
type parts struct {
	Log
	reads *int
}

func (p parts) Read(offset, limit int64, max int, atLeastOne bool) (storage.Slice, error) {
	*p.reads++
	return p.Log.Read(offset, limit, max/(1+*p.reads%3), atLeastOne) //nolint:wrapcheck // as the log does
}

// upload archives what the log has.
func (w *world) upload(o Options) error {
	ctx := context.Background()
	o.Store, o.Prefix, o.Broken = w.s, prefix, w.rules
	h := w.log.Hold()
	defer h.Release()
	t := &Target{ID: id, Log: parts{h, new(int)}, Start: w.log.Ends().LogStart, End: w.end()}
	b := NewBatch(o)
	of := w.log.Epochs()
	former, err := b.Agree(ctx, t, &of, b.ArchivedIn(&w.archived))
	if err != nil {
		return err
	}
	next, err := b.Add(ctx, t, former, false)
	if err == nil {
		err = b.Close(ctx)
	}
	if err != nil {
		return err
	}
	p := format.Partition{ID: id, Epoch: w.epoch, Start: t.Start, End: t.End}
	next.Fill(&p)
	w.archived = p
	return nil
}

// verify writes an index of the archived parts, and reads everything from the store alone.
func (w *world) verify() error {
	ctx, start, end := context.Background(), w.archived.Start, w.archived.End
	w.number++
	sealed, err := (&format.Index{Number: w.number, Partitions: []format.Partition{w.archived}}).Encode()
	if err != nil {
		return err
	}
	name := format.Name{Kind: objects.Index, Number: w.number, Nonce: objects.NewNonce()}
	if err := objects.Write(ctx, w.s, prefix+name.String(), objects.Index, sealed); err != nil {
		return err
	}
	x, err := format.ReadSnapshot(ctx, w.s, prefix, [16]byte{}, format.Previous{Number: w.number, Nonce: name.Nonce})
	if err != nil {
		return err
	}
	parts := x.Partitions[0].Parts
	if len(parts) > 64 {
		return fmt.Errorf("there are %d pieces", len(parts))
	}
	if nonce := x.Partitions[0].Manifest; nonce != (objects.Nonce{}) {
		m, err := format.ReadManifest(ctx, w.s, prefix, id, nonce)
		if err != nil {
			return err
		}
		if len(m.Parts) > small.ManifestParts {
			return fmt.Errorf("a manifest has %d parts", len(m.Parts))
		}
		w.older = max(w.older, len(m.Older))
		all, err := m.All(ctx, w.s, prefix)
		if err != nil {
			return err
		}
		if err := w.verifyObjects(all); err != nil {
			return err
		}
		parts = slices.Concat(all, parts)
	}
	if start == end {
		return nil
	}
	var got []byte
	for _, part := range parts {
		if err := format.ReadPart(ctx, w.s, prefix, id, &part, func(b []byte) error { got = append(got, b...); return nil }); err != nil {
			return err
		}
	}
	// The first part may begin below the log start.
	if want := w.from(start); !bytes.HasSuffix(got, want) || !bytes.HasSuffix(w.bytes, got) {
		return fmt.Errorf("the archive has %d bytes, and the log %d", len(got), len(want))
	}
	return nil
}

// verifyObjects compares the aborted transactions of log objects with those of the log.
func (w *world) verifyObjects(parts []format.Part) error {
	for i := range parts {
		if p := &parts[i]; p.Base != p.Run.Base || p.End != p.Run.End {
			continue // cut back: its footer says more
		}
		l, err := format.OpenLog(context.Background(), w.s, prefix, id, &parts[i].Run)
		if err != nil {
			return err
		}
		var want, got []txnindex.Entry
		for _, a := range w.aborted {
			if l.Base <= a.Last && a.Last < l.End {
				want = append(want, a)
			}
		}
		for _, a := range l.Aborted {
			a.Stable = 0
			got = append(got, a)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the object [%d, %d) has the aborted transactions %+v, want %+v", l.Base, l.End, got, want)
		}
	}
	return nil
}

var small = Options{ObjectBytes: 200 << 10, PackBytes: 1 << 20, PieceBytes: 150 << 10, ManifestParts: 3}

// Whatever a log does, and whatever fails, each snapshot has the whole log.
func TestEverySnapshotHasTheWholeLog(t *testing.T) {
	objectsSeen, failed, cuts := 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		defer func() { must.OK(t, w.m.Close()) }()
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			switch rapid.IntRange(0, 8).Draw(r, "step") {
			case 0, 1:
				for range rapid.IntRange(1, 5).Draw(r, "batches") {
					w.plain(rapid.IntRange(1, 3).Draw(r, "records"), rapid.SampledFrom([]int{1, 1000, 20 << 10, 90 << 10}).Draw(r, "size"))
				}
			case 2:
				w.abort(rapid.Int64Range(1, 1000).Draw(r, "producer")<<20+w.end(), rapid.IntRange(0, 3).Draw(r, "between"), 60<<10)
			case 3:
				w.epoch++
				w.log.SetLeaderEpoch(w.epoch, false)
			case 4: // records are deleted, up to the middle of a batch perhaps
				e := w.log.Ends()
				moves := []storage.StartMove{{Log: w.log, To: rapid.Int64Range(e.LogStart, e.LogEnd).Draw(r, "start")}}
				w.log.Dir().MoveStarts(moves)
				must.OK(t, moves[0].Err)
			case 5:
				if e := w.log.Ends(); w.archived.End > e.LogStart {
					cuts++
					w.cut(rapid.Int64Range(e.LogStart, e.LogEnd).Draw(r, "end"))
				}
			default:
				o := small
				if rapid.Bool().Draw(r, "old packs") {
					o.Again = func(*format.Part) bool { return true }
				}
				fault := w.s.Add(faultstore.Rule{Ops: faultstore.Put, From: rapid.IntRange(1, 6).Draw(r, "call"), Count: 1,
					Err: faultstore.ErrInjected})
				err := w.snapshot(o)
				fault.Off()
				if errors.Is(err, faultstore.ErrInjected) {
					failed++
					err = w.snapshot(o)
				}
				if err != nil {
					r.Fatal(err)
				}
				if w.archived.Archived > 0 {
					objectsSeen++
				}
			}
		}
	})
	if !testing.Short() && (objectsSeen == 0 || failed == 0 || cuts == 0) { // which tries a fifth of the walks
		t.Errorf("%d snapshots with log objects, %d that failed, %d cuts", objectsSeen, failed, cuts)
	}
}

// A log that has grown to several manifests is cut within an older one, and grows again.
func TestACutWithinAnOlderManifest(t *testing.T) {
	for back := range 60 {
		w := newWorld(t)
		for range 14 {
			w.plain(2, 3<<10)
			w.plain(2, 3<<10)
			must.OK(t, w.snapshot(tiny))
		}
		if w.older < 2 {
			t.Fatalf("%d manifests with older parts", w.older)
		}
		w.cut(max(w.end()-int64(back), 0))
		if back%2 == 0 {
			w.plain(3, 500)
		}
		if err := w.snapshot(tiny); err != nil {
			t.Errorf("%d records back: %v", back, err)
		}
		must.OK(t, w.m.Close())
	}
}

// A snapshot of a log that has not changed puts nothing.
func TestAnUnchangedLogIsNotUploaded(t *testing.T) {
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	w.plain(3, 100)
	must.OK(t, w.snapshot(small))
	calls := w.s.Calls(faultstore.Put)
	must.OK(t, w.snapshot(small))
	if n := w.s.Calls(faultstore.Put) - calls; n != 1 { // the index that the test writes
		t.Errorf("%d objects were put", n-1)
	}
}

// Many small snapshots put few bytes, and their pieces stay few.
func TestManySmallSnapshots(t *testing.T) {
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	put := 0
	w.s.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "pack/", Before: func(faultstore.Call) { put++ }})
	for range 300 {
		w.plain(1, 1000)
		must.OK(t, w.snapshot(small))
	}
	if n := len(w.archived.Parts); n > 64 || put > 300-1 || w.archived.Archived == 0 {
		t.Errorf("%d packs, %d pieces, log objects up to %d", put, n, w.archived.Archived)
	}
}

// A pack that is full is put at once, and the next partition's pieces go to another one.
func TestPacksAreBounded(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	w.plain(1, 50<<10)
	b := NewBatch(Options{Store: w.s, Prefix: prefix, ObjectBytes: 1 << 20, PieceBytes: 1 << 20, PackBytes: 120 << 10})
	var all []*Archived
	for i := range int32(7) {
		a, err := b.Add(ctx, &Target{format.ID{Topic: id.Topic, Partition: i}, w.log.Hold(), 0, 1}, &Archived{}, false)
		must.OK(t, err)
		all = append(all, a)
	}
	must.OK(t, b.Close(ctx))
	must.OK(t, b.Close(ctx))
	packs := map[objects.Nonce]int{}
	for i, a := range all {
		packs[a.pieces[0].Run.Nonce]++
		n := 0
		must.OK(t, format.ReadPart(ctx, w.s, prefix, format.ID{Topic: id.Topic, Partition: int32(i)}, &a.pieces[0], func(p []byte) error {
			n += len(p)
			return nil
		}))
		if n != len(w.bytes) {
			t.Errorf("piece %d has %d bytes", i, n)
		}
	}
	if len(packs) != 3 || w.s.Calls(faultstore.Put) != 3 {
		t.Errorf("the packs have %v pieces", packs)
	}
}

// An archive above the end of the log is refused: the log is another one, or was not compared.
func TestAnArchiveAboveTheLogIsRefused(t *testing.T) {
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	w.plain(5, 10)
	must.OK(t, w.snapshot(small))
	b := NewBatch(Options{Store: w.s, Prefix: prefix, ObjectBytes: 1 << 20, PackBytes: 1 << 20, PieceBytes: 1 << 20})
	if _, err := b.Add(context.Background(), &Target{id, w.log.Hold(), 0, 4}, b.ArchivedIn(&w.archived), false); err == nil {
		t.Error("it was accepted")
	}
}

// A source can be read in any order and from several goroutines, and notices when the log has
// other bytes than before.
func TestASourceIsReadAgain(t *testing.T) {
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	for range 20 {
		w.plain(1, 150<<10)
	}
	s, err := NewBatch(small).scan(context.Background(), w.log.Hold(), 0, w.end(), 1<<40)
	must.OK(t, err)
	if s.size != int64(len(w.bytes)) || len(s.reads) < 3 {
		t.Fatalf("%d bytes in %d reads", s.size, len(s.reads))
	}
	rapid.Check(t, func(r *rapid.T) {
		off := rapid.IntRange(0, len(w.bytes)).Draw(r, "off")
		p := make([]byte, rapid.IntRange(0, 2<<20).Draw(r, "bytes"))
		n, err := s.ReadAt(p, int64(off))
		want := w.bytes[off:min(off+len(p), len(w.bytes))]
		if !bytes.Equal(p[:n], want) || (n < len(p)) != errors.Is(err, io.EOF) {
			r.Fatalf("%d bytes of %d at %d: %v", n, len(p), off, err)
		}
	})
	other := newWorld(t)
	defer func() { must.OK(t, other.m.Close()) }()
	for range 20 {
		other.plain(1, 100<<10)
	}
	s.log, s.held = other.log.Hold(), nil
	if n, err := s.ReadAt(make([]byte, 1), 0); err == nil {
		t.Errorf("%d bytes of another log", n)
	}
}

// slowLog is a log whose reads need a millisecond of a processor.
type slowLog struct {
	Log
	reads int
}

func (s *slowLog) Read(offset, limit int64, max int, atLeastOne bool) (storage.Slice, error) {
	s.reads++
	time.Sleep(time.Millisecond)
	return s.Log.Read(offset, limit, max, atLeastOne)
}

// Every read of a log rests: the one that finds the batches, and those that verify and put them.
func TestReadsOfALogRest(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { must.OK(t, w.m.Close()) }()
		for range 32 {
			w.plain(1, 900<<10)
		}
		b := NewBatch(Options{Store: w.s, Prefix: prefix, ObjectBytes: 28 << 20, PackBytes: 1 << 20, PieceBytes: 1 << 20, ManifestParts: 10,
			Duty: pause.NewDuty()})
		log, begin := &slowLog{Log: w.log.Hold()}, time.Now()
		_, err := b.Add(t.Context(), &Target{id, log, 0, w.end()}, &Archived{}, false)
		must.OK(t, err)
		took, want := time.Since(begin), time.Duration(log.reads)*3*time.Millisecond
		if log.reads < 96 || took < want-20*time.Millisecond {
			t.Errorf("%d reads took %v, want %v", log.reads, took, want)
		}
	})
}

// Log objects that are below the log start are not in the next manifest, and a manifest that has
// no others is gone at once.
func TestObjectsBelowTheLogStartAreDropped(t *testing.T) {
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	grow := func(batches int) {
		for range batches {
			w.plain(1, 110<<10)
		}
		must.OK(t, w.snapshot(small))
	}
	deleteTo := func(offset int64) {
		moves := []storage.StartMove{{Log: w.log, To: offset}}
		w.log.Dir().MoveStarts(moves)
		must.OK(t, moves[0].Err)
	}
	manifest := func() *format.Manifest {
		m, err := format.ReadManifest(context.Background(), w.s, prefix, id, w.archived.Manifest)
		must.OK(t, err)
		return m
	}
	grow(6)
	if n := len(manifest().Parts); n != 3 {
		t.Fatalf("%d log objects", n)
	}
	deleteTo(3)
	grow(0)
	if n := len(manifest().Parts); n != 3 {
		t.Errorf("a manifest with %d parts was put for a deletion alone", n)
	}
	grow(2)
	if m := manifest(); len(m.Parts) != 3 || m.Base != 2 || m.End != 8 {
		t.Errorf("the next manifest has %d parts of [%d, %d)", len(m.Parts), m.Base, m.End)
	}
	deleteTo(8)
	grow(0)
	if w.archived.Archived != 0 || len(w.archived.Parts) != 0 {
		t.Errorf("left are %+v", w.archived)
	}
	grow(1)
}

// undone archives a log of which an election undoes a part, at borders and within parts.
func undone(t *testing.T, rules breakrules.Removed[Rule]) error {
	t.Helper()
	for _, end := range []int64{9, 8, 7, 6, 5, 1, 0} {
		w := newWorld(t)
		w.rules = rules
		for _, size := range []int{50, 50, 50, 50, 50, 50, 120, 20, 20} { // two log objects, and two pieces
			w.plain(1, size<<10)
			if w.end() >= 6 {
				must.OK(t, w.snapshot(small))
			}
		}
		w.cut(end)
		for range 3 {
			w.plain(1, 7<<10)
		}
		before := w.s.Calls(faultstore.Put)
		err := w.snapshot(small)
		if err == nil && w.s.Calls(faultstore.Put)-before > 4 {
			t.Errorf("cut back to %d, %d objects were put", end, w.s.Calls(faultstore.Put)-before)
		}
		must.OK(t, w.m.Close())
		if err != nil {
			return fmt.Errorf("cut back to %d: %w", end, err)
		}
	}
	return nil
}

// What an election has undone is cut from the archive: whole parts, and the ends of parts.
func TestAnArchiveIsCutBackToTheLog(t *testing.T) {
	must.OK(t, undone(t, breakrules.Removed[Rule]{}))
}

// The footer of an object that has records of an aborted transaction names it, although the marker
// is in a later object: a reader of the first one needs no log that knows the transaction.
func TestAnObjectNamesTheAbortedTransactionsOfItsRecords(t *testing.T) {
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	w.abort(7, 4, 20<<10)
	w.plain(1, 20<<10)
	b := NewBatch(Options{Store: w.s, Prefix: prefix, ObjectBytes: 30 << 10, ManifestParts: 10})
	h := w.log.Hold()
	defer h.Release()
	x := &Target{ID: id, Log: h, End: w.end()}
	a := &Archived{}
	for a.End() < x.End {
		next, err := b.Extend(t.Context(), x, a)
		must.OK(t, err)
		if next.End() <= a.End() {
			t.Fatalf("nothing was added at %d", a.End())
		}
		a = next
	}
	parts, err := b.Parts(t.Context(), id, a)
	must.OK(t, err)
	if len(parts) < 3 || parts[0].End > w.aborted[0].Last {
		t.Fatalf("the objects are %+v", parts)
	}
	for _, p := range parts {
		l, err := format.OpenLog(t.Context(), w.s, prefix, id, &p.Run)
		must.OK(t, err)
		want := 0
		if p.Base <= w.aborted[0].Last {
			want = 1
		}
		if len(l.Aborted) != want || want == 1 && (l.Aborted[0].First != w.aborted[0].First || l.Aborted[0].Last != w.aborted[0].Last) {
			t.Errorf("the object [%d, %d) has the aborted transactions %+v, expected %d of %+v", p.Base, p.End, l.Aborted, want, w.aborted)
		}
	}
}

// An object is not put if the list that would have it continues one that the store has lost:
// nothing would name the object, and each attempt would leave one.
func TestNoObjectIsPutThatNoListCanHave(t *testing.T) {
	w := newWorld(t)
	defer func() { must.OK(t, w.m.Close()) }()
	w.plain(3, 100)
	h := w.log.Hold()
	defer h.Release()
	o := small
	o.Store, o.Prefix = w.s, prefix
	b := NewBatch(o)
	lost := b.ArchivedIn(&format.Partition{ID: id, State: format.Kept, End: 1, Manifest: objects.NewNonce(), Archived: 1})
	_, err := b.Extend(t.Context(), &Target{ID: id, Log: h, End: w.end()}, lost)
	if n := w.s.Calls(faultstore.Put); !errors.Is(err, objects.ErrNotFound) || n != 0 {
		t.Errorf("%v, %d objects were put", err, n)
	}
}
