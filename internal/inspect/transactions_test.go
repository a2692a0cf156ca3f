package inspect_test

import (
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// appended appends and waits for the acknowledgement.
func appended(t testing.TB, l *storage.Log, a *storage.Append) {
	t.Helper()
	l.SetLeaderEpoch(3, true)
	a.LeaderEpoch, a.Sink = 3, make(sink, 1)
	l.Append(a, nil)
	if <-a.Sink.(sink); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "it counts", func() bool { return l.AckEnd() >= a.Next })
}

// inTransaction appends a record of a transaction and returns its offset.
func inTransaction(t testing.TB, l *storage.Log, id int64, sequence int32) int64 {
	t.Helper()
	return written(t, l, id, 0, sequence)
}

// ended appends the marker of a transaction and returns its offset.
func ended(t testing.TB, l *storage.Log, id int64, kind record.ControlType) int64 {
	t.Helper()
	a := &storage.Append{Kind: storage.Marker, Batches: record.EndTxnMarker(id, 0, kind, 0, 1)}
	appended(t, l, a)
	return a.Base
}

// openIn returns the first offsets of the open transactions, by producer.
func openIn(l *storage.Log) map[int64]int64 {
	m := map[int64]int64{}
	for _, p := range l.OpenTransactions() {
		m[p.ID] = p.First
	}
	return m
}

// repaired carries out a repair and returns its plan and the log of a topic after the next start.
func repaired(t *testing.T, fsys *crashfs.FS, topic string) (*inspect.Plan, *storage.Log) {
	t.Helper()
	r := begin(t, fsys)
	plan := r.Plan()
	must.OK(t, r.Do(context.Background(), "/backup"))
	must.OK(t, r.Close())
	l := logsOf(opened(t, fsys))[topic]
	if l == nil || l.Offline() != nil {
		t.Fatalf("%s is gone or offline", topic)
	}
	return plan, l
}

// A repair that gives up the marker of a transaction says which transaction that reopens, and no
// other one.
func TestARepairSaysWhichTransactionsItReopens(t *testing.T) {
	t.Parallel()
	disk := crashfs.New(1)
	d := open(t, disk)
	l := create(t, d)["a"]
	inTransaction(t, l, 8, 0)
	ended(t, l, 8, record.Commit)
	first := inTransaction(t, l, 9, 0)
	marker := ended(t, l, 9, record.Commit)
	put(t, l, 3) // shows that the marker was synced
	s := &site{TB: t, fs: disk.KillImage(2)}
	must.OK(t, d.Close())
	for _, f := range s.frames() {
		if f.at.Stream == l.ID() && f.at.PrevEnd == marker {
			s.flip(f.file, f.at.Pos+60)
		}
	}
	plan, l := repaired(t, s.fs, "a")
	want := []inspect.Transaction{{Topic: "a", Producer: 9, First: first}}
	if !slices.Equal(plan.Reopened, want) {
		t.Errorf("the plan says that %+v are reopened, want %+v", plan.Reopened, want)
	}
	if got := fmt.Sprint(openIn(l)); got != fmt.Sprint(map[int64]int64{9: first}) {
		t.Errorf("after the start %s are open", got)
	}
}

// A producer state that cannot be decoded is built from the segments: an open transaction stays
// open, and an ended one has ended.
func TestARepairKeepsOpenTransactions(t *testing.T) {
	t.Parallel()
	disk := crashfs.New(1)
	d := open(t, disk)
	l := create(t, d)["a"]
	inTransaction(t, l, 8, 0)
	first := inTransaction(t, l, 9, 0)
	ended(t, l, 8, record.Abort)
	must.OK(t, d.Close())
	s := &site{TB: t, fs: disk}
	s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Producers = []byte{1, 2} })
	plan, l := repaired(t, disk, "a")
	if len(plan.Reopened) > 0 {
		t.Errorf("nothing was lost, and %+v are reopened", plan.Reopened)
	}
	if got := fmt.Sprint(openIn(l)); got != fmt.Sprint(map[int64]int64{9: first}) || l.FirstUnstable(l.Ends().LogEnd) != first {
		t.Errorf("after the start %s are open", got)
	}
}

// If the abort marker of a transaction is damaged in a segment, and the index has the transaction,
// a repair writes the marker again. So readers skip this transaction, and not those after it.
func TestARepairWritesAnAbortMarkerAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		next  bool // there is a later transaction
		whole bool // the record is damaged, too
		epoch int16
	}{{true, false, 4}, {false, false, 4}, {true, true, 5}, {false, true, 0}} {
		disk := crashfs.New(1)
		d := open(t, disk)
		l := create(t, d)["a"]
		first := written(t, l, 9, 4, 0)
		last := bumped(t, l, 9, 4, record.Abort)
		if c.next {
			written(t, l, 9, 5, 0)
			bumped(t, l, 9, 5, record.Commit)
		}
		put(t, l, 3)
		must.OK(t, d.Close())
		s := &site{TB: t, fs: disk}
		_, at := s.batch(path.Join("a-0", "00000000000000000000.log"), 1)
		s.flip("a-0/00000000000000000000.log", at+30)
		if c.whole {
			s.flip("a-0/00000000000000000000.log", 65)
		}
		plan, l := repaired(t, s.fs, "a")
		if len(plan.Torn) > 0 || len(plan.Reopened) > 0 {
			t.Errorf("torn %+v, reopened %+v", plan.Torn, plan.Reopened)
		}
		slice, err := l.Read(first, l.Ends().LogEnd, math.MaxInt, true)
		must.OK(t, err)
		list, err := l.AbortedIn(first, &slice, math.MaxInt)
		want := []txnindex.Entry{{Producer: 9, First: first, Last: last, Stable: last + 1}}
		if err != nil || !slices.Equal(list, want) {
			t.Errorf("aborted are %+v, %v; want %+v", list, err, want)
		}
		slice.Release()
		b := record.Batch(batches(t, l)[last])
		if kind, _, err := b.EndTxn(); err != nil || kind != record.Abort || b.ProducerID() != 9 || b.ProducerEpoch() != c.epoch ||
			b.LeaderEpoch() != l.EpochAt(last) {
			t.Errorf("at %d there is %x, %v", last, []byte(b), err)
		}
		if r := verify(t, s.fs.KillImage(3)); !r.Clean() {
			t.Errorf("after the repair verify finds %+v", r.Findings)
		}
	}
}

// written appends a record of a transaction in an epoch.
func written(t testing.TB, l *storage.Log, id int64, epoch int16, sequence int32) int64 {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: id, Epoch: epoch, Sequence: sequence}, Transactional: true})
	b.Append(1, nil, []byte("value"), nil)
	data, err := b.Build()
	must.OK(t, err)
	l.SetLeaderEpoch(3, true) // it destroys guards
	a := &storage.Append{Batches: data, Permit: producers.Permit{Guard: l.Guard(id), CoordinatorEpoch: math.MaxInt32}}
	appended(t, l, a)
	return a.Base
}

// bumped appends the marker of a transaction of that epoch, as with transaction.version 2.
func bumped(t testing.TB, l *storage.Log, id int64, epoch int16, kind record.ControlType) int64 {
	t.Helper()
	a := &storage.Append{Kind: storage.Marker, Sender: producers.Sender{Bumps: true},
		Batches: record.EndTxnMarker(id, epoch+1, kind, 0, 1)}
	appended(t, l, a)
	return a.Base
}

// A repair that gives up a marker says which transaction then ends with a later one, whether the
// marker was in the journal or in a segment. It does not say so of a transaction of which only
// records were lost.
func TestARepairSaysWhichTransactionsItTears(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		for _, what := range []string{"marker", "record"} {
			disk := crashfs.New(1)
			d := open(t, disk)
			l := create(t, d)["a"]
			first := written(t, l, 9, 0, 0)
			second := written(t, l, 9, 0, 1)
			marker := bumped(t, l, 9, 0, record.Commit)
			written(t, l, 9, 1, 0)
			bumped(t, l, 9, 1, record.Abort)
			put(t, l, 3) // shows that the markers were synced
			lost := map[string]int64{"marker": marker, "record": second}[what]
			s := &site{TB: t, fs: disk.KillImage(2)}
			must.OK(t, d.Close())
			if stopped {
				s.fs = disk
				name := path.Join("a-0", "00000000000000000000.log")
				_, at := s.batch(name, int(lost))
				s.flip(name, at+30)
			} else {
				for _, f := range s.frames() {
					if f.at.Stream == l.ID() && f.at.PrevEnd == lost {
						s.flip(f.file, f.at.Pos+60)
					}
				}
			}
			plan, l := repaired(t, s.fs, "a")
			var want []inspect.Torn
			if what == "marker" {
				want = []inspect.Torn{{Transaction: inspect.Transaction{Topic: "a", Producer: 9, First: first}, Until: marker}}
			}
			if !slices.Equal(plan.Torn, want) || len(plan.Reopened) > 0 || len(openIn(l)) > 0 {
				t.Errorf("stopped %t, %s: torn %+v, want %+v; reopened %+v", stopped, what, plan.Torn, want, plan.Reopened)
			}
		}
	}
}
