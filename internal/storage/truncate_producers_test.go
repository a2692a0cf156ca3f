package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// batchesOf returns the encoded batches of each producer in an encoded state.
func batchesOf(b []byte) map[int64]string {
	m := map[int64]string{}
	for b = b[4:]; len(b) > 0; {
		n := 19 + int(b[18])*28
		m[int64(binary.LittleEndian.Uint64(b))] = string(b[8:10]) + string(b[18:n])
		b = b[n:]
	}
	return m
}

// trueProducers fails unless every producer file matches the batches before its segment, and the
// log's state matches all batches. It returns the number of files.
func trueProducers(l *Log) (n int, err error) {
	segments, err := l.snapshot()
	var known producers.State
	for _, s := range segments {
		if saved, e := l.loadProducers(s); e == nil {
			n++
			got, want := batchesOf(saved.Append(nil, s.Base())), batchesOf(known.Append(nil, s.Base()))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return n, fmt.Errorf("the producers before %d are %v, want %v", s.Base(), got, want)
			}
		}
		if err := s.Headers(0, func(b record.Batch) bool { known.Add(b, time.Now()); return true }); err != nil {
			return n, err
		}
	}
	end := l.Ends().LogEnd
	l.producersMu.Lock() // a checkpoint may be in progress
	all := l.producers.Append(nil, end)
	l.producersMu.Unlock()
	if got, want := batchesOf(all), batchesOf(known.Append(nil, end)); fmt.Sprint(got) != fmt.Sprint(want) {
		return n, fmt.Errorf("the producers of a log that ends at %d are %v, want %v", end, got, want)
	}
	return n, err
}

// A truncation reads about one segment, however many there are. After it, the log knows the last
// five batches of each producer.
func TestTruncationReadsOneSegment(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := turnsLog(t, d, 300)
	if n := len(l.segments); n < 40 {
		t.Fatalf("%d segments", n)
	}
	if n, err := trueProducers(l); err != nil || n != len(l.segments)-1 { // the first one needs none
		t.Errorf("%d files of producers for %d segments: %v", n, len(l.segments), err)
	}
	var read atomic.Int64
	errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/t-0/*", Before: func(c errfs.Call) { read.Add(c.Len) }})
	base := l.segments[20].Base()
	for _, end := range []int64{299, base + 3, base} { // in a segment, and between two
		read.Store(0)
		if err := l.Truncate(end); err != nil || l.Ends().LogEnd != end {
			t.Fatalf("%+v, %v", l.Ends(), err)
		}
		if n := read.Load(); n > 2*turnsConfig().Segment.Bytes {
			t.Errorf("the truncation to %d read %d bytes", end, n)
		}
		if err := remembered(l); err != nil {
			t.Error(err)
		}
	}
	holds(t, l, l.Ends().LogEnd)
}

// If producer files are missing, damaged or those of other segments, a truncation reads more and
// gets the same result.
func TestTruncationWithoutFilesOfProducers(t *testing.T) {
	for name, harm := range map[string]func(fsys vfs.FS, segments []*segment.Segment) error{
		"none": func(fsys vfs.FS, segments []*segment.Segment) (err error) {
			for _, s := range segments[1:] {
				err = errors.Join(err, fsys.Remove(s.ProducersPath()))
			}
			return err
		},
		"the last one missing": func(fsys vfs.FS, segments []*segment.Segment) error {
			return fsys.Remove(segments[len(segments)-1].ProducersPath())
		},
		"damaged": func(fsys vfs.FS, segments []*segment.Segment) error {
			f, err := fsys.Open(segments[len(segments)-1].ProducersPath())
			if err == nil {
				_, err = f.WriteAt([]byte{77}, 50)
			}
			return errors.Join(err, f.Close())
		},
		"of another segment": func(fsys vfs.FS, segments []*segment.Segment) error {
			return fsys.Rename(segments[2].ProducersPath(), segments[len(segments)-1].ProducersPath())
		},
	} {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "sync")
		l := turnsLog(t, d, 40)
		if err := harm(disk, l.segments); err != nil {
			t.Fatal(name, err)
		}
		if err := l.Truncate(39); err != nil || l.Ends().LogEnd != 39 {
			t.Fatalf("%s: %+v, %v", name, l.Ends(), err)
		}
		if err := remembered(l); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Expired producers do not come back with a truncation: their last-seen time is the timestamp of
// their batches.
func TestTruncationRevivesNoExpiredProducers(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	for id, age := range []time.Duration{time.Hour, -48 * time.Hour, 25 * time.Hour} { // the second one from the future
		if a := send(l, numbered(int64(id), 0, time.Now().Add(-age))); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	put(t, l, 2, 10)
	l.producersMu.Lock()
	l.producers = l.noProducers()
	l.producersMu.Unlock()
	must(t, l.Truncate(4))
	if m := l.lastOffsets(); len(m) != 2 || m[0].Batch != 0 || m[1].Batch != 1 {
		t.Errorf("the last offsets of producers are %v", m)
	}
}

// A producer that sends records with old timestamps is as active as others: a truncation remembers
// its batches, also if a new producer follows it in the log.
func TestTruncationRemembersProducersOfOldRecords(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	lastYear := time.Now().AddDate(-1, 0, 0)
	for seq := range int32(12) {
		if seq == 6 {
			if a := send(l, numbered(2, 0, time.Now())); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		if a := send(l, numbered(1, seq, lastYear)); a.Err != nil {
			t.Fatal(a.Err)
		}
		if err := l.flushAll(); err != nil { // the log remembers more batches than it must while they are not in segments
			t.Fatal(err)
		}
	}
	must(t, l.Truncate(7))
	for seq := int32(1); seq < 6; seq++ {
		if a := send(l, numbered(1, seq, lastYear)); a.Err != nil || !a.Duplicate {
			t.Errorf("a retry of batch %d is stored at %d: %v", seq, a.Base, a.Err)
		}
	}
}

// A log remembers as many producers as its limit, those that wrote last. The others continue as
// unknown producers, also after a restart.
func TestProducersOfALogAreBounded(t *testing.T) {
	disk := crashfs.New(1)
	few := func(o *Options) { o.ProducersPerLog = 3 }
	d := mustOpen(t, disk, "sync", few)
	l := makeLogs(t, d, 1, "sync")[0]
	for id := range int64(6) {
		for _, b := range [][]byte{numbered(id, 0, time.Now()), numbered(0, int32(id)+1, time.Now())} { // 0 writes all the time
			if a := send(l, b); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
	must(t, l.flushAll())
	must(t, d.checkpoint(nil))
	for _, l := range []*Log{l, byPartition(t, mustOpen(t, disk.KillImage(1), "sync", few), 0)} {
		if n := l.producers.Len(); n != 3 {
			t.Errorf("%d producers are remembered", n)
		}
		if a := send(l, numbered(0, 6, time.Now())); !a.Duplicate {
			t.Errorf("a retry of the one that always writes: %v", a.Err)
		}
		if a := send(l, numbered(1, 1, time.Now())); a.Err != nil || a.Duplicate {
			t.Errorf("one that is not remembered goes on: %v", a.Err)
		}
	}
}

// A compacted segment keeps the producer file of the first segment that it replaces.
func TestCompactionKeepsFilesOfProducers(t *testing.T) {
	fsys := vfs.Memory()
	d, l := compactLog(t, fsys, "sync")
	for i := range int32(30) {
		key := "the same" // except for one in each segment, which stays
		if i%5 == 0 {
			key = fmt.Sprint(i)
		}
		if a := send(l, keyed(t, key, strings.Repeat("v", 700), &record.Producer{ID: 9, Sequence: i})); a.Err != nil {
			t.Fatal(a.Err)
		}
		if i%5 == 4 {
			flushedAndSynced(t, l)
			must(t, l.roll())
		}
	}
	old := l.segments
	compactAll(t, d)
	if n := len(l.segments); n == len(old) || n < 4 {
		t.Fatalf("%d segments became %d", len(old), n)
	}
	for _, s := range l.segments[1:] {
		if known, err := l.loadProducers(s); err != nil || known.LastOffsets()[9].Batch != s.Base()-1 {
			t.Errorf("segment %d: %v, %v", s.Base(), known.LastOffsets(), err)
		}
	}
	for _, s := range old {
		_, err := fsys.Stat(path.Join(l.path, segment.Name(s.Base())+segment.LogSuffix))
		if _, e := fsys.Stat(s.ProducersPath()); err != nil && e == nil {
			t.Errorf("segment %d went without its producers", s.Base())
		}
	}
}

// A reset at the end of the log commits that no producer is known any longer.
func TestAResetForgetsProducersOverACrash(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	b := testBatch(t, 10, &record.Producer{ID: 7, Epoch: 0, Sequence: 0})
	if a := send(l, b); a.Err != nil {
		t.Fatal(a.Err)
	}
	synced(t, l)
	must(t, l.flushAndSync())
	must(t, d.commit(l))
	must(t, l.Reset(1))
	l = mustOpen(t, disk.KillImage(1), "sync").Logs()[0]
	if a := send(l, b); a.Duplicate {
		t.Errorf("a batch that the reset removed is acknowledged as stored at [%d, %d)", a.Base, a.Next)
	}
}

// A commit that does not move the recovery point does not write the producers again.
func TestACommitWritesProducersOnce(t *testing.T) {
	const n = 500
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync", func(o *Options) { o.JournalBytes = 16 << 20 })
	l := makeLogs(t, d, 1, "sync")[0]
	var batches []byte
	for id := range int64(n) {
		batches = append(batches, testBatch(t, 1, &record.Producer{ID: id})...)
	}
	if a := send(l, batches); a.Err != nil {
		t.Fatal(a.Err)
	}
	synced(t, l)
	must(t, l.flushAndSync())
	size := func() (n int64) {
		infos, err := disk.List("/d/" + CheckpointDir)
		must(t, err)
		for _, in := range infos {
			n += in.Size
		}
		return n
	}
	grows := func() int64 {
		before := size()
		must(t, d.commit(l))
		return size() - before
	}
	if first, second := grows(), grows(); first < 2*n || second > n {
		t.Errorf("%d bytes are written with the producers of a new recovery point, and then %d", first, second)
	}
	holds(t, mustOpen(t, disk.KillImage(1), "sync").Logs()[0], n)
}

// A truncation remembers a producer whose batches retention removed, even if no producer file can
// be read.
func TestTruncationKeepsProducersOfWhatRetentionTook(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	l.Configure(turnsConfig())
	gone := numbered(77, 0, time.Now())
	if a := send(l, gone); a.Err != nil {
		t.Fatal(a.Err)
	}
	for seq := range int32(40) {
		if a := send(l, numbered(1, seq, time.Now())); a.Err != nil {
			t.Fatal(a.Err)
		}
		must(t, l.flushAll())
	}
	must(t, l.SetLogStart(l.segments[len(l.segments)-3].Base()))
	for _, s := range l.segments {
		must(t, disk.Remove(s.ProducersPath()))
	}
	end := l.Ends().LogEnd - 1
	if err := l.Truncate(end); err != nil || l.Ends().LogEnd != end {
		t.Fatalf("%+v, %v", l.Ends(), err)
	}
	if a := send(l, gone); a.Err != nil || !a.Duplicate || a.Base != 0 {
		t.Errorf("a retry is taken for a new batch: [%d, %d), %v", a.Base, a.Next, a.Err)
	}
}
