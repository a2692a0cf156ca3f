package statelog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

var testFormat = Format{Name: "list", Magic: "testlist", Version: 1}

// list is a state in which every record is an item.
type list struct{ items []string }

func (l *list) Load(record []byte) error { l.items = append(l.items, string(record)); return nil }

func (l *list) Apply(sequence uint64, record []byte) error {
	if sequence != uint64(len(l.items)+1) {
		return fmt.Errorf("record %d follows %d items", sequence, len(l.items))
	}
	return l.Load(record)
}

func (l *list) emit(emit Emit) error {
	for _, item := range l.items {
		if err := emit([]byte(item)); err != nil {
			return err
		}
	}
	return nil
}

func (l *list) String() string { return strings.Join(l.items, ",") }

// owner is a log with the state of its owner.
type owner struct {
	*Log
	list

	// later: each snapshot is written after the next Append, and is finished after another one.
	later   bool
	begun   *Generation
	written bool
	at      list // the state that it holds
}

func tryOwn(opts Options) (*owner, error) {
	o := &owner{}
	if opts.Format.Name == "" {
		opts.Format = testFormat
	}
	var err error
	if o.Log, _, err = Open(opts, &o.list); err == nil {
		err = o.rotate()
	}
	return o, err
}

func own(t testing.TB, opts Options) *owner {
	t.Helper()
	o, err := tryOwn(opts)
	must(t, err)
	return o
}

func (o *owner) rotate() error { return o.Rotate(o.emit) }

// add appends items in one call and rotates if that is due.
func (o *owner) add(items ...string) error {
	var records [][]byte
	for _, item := range items {
		records = append(records, []byte(item))
	}
	if err := o.Append(records...); err != nil {
		return err
	}
	o.items = append(o.items, items...)
	switch {
	case o.begun != nil && !o.written:
		o.written = true
		return o.begun.Write(o.at.emit)
	case o.begun != nil:
		g := o.begun
		o.begun, o.written = nil, false
		return o.Finish(g, nil)
	case !o.ShouldRotate():
		return nil
	case !o.later:
		return o.rotate()
	}
	o.at = list{slices.Clone(o.items)}
	var err error
	o.begun, err = o.Begin()
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readList(fsys vfs.FS, dir string) (string, Content, error) {
	var l list
	c, err := Read(fsys, dir, testFormat, &l)
	return l.String(), c, err
}

func TestAnAppendedRecordIsThereAfterReopening(t *testing.T) {
	fsys := vfs.Memory()
	for i := range 4 {
		o := own(t, Options{FS: fsys, Dir: "/s"})
		must(t, o.add(fmt.Sprint(2*i), fmt.Sprint(2*i+1)))
		must(t, o.Close())
	}
	got, c, err := readList(fsys, "/s")
	if want := "0,1,2,3,4,5,6,7"; got != want || err != nil || c.Sequence != 8 || c.Torn != 0 {
		t.Errorf("%s, %+v, %v; want %s", got, c, err, want)
	}
}

func TestNothingIsAppendedBeforeTheFirstRotate(t *testing.T) {
	fsys := crashfs.New(1)
	l, _, err := Open(Options{FS: fsys, Dir: "/s", Format: testFormat}, &list{})
	must(t, err)
	if err := l.Append([]byte("a")); !errors.Is(err, errNotBegun) || l.failed == nil {
		t.Errorf("append before the first rotate: %v", err)
	}
	must(t, l.Close())
	if fsys.Ops() != 0 {
		t.Errorf("open and close changed the file system %d times", fsys.Ops())
	}
}

func TestAGenerationIsDueWhenTheLogExceedsItsLimitAndItsSnapshot(t *testing.T) {
	o := own(t, Options{FS: vfs.Memory(), Dir: "/s", CompactBytes: 200})
	rotations := 0
	for range 100 {
		must(t, o.Append(make([]byte, 76))) // 101 bytes with its length and the frame's header
		o.items = append(o.items, string(make([]byte, 76)))
		log, snapshot := o.end, o.snapshot
		if due := log > 200 && log > snapshot; o.ShouldRotate() != due {
			t.Fatalf("log of %d bytes, snapshot of %d: due is %v", log, snapshot, !due)
		}
		if o.ShouldRotate() {
			rotations++
			must(t, o.rotate())
		}
	}
	if rotations < 3 || rotations > 10 {
		t.Errorf("%d rotations for 100 records, want a number that grows with the logarithm", rotations)
	}
}

// A snapshot is written and read in frames of about 1 MiB, whatever its size.
func TestALargeSnapshotIsDividedIntoFrames(t *testing.T) {
	fsys := vfs.Memory()
	o := own(t, Options{FS: fsys, Dir: "/s"})
	for i := range 50 {
		o.items = append(o.items, strings.Repeat(string(rune('a'+i)), 100<<10))
	}
	o.items = append(o.items, strings.Repeat("x", 3<<20), "")
	must(t, o.rotate())
	r, err := openReader(fsys, snapshotName("/s", 2), &testFormat, kindSnapshot)
	must(t, err)
	defer r.close()
	frames := 0
	for r.off < r.in.Size {
		f, ok, err := r.next()
		if err != nil || !ok {
			t.Fatalf("frame %d: %v", frames, err)
		}
		frames++
		if len(f.payload) > 4*chunkSize+200 {
			t.Errorf("frame of %d bytes", len(f.payload))
		}
	}
	if frames < 6 {
		t.Errorf("%d frames for 8 MiB", frames)
	}
	if got, _, err := readList(fsys, "/s"); err != nil || got != o.String() {
		t.Errorf("%d bytes come back, %v; want %d", len(got), err, len(o.String()))
	}
}

func TestTooLargeRecordsAreRejectedBeforeTheyAreWritten(t *testing.T) {
	o := own(t, Options{FS: vfs.Memory(), Dir: "/s"})
	huge := make([]byte, maxRecords+1)
	if err := o.Append([]byte("a"), huge[1:]); !errors.Is(err, ErrTooLarge) {
		t.Errorf("append: %v", err)
	}
	must(t, o.add("a"))
	if err := o.Rotate(func(emit Emit) error { return emit(huge) }); !errors.Is(err, ErrTooLarge) {
		t.Errorf("rotate: %v", err)
	}
	must(t, o.rotate())
	must(t, o.add("b"))
}

func TestAFailedWriteEndsTheGeneration(t *testing.T) {
	for _, op := range []errfs.Op{errfs.Write, errfs.Datasync} {
		for _, file := range []string{"/s/*.log", "/copy/*.log"} {
			fsys := errfs.New(vfs.Memory())
			o := own(t, Options{FS: fsys, Dir: "/s", Mirror: "/copy"})
			must(t, o.add("a"))
			fsys.Add(errfs.Rule{Ops: op, Path: file, Count: 1, Short: 3, Err: syscall.EIO})
			if err := o.add("lost"); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%v of %s: %v", op, file, err)
			}
			if err := o.add("b"); !errors.Is(err, syscall.EIO) || !errors.Is(o.failed, syscall.EIO) {
				t.Errorf("append after a failed %v of %s: %v", op, file, err)
			}
			must(t, o.rotate())
			must(t, o.add("c"))
			must(t, o.Close())
			for _, dir := range []string{"/s", "/copy"} {
				if got, c, err := readList(fsys, dir); got != "a,c" || err != nil || c.Sequence != 2 {
					t.Errorf("after a failed %v of %s %s holds %s, %+v, %v", op, file, dir, got, c, err)
				}
			}
		}
	}
}

// A closed log that failed has no clean-stop frame: its end is unknown.
func TestAFailedLogHasNoCleanStopFrame(t *testing.T) {
	fsys := errfs.New(vfs.Memory())
	o := own(t, Options{FS: fsys, Dir: "/s"})
	fsys.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.log", Count: 1, Err: syscall.EIO})
	_ = o.add("a")
	before := o.end
	must(t, o.Close())
	if in, err := fsys.Stat(logName("/s", 1)); err != nil || in.Size != before {
		t.Errorf("%d bytes after close, %d before, %v", in.Size, before, err)
	}
	if err := o.Append([]byte("b")); err == nil {
		t.Error("append to a closed log succeeded")
	}
}

// Attempts to begin a generation must not fill a full disk further.
func TestAFailedRotateLeavesNoFiles(t *testing.T) {
	for _, rule := range []errfs.Rule{
		{Ops: errfs.Create, Path: "*.log"}, {Ops: errfs.Write, Path: "*.log"},
		{Ops: errfs.Write, Path: "/copy/*.tmp"}, {Ops: errfs.Datasync, Path: "*.tmp"},
	} {
		fsys := errfs.New(vfs.Memory())
		o := own(t, Options{FS: fsys, Dir: "/s", Mirror: "/copy"})
		must(t, o.add("a"))
		rule.Err, rule.Count = syscall.ENOSPC, 3
		fsys.Add(rule)
		for range 3 {
			if err := o.rotate(); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%+v: %v", rule, err)
			}
			for _, dir := range []string{"/s", "/copy"} {
				if all, err := fsys.List(dir); len(all) != 2 || err != nil {
					t.Errorf("%+v leaves %v in %s", rule, all, dir)
				}
			}
		}
		must(t, o.rotate())
		must(t, o.add("b"))
		if got, _, err := readList(fsys, "/s"); got != "a,b" || err != nil {
			t.Errorf("%+v: %s, %v", rule, got, err)
		}
	}
}

// After a crash, either the new or the old generation is current: neither may be continued.
func TestAFailedRotateEndsTheGeneration(t *testing.T) {
	for _, rule := range []errfs.Rule{
		{Ops: errfs.Rename}, {Ops: errfs.SyncDir, Path: "/s", From: 2}, {Ops: errfs.SyncDir, Path: "/copy", From: 2},
	} {
		fsys := errfs.New(vfs.Memory())
		o := own(t, Options{FS: fsys, Dir: "/s", Mirror: "/copy"})
		must(t, o.add("a"))
		rule.Err, rule.Count = syscall.EIO, 1
		fsys.Add(rule)
		if err := o.rotate(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("%+v: %v", rule, err)
		}
		if err := o.Append([]byte("lost")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%+v: append after a failed rotate: %v", rule, err)
		}
		if got, _, err := readList(fsys, "/s"); got != "a" || err != nil {
			t.Errorf("%+v: %s, %v", rule, got, err)
		}
		must(t, o.rotate())
		must(t, o.add("b"))
		if got, _, err := readList(fsys, "/copy"); got != "a,b" || err != nil {
			t.Errorf("%+v: the mirror holds %s, %v", rule, got, err)
		}
	}
}

func TestAnErrorOfReadingIsNotDamage(t *testing.T) {
	for _, suffix := range []string{suffixSnapshot, suffixLog} {
		fsys := errfs.New(vfs.Memory())
		must(t, own(t, Options{FS: fsys, Dir: "/s"}).add("a"))
		fsys.Add(errfs.Rule{Ops: errfs.Read, Path: "*" + suffix, Err: syscall.EIO})
		if _, err := tryOwn(Options{FS: fsys, Dir: "/s"}); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s can't be read: %v", suffix, err)
		}
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	fsys := vfs.Memory()
	must(t, own(t, Options{FS: fsys, Dir: "/s"}).add("a"))
	names := []string{"lost+found", "000000000000000g.log", "0000000000000003.snapshot.bak", "00000000000000AA.log"}
	for _, name := range names {
		writeFile(t, fsys, path.Join("/s", name), []byte("x"))
	}
	o := own(t, Options{FS: fsys, Dir: "/s"})
	if all, err := fsys.List("/s"); len(all) != 2+len(names) || err != nil || o.String() != "a" {
		t.Errorf("%s with the files %v, %v", o.String(), all, err)
	}
}

func writeFile(t testing.TB, fsys vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt(content, 0)
	must(t, err)
	must(t, f.Close())
}
