package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

func faulty(t *testing.T, seed uint64) (*crashfs.FS, *errfs.FS) {
	t.Helper()
	disk := crashfs.New(seed)
	ok(t, disk.MkdirAll(testDir))
	ok(t, disk.SyncDir("/"))
	return disk, errfs.New(disk)
}

// After any failed write or datasync the segment is read-only, the previously synced bytes are on
// disk, and no later sync reports more (I5). A failed open has no consequence.
func TestAnyFailedCallFailsTheSegment(t *testing.T) {
	for _, op := range []errfs.Op{errfs.Write, errfs.Datasync, errfs.Open} {
		for from := 1; from < 40; from++ {
			for _, full := range []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE} {
				name := fmt.Sprintf("%v %d %v", op, from, full)
				disk, fsys := faulty(t, uint64(from))
				files := NewFiles(fsys, 1) // every other file evicts this one
				s, err := Create(files, testDir, 0, 0)
				ok(t, err)
				other, err := Create(files, testDir, 1000, 0)
				ok(t, err)
				ok(t, fsys.SyncDir(testDir))
				fsys.Add(errfs.Rule{Ops: op, Path: "*00000.log", When: func(c errfs.Call) bool { return c.Path == s.Path() },
					From: from, Count: 1, Err: full, Drop: errfs.DropCached})
				var all []record.Batch
				synced, dead := 0, false
				for _, b := range history(t, 0, 20, uint64(from)) {
					err := s.Append([][]byte{b}, interval)
					if err == nil && dead {
						t.Fatalf("%s: a failed segment accepted a batch", name)
					}
					if err != nil && op == errfs.Open && s.Err() != nil {
						t.Fatalf("%s: the segment failed because its file could not be opened", name)
					}
					if err != nil {
						break
					}
					all = append(all, b)
					_ = other.Append([][]byte{batch(t, other.Base(), 1, 1, "x")}, interval)
					if len(all)%2 == 0 {
						if err := s.Sync(); err == nil {
							synced = len(all)
						} else if s.Err() == nil && op != errfs.Open {
							t.Fatalf("%s: the segment did not fail after %v", name, err)
						}
					}
					dead = s.Err() != nil
				}
				if s.Sync() == nil && s.Err() == nil {
					synced = len(all)
				}
				if s.Synced() != size(all[:synced]) {
					t.Fatalf("%s: %d bytes count as synced, want %d", name, s.Synced(), size(all[:synced]))
				}
				got := content(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), s.Path())
				want := bytes.Join(chunks(all[:synced]), nil)
				if !bytes.HasPrefix(got, want) {
					t.Fatalf("%s: synced bytes are not on the disk", name)
				}
			}
		}
	}
}

// A failed datasync may have dropped what was written, so nothing of it is known to be valid.
func TestAFailedSyncForgetsWhatWasVerified(t *testing.T) {
	_, fsys := faulty(t, 1)
	s, err := Create(NewFiles(fsys, 2), testDir, 0, 0)
	ok(t, err)
	write(t, s, history(t, 0, 3, 1))
	known := func() bool {
		to, _ := s.files.verified.until(s.content.Load(), 0, math.MaxInt64, math.MaxInt64)
		return to > 0
	}
	if !known() {
		t.Error("what was written is not known")
	}
	fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
	if s.SyncBatches() == nil || known() {
		t.Error("what was dropped is known to be valid")
	}
}

// An evicted file is synced first. If that fails the error is reported, whatever later calls
// return.
func TestEvictionKeepsTheError(t *testing.T) {
	_, fsys := faulty(t, 1)
	files := NewFiles(fsys, 2)
	s, err := Create(files, testDir, 0, 0)
	ok(t, err)
	write(t, s, history(t, 0, 3, 1))
	fsys.Add(errfs.Rule{Ops: errfs.Datasync, Path: Name(0) + LogSuffix, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
	var others []*Segment
	for i := range int64(6) {
		o, err := Create(files, testDir, 1000*(i+1), 0)
		ok(t, err)
		write(t, o, history(t, 1000*(i+1), 2, 1))
		others = append(others, o)
	}
	if err := s.Sync(); !errors.Is(err, syscall.EIO) || !errors.Is(s.Err(), syscall.EIO) {
		t.Errorf("sync after a lost write-back: %v", err)
	}
	if s.Append([][]byte{batch(t, 100, 1, 1, "v")}, interval) == nil || s.Synced() != 0 {
		t.Error("a failed segment accepted a batch")
	}
	for _, o := range others {
		ok(t, o.Sync())
		answers(t, "another", o, history(t, o.Base(), 2, 1))
	}
	if files.Open() > 5 {
		t.Errorf("%d files are open", files.Open())
	}
	ok(t, s.Truncate(0, 0)) // to its synced size: nothing
	ok(t, files.Close())
}

func TestOpenFilesAreBounded(t *testing.T) {
	fsys := errfs.New(memory(t))
	files := NewFiles(fsys, 8)
	var all []*Segment
	for i := range int64(100) {
		s, err := Create(files, testDir, i*100, 0)
		ok(t, err)
		write(t, s, history(t, i*100, 4, 1))
		all = append(all, s)
		if files.Open() > 12 {
			t.Fatalf("%d files are open", files.Open())
		}
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := range all {
				s := all[(i*7+n)%len(all)]
				if b, err := s.Read(s.Base(), math.MaxInt64, 1000, true); err != nil || len(b) == 0 {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			}
		})
	}
	wg.Wait()
	if opened, closed := fsys.Calls(errfs.Open|errfs.Create), fsys.Calls(errfs.Close); opened-closed != files.Open() {
		t.Errorf("%d opened, %d closed, %d known to be open", opened, closed, files.Open())
	}
	ok(t, all[3].Remove())
	if _, err := all[3].Read(0, 1, 1, true); err == nil {
		t.Error("a removed segment was read")
	}
	ok(t, files.Close())
	if opened, closed := fsys.Calls(errfs.Open|errfs.Create), fsys.Calls(errfs.Close); opened != closed+1 { // the failed open
		t.Errorf("%d opened, %d closed", opened, closed)
	}
}

// While one file is synced before it is closed, others can be opened and read.
func TestEvictionDelaysNoOtherFile(t *testing.T) {
	fsys := errfs.New(memory(t))
	files := NewFiles(fsys, 2)
	var all []*Segment
	for i := range int64(3) {
		s, err := Create(files, testDir, i*100, 0)
		ok(t, err)
		write(t, s, history(t, i*100, 4, 1))
		all = append(all, s)
	}
	hold, held := make(chan struct{}), make(chan struct{}, 16)
	fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) { held <- struct{}{}; <-hold }})
	var wg sync.WaitGroup
	wg.Go(func() {
		s, err := Create(files, testDir, 900, 0) // evicts one
		ok(t, err)
		write(t, s, history(t, 900, 1, 1))
	})
	<-held
	if b, err := all[2].Read(200, math.MaxInt64, 1000, true); err != nil || len(b) == 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	close(hold)
	wg.Wait()
	ok(t, files.Close())
}

// An index that cannot be written or read fails neither Sync nor lookups.
func TestIndexErrorsFailNothing(t *testing.T) {
	fsys := errfs.New(memory(t))
	all := history(t, 0, 40, 1)
	s, err := Create(NewFiles(fsys, 2), testDir, 0, 0)
	ok(t, err)
	write(t, s, all)
	fault := fsys.Add(errfs.Rule{Path: "*index", Err: syscall.EIO})
	ok(t, s.Seal())
	again := Open(NewFiles(fsys, 2), testDir, 0, s.Size())
	answers(t, "without indexes", again, all)
	fault.Off()
	answers(t, "with them", again, all)
}

// A failed call of an index that is built again leaves nothing that the next try takes for durable,
// also the name of its file.
func TestAnyFailedCallOfAnIndexOfAbortedTransactions(t *testing.T) {
	entries := []txnindex.Entry{{Producer: 7, First: 0, Last: 2, Stable: 3}}
	for _, op := range []errfs.Op{errfs.Create, errfs.Write, errfs.Datasync, errfs.SyncDir} {
		disk, fsys := faulty(t, 1)
		s, err := Create(NewFiles(fsys, 1), testDir, 0, 0)
		ok(t, err)
		ok(t, fsys.SyncDir(testDir))
		s.HoldAborted(entries)
		fsys.Add(errfs.Rule{Ops: op, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
		if err := s.InstallAborted(); err == nil {
			t.Fatalf("%v: no error", op)
		}
		ok(t, s.InstallAborted())
		got := content(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), s.AbortedPath())
		if want := txnindex.Encode(nil, entries); !bytes.Equal(got, want) {
			t.Errorf("%v: the disk has %x, want %x", op, got, want)
		}
	}
}
