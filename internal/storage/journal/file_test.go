package journal

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/vfs"
)

// blocks counts writes and checks that each lies behind all earlier ones, and that direct writes
// consist of whole blocks.
type blocks struct {
	vfs.File
	t      *rapid.T
	cached bool
	writes int
	least  int64
}

func (b *blocks) WriteDirect(p []byte, off int64) (int, error) {
	if len(p)%block != 0 || off%block != 0 || b.cached {
		b.t.Fatalf("%d bytes at %d past the cache: %t", len(p), off, !b.cached)
	}
	return b.wrote([][]byte{p}, off)
}

func (b *blocks) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	if !b.cached {
		b.t.Fatalf("%d pieces at %d through the cache", len(bufs), off)
	}
	return b.wrote(bufs, off)
}

func (b *blocks) wrote(bufs [][]byte, off int64) (int, error) {
	if off < b.least {
		b.t.Fatalf("a write at %d, after writes up to %d", off, b.least)
	}
	n, err := b.File.WriteVecAt(bufs, off)
	if n == 0 {
		b.t.Fatalf("an empty write at %d", off)
	}
	b.least = off + int64(n)
	b.writes++
	return n, err
}

// For groups of any size, each begins at the block after the previous group, zeros fill its last
// block, and no write touches a block of an earlier group.
func TestEveryGroupBeginsAtABlockOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		under, err := vfs.Memory().Create("/j")
		if err != nil {
			t.Fatal(err)
		}
		out := &blocks{File: under, t: t, least: dataStart}
		f := &file{f: out, begun: true}
		f.off.Store(dataStart)
		var s stage
		var want []byte
		for i, groups := byte(1), rapid.IntRange(1, 5).Draw(t, "groups"); i <= byte(groups); i++ {
			begin, writes := len(want), out.writes
			out.cached = rapid.Bool().Draw(t, "cached")
			n := rapid.IntRange(1, 3).Draw(t, "pieces")
			var pieces [][]byte
			for k := range n {
				size := rapid.SampledFrom([]int{0, 1, 8, 80, 500, 4095, 4096, 4097, referAt - 1, referAt, 70_000, stageMax - 1,
					stageMax + 3}).Draw(t, "size")
				pieces = append(pieces, bytes.Repeat([]byte{16*i + byte(k)}, size))
				want = append(want, pieces[len(pieces)-1]...)
			}
			s.begin(f, f.off.Load(), int64(len(want)-begin)+block, out.cached)
			for _, p := range pieces {
				s.add(p)
			}
			if s.pos() != dataStart+int64(len(want)) {
				t.Fatalf("position %d after %d bytes", s.pos(), len(want))
			}
			if err := f.write(&s); err != nil {
				t.Fatal(err)
			}
			if n := len(want) - begin; n+block < stageMax && out.writes-writes > 1 {
				t.Fatalf("%d writes of %d bytes", out.writes-writes, n)
			}
			if out.least%block != 0 {
				t.Fatalf("the group ends at %d", out.least)
			}
			if cap(s.buf) > stageMax {
				t.Fatalf("a stage of %d bytes", cap(s.buf))
			}
			want = append(want, make([]byte, align(int64(len(want)), block)-int64(len(want)))...)
			if f.off.Load() != dataStart+int64(len(want)) {
				t.Fatalf("the next group begins at %d", f.off.Load())
			}
			got := make([]byte, len(want))
			if _, err := out.ReadAt(got, dataStart); len(got) > 0 && err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("group %d: other bytes", i)
			}
		}
	})
}

// A cached group of several writes may begin its later ones anywhere, because they continue it. A
// group that begins between blocks is not written.
func TestOnlyTheBeginOfAGroupMustBeAtABlock(t *testing.T) {
	for _, cached := range []bool{true, false} {
		under, err := vfs.Memory().Create("/j")
		ok(t, err)
		f := &file{f: under, begun: true}
		f.off.Store(dataStart)
		var s stage
		var want []byte
		s.begin(f, f.off.Load(), 2*stageMax, cached)
		for i := 0; len(want) < 3*stageMax; i++ {
			p := bytes.Repeat([]byte{byte(i)}, []int{48, 1000, referAt + 3}[min(i%50, 2)])
			if i%50 > 2 {
				p = p[:5000]
			}
			want = append(want, p...)
			s.add(p)
		}
		ok(t, f.write(&s))
		got := make([]byte, len(want))
		_, err = under.ReadAt(got, dataStart)
		ok(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("cached %t: other bytes", cached)
		}
		at := f.off.Load()
		s.begin(f, at+block/2, block, cached)
		s.add([]byte("between blocks"))
		if err := f.writeAhead(&s); err == nil || !f.dead() {
			t.Errorf("cached %t: a group between blocks: %v", cached, err)
		}
		if size, err := under.Size(); err != nil || size != at {
			t.Errorf("cached %t: the file has %d bytes instead of %d, %v", cached, size, at, err)
		}
	}
}

// The first failed write of a group fails the group, even if later writes succeed.
func TestAFailedWriteFailsItsGroup(t *testing.T) {
	under, err := vfs.Memory().Create("/j")
	ok(t, err)
	f := &file{f: &failsOnce{File: under}, begun: true}
	f.off.Store(dataStart)
	var s stage
	s.begin(f, f.off.Load(), 2*stageMax, false)
	s.add(make([]byte, 2*stageMax))
	if err := f.write(&s); err == nil {
		t.Fatal("no error")
	}
	if !f.dead() || f.off.Load() != dataStart {
		t.Errorf("dead %t, at %d", f.dead(), f.off.Load())
	}
}

type failsOnce struct {
	vfs.File
	failed bool
}

func (f *failsOnce) WriteDirect(p []byte, off int64) (int, error) {
	if !f.failed {
		f.failed = true
		return 0, vfs.ErrLocked // any error
	}
	return f.WriteAt(p, off)
}

// I5: a failed fdatasync kills the file. The kernel may have dropped the pages, so a second one
// would succeed without having written them.
func TestI5AFailedSyncKillsTheFile(t *testing.T) {
	under, err := vfs.Memory().Create("/j")
	ok(t, err)
	f := &file{f: &syncFailsOnce{File: under}, begun: true}
	if err := f.sync(); err == nil || errors.Is(err, errDeadFile) {
		t.Fatalf("the first sync: %v", err)
	}
	if err := f.sync(); !errors.Is(err, errDeadFile) || !f.dead() {
		t.Errorf("the second sync: %v", err)
	}
}

type syncFailsOnce struct {
	vfs.File
	failed bool
}

func (f *syncFailsOnce) Datasync() error {
	if !f.failed {
		f.failed = true
		return vfs.ErrLocked // any error
	}
	return f.File.Datasync()
}

// I5: after any failed call, of the writer or of the preparer, the file is neither synced nor
// extended again, and counts as dead.
func TestI5AnyFailedCallKillsTheFile(t *testing.T) {
	for what, c := range map[string]struct {
		do    func(f *file) error
		calls int
	}{
		"both headers and the frames": {func(f *file) error {
			var s stage
			s.begin(f, dataStart, block, false)
			s.add(make([]byte, 100))
			return f.write(&s)
		}, 3},
		"a sync":      {(*file).sync, 1},
		"zeros":       {func(f *file) error { return f.zero(2*pieceMax, false) }, 2},
		"paced zeros": {func(f *file) error { return f.zero(2*pieceMax, true) }, 5},
	} {
		for n := 1; n <= c.calls+1; n++ {
			under, err := vfs.Memory().Create("/j")
			ok(t, err)
			out := &failsAt{File: under, n: n}
			f := &file{f: out, capacity: 1 << 20}
			f.off.Store(dataStart)
			if err := c.do(f); (err != nil) != (n <= c.calls) || errors.Is(err, errDeadFile) {
				t.Errorf("%s: call %d fails: %v", what, n, err)
			}
			if n > c.calls {
				if out.calls != c.calls || f.dead() {
					t.Errorf("%s: %d calls, dead: %t", what, out.calls, f.dead())
				}
				break
			}
			if err := f.sync(); !errors.Is(err, errDeadFile) || !f.dead() {
				t.Errorf("%s: after call %d has failed, a sync: %v; dead: %t", what, n, err, f.dead())
			}
			if err := f.zero(block, false); !errors.Is(err, errDeadFile) || out.calls != n {
				t.Errorf("%s: after call %d has failed, zeros: %v, and %d further calls", what, n, err, out.calls-n)
			}
			for _, begun := range []bool{false, true} {
				f.begun = begun
				var s stage
				s.begin(f, dataStart, block, begun)
				s.add(make([]byte, 100))
				if err := f.write(&s); !errors.Is(err, errDeadFile) || out.calls != n {
					t.Errorf("%s: after call %d has failed, a write: %v, and %d further calls", what, n, err, out.calls-n)
				}
			}
		}
	}
}

// failsAt fails the call n of those that change the file, and no other one.
type failsAt struct {
	vfs.File
	n, calls int
}

func (f *failsAt) call() error {
	if f.calls++; f.calls == f.n {
		return vfs.ErrLocked // any error that does not mean a full disk
	}
	return nil
}

func (f *failsAt) WriteAt(p []byte, off int64) (int, error) {
	if err := f.call(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *failsAt) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	if err := f.call(); err != nil {
		return 0, err
	}
	return f.File.WriteVecAt(bufs, off)
}

func (f *failsAt) StartWriteback(int64, int64) {}

func (f *failsAt) Writeback(int64, int64) error { return f.call() }

func (f *failsAt) Datasync() error {
	if err := f.call(); err != nil {
		return err
	}
	return f.File.Datasync()
}
