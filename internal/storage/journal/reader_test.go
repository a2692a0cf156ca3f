package journal

import (
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// twoFiles writes one full file and a second one with some frames, all of them synced. It returns
// where the chain begins and the sequence of the second file.
func twoFiles(t *testing.T, inSecond int) (fsys vfs.FS, from Position, second uint64, all []Frame) {
	t.Helper()
	fsys = memory(t)
	j := open(t, fsys, nil)
	s, o := newStream(1), newRecorder()
	put := func(at int) {
		ok(t, j.Submit(nil, entry(s, int64(at), 300, eager, o)))
		o.wait(at + 1)
	}
	cur := func() uint64 {
		j.space.mu.Lock()
		defer j.space.mu.Unlock()
		return j.space.cur.seq
	}
	n := 0
	for ; cur() == j.at.File; n++ {
		put(n)
	}
	for range inSecond - 1 {
		put(n)
		n++
	}
	second = cur()
	ok(t, j.Close())
	all, _, err := frames(fsys, j.at)
	ok(t, err)
	if len(all) != n {
		t.Fatalf("%d frames of %d", len(all), n)
	}
	return fsys, j.at, second, all
}

func overwrite(t *testing.T, fsys vfs.FS, seq uint64, at int64, p []byte) {
	t.Helper()
	f, err := fsys.Open(testDir + "/" + fileName(seq))
	ok(t, err)
	_, err = f.WriteAt(p, at)
	ok(t, err)
	ok(t, f.Close())
}

// A file that lost both copies of its header is damaged, even if it is the last file, when a frame
// in it proves that an earlier frame of the file was synced. Otherwise the header may never have
// been written.
func TestLostHeaderIsDamage(t *testing.T) {
	for _, n := range []int{1, 3} {
		fsys, from, second, all := twoFiles(t, n)
		for _, at := range []int64{0, secondHeader} {
			overwrite(t, fsys, second, at, make([]byte, headerLen))
		}
		got, ext, err := frames(fsys, from)
		if damaged := errors.Is(err, ErrDamaged); damaged != (n > 1) || len(got) != len(all)-n {
			t.Errorf("%d frames: %d of %d, %+v, %v", n, len(got), len(all), ext, err)
		}
		var d *Damage
		if n > 1 && (!errors.As(err, &d) || d.Kind != InvalidFrame || d.File != fileName(second) || d.LSN != all[len(all)-n].LSN) {
			t.Errorf("%+v", d)
		}
		walked := 0
		w, err := Walk(fsys, testDir, second, func(FrameAt) error { walked++; return nil })
		if err != nil || w.Valid || walked != n {
			t.Errorf("walk: %+v, %d of %d, %v", w, walked, n, err)
		}
	}
}

// A walk finds every frame except the damaged one, and what that frame's header claims.
func TestWalkPassesDamage(t *testing.T) {
	fsys, from, second, all := twoFiles(t, 4)
	var at []int64
	_, err := Walk(fsys, testDir, second, func(f FrameAt) error { at = append(at, f.Pos); return nil })
	ok(t, err)
	overwrite(t, fsys, second, at[1]+frameHeader, []byte("damage"))
	overwrite(t, fsys, second, at[3]+frameHeader, []byte("damage"))
	var seen []FrameAt
	w, err := Walk(fsys, testDir, second, func(f FrameAt) error { seen = append(seen, f); return nil })
	ok(t, err)
	tail := all[len(all)-4:]
	if len(seen) != 2 || seen[0].LSN != tail[0].LSN || seen[0].Before != nil || seen[1].LSN != tail[2].LSN {
		t.Fatalf("%+v", seen)
	}
	if b := seen[1].Before; b == nil || b.LSN != tail[1].LSN || b.PrevEnd != tail[1].PrevEnd || b.Stream != tail[1].Stream {
		t.Errorf("before: %+v", b)
	}
	if w.End != at[3] || w.Tail == nil || w.Tail.LSN != tail[3].LSN || !w.Valid || w.Copies != 2 || w.ID != testID {
		t.Errorf("%+v", w)
	}
	files, err := Files(fsys, testDir, from.File)
	ok(t, err)
	if len(files) < 2 || files[0].Seq != from.File || files[0].First != from.LSN || files[1].Seq != second {
		t.Errorf("%+v", files)
	}
}

// A file is read through a window: frames across its borders, and frames larger than it, are found
// too.
func TestFramesLargerThanTheWindow(t *testing.T) {
	fsys := memory(t)
	j := open(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes = 8<<20, 64<<20 })
	s, o := newStream(1), newRecorder()
	var all []*Entry
	var aside []byte
	for i, size := range []int{700, 600 << 10, readStep - frameHeader, readStep + 1, 100, 900 << 10, 3} {
		all = append(all, entry(s, int64(i), size, eager, o))
		ok(t, j.Submit(nil, all[i]))
		o.wait(i + 1)
	}
	seen, at := 0, map[LSN]*Entry{}
	for _, e := range all {
		at[e.LSN] = e
	}
	ok(t, j.Read(j.at, j.Notified(), func(f Frame) error {
		seen++
		aside = f.Encode(aside)
		return holds([]Frame{f}, at[f.LSN])
	}))
	ok(t, j.Close())
	got, _, err := frames(fsys, j.at)
	ok(t, err)
	for _, e := range all {
		ok(t, holds(got, e))
	}
	walked := 0
	_, err = Walk(fsys, testDir, j.at.File, func(f FrameAt) error {
		if f.Type == Skip {
			return nil
		}
		walked++
		return holds([]Frame{f.Frame}, at[f.LSN])
	})
	ok(t, err)
	kept, err := fsys.Create("/kept")
	ok(t, err)
	_, err = kept.WriteAt(aside, 0)
	ok(t, err)
	back := 0
	ok(t, ReadQuarantine(fsys, "/kept", func(f Frame) error { back++; return holds([]Frame{f}, at[f.LSN]) }))
	if n := len(all); seen != n || len(got) != n || walked != n || back != n {
		t.Errorf("of %d frames %d were read, %d scanned, %d walked and %d read back", n, seen, len(got), walked, back)
	}
	ok(t, kept.Close())
	if err := ReadQuarantine(fsys, "/kept", func(Frame) error { return errors.New("mine") }); err == nil {
		t.Error("an error of the caller is lost")
	}
	cut, err := fsys.Open("/kept")
	ok(t, err)
	ok(t, cut.Truncate(int64(len(aside)-1)))
	if err := ReadQuarantine(fsys, "/kept", func(Frame) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file that lost a byte: %v", err)
	}
}
