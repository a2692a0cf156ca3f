package storage

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// mixed gives some logs another profile, so that recovery has both frames to replay and files to
// scan.
func mixed(o *Options) {
	o.Config = func(_ string, id ID) Config { return testConfig(mixedProfile(id)) }
}

func mixedProfile(id ID) string {
	if id.Partition%4 == 3 {
		return "os"
	}
	return "sync"
}

// killedWithWork returns the directory of a killed process, with logs of both kinds and n records
// each, partly in segments and partly in the journal.
func killedWithWork(t *testing.T, logs int) (live *crashfs.FS, n int64) {
	t.Helper()
	live = crashfs.New(1)
	d := mustOpen(t, live, "sync", mixed)
	specs := make([]Spec, logs)
	for i := range specs {
		id := ID{Topic: [16]byte{1}, Partition: int32(i)}
		specs[i] = Spec{ID: id, Topic: "t", Config: testConfig(mixedProfile(id))}
	}
	made, err := d.Create(specs)
	must(t, err)
	for round := range 2 {
		for _, l := range made {
			put(t, l, 2, 100)
		}
		if round == 0 {
			_, err := d.allDrained()
			must(t, errors.Join(err, d.checkpoint(nil)))
		}
	}
	return live, 4
}

// meter counts the queries and changes of a recovery, and interrupts it.
type meter struct {
	asked, changed atomic.Int64
	due            func(asked, changed int64) bool
	late           atomic.Int64 // changes since the interruption was due
}

func (m *meter) interrupt(o *Options) {
	o.Interrupted = func() error {
		if m.due(m.asked.Add(1), m.changed.Load()) {
			return context.Canceled
		}
		return nil
	}
}

func (m *meter) on(disk vfs.FS) vfs.FS {
	watched := errfs.New(disk)
	watched.Add(errfs.Rule{Ops: errfs.Write | errfs.Create | errfs.Datasync | errfs.Rename | errfs.Remove | errfs.Truncate,
		When: func(errfs.Call) bool {
			if m.due(m.asked.Load(), m.changed.Add(1)) {
				m.late.Add(1)
			}
			return false
		}})
	return watched
}

// A recovery that is interrupted at any point ends within the current step, with the caller's
// error. The lock is released, nothing runs any more, and the next start has everything, even after
// a power loss.
func TestARecoveryCanBeInterruptedAnywhere(t *testing.T) {
	const logs = 12
	live, n := killedWithWork(t, logs)
	for name, by := range map[string]struct {
		due   func(at int64) func(asked, changed int64) bool
		least int64 // minimum number of points at which it can be interrupted
		late  int64 // changes that it may still make
	}{
		"when it asks": {func(at int64) func(int64, int64) bool { return func(asked, _ int64) bool { return asked >= at } }, 4 * logs, 4},
		// A step writes one log to its segment, or one checkpoint with its copy: up to 20 calls
		// after the first. The mark at the end of the files takes four more.
		"when it writes": {func(at int64) func(int64, int64) bool { return func(_, changed int64) bool { return changed >= at } },
			2 * logs, 24},
	} {
		t.Run(name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				disk, m := live.KillImage(1), &meter{due: by.due(at)}
				d, err := openDir(m.on(disk), "", mixed, m.interrupt)
				if err == nil {
					_ = d.Close()
					if at < by.least {
						t.Fatalf("it could be interrupted in %d places only", at)
					}
					return
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("interrupted at %d: %v", at, err)
				}
				if late := m.late.Load(); late > by.late {
					t.Fatalf("interrupted at %d, it changed the disk %d times afterwards", at, late)
				}
				cut := disk.PowerLossImage(crashfs.KeepSectors, uint64(at))
				whole(t, disk, n, func(ID) bool { return true })
				whole(t, cut, n, func(id ID) bool { return mixedProfile(id) == "sync" })
			}
		})
	}
}

// whole starts on a disk and fails the test unless the logs have n records.
func whole(t *testing.T, fsys vfs.FS, n int64, must func(ID) bool) {
	t.Helper()
	d, err := openDir(fsys, "", mixed)
	if err != nil {
		t.Fatal(err)
	}
	if d.Clean() {
		t.Error("counts as clean: leader epochs would not be raised")
	}
	for _, l := range d.Logs() {
		if must(l.ID()) {
			holds(t, l, n)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A start is interrupted before it begins. A clean directory stays clean.
func TestAnInterruptionLeavesACleanStopClean(t *testing.T) {
	fs := crashfs.New(1)
	d := mustOpen(t, fs, "sync")
	put(t, makeLogs(t, d, 1, "sync")[0], 3, 100)
	must(t, d.Close())
	stop := func(o *Options) { o.Interrupted = func() error { return context.Canceled } }
	if _, err := openDir(fs, "sync", stop); !errors.Is(err, context.Canceled) {
		t.Fatalf("not interrupted: %v", err)
	}
	if again := mustOpen(t, fs, "sync"); !again.Clean() {
		t.Error("it is not clean any more")
	}
}

// With several directories every recovery stops, and no directory stays open.
func TestAllDirectoriesAreInterrupted(t *testing.T) {
	fs := crashfs.New(1)
	locations := []Location{{Path: "/a"}, {Path: "/b"}}
	opt := Options{FS: fs, JournalFileSize: 64 << 10, JournalBytes: 256 << 10, Interrupted: func() error { return context.Canceled }}
	if _, err := Open(locations, opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("not interrupted: %v", err)
	}
	opt.Interrupted = nil
	m, err := Open(locations, opt)
	must(t, err)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
