package storage

import (
	"errors"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// unreadIDs returns a manager over filled whose disk refuses, count times, to open the file that
// says to which topic a partition directory belongs.
func unreadIDs(t *testing.T, count int) (disk *crashfs.FS, m *Manager, fault *errfs.Fault) {
	t.Helper()
	disk = filled(t)
	errs := errfs.New(disk)
	m = mustManage(t, errs)
	fault = errs.Add(errfs.Rule{Ops: errfs.Open, Path: PartitionFile, Err: syscall.EMFILE, Count: count})
	return disk, m, fault
}

// A log is to be replaced, and the disk does not return whose the directory is. Nothing of it is
// removed, and the next attempt keeps all of it.
func TestALogIsNotRemovedBecauseItsTopicIDCannotBeRead(t *testing.T) {
	disk, m, fault := unreadIDs(t, 1)
	l := m.Get(theLog)
	before := namesIn(t, disk, l.path, "0")
	if err := m.Replace(theLog); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("replaced: %v, after %d faults", err, fault.Hits())
	}
	if after := namesIn(t, disk, l.path, "0"); after != before {
		t.Errorf("the files of the log are %s, and were %s", after, before)
	}
	must(t, m.Replace(theLog))
	files := path.Join(l.dir.path, replacedName(theLog, 0))
	if after := namesIn(t, disk, files, "0"); after != before || len(m.Replaced()) != 1 {
		t.Errorf("set aside are %s, the log had %s", after, before)
	}
}

// A deletion whose directory may be the log's has failed. It is completed by the next attempt, by
// the creation of another log with the name, or by a start; no files become a stray.
func TestADeletionWhoseTopicIDCannotBeReadIsTriedAgain(t *testing.T) {
	for what, again := range map[string]func(*Manager, *Dir) error{
		"the next attempt": func(m *Manager, _ *Dir) error { return m.Delete(theLog) },
		"another log": func(m *Manager, d *Dir) error {
			specs := specsOf('t', 1)
			specs[0].ID.Topic[0] = 'u'
			if _, err := m.CreateIn(d, specs); !errors.Is(err, syscall.EMFILE) {
				t.Errorf("the first creation: %v", err)
			}
			_, err := m.CreateIn(d, specs)
			return errors.Join(err, m.Delete(specs[0].ID))
		},
		"a start": func(*Manager, *Dir) error { return nil },
	} {
		count := 1
		if what == "another log" {
			count = 2
		}
		disk, m, fault := unreadIDs(t, count)
		l := m.Get(theLog)
		if err := m.Delete(theLog); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: deleted: %v", what, err)
		}
		must(t, again(m, l.dir))
		must(t, m.Close())
		m = mustManage(t, disk)
		must(t, m.Close())
		if names := namesIn(t, disk, l.dir.path, "-"); names != "" || m.Get(theLog) != nil || fault.Hits() != count {
			t.Errorf("%s: left are %s, after %d faults", what, names, fault.Hits())
		}
	}
}

// A disk that never returns whose directory it is does not prevent another log with its name.
func TestADirectoryWithoutAReadableTopicIDIsSetAside(t *testing.T) {
	disk := filled(t)
	errs := errfs.New(disk)
	m := mustManage(t, errs)
	d := m.Get(theLog).dir
	fault := errs.Add(errfs.Rule{Ops: errfs.Open, Path: PartitionFile, Err: syscall.EIO})
	if err := m.Delete(theLog); !errors.Is(err, syscall.EIO) {
		t.Errorf("deleted: %v", err)
	}
	specs := specsOf('t', 1)
	specs[0].ID.Topic[0] = 'u'
	_, err := m.CreateIn(d, specs)
	must(t, err)
	fault.Off()
	if names := namesIn(t, disk, d.path, "-"); !strings.Contains(names, "stray") {
		t.Errorf("there are %s", names)
	}
}

// The files of a log that has moved away are removed, although at first the disk does not say that
// they are the log's.
func TestAMovedLogWhoseTopicIDCannotBeReadIsRemovedLater(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	m, l := movable(t, errs, testConfig("sync"))
	put(t, l, 5, 100)
	fault := errs.Add(errfs.Rule{Ops: errfs.Open, Path: "/a/t-0/" + PartitionFile, Err: syscall.EMFILE, Count: 1})
	movesTo(t, m, m.dirs[1])
	must(t, m.Close())
	m = mustManage(t, disk)
	must(t, m.Close())
	if left := namesIn(t, disk, "/a", "-"); left != "" || fault.Hits() != 1 {
		t.Errorf("the source has %s, after %d faults", left, fault.Hits())
	}
}
