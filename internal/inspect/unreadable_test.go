package inspect_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Files that the disk fails to read may be intact. They are not reported as missing and not given
// up, and if they may be the only copy, nothing is done that makes them worthless.
func TestUnreadableIsNotMissing(t *testing.T) {
	t.Parallel()
	image := used(t)
	copied := root + "/" + storage.FutureName(idOf(0))
	for name, c := range map[string]struct {
		do      func(*site)
		faulty  string
		ops     errfs.Op       // that fail; 0: open and list
		names   []inspect.Kind // findings that may be reported
		blocked bool
		lost    bool // topic a is missing
	}{
		"a partition's directory": {
			faulty: root + "/a-0", names: []inspect.Kind{inspect.Unreadable},
		},
		"a partition's directory, and it is offline": {
			do:     func(s *site) { s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Offline = "found so" }) },
			faulty: root + "/a-0", names: []inspect.Kind{inspect.LogOffline, inspect.Unreadable},
		},
		"the journal's directory": {
			do:     func(s *site) { s.remove("journal/chronik.journal") },
			faulty: root + "/journal", names: []inspect.Kind{inspect.Unreadable}, blocked: true,
		},
		"the journal's directory, and nothing else is left": {
			do: func(s *site) {
				s.remove("checkpoint")
				s.remove("checkpoint.copy")
				for _, topic := range topics {
					s.remove(topic + "-0")
				}
			},
			faulty: root + "/journal", names: []inspect.Kind{inspect.CheckpointMissing}, blocked: true,
		},
		"a partition that a move to this directory has not named yet": {
			do:     func(s *site) { s.must(s.fs.Rename(root+"/a-0", copied)) },
			faulty: copied + "/" + storage.MoveFile, ops: errfs.Stat, names: []inspect.Kind{inspect.PartitionStray, inspect.Unreadable},
		},
		"a directory that may be a partition": {
			do:     func(s *site) { s.must(s.fs.Rename(root+"/a-0", root+"/gone-0")) },
			faulty: root + "/gone-0/" + storage.PartitionFile, ops: errfs.Stat,
			names: []inspect.Kind{inspect.PartitionMissing, inspect.Unreadable}, lost: true,
		},
		"all that shows that the directory was used": {
			do: func(s *site) {
				s.remove("checkpoint")
				s.remove("checkpoint.copy")
				s.remove("journal")
			},
			faulty: root + "/*-0/" + storage.PartitionFile, ops: errfs.Stat,
			names: []inspect.Kind{inspect.CheckpointMissing, inspect.JournalMissing}, blocked: true,
		},
		"frames that were kept": {
			do: func(s *site) {
				s.quarantine("a", "a-0-3.frames")
				s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.QuarantineFile, l.LSN = "a-0-3.frames", 1<<62 })
			},
			faulty: root + "/a-0-3.frames", names: []inspect.Kind{inspect.Unreadable},
		},
		"a segment behind the checkpoint, and the journal is gone": {
			do:     func(s *site) { s.remove("journal") },
			faulty: root + "/flushed-0/*.log", names: []inspect.Kind{inspect.JournalMissing, inspect.Unreadable}, blocked: true,
		},
		"a partition's directory, and the journal is gone": {
			do:     func(s *site) { s.remove("journal") },
			faulty: root + "/flushed-0", names: []inspect.Kind{inspect.JournalMissing, inspect.Unreadable}, blocked: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := image.KillImage(3)
			if c.do != nil {
				c.do(&site{TB: t, fs: disk})
			}
			faulty := errfs.New(disk)
			faulty.Add(errfs.Rule{Ops: cmp.Or(c.ops, errfs.Open|errfs.List), Path: c.faulty, Err: syscall.EIO})
			r, err := inspect.Verify(context.Background(), inspect.Options{FS: faulty, Locations: []storage.Location{location}})
			must.OK(t, err)
			for _, f := range r.Findings {
				t.Logf("%s (%s) %s: %s; lost %v", f.Kind, f.Effect, f.File, f.Detail, f.Lost)
				if f.Effect != inspect.Heals && !slices.Contains(c.names, f.Kind) {
					t.Errorf("finding %s at %s", f.Kind, f.File)
				}
			}
			if r.Clean() {
				t.Error("nothing was found")
			}
			plan := r.Plan()
			for _, a := range plan.Acts {
				if c.blocked || a.Topic == "a" && !c.lost {
					t.Errorf("act: %s %s, loses %v", a.What, a.Topic, a.Loses)
				}
			}
			if len(plan.Left) == 0 {
				t.Error("the plan leaves nothing")
			}
		})
	}
}

// A data directory whose logs cannot be read is not one without logs: nothing is said of it. Those
// of which only a part can be read are checked.
func TestLogsThatCannotBeReadAreNotLeftOut(t *testing.T) {
	t.Parallel()
	image := dataDir(t)
	for _, c := range []struct {
		path   string
		err    error
		misses bool // the directories are not found
	}{
		{data + "/logs/*", fs.ErrPermission, true},
		{data + "/logs/*", syscall.EIO, true},
		{data + "/chronik.dir", syscall.EIO, true},
		{data + "/logs/chronik.dir", syscall.EIO, false},
		{data + "/logs/*", syscall.ENOTDIR, false},
	} {
		faulty := errfs.New(image.KillImage(3))
		faulty.Add(errfs.Rule{Ops: errfs.Stat, Path: c.path, Err: c.err})
		o, err := inspect.Find(faulty, []string{data}, nil)
		if c.misses != errors.Is(err, c.err) || err != nil && !c.misses {
			t.Errorf("%s, %v: %v", c.path, c.err, err)
		}
		if want := !errors.Is(c.err, syscall.ENOTDIR); !c.misses && (len(o.Data) != 1 || (len(o.Locations) == 1) != want) {
			t.Errorf("%s, %v: %+v", c.path, c.err, o)
		}
	}
}

// Other programs may have directories in a log directory that the broker cannot read.
func TestForeignDirectoriesMayBeUnreadable(t *testing.T) {
	t.Parallel()
	disk := used(t)
	must.OK(t, disk.MkdirAll(root+"/lost+found"))
	faulty := errfs.New(disk)
	faulty.Add(errfs.Rule{Path: root + "/lost+found/*", Err: fs.ErrPermission})
	faulty.Add(errfs.Rule{Path: root + "/lost+found", Err: fs.ErrPermission})
	for _, f := range verify(t, faulty).Findings {
		if !f.Healing() {
			t.Errorf("%s %s: %s", f.Kind, f.File, f.Detail)
		}
	}
	must.OK(t, begin(t, faulty).Close())
}
