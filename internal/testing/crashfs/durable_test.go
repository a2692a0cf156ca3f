package crashfs

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/vfstest"
)

func TestSyncedDataSurvivesEveryMode(t *testing.T) {
	for _, m := range Modes() {
		f := withDir(t)
		h := put(t, f, "/d/a", strings.Repeat("x", 2000))
		write(t, h, "y", 1000)
		ok(t, h.Truncate(1500))
		ok(t, h.Datasync())
		if got := vfstest.Get(t, f.PowerLoss(m), "/d/a"); got != strings.Repeat("x", 1000)+"y"+strings.Repeat("x", 499) {
			t.Errorf("%v: %d bytes", m, len(got))
		}
	}
}

func TestUnsyncedDataIsLostWithThePower(t *testing.T) {
	f := withDir(t)
	h := put(t, f, "/d/a", "old")
	write(t, h, "new", 0)
	write(t, h, "more", 3)
	if got := vfstest.Get(t, f.PowerLossImage(DropUnsynced, 0), "/d/a"); got != "old" {
		t.Errorf("left %q", got)
	}
	if got := vfstest.Get(t, f.PowerLossImage(KeepAll, 0), "/d/a"); got != "newmore" {
		t.Errorf("left %q", got)
	}
	if got := vfstest.Get(t, f, "/d/a"); got != "newmore" {
		t.Errorf("an image changed the process's own files: %q", got)
	}
}

func TestThePageCacheIsNotTheDisk(t *testing.T) {
	f := withDir(t)
	h := put(t, f, "/d/a", "old")
	write(t, h, "new", 0)
	open(t, f, "/d/b")
	f = f.Kill()
	if got := vfstest.Get(t, f, "/d/a"); got != "new" || !has(t, f, "/d/b") {
		t.Fatalf("after the kill: %q", got)
	}
	f = f.Kill()
	lost := f.PowerLossImage(DropUnsynced, 0)
	if got := vfstest.Get(t, lost, "/d/a"); got != "old" || has(t, lost, "/d/b") {
		t.Errorf("a kill made unsynced bytes or names durable: %q", got)
	}
	ok(t, open(t, f, "/d/a").Datasync())
	if got := vfstest.Get(t, f.PowerLoss(DropUnsynced), "/d/a"); got != "new" {
		t.Errorf("a sync in the next process does not cover the writes of the last one: %q", got)
	}
}

func TestFilesAfterAPowerLossAreDurable(t *testing.T) {
	for _, m := range Modes() {
		f := withDir(t)
		h := put(t, f, "/d/a", strings.Repeat("old", 1000))
		write(t, h, strings.Repeat("new", 1000), 500)
		open(t, f, "/d/b")
		left := f.PowerLoss(m)
		if before, after := dump(t, left), dump(t, left.PowerLoss(DropUnsynced)); before != after {
			t.Errorf("%v: a second power loss loses more", m)
		}
	}
}

func TestEverySectorIsOldOrNew(t *testing.T) {
	const sectors = 8
	before, after := strings.Repeat("o", sectors*sectorSize), strings.Repeat("n", sectors*sectorSize)
	f := withDir(t)
	h := put(t, f, "/d/a", before)
	write(t, h, after[:len(after)-100], 0) // ends inside a sector
	seen := map[string]bool{}
	for seed := range uint64(300) {
		got := vfstest.Get(t, f.PowerLossImage(KeepSectors, seed), "/d/a")
		var pattern string
		for i := 0; i < len(got); i += sectorSize {
			switch s := got[i : i+sectorSize]; {
			case s == before[:sectorSize]:
				pattern += "o"
			case s == after[:sectorSize], i == (sectors-1)*sectorSize && s == after[:sectorSize-100]+before[:100]:
				pattern += "n"
			default:
				t.Fatalf("sector %d is torn", i/sectorSize)
			}
		}
		seen[pattern] = true
	}
	if !seen[strings.Repeat("o", sectors)] || !seen[strings.Repeat("n", sectors)] || len(seen) < 50 {
		t.Errorf("%d patterns", len(seen))
	}
}

// A disk that was writing when the power failed may have ruined the bytes being written, even if
// they repeated synced bytes, but no others.
func TestOnlyBytesBeingWrittenAreGarbled(t *testing.T) {
	before := strings.Repeat("o", 5*sectorSize)
	for m, ruins := range map[Mode]span{
		KeepSectors:   {},
		GarbleWrites:  {sectorSize + 100, sectorSize},
		GarbleSectors: {sectorSize, 2 * sectorSize},
	} {
		f := withDir(t)
		h := put(t, f, "/d/a", before)
		write(t, h, strings.Repeat("x", sectorSize), 4*sectorSize)
		ok(t, h.Datasync())
		whole := vfstest.Get(t, f, "/d/a")
		write(t, h, whole[:sectorSize], sectorSize+100) // the same bytes again
		ruined := make([]bool, len(whole))
		as := 0
		for seed := range uint64(300) {
			got := vfstest.Get(t, f.PowerLossImage(m, seed), "/d/a")
			if got == whole {
				as++
			}
			for i := range got {
				ruined[i] = ruined[i] || got[i] != whole[i]
			}
		}
		for i := range ruined {
			if want := int64(i) >= ruins.off && int64(i) < ruins.off+ruins.n; ruined[i] != want {
				t.Fatalf("%v: byte %d was garbled: %v", m, i, ruined[i])
			}
		}
		if as < 75 {
			t.Errorf("%v: %d of 300 images are possible on another disk", m, as)
		}
	}
}

// A write during a sync is not covered by it.
func TestAWriteDuringASyncMayBeGarbled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withDir(t)
		h := put(t, f, "/d/a", strings.Repeat(".", 2*sectorSize))
		f.SetSyncLatency(time.Second)
		write(t, h, strings.Repeat("1", sectorSize), 0)
		done := make(chan error)
		go func() { done <- h.Datasync() }()
		synctest.Wait()
		write(t, h, strings.Repeat("2", sectorSize), sectorSize)
		ok(t, <-done)
		garbled := false
		for seed := range uint64(50) {
			got := vfstest.Get(t, f.PowerLossImage(GarbleSectors, seed), "/d/a")
			if got[:sectorSize] != strings.Repeat("1", sectorSize) {
				t.Fatal("synced bytes are garbled")
			}
			garbled = garbled || strings.Trim(got[sectorSize:], ".2") != ""
		}
		if !garbled {
			t.Error("bytes written after the sync began were never garbled")
		}
	})
}

func TestGrowthMaySurviveWithoutItsBytes(t *testing.T) {
	f := withDir(t)
	h := put(t, f, "/d/a", "x")
	write(t, h, strings.Repeat("y", 3*sectorSize), sectorSize)
	seen := map[string]bool{}
	for seed := range uint64(300) {
		got := vfstest.Get(t, f.PowerLossImage(KeepSectors, seed), "/d/a")
		switch {
		case got == "x":
			seen["no growth"] = true
		case len(got) != 4*sectorSize:
			t.Fatalf("size %d was never the file's", len(got))
		case !strings.Contains(got, "y"):
			seen["zeros"] = true
		case !strings.Contains(got[sectorSize:], "\x00"):
			seen["all"] = true
		default:
			seen["holes"] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("only %v", seen)
	}
}

func TestPrefixKeepsTheOrderOfWrites(t *testing.T) {
	f := withDir(t)
	h := put(t, f, "/d/a", "")
	for i := range int64(10) {
		write(t, h, strings.Repeat(string(rune('a'+i)), 1000), i*1000)
	}
	seen := map[int]bool{}
	whole := vfstest.Get(t, f, "/d/a")
	for seed := range uint64(300) {
		got := vfstest.Get(t, f.PowerLossImage(KeepPrefix, seed), "/d/a")
		if !strings.HasPrefix(whole, got) || len(got)%1000 != 0 && len(got)%sectorSize != 0 {
			t.Fatalf("%d bytes are no prefix in whole sectors or writes", len(got))
		}
		seen[len(got)] = true
	}
	if !seen[0] || !seen[10_000] || !seen[3000] || !seen[7*sectorSize] {
		t.Errorf("only sizes %v", seen)
	}
}

// The cache zeroes the bytes after the end of a file, including those in its last sector. A sector
// reaches the disk as a whole even if the size does not.
func TestASectorReachesTheDiskAsAWhole(t *testing.T) {
	f := withDir(t)
	h := put(t, f, "/d/a", strings.Repeat("o", sectorSize))
	ok(t, h.Truncate(100))
	write(t, h, "n", 0)
	want := map[string]bool{
		strings.Repeat("o", sectorSize): true, strings.Repeat("o", 100): true, "n" + strings.Repeat("o", 99): true,
		"n" + strings.Repeat("o", 99) + strings.Repeat("\x00", sectorSize-100): true,
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		got := vfstest.Get(t, f.PowerLossImage(KeepSectors, seed), "/d/a")
		if !want[got] {
			t.Fatalf("left %d bytes, torn inside a sector", len(got))
		}
		seen[got] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d of %d outcomes seen", len(seen), len(want))
	}
}

// The kernel reports a page that it could not write once, and marks it as clean.
func TestDroppedPagesAreNotWrittenByTheNextSync(t *testing.T) {
	for _, cached := range []bool{true, false} {
		f := withDir(t)
		h := put(t, f, "/d/a", strings.Repeat("o", 3*sectorSize))
		write(t, h, strings.Repeat("1", sectorSize), 0)
		h.(interface{ DropDirty(bool) }).DropDirty(cached)
		write(t, h, strings.Repeat("2", sectorSize), sectorSize)
		want := strings.Repeat("o", sectorSize) + strings.Repeat("2", sectorSize) + strings.Repeat("o", sectorSize)
		read := want
		if cached {
			read = strings.Repeat("1", sectorSize) + want[sectorSize:]
		}
		ok(t, h.Datasync())
		next := f.Kill()
		ok(t, open(t, next, "/d/a").Datasync())
		if got := vfstest.Get(t, next, "/d/a"); got != read {
			t.Errorf("cached %v: the next process reads %q…", cached, got[:1])
		}
		for _, m := range Modes() {
			if got := vfstest.Get(t, next.PowerLossImage(m, 1), "/d/a"); got != want {
				t.Errorf("cached %v, %v: on the disk is %q", cached, m, strings.ReplaceAll(got, got[:10], got[:1]))
			}
		}
	}
}
