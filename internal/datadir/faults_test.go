package datadir

import (
	"errors"
	"io"
	"maps"
	"reflect"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// everyFault calls do with a disk on which one call fails, each in turn. A failed sync drops what
// it was to write.
func everyFault(t *testing.T, least int, do func(what int, power *crashfs.FS, disk vfs.FS)) {
	t.Helper()
	for from := 1; ; from++ {
		power := crashfs.New(uint64(from))
		disk := errfs.New(power)
		fault := disk.Add(errfs.Rule{Err: syscall.EIO, From: from, Count: 1, Drop: errfs.DropCached})
		do(from, power, disk)
		if fault.Hits() == 0 {
			if from <= least {
				t.Errorf("%d calls", from)
			}
			return
		}
	}
}

// twice calls do again after an error, as an operator does.
func twice(t *testing.T, what int, do func() error) {
	t.Helper()
	if first := do(); first != nil {
		if err := do(); err != nil {
			t.Fatalf("call %d, which failed with %v: again %v", what, first, err)
		}
	}
}

// images are what a loss of power may leave.
func images(power *crashfs.FS) (all []*crashfs.FS) {
	for _, mode := range crashfs.Modes() {
		all = append(all, power.PowerLossImage(mode, 1), power.PowerLossImage(mode, 2))
	}
	return all
}

// Each call to the disk fails once, and the power is lost later. A restore that has begun is known
// until it has ended, under its first names, so that no broker starts; then it is not known again.
// After an error, the same call continues it.
func TestI7AFaultAtEveryCallOfTheMarkOfARestore(t *testing.T) {
	want := Unfinished{Cluster: "c", Number: 7, Nonce: "ab", Into: "first", Generation: "01", Node: 3}
	begin := func(fsys vfs.FS, into string) (u Unfinished, err error) {
		u = want
		u.Into = into
		u, lock, err := dirsOf(fsys, "/one", "/two").BeginRestore(u)
		if err == nil {
			err = lock.Close()
		}
		return u, err
	}
	everyFault(t, 30, func(what int, power *crashfs.FS, disk vfs.FS) {
		var u Unfinished
		twice(t, what, func() (err error) { u, err = begin(disk, "first"); return err })
		// What a restore writes, which makes no name in /data durable.
		must.OK(t, power.MkdirAll("/one/t-0"))
		must.OK(t, power.SyncDir("/"))
		must.OK(t, power.SyncDir("/one"))
		unfinished := func(when string, image vfs.FS) {
			t.Helper()
			if now, err := begin(image, "second"); err != nil || !reflect.DeepEqual(now, u) || now.Into != "first" {
				t.Fatalf("call %d: %s: %+v, %v", what, when, now, err)
			}
			if err := dirsOf(image, "/one", "/two").CheckFormats(); err == nil {
				t.Fatalf("call %d: %s: a broker would start", what, when)
			}
		}
		for _, image := range images(power) {
			unfinished("begun", image)
		}
		tries := 0
		twice(t, what, func() error {
			if tries++; tries > 1 {
				for _, image := range images(power) {
					unfinishedOrEnded(t, what, image, unfinished)
				}
				unfinished("after the end that failed", disk)
			}
			return dirsOf(disk, "/one", "/two").EndRestore()
		})
		for _, image := range images(power) {
			starts(t, what, "ended", image)
		}
		starts(t, what, "ended", disk)
	})
}

// unfinishedOrEnded judges a disk on which an end of a restore has failed.
func unfinishedOrEnded(t *testing.T, what int, image vfs.FS, unfinished func(string, vfs.FS)) {
	t.Helper()
	if u, err := dirsOf(image, "/one", "/two").Unfinished(); u == nil && err == nil {
		starts(t, what, "after the end that failed", image)
	} else {
		unfinished("after the end that failed and a loss of power", image)
	}
}

// starts opens the data directory as a broker does.
func starts(t *testing.T, what int, when string, fsys vfs.FS) {
	t.Helper()
	var lock io.Closer
	twice(t, what, func() (err error) { lock, err = dirsOf(fsys, "/one", "/two").Create(); return err })
	if err := lock.Close(); err != nil {
		t.Errorf("call %d: %s: %v", what, when, err)
	}
}

// A restore ended, and its process was killed before that was durable. Once a broker has started,
// no loss of power makes the restore unfinished: its remedy would be to empty the directories. The
// same holds for the data directory that a start has created.
func TestI7WhatAStartHasFoundStays(t *testing.T) {
	everyFault(t, 3, func(what int, power *crashfs.FS, disk vfs.FS) {
		_, lock, err := dirsOf(power, "/one").BeginRestore(Unfinished{Cluster: "c"})
		must.OK(t, errors.Join(err, lock.Close()))
		must.OK(t, power.Remove("/data/"+unfinishedFile))
		starts(t, what, "removed", disk)
		for _, image := range images(power) {
			if u, err := dirsOf(image, "/one").Unfinished(); u != nil || err != nil {
				t.Fatalf("call %d: the restore is back: %+v, %v", what, u, err)
			}
		}
	})
	everyFault(t, 3, func(what int, power *crashfs.FS, disk vfs.FS) {
		must.OK(t, power.MkdirAll("/data")) // by a process that was killed
		starts(t, what, "made", disk)
		for _, image := range images(power) {
			if _, err := image.Stat("/data"); err != nil {
				t.Fatalf("call %d: %v", what, err)
			}
		}
	})
}

// The file with the paths of log directories has hints. Each call of its disk fails once: the paths
// that are known are right, those of open directories are always known, and so are all again after
// two starts with both.
func TestAFaultAtEveryCallOfThePaths(t *testing.T) {
	everyFault(t, 5, func(what int, power *crashfs.FS, disk vfs.FS) {
		must.OK(t, power.MkdirAll("/data"))
		must.OK(t, power.SyncDir("/"))
		d := dirsOf(power, "/one", "/two")
		m, err := storage.Open(d.Locations(), storage.Options{FS: power, JournalFileSize: 64 << 10})
		must.OK(t, err)
		defer func() { must.OK(t, m.Close()) }()
		all := d.Paths(m.Dirs()[:1])
		all[m.Dirs()[1].ID()] = "/two"
		right := func(fsys vfs.FS, open []*storage.Dir) {
			t.Helper()
			known := dirsOf(fsys, "/one", "/two").Paths(open)
			for _, x := range open {
				if known[x.ID()] != x.Path() {
					t.Errorf("call %d: %v lacks %s", what, known, x.Path())
				}
			}
			for id, at := range known {
				if all[id] != at {
					t.Errorf("call %d: %x at %q", what, id, at)
				}
			}
		}
		right(disk, m.Dirs()[1:])
		for _, image := range images(power) {
			right(image, nil)
		}
		right(disk, m.Dirs())
		right(disk, m.Dirs())
		if known := dirsOf(power).Paths(nil); !maps.Equal(known, all) {
			t.Errorf("call %d: %v, want %v", what, known, all)
		}
	})
}
