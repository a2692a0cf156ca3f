package journal

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/vfs"
)

// blocks counts writes and asks that each is of whole blocks and behind all before it.
type blocks struct {
	vfs.File
	t      *rapid.T
	writes int
	least  int64
}

func (b *blocks) WriteDirect(p []byte, off int64) (int, error) {
	if len(p)%block != 0 || off%block != 0 || len(p) == 0 || off < b.least {
		b.t.Fatalf("%d bytes at %d, after writes up to %d", len(p), off, b.least)
	}
	b.least = off + int64(len(p))
	b.writes++
	return b.WriteAt(p, off)
}

// Whatever groups are staged, each begins at the block after the one before it, zeros fill
// its last block, and no write touches a block of an earlier group.
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
			n := rapid.IntRange(1, 3).Draw(t, "pieces")
			var pieces [][]byte
			for range n {
				size := rapid.SampledFrom([]int{0, 1, 8, 80, 500, 4095, 4096, 4097, 70_000, stageMax - 1, stageMax + 3}).Draw(t, "size")
				pieces = append(pieces, bytes.Repeat([]byte{i}, size))
				want = append(want, pieces[len(pieces)-1]...)
			}
			s.begin(f, int64(len(want)-begin)+block, false)
			for _, p := range pieces {
				s.add(p)
			}
			if s.pos() != dataStart+int64(len(want)) {
				t.Fatalf("position %d after %d bytes", s.pos(), len(want))
			}
			if err := f.write(&s, LSN(i)); err != nil {
				t.Fatal(err)
			}
			if n := len(want) - begin; n+block < stageMax && out.writes-writes > 1 {
				t.Fatalf("%d writes of %d bytes", out.writes-writes, n)
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

// The first write of a group that fails is the group's failure, whatever later ones do.
func TestAGroupOfWhichAWriteFailsFails(t *testing.T) {
	under, err := vfs.Memory().Create("/j")
	ok(t, err)
	f := &file{f: &failsOnce{File: under}, begun: true}
	f.off.Store(dataStart)
	var s stage
	s.begin(f, 2*stageMax, false)
	s.add(make([]byte, 2*stageMax))
	if err := f.write(&s, 1); err == nil {
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
