package main

import (
	"context"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// session is one file in use.
type session struct {
	t *testing.T
	f *file
}

func (s session) ok(errno error, bad bool) {
	s.t.Helper()
	if bad {
		s.t.Fatal(errno)
	}
}

func (s session) write(at int64, text string) {
	s.t.Helper()
	n, errno := s.f.Write(context.Background(), nil, []byte(text), at)
	s.ok(errno, errno != fs.OK || int(n) != len(text))
}

func (s session) sync() {
	s.t.Helper()
	errno := s.f.Fsync(context.Background(), nil, 0)
	s.ok(errno, errno != fs.OK)
}

func (s session) resize(size uint64) {
	s.t.Helper()
	in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: size}}
	errno := s.f.Setattr(context.Background(), nil, in, &fuse.AttrOut{})
	s.ok(errno, errno != fs.OK)
}

func (s session) expect(when, want string) {
	s.t.Helper()
	if got := string(s.f.now); got != want {
		s.t.Fatalf("%s: %q, want %q", when, got, want)
	}
}

func TestOnlyWhatASyncCoveredRemains(t *testing.T) {
	s := session{t, (&disk{}).newFile()}
	s.write(0, "one")
	s.f.lose()
	s.expect("without a sync", "")

	s.write(0, "one two")
	s.sync()
	s.write(4, "2")
	s.write(7, " three")
	if lost, differs := s.f.lose(); lost != 7 || !differs {
		t.Errorf("lost %d bytes, differs %v", lost, differs)
	}
	s.expect("an overwrite and an append after the sync", "one two")

	s.write(4, "2")
	s.sync()
	s.f.lose()
	s.expect("a sync after the overwrite", "one 2wo")
	if lost, differs := s.f.lose(); lost != 0 || differs {
		t.Errorf("a second loss: %d bytes, differs %v", lost, differs)
	}
}

func TestWhatIsWrittenBackRemains(t *testing.T) {
	s := session{t, (&disk{}).newFile()}
	s.write(0, "one")
	s.f.persist()
	s.write(3, " two")
	s.f.lose()
	s.expect("written back, and then appended to", "one")
}

func TestASizeIsDurableWithTheNextSync(t *testing.T) {
	s := session{t, (&disk{}).newFile()}
	s.write(0, "one two")
	s.sync()
	s.resize(3)
	s.f.lose()
	s.expect("a cut without a sync", "one two")

	s.resize(3)
	s.resize(5)
	s.expect("a file that was cut and extended", "one\x00\x00")
	s.sync()
	s.f.lose()
	s.expect("the same after a sync", "one\x00\x00")

	s.write(8, "end") // leaves a hole
	s.sync()
	s.f.lose()
	s.expect("a hole", "one"+strings.Repeat("\x00", 5)+"end")
}

func TestNoCallSucceedsWithoutPower(t *testing.T) {
	s := session{t, (&disk{}).newFile()}
	s.write(0, "one")
	s.f.disk.cut()
	if _, errno := s.f.Write(context.Background(), nil, []byte("x"), 0); errno == fs.OK {
		t.Error("a write succeeded")
	}
	if errno := s.f.Fsync(context.Background(), nil, 0); errno == fs.OK {
		t.Error("a sync succeeded")
	}
	s.f.lose()
	s.expect("a sync without power", "")
}
