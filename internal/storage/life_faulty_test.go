package storage

import (
	"context"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A log that another directory could not take over is in none of the lists. Otherwise a partition
// would count as damaged after its log was replaced by a whole one.
func TestAFailedTakeoverLeavesNoLog(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	m, l := movable(t, errs, testConfig("sync"))
	put(t, l, 3, 100)
	ok(t, transact(l, inTxn(t, 1, 0, 0, 500)))
	l.Lacks("test")
	must(t, m.BeginMove(context.Background(), scriptID, m.dirs[1]))
	fault := errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/b/checkpoint/*", Err: syscall.EIO})
	for range 3 {
		if _, err := m.RunMove(context.Background(), scriptID); err == nil {
			t.Fatal("the checkpoint was written")
		}
		if all := m.Faulty(); len(all) != 0 {
			t.Errorf("while no directory has the log: %v", all)
		}
	}
	fault.Off()
	now := ran(t, m)
	for what, all := range map[string][]*Log{"faulty": m.Faulty(), "flawed": m.Flawed(), "unstable": m.Unstable()} {
		if len(all) != 1 || all[0] != now {
			t.Errorf("%s: %v, want the log that has moved", what, all)
		}
	}
	must(t, m.Replace(scriptID))
	if _, err := m.Create([]Spec{{ID: scriptID, Topic: "t", Config: testConfig("sync")}}); err != nil {
		t.Fatal(err)
	}
	if all := m.Faulty(); len(all) != 0 {
		t.Errorf("after it was replaced: %v", all)
	}
	must(t, m.Close())
}

// A damaged log that is to be replaced counts as damaged until it is.
func TestALogThatCannotBeReplacedIsFlawed(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	m, l := movable(t, errs, testConfig("sync"))
	put(t, l, 3, 100)
	l.Lacks("test")
	fault := errs.Add(errfs.Rule{Ops: errfs.Rename, Path: l.path, Err: syscall.EIO})
	if err := m.Replace(scriptID); err == nil {
		t.Fatal("it was replaced")
	}
	if all := m.Flawed(); len(all) != 1 || all[0] != l {
		t.Errorf("flawed: %v", all)
	}
	fault.Off()
	must(t, m.Replace(scriptID))
	if all := m.Flawed(); len(all) != 0 {
		t.Errorf("after it was replaced: %v", all)
	}
	must(t, m.Close())
}

// A log may be named and forgotten before its directory holds it.
func TestADirectoryFindsTheLogsThatItBeginsToHold(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := newLog(d, scriptID, "t", testConfig("sync"))
	l.partial.Store(true)
	d.suspects.Name(l)
	l.unstable.first.Store(5)
	d.unstable.Name(l)
	if n := len(d.Faulty()) + len(d.Unstable()); n != 0 {
		t.Errorf("found %d times before", n)
	}
	buried := d.add([]*Log{l})
	if len(d.Flawed()) != 1 || len(d.Unstable()) != 1 {
		t.Errorf("found %v and %v", d.Flawed(), d.Unstable())
	}
	d.forget([]*Log{l}, buried)
}
