package storage

import (
	"errors"
	"fmt"
	"path"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// theLog is the log that is replaced: partition 0 of filled, which is in /a or /b.
var theLog = ID{Topic: [16]byte{'t'}}

var small = func() []byte {
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(1, nil, []byte("v"), nil)
	p, err := b.Build()
	if err != nil {
		panic(err)
	}
	return p
}()

// renew replaces a log, and makes it again with one batch. It reports in made whether the new log
// is durable with its record. The disk dies during a call.
func renew(f *crashfs.FS, call int, made *bool) error {
	m, err := openManager(f)
	if err != nil {
		return err
	}
	defer m.Close()
	f.CrashDuring(f.Ops() + call)
	l := m.Get(theLog)
	if err := m.Replace(theLog); err != nil {
		return err
	}
	logs, err := m.CreateIn(l.Dir(), specsOf('t', 1))
	if err != nil {
		return err
	}
	if a := send(lead(logs...)[0], small); a.Err != nil {
		return a.Err
	}
	if err := logs[0].flushAll(); err != nil || logs[0].Ends().Durable < 1 {
		return fmt.Errorf("the record is not durable: %w", err)
	}
	*made = true
	m.RemoveReplaced(m.Replaced()...)
	return nil
}

// afterRenewal checks what a start finds after a crash in renew, with three possible states: the
// log as it was; none, and what was replaced; or the new log with its record.
func afterRenewal(image *crashfs.FS, made bool) error {
	m, err := openManager(image)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, d := range m.Dirs() {
		if err := d.Err(); err != nil {
			return err
		}
	}
	l, former := m.Get(theLog), m.Replaced()
	kept := 0
	for _, a := range former {
		infos, err := image.List(path.Join(a.dir.path, replacedName(a.ID, a.Epoch)))
		if err != nil || a.ID != theLog {
			return fmt.Errorf("replaced: %v, %w", a.ID, err)
		}
		kept += len(infos)
	}
	switch {
	case l == nil && kept == 0:
		return errors.New("neither a log nor one that was replaced")
	case l == nil: // the log is made
		if made {
			return errors.New("the new log is gone")
		}
		if err := m.Replace(theLog); err != nil {
			return err
		}
		if _, err := m.CreateIn(m.Dirs()[0], specsOf('t', 1)); err != nil {
			return err
		}
		if len(m.Replaced()) != 1 {
			return fmt.Errorf("%d logs are replaced", len(m.Replaced()))
		}
		return nil
	case l.Flaw() != nil:
		return l.Flaw()
	case l.Ends().LogEnd == 3 && kept == 0 && !made: // nothing has happened yet
		return nil
	case made && l.Ends().LogEnd != 1, !made && kept == 0:
		return fmt.Errorf("the log is %+v, %d files are replaced", l.Ends(), kept)
	}
	return nil
}

// TestPowerLossWhileALogIsReplaced kills the process, or cuts the power, at every call while a
// log is replaced and made again. What the log had stays on the disk until there is a new one.
func TestPowerLossWhileALogIsReplaced(t *testing.T) {
	t.Parallel()
	start := filled(t)
	for call := 1; ; call += points(5) {
		f := start.KillImage(1)
		made := false
		if err := renew(f, call, &made); err != nil && !f.Crashed() {
			t.Fatalf("call %d: %v", call, err)
		}
		for i, image := range images(f, uint64(call)) {
			if err := afterRenewal(image, made); err != nil {
				t.Fatalf("call %d, image %d: %v", call, i, err)
			}
		}
		if !f.Crashed() {
			return
		}
	}
}

// The files of a replaced log stay over restarts, until they are removed, or the log is deleted.
func TestFilesOfAReplacedLogStayUntilTheyAreRemoved(t *testing.T) {
	for name, end := range map[string]func(*Manager) error{
		"removed": func(m *Manager) error { m.RemoveReplaced(m.Replaced()...); return nil },
		"deleted": func(m *Manager) error { return m.Delete(theLog) },
	} {
		disk := filled(t)
		m := mustManage(t, disk)
		at := m.Get(theLog).Dir()
		if err := m.Replace(theLog, theLog); err != nil || m.Get(theLog) != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := m.Replace(theLog); err != nil {
			t.Errorf("%s: once more: %v", name, err)
		}
		files := path.Join(at.Path(), replacedName(theLog, 0))
		for range 2 {
			must(t, m.Close())
			m = mustManage(t, disk)
			if all := m.Replaced(); len(all) != 1 || all[0].ID != theLog || all[0].Bytes == 0 || m.Get(theLog) != nil {
				t.Fatalf("%s: after a start: %+v", name, all)
			}
			if own, err := Belongs(disk, files, theLog); !own || err != nil {
				t.Errorf("%s: %s is gone", name, files)
			}
		}
		if _, err := m.CreateIn(m.Dirs()[0], specsOf('t', 1)); err != nil {
			t.Fatal(err)
		}
		must(t, end(m))
		must(t, m.Close())
		if _, err := disk.Stat(files); err == nil || len(mustManage(t, disk).Replaced()) != 0 {
			t.Errorf("%s: what was replaced is still there", name)
		}
	}
}

// A log is replaced whose records are in a file of quarantined frames, and the disk refuses to move
// that file at first. The file is kept with the others.
func TestQuarantinedFramesAreKeptWithAReplacedLog(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 5, 1000)
	must(t, l.flush())
	errs.Add(errfs.Rule{Ops: errfs.Datasync | errfs.Create, Path: "/d/t-0/*.log", Err: syscall.EIO})
	_ = l.flushAndSync()
	eventually(t, "the log is quarantined", l.isQuarantined)
	entry, _ := l.checkpointed(true)
	errs.Add(errfs.Rule{Ops: errfs.Rename, Path: "*.frames", Err: syscall.EIO, Count: 1})
	if err := d.remove([]*Log{l}, true); !errors.Is(err, syscall.EIO) {
		t.Fatalf("replaced: %v", err)
	}
	must(t, d.remove([]*Log{l}, true))
	if _, err := disk.Stat(path.Join(d.path, replacedName(l.id, max(l.LeaderEpoch(), 0)), entry.QuarantineFile)); err != nil {
		t.Error(err)
	}
}

// A log without its files, or with damaged ones, has a flaw, and so has one of which a read has
// found a damaged range.
func TestALogThatLacksRecordsHasAFlaw(t *testing.T) {
	whole := served(t, "sync")
	for name, harm := range map[string]func(fsys *crashfs.FS){
		"nothing":   func(*crashfs.FS) {},
		"directory": func(fsys *crashfs.FS) { _ = fsys.RemoveAll(path.Dir(firstSegment)) },
		"segment":   func(fsys *crashfs.FS) { _ = fsys.Remove(firstSegment) },
		"short": func(fsys *crashfs.FS) {
			f, _ := fsys.Open(firstSegment)
			_ = f.Truncate(100)
			_ = f.Close()
		},
		"bytes": func(fsys *crashfs.FS) { change(t, fsys, firstSegment, 200, []byte("wrong")) },
	} {
		image := whole.KillImage(1)
		harm(image)
		d := mustOpen(t, image, "sync")
		l := byPartition(t, d, 0)
		if name == "bytes" {
			if s, err := l.Read(0, 20, 1, true); err == nil {
				s.Release()
				t.Fatal("a read of damaged bytes succeeds")
			}
		}
		if flawed := d.Flawed(); (l.Flaw() != nil) != (name != "nothing") || (len(flawed) == 1) != (name != "nothing") {
			t.Errorf("%s: %v, %v", name, l.Flaw(), flawed)
		}
	}
}

// A follower's start waits for a disk, and another leader is elected. The start does not remove
// what other records have these offsets.
func TestAStartOfAFormerLeaderDoesNotMove(t *testing.T) {
	if wrong := outlivesLeader(t, broken{}); wrong != "" {
		t.Error(wrong)
	}
}

func outlivesLeader(t *testing.T, b broken) (wrong string) {
	l := withRules(t, b)
	if a := appendFrame(l, Append{Batches: at(t, 0, 1, 1, 1, 1)}); a.Err != nil {
		t.Fatal(a.Err)
	}
	l.SetLeaderEpoch(followEpoch+1, false)
	moves := []StartMove{{Log: l, To: 2, Only: Only{Is: true, Epoch: followEpoch}}}
	l.Dir().MoveStarts(moves)
	if !errors.Is(moves[0].Err, ErrFencedEpoch) || l.Ends().LogStart != 0 {
		return fmt.Sprintf("the start of a former epoch: %v, %+v", moves[0].Err, l.Ends())
	}
	moves = []StartMove{{Log: l, To: 2, Only: Only{Is: true, Epoch: followEpoch + 1}}}
	if l.Dir().MoveStarts(moves); moves[0].Err != nil || l.Ends().LogStart != 2 {
		return fmt.Sprintf("the start of the present epoch: %v, %+v", moves[0].Err, l.Ends())
	}
	return ""
}

// The metadata is older than a log, and a new topic has the name of its topic. The log's files are
// kept under another name, with the records that only the journal had, and none is of both logs.
func TestALogOfAnotherTopicWithItsNameIsSetAside(t *testing.T) {
	t.Run("at once", func(t *testing.T) { quarantineNamesake(t, errfs.Rule{}) })
	t.Run("after a full disk", func(t *testing.T) {
		quarantineNamesake(t, errfs.Rule{Ops: errfs.Write, Path: "/*/checkpoint/*", Err: syscall.ENOSPC, Count: 3})
	})
	t.Run("after a failed rename", func(t *testing.T) {
		quarantineNamesake(t, errfs.Rule{Ops: errfs.Rename, Path: "*-replaced", Err: syscall.EIO, Count: 1})
	})
	t.Run("after the disk does not say whether it has the name", func(t *testing.T) {
		for n := 1; n <= 2; n++ {
			quarantineNamesake(t, errfs.Rule{Ops: errfs.Stat, Path: "/a/a-0", Err: syscall.EMFILE, Count: n})
		}
	})
	t.Run("after the disk does not say whose name it is", func(t *testing.T) {
		quarantineNamesake(t, errfs.Rule{Ops: errfs.Open, Path: "/a/a-0/" + PartitionFile, Err: syscall.EMFILE, Count: 1})
	})
}

func quarantineNamesake(t *testing.T, fault errfs.Rule) {
	t.Helper()
	disk := crashfs.New(1)
	faulty := errfs.New(disk)
	m := mustManage(t, faulty)
	specs := specsOf('a', 1)
	former, err := m.CreateIn(m.Dirs()[0], specs)
	must(t, err)
	if a := send(lead(former...)[0], small); a.Err != nil {
		t.Fatal(a.Err)
	}
	specs[0].ID.Topic[0] = 'b'
	var logs []*Log
	if fault.Err == nil {
		logs, err = m.CreateIn(m.Dirs()[0], specs)
	} else {
		f := faulty.Add(fault)
		for n := 0; len(logs) == 0 && n < 10; n++ {
			logs, err = m.CreateIn(m.Dirs()[0], specs)
		}
		if f.Hits() == 0 {
			t.Fatal("nothing failed")
		}
	}
	must(t, err)
	for _, l := range m.Logs() {
		if l.Offline() != nil {
			t.Errorf("%s of %x: %v", l, l.ID().Topic, l.Offline())
		}
	}
	for range 2 {
		if a := send(lead(logs...)[0], small); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	must(t, m.Close())
	m = mustManage(t, disk.Kill())
	if l := m.Get(specs[0].ID); l == nil || l.Offline() != nil || l.Ends().LogEnd != 2 {
		t.Errorf("the log of the new topic: %v", l)
	}
	id := ID{Topic: [16]byte{'a'}}
	list := m.Replaced()
	if len(list) != 1 || list[0].ID != id || list[0].Bytes < int64(len(small)) || m.Get(id) != nil {
		t.Fatalf("set aside: %+v", list)
	}
	for _, l := range m.Logs() {
		if l.Offline() != nil {
			t.Errorf("%s: %v", l, l.Offline())
		}
	}
}
