package crashfs

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/vfstest"
)

func TestASyncedFileWithoutItsNameIsLost(t *testing.T) {
	f := withDir(t)
	h := open(t, f, "/d/a")
	write(t, h, "x", 0)
	ok(t, h.Datasync())
	if has(t, f.PowerLossImage(DropUnsynced, 0), "/d/a") {
		t.Error("fdatasync made the name durable")
	}
	there := 0
	for seed := range uint64(100) {
		if next := f.PowerLossImage(KeepSectors, seed); has(t, next, "/d/a") {
			there++
			if got := vfstest.Get(t, next, "/d/a"); got != "x" {
				t.Fatalf("synced bytes are lost: %q", got)
			}
		}
	}
	if there == 0 || there == 100 {
		t.Errorf("the name survived %d of 100 times", there)
	}
	ok(t, f.SyncDir("/d"))
	if got := vfstest.Get(t, f.PowerLoss(DropUnsynced), "/d/a"); got != "x" {
		t.Errorf("after SyncDir: %q", got)
	}
}

func TestANewDirectoryNeedsTheSyncOfItsParent(t *testing.T) {
	f := New(1)
	ok(t, f.MkdirAll("/a/b"))
	h := open(t, f, "/a/b/x")
	ok(t, h.Datasync())
	ok(t, f.SyncDir("/a/b"))
	ok(t, f.SyncDir("/a"))
	if next := f.PowerLossImage(DropUnsynced, 0); has(t, next, "/a") {
		t.Error("/a is durable though / was not synced")
	}
	ok(t, f.SyncDir("/"))
	if next := f.PowerLoss(DropUnsynced); !has(t, next, "/a/b/x") {
		t.Error("the whole path was synced, and it is lost")
	}
}

func TestARenameDoesNotSyncTheFile(t *testing.T) {
	f := withDir(t)
	put(t, f, "/d/state", "old")
	h := open(t, f, "/d/tmp")
	write(t, h, "new", 0)
	ok(t, f.Rename("/d/tmp", "/d/state"))
	ok(t, f.SyncDir("/d"))
	if got := vfstest.Get(t, f.PowerLoss(DropUnsynced), "/d/state"); got != "" {
		t.Errorf("the file holds %q", got)
	}
}

// Small state files are replaced by a rename: the file is never missing, and never has two names.
func TestARenameIsAtomic(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(400) {
		f := withDir(t)
		put(t, f, "/d/state", "0")
		for _, content := range []string{"1", "2"} {
			h := open(t, f, "/d/tmp")
			write(t, h, content, 0)
			ok(t, h.Datasync())
			ok(t, f.Rename("/d/tmp", "/d/state"))
		}
		for _, m := range []Mode{KeepSectors, KeepPrefix} {
			next := f.PowerLossImage(m, seed)
			got := vfstest.Get(t, next, "/d/state")
			if has(t, next, "/d/tmp") {
				got += " and " + vfstest.Get(t, next, "/d/tmp")
			}
			seen[got] = true
		}
	}
	for got := range seen {
		switch got {
		case "0", "1", "2", "0 and 1", "0 and 2", "1 and 2":
		default:
			t.Errorf("left state %s", got)
		}
	}
	if len(seen) != 6 {
		t.Errorf("only %v", seen)
	}
}

func TestARemovedFileMayComeBack(t *testing.T) {
	f := withDir(t)
	h := put(t, f, "/d/a", "x")
	write(t, h, "unsynced", 0)
	ok(t, f.RemoveAll("/d/a"))
	if has(t, f, "/d/a") || has(t, f.PowerLossImage(KeepAll, 0), "/d/a") {
		t.Error("the file is there")
	}
	if got := vfstest.Get(t, f.PowerLossImage(DropUnsynced, 0), "/d/a"); got != "x" {
		t.Errorf("left %q", got)
	}
	ok(t, f.SyncDir("/d"))
	if has(t, f.PowerLoss(DropUnsynced), "/d/a") {
		t.Error("the file is there after SyncDir")
	}
}

func TestAHalfRemovedTreeMayBeLeft(t *testing.T) {
	f := withDir(t)
	ok(t, f.MkdirAll("/d/topic"))
	ok(t, f.SyncDir("/d"))
	for _, name := range []string{"a", "b", "c"} {
		open(t, f, "/d/topic/"+name)
	}
	ok(t, f.SyncDir("/d/topic"))
	before := f.Ops()
	ok(t, f.RemoveAll("/d/topic"))
	if f.Ops() != before+4 {
		t.Errorf("RemoveAll of a directory and three files: %d calls", f.Ops()-before)
	}
	left := map[string]bool{}
	for seed := range uint64(200) {
		next := f.PowerLossImage(KeepSectors, seed)
		if !has(t, next, "/d/topic") {
			left["nothing"] = true
			continue
		}
		list, err := next.List("/d/topic")
		ok(t, err)
		left[string(rune('0'+len(list)))] = true
	}
	if len(left) != 5 {
		t.Errorf("only %v", left)
	}
}

// SyncDir of either directory commits a rename between the two as a whole, and earlier changes of
// the same file.
func TestARenameBetweenDirectoriesIsCommittedByEither(t *testing.T) {
	for _, dir := range []string{"/d", "/e"} {
		f := withDir(t)
		ok(t, f.MkdirAll("/e"))
		ok(t, f.SyncDir("/"))
		put(t, f, "/d/a", "x")
		ok(t, f.Rename("/d/a", "/d/b"))
		ok(t, f.Rename("/d/b", "/e/c"))
		ok(t, f.SyncDir(dir))
		for _, m := range Modes() {
			next := f.PowerLossImage(m, 1)
			if has(t, next, "/d/a") || has(t, next, "/d/b") || vfstest.Get(t, next, "/e/c") != "x" {
				t.Errorf("SyncDir(%s), %v: the rename is not whole", dir, m)
			}
		}
	}
}

func TestAFileHasAtMostOneName(t *testing.T) {
	f := withDir(t)
	put(t, f, "/d/a", "x")
	ok(t, f.Rename("/d/a", "/d/b"))
	ok(t, f.Rename("/d/b", "/d/c"))
	seen := map[string]bool{}
	for seed := range uint64(200) {
		next := f.PowerLossImage(KeepSectors, seed)
		list, err := next.List("/d")
		ok(t, err)
		if len(list) != 1 {
			t.Fatalf("seed %d: %v", seed, list)
		}
		seen[list[0].Name] = true
	}
	if len(seen) != 3 {
		t.Errorf("only %v", seen)
	}
}

func TestRenameOfADirectoryMovesItsFiles(t *testing.T) {
	f := withDir(t)
	ok(t, f.MkdirAll("/d/t"))
	ok(t, f.SyncDir("/d"))
	h := open(t, f, "/d/t/log")
	write(t, h, "x", 0)
	ok(t, h.Datasync())
	ok(t, f.SyncDir("/d/t"))
	ok(t, f.Rename("/d/t", "/d/t-delete"))
	if got := vfstest.Get(t, f.PowerLossImage(DropUnsynced, 0), "/d/t/log"); got != "x" {
		t.Errorf("old name: %q", got)
	}
	if got := vfstest.Get(t, f.PowerLossImage(KeepAll, 0), "/d/t-delete/log"); got != "x" {
		t.Errorf("new name: %q", got)
	}
}
