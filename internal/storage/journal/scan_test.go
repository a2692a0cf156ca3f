package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// groups writes n groups of one entry each, all synced, and returns the file's bytes, the position
// and the offset where each write begins.
func groups(t *testing.T, n, size int) (content []byte, from Position, starts []int) {
	t.Helper()
	fsys := memory(t)
	j := open(t, fsys, nil)
	s, o := newStream(1), newRecorder()
	for i := range n {
		j.space.mu.Lock()
		starts = append(starts, int(j.space.cur.off.Load()))
		j.space.mu.Unlock()
		ok(t, j.Submit(nil, entry(s, int64(i), size, eager, o)))
		o.wait(i + 1)
	}
	ok(t, j.Close())
	f, err := fsys.Open(testDir + "/" + fileName(j.at.File))
	ok(t, err)
	defer f.Close()
	content = make([]byte, dataStart+n*block)
	_, _ = f.ReadAt(content, 0)
	return content, j.at, starts
}

// A write torn at any byte ends the journal before it and is not damage.
func TestTornTailAtEveryByte(t *testing.T) {
	content, from, starts := groups(t, 3, 300)
	last := starts[2]
	end := last + frameHeader + 300
	for cut := last; cut <= end; cut++ {
		b := append([]byte(nil), content...)
		clear(b[cut:])
		all, ext, err := frames(fileSystem(t, from.File, b), from)
		want := 2
		if cut == end {
			want = 3
		}
		// The last bytes of the payload may be zeros anyway.
		if err != nil || len(all) < want || cut < end-1 && len(all) > 2 || ext.Next != from.LSN+LSN(len(all)) {
			t.Fatalf("cut at %d: %d frames, %+v, %v", cut-last, len(all), ext, err)
		}
	}
}

// A group that a later one recorded as synced must be whole. Damage to the last group cannot be
// distinguished from a torn write.
func TestDamageIsDistinguishedFromATornTail(t *testing.T) {
	content, from, starts := groups(t, 4, 300)
	for i, start := range starts {
		for _, at := range []int{0, 30, frameHeader - 1, frameHeader + 299} {
			b := append([]byte(nil), content...)
			b[start+at] ^= 0x10
			all, ext, err := frames(fileSystem(t, from.File, b), from)
			damaged := i < len(starts)-1
			if errors.Is(err, ErrDamaged) != damaged || len(all) != i || !damaged && err != nil {
				t.Errorf("flip in group %d at %d: %d frames, %v", i, at, len(all), err)
			}
			if !damaged && ext.Above < ext.Next {
				t.Errorf("%+v", ext)
			}
		}
	}
}

// The writes of one unsynced group reach the disk in any order: a torn write before whole ones is
// not damage, because none of them was recorded as synced.
func TestTornWriteBeforeWholeOnesIsNoDamage(t *testing.T) {
	fsys := memory(t)
	j := open(t, fsys, nil)
	s, o := newStream(1), newRecorder()
	ok(t, j.Submit(nil, entry(s, 0, 100, eager, o)))
	o.wait(1)
	var group []*Entry
	for i := range int64(6) { // a write takes 8 KiB of files this small
		group = append(group, entry(s, i+1, 5000, low, o))
	}
	start := j.space.cur.off.Load()
	ok(t, j.Submit(nil, group...))
	o.wait(7)
	ok(t, j.Close())
	f, err := fsys.Open(testDir + "/" + fileName(j.at.File))
	ok(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, block), start)
	ok(t, err)
	all, ext, err := frames(fsys, j.at)
	if err != nil || len(all) != 1 || ext.Above <= ext.Next+1 {
		t.Errorf("%d frames, %+v, %v", len(all), ext, err)
	}
}

func TestMissingAndForeignFilesAreDamage(t *testing.T) {
	content, from, _ := groups(t, 2, 300)
	for name, at := range map[string]Position{
		"missing first file":      {File: from.File + 1, LSN: from.LSN},
		"file begins too late":    {File: from.File, LSN: from.LSN - 1},
		"nothing was ever needed": {File: 0, LSN: 1},
	} {
		if _, _, err := frames(fileSystem(t, from.File, content), at); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	foreign := &reader{fs: fileSystem(t, from.File, content), dir: testDir, id: [16]byte{9}}
	if _, err := scan(foreign, from, nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("another journal's file: %v", err)
	}
	if _, _, err := frames(memory(t), Position{File: 3, LSN: 1}); !errors.Is(err, ErrDamaged) {
		t.Errorf("empty directory: %v", err)
	}
	if _, ext, err := frames(memory(t), Position{}); err != nil || ext.Next != 0 {
		t.Errorf("a new journal: %+v, %v", ext, err)
	}
}

// Stale frames of a file's earlier use follow the new ones and count for nothing.
func TestStaleFramesOfARecycledFile(t *testing.T) {
	fsys := memory(t)
	j := open(t, fsys, nil)
	s, o := newStream(1), newRecorder()
	n := 0
	submit := func(count, size int) {
		for range count {
			ok(t, j.Submit(nil, entry(s, int64(n), size, eager, o)))
			n++
			o.wait(n)
		}
	}
	submit(100, 2000) // several files
	j.Release(j.Oldest(j.Notified() + 1))
	for range 40 { // continues in recycled files, which hold more old frames than new ones
		submit(10, 500)
		j.Release(j.Oldest(j.Notified() + 1))
	}
	submit(3, 100)
	at := j.Oldest(j.Notified() - 2)
	ok(t, j.Close())
	recycled := false
	infos, err := fsys.List(testDir)
	ok(t, err)
	for _, in := range infos {
		recycled = recycled || in.Size == j.opt.FileSize
	}
	all, ext, err := frames(fsys, at)
	if err != nil || !recycled || ext.Next != j.Notified()+1 || ext.Above != ext.Next {
		t.Fatalf("%d frames, %+v, notified %d, %v", len(all), ext, j.Notified(), err)
	}
}

// Whatever sectors of the unsynced writes survive a power loss, the acknowledged entries are there
// in order, and no damage is reported. The workload switches files, recycles them, writes large
// groups, and begins a second life.
func TestPowerLossAtEveryCall(t *testing.T) {
	total := countOps(t)
	step := 3
	if testing.Short() {
		step = 11
	}
	for at := 1; at < total; at += step {
		fsys := crashing(t, uint64(at))
		fsys.CrashDuring(fsys.Ops() + at)
		w := &crashWork{}
		w.run(t, fsys)
		for _, m := range allModes() {
			for seed := range uint64(3) {
				w.verify(t, fsys.PowerLossImage(m, seed), at, m.String())
			}
		}
		w.verify(t, fsys.KillImage(1), at, "kill")
	}
}

func countOps(t *testing.T) int {
	fsys := crashing(t, 1)
	w := &crashWork{}
	before := fsys.Ops()
	w.run(t, fsys)
	w.verify(t, fsys, -1, "no crash")
	return fsys.Ops() - before
}

// crashWork is a workload and its acknowledged entries.
type crashWork struct {
	redo  Position // as a checkpoint would hold it
	acked []*Entry
	all   []*Entry
}

func (w *crashWork) run(t *testing.T, fsys *crashfs.FS) {
	j := closedIn(t, fsys, func(o *Options) { o.MaxBytes = 512 << 10 })
	defer j.Close()
	at, err := j.Fresh(0)
	if err != nil {
		return
	}
	w.redo = at
	if j.Resume() != nil {
		return
	}
	streams := []*Stream{newStream(0), newStream(1), newStream(2)}
	ends := make([]int64, 3)
	for i := range 40 {
		o := newRecorder()
		batch := make([]*Entry, 0, 6)
		for k := range 1 + i%6 {
			n := (i + k) % 3
			p := eager
			if i%2 == 1 {
				p = low // several writes with one sync: whole ones may follow torn ones
			}
			e := entry(streams[n], ends[n], 100+700*(i%9), p, o)
			ends[n]++
			batch = append(batch, e)
			w.all = append(w.all, e)
			if j.Submit(nil, e) != nil {
				return
			}
		}
		for o.count() < len(batch) { // without a disk, commits may wait forever
			if fsys.Crashed() {
				return
			}
			runtime.Gosched()
		}
		for _, e := range batch {
			if o.err(e) != nil {
				return
			}
			w.acked = append(w.acked, e)
		}
		if i%7 == 6 { // a checkpoint: everything so far is in segments
			w.redo = j.Oldest(j.Notified() + 1)
			w.acked = nil
			j.Release(w.redo)
		}
		if i == 25 {
			at, err := j.Rotate()
			if err != nil {
				return
			}
			w.redo, w.acked = at, nil
			if j.Resume() != nil {
				return
			}
		}
	}
}

func (w *crashWork) verify(t *testing.T, fsys *crashfs.FS, at int, how string) {
	t.Helper()
	if w.redo.File == 0 {
		return
	}
	all, ext, err := frames(fsys, w.redo)
	if err != nil {
		t.Fatalf("crash at call %d, %s: false alarm: %v", at, how, err)
	}
	for _, e := range w.acked {
		if err := holds(all, e); err != nil {
			t.Fatalf("crash at call %d, %s: LSN %d: %v (%d frames, %+v)", at, how, e.LSN, err, len(all), ext)
		}
	}
	given := map[LSN]*Entry{}
	for _, e := range w.all {
		given[e.LSN] = e
	}
	for _, f := range all {
		if e := given[f.LSN]; f.LSN >= w.redo.LSN && (e == nil || !bytes.Equal(e.Payload, f.Payload)) {
			t.Fatalf("crash at call %d, %s: frame %d was never submitted", at, how, f.LSN)
		}
	}
	// A later start must not assign these LSNs again.
	for _, f := range all {
		if f.LSN >= ext.Above {
			t.Fatalf("above %d, but frame %d is there", ext.Above, f.LSN)
		}
	}
}

// Records that look like the headers of long frames lie behind the end of the journal, as in a
// recycled file. A start and an inspection read each of their bytes a few times, not all that these
// headers claim.
func TestRecordsThatLookLikeFrames(t *testing.T) {
	const size = 4 << 20
	content, from, _ := groups(t, 2, 300)
	for at := len(content); at < size; at += 16 {
		content = binary.LittleEndian.AppendUint32(content, frameMagic)
		content = binary.LittleEndian.AppendUint32(content, 0)
		content = binary.LittleEndian.AppendUint32(content, size/2)
		content = binary.LittleEndian.AppendUint32(content, 0)
	}
	var read int64
	fsys := errfs.New(fileSystem(t, from.File, content))
	fsys.Add(errfs.Rule{Ops: errfs.Read, Before: func(c errfs.Call) { read += c.Len }})
	all, _, err := frames(fsys, from)
	if err != nil || len(all) != 2 || read > 4*size {
		t.Errorf("a start reads %d frames and %d bytes, %v", len(all), read, err)
	}
	read = 0
	if _, err := Walk(fsys, testDir, from.File, func(FrameAt) error { return nil }); err != nil || read > 4*size {
		t.Errorf("an inspection reads %d bytes, %v", read, err)
	}
}

// A scan reads the file of its position from the beginning and passes on the frames from the
// position's LSN on.
func TestAScanBeginsAtItsLSN(t *testing.T) {
	content, from, _ := groups(t, 4, 300)
	from.LSN += 2
	fsys := fileSystem(t, from.File, content)
	all, ext, err := frames(fsys, from)
	if err != nil || len(all) != 2 || all[0].LSN != from.LSN || ext.Next != from.LSN+2 {
		t.Errorf("%d frames, %+v, %v", len(all), ext, err)
	}
}
