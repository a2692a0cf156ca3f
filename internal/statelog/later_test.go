package statelog

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// begin begins a generation and returns the state that its snapshot must hold.
func (o *owner) begin(t *testing.T) (*Generation, list) {
	t.Helper()
	g, err := o.Begin()
	must(t, err)
	return g, list{append([]string(nil), o.items...)}
}

// Until Finish, the former snapshot and all logs hold every record; after it, the new files do.
func TestRecordsAreAppendedWhileASnapshotIsWritten(t *testing.T) {
	fsys := vfs.Memory()
	o := own(t, Options{FS: fsys, Dir: "/s"})
	must(t, o.add("a"))
	for i := range 3 { // of the first two, nothing is ever written
		g, at := o.begin(t)
		if _, err := o.Begin(); !errors.Is(err, errBegun) || o.ShouldRotate() {
			t.Errorf("a second snapshot begins: %v", err)
		}
		must(t, o.add(fmt.Sprint(i), "x"))
		if i < 2 {
			must(t, g.Write(at.emit))
			if err := o.Finish(g, syscall.EIO); !errors.Is(err, syscall.EIO) {
				t.Errorf("finish after a failed write: %v", err)
			}
			continue
		}
		must(t, g.Write(at.emit))
		must(t, o.add("y"))
		if got, _, err := readList(fsys, "/s"); got != "a,0,x,1,x,2,x,y" || err != nil {
			t.Errorf("before the end of the snapshot: %s, %v", got, err)
		}
		must(t, o.Finish(g, nil))
	}
	must(t, o.add("z"))
	if got, _, err := readList(fsys, "/s"); got != "a,0,x,1,x,2,x,y,z" || err != nil {
		t.Errorf("after it: %s, %v", got, err)
	}
	if all, err := fsys.List("/s"); len(all) != 2 || err != nil {
		t.Errorf("files %v, %v", all, err)
	}
	must(t, o.Close())
	must(t, own(t, Options{FS: fsys, Dir: "/s"}).Close())
}

// The snapshot that Rotate, a failure or Close makes superfluous is never renamed into place.
func TestASnapshotThatIsNotNeededIsGivenUp(t *testing.T) {
	for name, do := range map[string]func(*owner, *errfs.FS) error{
		"rotate": func(o *owner, _ *errfs.FS) error { return o.rotate() },
		"close":  func(o *owner, _ *errfs.FS) error { return o.Close() },
		"failed append": func(o *owner, fsys *errfs.FS) error {
			fsys.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.log", Count: 1, Err: syscall.EIO})
			if err := o.add("lost"); !errors.Is(err, syscall.EIO) {
				return fmt.Errorf("append: %w", err)
			}
			return nil
		},
	} {
		fsys := errfs.New(vfs.Memory())
		o := own(t, Options{FS: fsys, Dir: "/s"})
		must(t, o.add("a"))
		g, at := o.begin(t)
		must(t, o.add("b"))
		must(t, do(o, fsys))
		if err := g.Write(at.emit); name != "failed append" && !errors.Is(err, errStopped) {
			t.Errorf("%s: the snapshot is written: %v", name, err)
		}
		must(t, o.Finish(g, nil))
		if _, err := fsys.Stat(snapshotName("/s", g.id.generation)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the snapshot is there: %v", name, err)
		}
		if _, err := fsys.Stat(snapshotName("/s", g.id.generation) + suffixTmp); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: its temporary file is there: %v", name, err)
		}
		o = own(t, Options{FS: fsys, Dir: "/s"})
		if got := o.String(); got != "a,b" && (name != "failed append" || got != "a,b,lost") {
			t.Errorf("%s: holds %s", name, got)
		}
	}
}

// A snapshot that can't be written is no failure of the log.
func TestAFailedSnapshotCostsNothing(t *testing.T) {
	for _, rule := range []errfs.Rule{
		{Ops: errfs.Create, Path: "*.log"}, {Ops: errfs.Datasync, Path: "*.log"}, {Ops: errfs.SyncDir, Path: "/s"},
		{Ops: errfs.Create, Path: "*.tmp"}, {Ops: errfs.Write, Path: "*.tmp"}, {Ops: errfs.Datasync, Path: "*.tmp"},
		{Ops: errfs.Rename}, {Ops: errfs.SyncDir, Path: "/s", From: 2},
	} {
		fsys := errfs.New(vfs.Memory())
		o := own(t, Options{FS: fsys, Dir: "/s"})
		must(t, o.add("a"))
		rule.Err, rule.Count = syscall.ENOSPC, 1
		fsys.Add(rule)
		g, err := o.Begin()
		if err == nil {
			err = o.Finish(g, g.Write(o.emit))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%+v: %v", rule, err)
		}
		must(t, o.add("b"))
		if got, _, err := readList(fsys, "/s"); got != "a,b" || err != nil {
			t.Errorf("%+v: %s, %v", rule, got, err)
		}
		g, at := o.begin(t)
		must(t, o.add("c"))
		must(t, o.Finish(g, g.Write(at.emit)))
		if all, err := fsys.List("/s"); len(all) != 2 || err != nil {
			t.Errorf("%+v leaves %v, %v", rule, all, err)
		}
		if got, _, err := readList(fsys, "/s"); got != "a,b,c" || err != nil {
			t.Errorf("%+v: %s, %v", rule, got, err)
		}
	}
}

// Logs that continue each other must all be there, whole and in order.
func TestDamageInLogsThatContinueEachOther(t *testing.T) {
	build := func() vfs.FS {
		fsys := vfs.Memory()
		o := own(t, Options{FS: fsys, Dir: "/s"})
		for _, item := range []string{"a", "b", "c"} {
			must(t, o.add(item))
			if item < "c" {
				g, _ := o.begin(t)
				_ = o.Finish(g, syscall.EIO) // what it was given
			}
		}
		return fsys
	}
	edit := func(name string, change func([]byte) []byte) func(vfs.FS) error {
		return func(fsys vfs.FS) error {
			p, err := vfs.ReadFile(fsys, name)
			must(t, err)
			return vfs.WriteFile(fsys, name, change(p), true)
		}
	}
	cut := func(p []byte) []byte { return p[:len(p)-1] }
	for what, c := range map[string]struct {
		harm func(vfs.FS) error
		file string // that is named; empty: no damage
		want string
	}{
		"none":               {func(vfs.FS) error { return nil }, "", "a,b,c"},
		"torn newest log":    {edit(logName("/s", 3), cut), "", "a,b"},
		"torn first log":     {edit(logName("/s", 1), cut), logName("/s", 1), ""},
		"torn second log":    {edit(logName("/s", 2), cut), logName("/s", 2), ""},
		"no first log":       {func(fsys vfs.FS) error { return fsys.Remove(logName("/s", 1)) }, logName("/s", 1), ""},
		"no second log":      {func(fsys vfs.FS) error { return fsys.Remove(logName("/s", 2)) }, logName("/s", 3), ""},
		"snapshot gone":      {func(fsys vfs.FS) error { return fsys.Remove(snapshotName("/s", 1)) }, snapshotName("/s", 1), ""},
		"not a continuation": {edit(logName("/s", 3), notContinuing), snapshotName("/s", 3), ""},
		"header of the second log": {edit(logName("/s", 2), func(p []byte) []byte { p[9] ^= 1; return p }),
			logName("/s", 2), ""},
	} {
		fsys := build()
		must(t, c.harm(fsys))
		got, _, err := readList(fsys, "/s")
		var d *Damage
		switch {
		case c.file == "" && (err != nil || got != c.want):
			t.Errorf("%s: %s, %v; want %s", what, got, err, c.want)
		case c.file != "" && (!errors.As(err, &d) || d.File != c.file):
			t.Errorf("%s: %v, want damage of %s", what, err, c.file)
		}
	}
}

// notContinuing clears the flag in the header of a log.
func notContinuing(p []byte) []byte {
	id, err := testFormat.parseHeader(p, kindLog)
	if err != nil {
		panic(err)
	}
	return append(testFormat.header(id, kindLog, 0), p[headerSize:]...)
}
