package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// sliceBatches decodes what a read returned.
func sliceBatches(s *Slice) (all []record.Batch, err error) {
	for _, p := range s.Parts {
		for len(p) > 0 {
			b, rest, err := record.Next(p)
			if err != nil {
				return nil, err
			}
			all, p = append(all, slices.Clone(b)), rest
		}
	}
	return all, nil
}

// contentsOf returns all batches of a log.
func contentsOf(l *Log) ([]record.Batch, error) {
	var all []record.Batch
	for at := l.logStart.Load(); ; {
		s, err := l.Read(at, math.MaxInt64, 1<<20, true)
		if err != nil {
			return nil, err
		}
		next, err := sliceBatches(&s)
		s.Release()
		if err != nil || len(next) == 0 {
			return all, err
		}
		all, at = append(all, next...), next[len(next)-1].LastOffset()+1
	}
}

// outcomes are the transactions of a log as its batches end them.
type outcomes struct {
	aborted  []txnindex.Entry // without Stable
	visible  map[int64]bool   // by first offset of each batch: a reader of committed records gets it
	unstable int64
}

func outcomesOf(all []record.Batch) (o outcomes, err error) {
	o = outcomes{visible: map[int64]bool{}, unstable: math.MaxInt64}
	open := map[int64][]int64{}
	for _, b := range all {
		id := b.ProducerID()
		kind, err := b.Marker()
		switch {
		case err != nil:
			return o, err
		case !b.Control() && !b.Transactional():
			o.visible[b.BaseOffset()] = true
		case !b.Control():
			open[id] = append(open[id], b.BaseOffset())
		case len(open[id]) > 0:
			if kind == record.Abort {
				o.aborted = append(o.aborted, txnindex.Entry{Producer: id, First: open[id][0], Last: b.LastOffset()})
			}
			for _, at := range open[id] {
				o.visible[at] = kind == record.Commit
			}
			delete(open, id)
		}
	}
	for _, list := range open {
		o.unstable = min(o.unstable, list[0])
	}
	return o, nil
}

// consume returns the batches that a client gets from an answer, by their first offsets.
func consume(got []record.Batch, list []txnindex.Entry) map[int64]bool {
	rest := slices.Clone(list)
	slices.SortFunc(rest, func(a, b txnindex.Entry) int { return int(a.First - b.First) })
	skips, seen := map[int64]bool{}, map[int64]bool{}
	for _, b := range got {
		for len(rest) > 0 && rest[0].First <= b.LastOffset() {
			skips[rest[0].Producer], rest = true, rest[1:]
		}
		if b.Control() {
			if kind, _ := b.Marker(); kind == record.Abort {
				delete(skips, b.ProducerID())
			}
			continue
		}
		seen[b.BaseOffset()] = !b.Transactional() || !skips[b.ProducerID()]
	}
	return seen
}

// readsCommitted compares what readers of committed records get, from every batch on, with the
// log's batches. whole says that the log has all of its batches: then the lists are exact.
func readsCommitted(l *Log, whole bool) error {
	all, err := contentsOf(l)
	if err != nil {
		return err
	}
	want, err := outcomesOf(all)
	if err != nil {
		return err
	}
	limit := l.FirstUnstable(math.MaxInt64)
	if limit > want.unstable || whole && limit != want.unstable {
		return fmt.Errorf("the first unstable offset is %d, the batches say %d", limit, want.unstable)
	}
	for i, first := range all {
		from := max(first.BaseOffset(), l.logStart.Load())
		for _, size := range []int{1, 4 << 10, 1 << 20} {
			s, err := l.Read(from, limit, size, true)
			if err != nil {
				return err
			}
			list, err := l.AbortedIn(from, &s, math.MaxInt)
			if err != nil {
				return err
			}
			got, err := sliceBatches(&s)
			s.Release()
			if err != nil {
				return err
			}
			for at, seen := range consume(got, list) {
				if seen != want.visible[at] {
					return fmt.Errorf("a reader from %d on with the list %+v gets the batch at %d: %v", from, list, at, seen)
				}
			}
			if !whole || len(got) == 0 {
				continue
			}
			end := got[len(got)-1].LastOffset() + 1
			for k := range list {
				list[k].Stable = 0
			}
			must := slices.DeleteFunc(slices.Clone(want.aborted), func(e txnindex.Entry) bool { return e.Last < from || e.First >= end })
			if !slices.Equal(list, must) {
				return fmt.Errorf("batch %d: in [%d, %d) are %+v, listed are %+v", i, from, end, must, list)
			}
		}
	}
	return nil
}

func committedReads(t testing.TB, what string, l *Log) {
	t.Helper()
	if err := readsCommitted(l, true); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// interleave appends transactions of three producers, some of which are aborted, and records
// outside of transactions. One transaction stays open.
func interleave(t testing.TB, l *Log) {
	t.Helper()
	for i := range int64(12) {
		id := i % 3
		p, _ := l.Producer(id)
		ok(t, transact(l, inTxn(t, id, p.Epoch, p.LastSequence+1, 500)))
		ok(t, send(l, testBatch(t, 300, nil)))
		if i%2 == 1 {
			ok(t, endTxn(l, (i+1)%3, p.Epoch+1, record.ControlType(i/2%2), producers.Sender{}))
		}
	}
	synced(t, l)
}

// Readers of committed records learn of the aborted transactions, wherever the index has them: in
// memory, in a segment, in segments that were rolled, after a start, and after a truncation.
func TestReadersLearnOfAbortedTransactions(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 2, 10)
	if at := l.unstable.aborted.Load(); at != -1 {
		t.Errorf("a log without transactions looks for aborted ones up to %d", at)
	}
	steps := map[string]func() error{
		"flushed": l.flush, "synced": l.flushAndSync, "rolled": l.roll,
		"dropped from memory": func() error { d.memory.evict(l, math.MaxInt64, 0); return nil },
		// As if a part of a carried frame were not in a segment yet.
		"synced above the recovery point": func() error {
			for id := range int64(3) {
				p, _ := l.Producer(id)
				ok(t, endTxn(l, id, p.Epoch+1, record.Abort, producers.Sender{}))
			}
			put(t, l, 1, 10)
			return errors.Join(l.flush(), l.active().Sync())
		},
	}
	for _, what := range []string{"", "flushed", "synced", "rolled", "dropped from memory", "synced above the recovery point", "synced",
		"dropped from memory"} {
		if step := steps[what]; step != nil {
			must(t, step())
			committedReads(t, what, l)
		}
		interleave(t, l)
		committedReads(t, "after "+what, l)
	}
	must(t, errors.Join(l.flush(), d.checkpoint(nil)))
	for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
		l := mustOpen(t, image, "sync").Logs()[0]
		committedReads(t, "after a start", l)
		for end := l.Ends().LogEnd - 1; end > 0; end -= 17 {
			must(t, l.Truncate(end))
			committedReads(t, fmt.Sprint("truncated to ", end), l)
		}
	}
}

// A fetch in memory needs no disk for what is in memory.
func TestMemoryHasTheRecentAbortedTransactions(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	interleave(t, l)
	for _, what := range []string{"unflushed", "synced"} {
		s, _, err := l.ReadMemory(0, math.MaxInt64, 1<<20, true)
		must(t, err)
		list, ok, err := l.AbortedInMemory(0, &s, math.MaxInt)
		want, e := l.AbortedIn(0, &s, math.MaxInt)
		// A checkpoint in the background may have flushed the segment; then the file has the list.
		if err != nil || e != nil || ok && !slices.Equal(list, want) {
			t.Errorf("%s: %+v, %v, %v; want %+v, %v", what, list, ok, err, want, e)
		}
		// The active segment keeps its index.
		if list, ok, err = l.AbortedInMemory(0, &s, math.MaxInt); !ok || len(list) == 0 || err != nil {
			t.Errorf("%s, after it was read: %+v, %v, %v", what, list, ok, err)
		}
		s.Release()
		must(t, l.flushAndSync())
	}
}

// An answer is cut so that its list has a bounded length.
func TestALongListCutsTheAnswer(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	for i := range int64(40) {
		ok(t, transact(l, inTxn(t, i%4, int16(i/4), 0, 10)))
		if i%4 == 3 {
			for id := range int64(4) {
				ok(t, endTxn(l, id, int16(i/4)+1, record.Abort, producers.Sender{}))
			}
		}
	}
	synced(t, l)
	end, answers := l.Ends().LogEnd, 0
	for at := int64(0); at < end; answers++ {
		s, err := l.Read(at, end, 1<<20, true)
		must(t, err)
		list, err := l.AbortedIn(at, &s, 5)
		got, e := sliceBatches(&s)
		if err != nil || e != nil || len(list) > 5 || len(got) == 0 {
			t.Fatalf("at %d: %+v for %d batches, %v, %v", at, list, len(got), err, e)
		}
		size := 0
		for _, b := range got {
			size += len(b)
		}
		for id, seen := range consume(got, list) {
			if seen {
				t.Errorf("the aborted batch at %d is shown", id)
			}
		}
		if at = got[len(got)-1].LastOffset() + 1; size != s.Size {
			t.Errorf("the answer has %d bytes, and says %d", size, s.Size)
		}
		s.Release()
	}
	if answers < 3 {
		t.Errorf("%d answers", answers)
	}
}

// abortedThrice is the list of abortedDuringASync.
var abortedThrice = []int64{2, 4, 6}

// A sync moves entries from the memory to the segments. A reader's list has each of them once, also
// if the sync happens while the list is made.
func TestAListDuringASync(t *testing.T) {
	for _, before := range []bool{false, true} {
		if list := abortedDuringASync(t, broken{}, before); !slices.Equal(list, abortedThrice) {
			t.Errorf("%v, want %v, sync before the segment is read: %v", list, abortedThrice, before)
		}
	}
}

// abortedDuringASync returns the offsets of the markers that a reader learns of. The first one is
// in a segment only, and the log is synced just before or after the reader has read that segment.
func abortedDuringASync(t testing.TB, b broken, before bool) (markers []int64) {
	t.Helper()
	l := makeLogs(t, mustOpen(t, crashfs.New(1), "sync", func(o *Options) { o.broken = b }), 1, "sync")[0]
	ok(t, transact(l, inTxn(t, 9, 0, 0, 10))) // stays open: readers must know of all that end above it
	for i, then := range []func() error{l.flushAll, l.flush, func() error { return nil }} {
		ok(t, transact(l, inTxn(t, int64(i), 0, 0, 10)))
		ok(t, endTxn(l, int64(i), 1, record.Abort, producers.Sender{Bumps: true}))
		must(t, then())
	}
	list, _, err := l.aborted(0, l.logEnd.Load(), func(s *segment.Segment) ([]txnindex.Entry, error) {
		var first error
		if before {
			first = l.flushAll()
		}
		entries, err := l.segmentAborted(s)
		return slices.Clone(entries), errors.Join(first, err, l.flushAll())
	}, nil)
	must(t, err)
	for _, e := range list {
		markers = append(markers, e.Last)
	}
	return markers
}

// damagedIndex returns what readers get after a start that finds the index of a segment harmed.
func damagedIndex(t testing.TB, b broken, harm func(fsys vfs.FS, name string) error) error {
	disk := crashfs.New(1)
	rules := func(o *Options) { o.broken = b }
	d := mustOpen(t, disk, "sync", rules)
	l := makeLogs(t, d, 1, "sync")[0]
	for range 3 {
		interleave(t, l)
		must(t, errors.Join(l.flushAndSync(), l.roll()))
	}
	name := l.segments[1].AbortedPath()
	must(t, d.checkpoint(nil))
	image := disk.KillImage(1)
	must(t, harm(image, name))
	d = mustOpen(t, image, "sync", rules)
	l = d.Logs()[0]
	if err := readsCommitted(l, true); err != nil {
		return err
	}
	must(t, errors.Join(l.flushAndSync(), d.checkpoint(nil)))
	l = mustOpen(t, image.PowerLossImage(crashfs.DropUnsynced, 1), "sync", rules).Logs()[0]
	if _, err := l.segments[1].Aborted(false); err != nil {
		return fmt.Errorf("the index was not built for good: %w", err)
	}
	return readsCommitted(l, true)
}

func removeIndex(fsys vfs.FS, name string) error { return fsys.Remove(name) }

// changeIndex returns a function that changes the bytes of an index.
func changeIndex(change func([]byte) []byte) func(fsys vfs.FS, name string) error {
	return func(fsys vfs.FS, name string) error {
		b, err := vfs.ReadFile(fsys, name)
		return errors.Join(err, vfs.WriteFile(fsys, name, change(b), true))
	}
}

// An index that is missing, too short, or not what it was, is built again. It is never taken for an
// empty one.
func TestADamagedIndexIsBuiltAgain(t *testing.T) {
	for name, harm := range map[string]func(vfs.FS, string) error{
		"removed": removeIndex,
		"empty":   changeIndex(func([]byte) []byte { return nil }),
		"short":   changeIndex(func(b []byte) []byte { return b[:len(b)-1] }),
		"changed": changeIndex(func(b []byte) []byte { b[9]++; return b }),
		"long":    changeIndex(func(b []byte) []byte { return append(b, b...) }),
		"of others": func(fsys vfs.FS, name string) error {
			return fsys.Rename("/d/t-0/"+segment.Name(0)+segment.AbortedSuffix, name)
		},
	} {
		if err := damagedIndex(t, broken{}, harm); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An index that cannot be built, because a batch is damaged as well, is an error of the disk for
// readers of committed records that need it, and for them only.
func TestAnIndexThatCannotBeBuiltIsAnError(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	interleave(t, l)
	must(t, errors.Join(l.flushAndSync(), l.roll()))
	d.memory.evict(l, math.MaxInt64, 0)
	f, err := d.opt.FS.Open(l.segments[0].Path())
	must(t, err)
	_, err = f.WriteAt([]byte{0xff, 0xff}, l.segments[0].Size()-40)
	must(t, errors.Join(err, f.Close(), d.opt.FS.Remove(l.segments[0].AbortedPath())))
	l.segments[0].Expect(l.segments[0].AbortedMark())
	s, err := l.Read(0, math.MaxInt64, 100, true)
	must(t, err)
	defer s.Release()
	if list, err := l.AbortedIn(0, &s, 100); !errors.Is(err, ErrFailed) {
		t.Errorf("%+v, %v", list, err)
	}
}

// Only segments with aborted transactions have the file. It goes with its segment.
func TestFilesOfAbortedTransactions(t *testing.T) {
	fsys := vfs.Memory()
	d := mustOpen(t, fsys, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 10)
	ok(t, transact(l, inTxn(t, 7, 0, 0, 10)))
	ok(t, endTxn(l, 7, 1, record.Commit, producers.Sender{}))
	synced(t, l)
	must(t, errors.Join(l.flushAndSync(), l.roll()))
	ok(t, transact(l, inTxn(t, 7, 1, 0, 10)))
	ok(t, endTxn(l, 7, 2, record.Abort, producers.Sender{}))
	synced(t, l)
	must(t, errors.Join(l.flushAndSync(), l.roll()))
	put(t, l, 1, 10)
	exist := func() (there []bool) {
		for _, base := range []int64{0, 5, 7} {
			_, err := fsys.Stat("/d/t-0/" + segment.Name(base) + segment.AbortedSuffix)
			there = append(there, err == nil)
		}
		return there
	}
	if got := exist(); !slices.Equal(got, []bool{false, true, false}) {
		t.Errorf("the segments have indexes: %v", got)
	}
	must(t, l.SetLogStart(7))
	if got := exist(); slices.Contains(got, true) {
		t.Errorf("after their segments are gone: %v", got)
	}
}

// A synced index is on the disk before the recovery point passes its markers: a start after a power
// loss need not build it.
func TestASyncedIndexOutlivesAPowerLoss(t *testing.T) {
	for i, mode := range crashfs.Modes() {
		disk := crashfs.New(1)
		if err := indexAfterPowerLoss(t, disk, disk, mode); err != nil {
			t.Errorf("%v: %v", crashfs.Modes()[i], err)
		}
	}
}

// indexAfterPowerLoss returns why a start after a power loss cannot use an index that was synced.
func indexAfterPowerLoss(t testing.TB, disk *crashfs.FS, fsys vfs.FS, mode crashfs.Mode) error {
	d := mustOpen(t, fsys, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	for range 2 {
		interleave(t, l)
		must(t, errors.Join(l.flushAndSync(), d.commit(l)))
	}
	l = mustOpen(t, disk.PowerLossImage(mode, 1), "sync").Logs()[0]
	entries, err := l.segments[0].Aborted(false)
	if err == nil && len(entries) == 0 {
		err = errors.New("it has no entries")
	}
	return err
}

// Compaction keeps the entry of an aborted transaction with its marker, in the pass that removes
// the records: a reader may have read them. A later pass removes the entry, except that of a
// producer's last batch, which stays without records.
func TestCompactionKeepsTheIndexForReaders(t *testing.T) {
	fsys := vfs.Memory()
	d, l := compactLog(t, fsys, "sync")
	lead(l)
	for i := range int16(6) {
		ok(t, transact(l, inTxn(t, int64(i%2), i/2, 0, 300)))
		ok(t, endTxn(l, int64(i%2), i/2+1, record.Abort, producers.Sender{}))
		put(t, l, 1, 10)
	}
	entries := func() (n int) {
		for _, s := range l.segments {
			list, err := s.Aborted(false)
			must(t, err)
			n += len(list)
			_, err = fsys.Stat(s.AbortedPath())
			if (err == nil) != (len(list) > 0) {
				t.Errorf("segment %d has %d entries, and its file: %v", s.Base(), len(list), err)
			}
		}
		return n
	}
	var got []int
	for range 3 {
		put(t, l, 1, 10)
		must(t, errors.Join(l.flushAndSync(), l.roll()))
		got = append(got, entries())
		old := l.segments[0]
		compactAll(t, d)
		if err := readsCommitted(l, false); err != nil {
			t.Error(err)
		}
		if list, err := old.Aborted(false); l.segments[0] != old && !errors.Is(err, segment.ErrReplaced) {
			t.Errorf("the index of a replaced segment: %+v, %v", list, err)
		}
	}
	if got = append(got, entries()); !slices.Equal(got, []int{6, 6, 2, 2}) {
		t.Errorf("entries before and after each pass: %v", got)
	}
}

// A log in which every transaction was committed is compacted like one without transactions.
func TestCompactionOfCommittedTransactions(t *testing.T) {
	d, l := compactLog(t, vfs.Memory(), "sync")
	lead(l)
	for i := range int16(6) {
		ok(t, transact(l, inTxn(t, 7, i, 0, 300))) // the same key each time
		ok(t, endTxn(l, 7, i+1, record.Commit, producers.Sender{}))
	}
	flushedAndSynced(t, l)
	if n := compactAll(t, d); n != 1 || l.attempts.failures > 0 {
		t.Errorf("%d passes, %d failed", n, l.attempts.failures)
	}
	if _, records := state(t, l); records != 1+6 {
		t.Errorf("%d records are left, want the last one and 6 markers", records)
	}
}
