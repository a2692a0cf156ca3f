package checkpoint

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

func id(n byte) journal.StreamID {
	return journal.StreamID{Topic: [16]byte{15: n}, Partition: int32(n)}
}

func header(seq uint64) Header {
	return Header{
		Seq: seq, Redo: journal.Position{File: seq + 1, LSN: journal.LSN(seq + 2)}, Durable: journal.LSN(seq + 3),
		Dir: [16]byte{1}, Journal: [16]byte{2}, Boot: [16]byte{3}, Finding: Finding{[16]byte{9}, seq + 4},
		Owner: Owner{Cluster: [16]byte{4}, Generation: [16]byte{5}},
	}
}

// full returns a log with all parts set.
func full(n byte) Log {
	l := Log{
		ID: id(n), Topic: fmt.Sprintf("topic%d", n), Deleted: true, Offline: "damaged", QuarantineFile: "frames", Start: 7,
		Clean: 9, Relied: 300,
		Swapping: true, Swap: 8, High: 120, HighEpoch: 4, AcksWritten: true, Lossy: true, Partial: true,
		Point: Point{Offset: 100, LSN: 5, Segments: []Extent{{Base: 0, Size: 10}, {Base: 50, Size: 20}}}, Producers: []byte("producers"),
		Flaws: []Flaw{{Base: 50, Pos: 3, Size: 4, From: 51, To: 53}},
	}
	l.Segments[1].Aborted = txnindex.Mark{Count: 1, Sum: 0xaabb}
	l.Epochs.Assign(3, 0)
	l.Epochs.Assign(4, 60)
	return l
}

// diff describes how the encodings of two states differ.
func diff(got, want any) string {
	return cmp.Diff(want, got, cmp.Comparer(func(a, b epochs.Cache) bool { return slices.Equal(a.Entries(), b.Entries()) }))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func options(fsys vfs.FS) Options {
	return Options{FS: fsys, Dir: "/d/checkpoint", Mirror: "/d/checkpoint.copy"}
}

func open(t testing.TB, fsys vfs.FS) (*Store, *State) {
	t.Helper()
	s, state, err := Open(options(fsys))
	must(t, err)
	return s, state
}

// begun returns a store that holds a state.
func begun(t testing.TB, fsys vfs.FS, logs ...Log) *Store {
	t.Helper()
	s, _ := open(t, fsys)
	must(t, s.WriteAll(&State{header(1), logs}))
	return s
}

// wantState checks both copies.
func wantState(t testing.TB, fsys vfs.FS, want *State) {
	t.Helper()
	for _, dir := range []string{"/d/checkpoint", "/d/checkpoint.copy"} {
		got, err := Read(fsys, dir)
		if d := diff(got, want); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", dir, err, d)
		}
	}
}

func TestAWholeStateComesBack(t *testing.T) {
	fsys := vfs.Memory()
	if _, state := open(t, fsys); state != nil {
		t.Errorf("an empty directory has the state %+v", state)
	}
	s := begun(t, fsys, full(1), Log{ID: id(2), Topic: "empty"}, full(3))
	must(t, s.Close())
	want := &State{header(1), []Log{full(1), {ID: id(2), Topic: "empty"}, full(3)}}
	wantState(t, fsys, want)
	if _, state := open(t, fsys); diff(state, want) != "" {
		t.Error(diff(state, want))
	}
}

func TestAChangeIsAppliedOverTheState(t *testing.T) {
	fsys := vfs.Memory()
	s := begun(t, fsys, full(1), full(2), full(3))
	moved, fresh := full(2), full(4)
	moved.Point, moved.Producers, moved.Deleted, moved.Epochs = Point{Offset: 200, LSN: 9}, []byte("not written"), false, epochs.Cache{}
	must(t, s.Append(&Change{Header: header(2), Logs: []Update{{Log: &moved, SameProducers: true}, {Log: &fresh}}}))
	moved.Producers = full(2).Producers
	wantState(t, fsys, &State{header(2), []Log{full(1), moved, full(3), full(4)}})

	fresh.Producers = nil
	must(t, s.Append(&Change{Header: header(3), Logs: []Update{{Log: &fresh}}}))
	must(t, s.Append(&Change{Header: header(4), Logs: []Update{{Log: &fresh, SameProducers: true}}}))
	wantState(t, fsys, &State{header(4), []Log{full(1), moved, full(3), fresh}})
}

// A large producer state costs nothing in a commit that does not change it.
func TestACommitCostsWhatItChanges(t *testing.T) {
	fsys := vfs.Memory()
	large, other := full(1), full(2)
	large.Producers = make([]byte, 1<<14)
	s := begun(t, fsys, large, other)
	size := func() int64 {
		in, err := fsys.Stat("/d/checkpoint/0000000000000001.log")
		must(t, err)
		return in.Size
	}
	before := size()
	must(t, s.Append(&Change{Header: header(2), Logs: []Update{{Log: &other}}}))
	large.Point.Offset++
	must(t, s.Append(&Change{Header: header(3), Logs: []Update{{Log: &large, SameProducers: true}}}))
	if grown := size() - before; grown > 760 {
		t.Errorf("two small commits wrote %d bytes", grown)
	}
	wantState(t, fsys, &State{header(3), []Log{large, other}})
}

// A record that a start could not load must not be written.
func TestAChangeThatDoesNotFitIsRefused(t *testing.T) {
	one, two := full(1), full(2)
	fsys := vfs.Memory()
	s := begun(t, fsys, one)
	if err := s.Append(&Change{Logs: []Update{{Log: &two, SameProducers: true}}}); !errors.Is(err, errPartial) {
		t.Errorf("a new log without producers: %v", err)
	}
	if s.NeedsAll() {
		t.Error("nothing was written, and everything is to be")
	}
	must(t, s.Append(&Change{Header: header(2), Logs: []Update{{Log: &one, SameProducers: true}}}))
	wantState(t, fsys, &State{header(2), []Log{one}})
	if err := s.WriteAll(&State{header(1), []Log{one, one}}); err == nil {
		t.Error("a state with one log twice was written")
	}
}

func TestEverythingIsWrittenFirstAndAfterAFailure(t *testing.T) {
	fsys := errfs.New(vfs.Memory())
	s, _ := open(t, fsys)
	one := full(1)
	change := &Change{Header: header(2), Logs: []Update{{Log: &one}}}
	if err := s.Append(change); !errors.Is(err, errDue) || !s.NeedsAll() {
		t.Errorf("append before the first WriteAll: %v", err)
	}
	must(t, s.WriteAll(&State{header(1), nil}))
	fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO})
	if err := s.Append(change); !errors.Is(err, syscall.EIO) || !s.NeedsAll() {
		t.Errorf("failed append: %v, needs all: %v", err, s.NeedsAll())
	}
	if err := s.Append(change); !errors.Is(err, errDue) {
		t.Errorf("append after a failure: %v", err)
	}
	fsys.Add(errfs.Rule{Ops: errfs.Rename, Count: 1, Err: syscall.EIO})
	if err := s.WriteAll(&State{header(3), []Log{one}}); !errors.Is(err, syscall.EIO) || !s.NeedsAll() {
		t.Errorf("failed WriteAll: %v, needs all: %v", err, s.NeedsAll())
	}
	must(t, s.WriteAll(&State{header(4), []Log{one}}))
	fsys.Add(errfs.Rule{Ops: errfs.SyncDir, Count: 1, Err: syscall.EIO})
	if err := s.WriteAll(&State{header(5), []Log{one}}); !errors.Is(err, syscall.EIO) || !s.NeedsAll() {
		t.Errorf("failed WriteAll of a store that worked: %v, needs all: %v", err, s.NeedsAll())
	}
	must(t, s.WriteAll(&State{header(4), []Log{one}}))
	must(t, s.Append(&Change{Header: header(5), Logs: []Update{{Log: &one, SameProducers: true}}}))
	wantState(t, fsys, &State{header(5), []Log{one}})
}

func TestChangesThatHaveGrown(t *testing.T) {
	opts := options(vfs.Memory())
	opts.CompactBytes = 4000
	s, _, err := Open(opts)
	must(t, err)
	one := full(1)
	must(t, s.WriteAll(&State{header(1), []Log{one}}))
	n := uint64(0)
	for ; n < 100 && !s.Grown(); n++ {
		must(t, s.Append(&Change{Header: header(n), Logs: []Update{{Log: &one, SameProducers: true}}}))
	}
	if n < 10 || n > 20 { // a frame header of 24 bytes and about 200 bytes of content each
		t.Errorf("they have grown after %d changes", n)
	}
}

func TestTheCopyReplacesALostCheckpoint(t *testing.T) {
	fsys := vfs.Memory()
	s := begun(t, fsys, full(1))
	must(t, s.Close())
	must(t, fsys.RemoveAll("/d/checkpoint"))
	if _, _, err := Open(options(fsys)); !errors.Is(err, statelog.ErrDamaged) {
		t.Errorf("open without the first copy: %v", err)
	}
	want := &State{header(1), []Log{full(1)}}
	if got, err := Restore(fsys, "/d/checkpoint.copy", "/d/checkpoint"); err != nil || diff(got, want) != "" {
		t.Errorf("%v\n%s", err, diff(got, want))
	}
	wantState(t, fsys, want)
}

// raw writes arbitrary records as a checkpoint.
func raw(t testing.TB, snapshot [][]byte, changes ...[]byte) vfs.FS {
	t.Helper()
	fsys := vfs.Memory()
	l, _, err := statelog.Open(statelog.Options{FS: fsys, Dir: "/d/checkpoint", Format: format}, newLoader())
	must(t, err)
	must(t, l.Rotate(func(emit statelog.Emit) error {
		for _, record := range snapshot {
			if err := emit(record); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, l.Append(changes...))
	return fsys
}

// A valid checksum does not prove that the record is well-formed.
func TestMalformedRecordsAreDamage(t *testing.T) {
	one := full(1)
	flawed := append([]byte{kindLog}, one.append(nil, true)...)
	one.Flaws = nil // the record ends with the aborted transactions
	head, body := header(1), one.append(nil, true)
	h, log := head.append([]byte{kindHeader}), append([]byte{kindLog}, body...)
	change := func(c Change) []byte { return c.append(nil) }
	all := func(records ...[]byte) [][]byte { return records }
	for name, c := range map[string]struct{ snapshot, changes [][]byte }{
		"no header":              {},
		"a log and no header":    {snapshot: all(log)},
		"a change and no header": {changes: all(change(Change{Header: head}))},
		"no led epoch":           {snapshot: all(append(slices.Clone(log), 0, 0, 0, 0), h)},
		"half a led epoch":       {snapshot: all(append(slices.Clone(log), 1, 0), h)},
		"a led epoch of no log":  {snapshot: all(h), changes: all(append(change(Change{Header: head}), 1, 0, 1, 0, 0, 0))},
		"led epochs of none":     {snapshot: all(h), changes: all(append(change(Change{Header: head}), 0))},
		"a short header":         {snapshot: all(h[:len(h)-1])},
		"a long header":          {snapshot: all(append(slices.Clone(h), 0))},
		"a header twice":         {snapshot: all(h, h)},
		"a log after the header": {snapshot: all(h, log)},
		"an unknown kind":        {snapshot: all(slices.Concat([]byte{3}, body), h)},
		"an empty record":        {snapshot: all([]byte{}, h)},
		"neither clean nor not":  {snapshot: all(append(slices.Clone(h[:len(h)-1]), 2))},
		"a log twice":            {snapshot: all(log, log, h)},
		"a log and no producers": {snapshot: all(one.append([]byte{kindLog}, false), h)},
		"a short log":            {snapshot: all(log[:len(log)-1], h)},
		"a long log":             {snapshot: all(append(slices.Clone(log), 0), h)},
		"a flag without flaws":   {snapshot: all(append(slices.Concat(log[:21], []byte{log[21] | 64}, log[22:]), 0), h)},
		"half a flaw":            {snapshot: all(flawed[:len(flawed)-20], h)},
		"an index of no segment": {snapshot: all(slices.Concat(log[:len(log)-9], []byte{2}, log[len(log)-8:]), h)},
		"an empty index":         {snapshot: all(slices.Concat(log[:len(log)-8], make([]byte, 8)), h)},
		"an index twice":         {snapshot: all(slices.Concat(log[:len(log)-10], []byte{2}, log[len(log)-9:], log[len(log)-9:]), h)},
		"a change without them":  {snapshot: all(h), changes: all(change(Change{Logs: []Update{{Log: &one, SameProducers: true}}}))},
		"a count that lies":      {snapshot: all(h), changes: all(append(head.append(nil), 0xff, 0xff, 0xff, 0xff, 0x0f))},
		"epochs that shrink": {snapshot: all([]byte(strings.Replace(string(log), "\x04\x00\x00\x00\x3c", "\x02\x00\x00\x00\x3c", 1)),
			h)},
	} {
		if s, err := Read(raw(t, c.snapshot, c.changes...), "/d/checkpoint"); !errors.Is(err, statelog.ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// A whole state needs the memory of one log: each log is written before the next one is requested,
// and the header is requested last.
func TestAWholeStateIsWrittenLogByLog(t *testing.T) {
	fsys := vfs.Memory()
	s, _, err := Open(options(fsys))
	must(t, err)
	want, asked := &State{header(7), nil}, false
	var one Log
	producers := make([]byte, 1000)
	must(t, s.WriteEach(func(yield func(*Log) bool) {
		for n := range byte(20) {
			for i := range producers {
				producers[i] = n
			}
			one = full(n)
			one.Producers = producers
			if asked || !yield(&one) {
				t.Error("the header is asked for, or the write ends, before the last log")
				return
			}
			one.Producers = slices.Clone(producers)
			want.Logs = append(want.Logs, one)
		}
	}, func() Header { asked = true; return header(7) }))
	wantState(t, fsys, want)
}

// The golden bytes detect any change of the format.
func TestBytesOfACheckpoint(t *testing.T) {
	l := full(1)
	c := Change{Header: header(0x11), Logs: []Update{{Log: &l}, {Log: &l, SameProducers: true}}}
	c.Clean = true
	logID := "00000000000000000000000000000001" + "01000000"
	log := "06" + hex.EncodeToString([]byte("topic1")) + "07" + hex.EncodeToString([]byte("damaged")) + "06" +
		hex.EncodeToString([]byte("frames")) +
		"0700000000000000" + "7800000000000000" + "04000000" + "0900000000000000" + "ac02" + "0800000000000000" +
		"6400000000000000" + "0500000000000000" + "02" + "0000000000000000" + "0a00000000000000" + "3200000000000000" + "1400000000000000" +
		"02" + "03000000" + "0000000000000000" + "04000000" + "3c00000000000000"
	aborted := "01" + "01" + "01000000" + "bbaa0000"
	flaws := "01" + "3200000000000000" + "0300000000000000" + "0400000000000000" + "3300000000000000" + "3500000000000000"
	want := "1100000000000000" + "1200000000000000" + "1300000000000000" + "1400000000000000" +
		"01000000000000000000000000000000" + "02000000000000000000000000000000" + "03000000000000000000000000000000" +
		"09000000000000000000000000000000" +
		"1500000000000000" + "04000000000000000000000000000000" + "05000000000000000000000000000000" + "01" + "02" +
		logID + "ff" + log + "09" + hex.EncodeToString([]byte("producers")) + aborted + flaws +
		logID + "fb" + log + aborted + flaws
	if got := hex.EncodeToString(c.append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A log that has noted an epoch ends with it; of a change, the epochs are at the end.
func TestBytesOfLedEpochs(t *testing.T) {
	l, other := full(1), full(2)
	plain := hex.EncodeToString(l.Encode())
	c := Change{Header: header(1), Logs: []Update{{Log: &other}, {Log: &l}}}
	without := hex.EncodeToString(c.append(nil))
	l.Led = 0x102
	if got, want := hex.EncodeToString(l.Encode()), plain+"02010000"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := hex.EncodeToString(c.append(nil)), without+"01"+"01"+"02010000"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if back, err := DecodeLog(l.Encode()); err != nil || diff(*back, l) != "" {
		t.Errorf("%v\n%s", err, diff(*back, l))
	}
	fsys := vfs.Memory()
	s := begun(t, fsys, l, other)
	wantState(t, fsys, &State{header(1), []Log{l, other}})
	other.Led = 5
	must(t, s.Append(&Change{Header: header(2), Logs: []Update{{Log: &other, SameProducers: true}}}))
	wantState(t, fsys, &State{header(2), []Log{l, other}})
}

func TestAboveIsGreaterThanEveryLSNOfTheCheckpoint(t *testing.T) {
	point := func(lsn journal.LSN, offline string) Log { return Log{Point: Point{LSN: lsn}, Offline: offline} }
	for want, s := range map[journal.LSN]State{
		6:  {Header: Header{Durable: 5, Redo: journal.Position{LSN: 3}}},
		9:  {Header: Header{Durable: 5, Redo: journal.Position{LSN: 9}}},
		13: {Header: Header{Durable: 5}, Logs: []Log{point(12, ""), point(2, "")}},
		7:  {Header: Header{Durable: 6}, Logs: []Log{point(99, "its frames are damaged")}},
	} {
		if got := s.Above(); got != want {
			t.Errorf("%+v: %d, want %d", s, got, want)
		}
	}
}

func TestAChangedCloneLeavesTheStateAlone(t *testing.T) {
	s := &State{header(1), []Log{full(1)}}
	c := s.Clone()
	c.Logs[0].Point.Segments[0].Size, c.Logs[0].Topic = 1, "other"
	if want := (&State{header(1), []Log{full(1)}}); diff(s, want) != "" {
		t.Error(diff(s, want))
	}
}
