package inspect_test

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
)

// withoutJournal returns an image without a journal, and the name of a segment of the log "flushed"
// whose records are all beyond the checkpoint.
func withoutJournal(t *testing.T) (s *site, name string) {
	s = &site{TB: t, fs: used(t)}
	s.remove("journal")
	infos, err := s.fs.List(root + "/flushed-0")
	s.must(err)
	for _, in := range infos {
		if _, ok := segment.ParseName(in.Name); ok && in.Size > 2000 {
			name = "flushed-0/" + in.Name
		}
	}
	return s, name
}

// A tail ends at a damaged batch. What is behind it goes with the repair, and comes back with the
// backup.
func TestTheWayBackHasWhatIsBehindATail(t *testing.T) {
	s, name := withoutJournal(t)
	_, pos := s.batch(name, 2)
	s.flip(name, pos+70)
	before := without(tree(t, s.fs, root))
	r := begin(t, s.fs)
	s.must(r.Do(context.Background(), "/backup"))
	s.must(r.Close())
	back(s, "/backup")
	after := without(tree(t, s.fs, root))
	for n, sum := range before {
		if after[n] != sum {
			t.Errorf("%s is not what it was", n)
		}
	}
}

// flaky flips a bit in the first read of a file after a copy of it was begun, as a bad cable does.
type flaky struct {
	vfs.FS
	name string
	on   *bool
}

type flakyFile struct {
	vfs.File
	on *bool
}

func (f flaky) Create(name string) (vfs.File, error) {
	*f.on = name == f.name+segment.CleanedSuffix
	return f.FS.Create(name)
}

func (f flaky) Open(name string) (vfs.File, error) {
	h, err := f.FS.Open(name)
	if err == nil && name == f.name {
		return flakyFile{h, f.on}, nil
	}
	return h, err
}

func (f flakyFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if *f.on && n > 100 {
		*f.on = false
		p[100] ^= 1
	}
	return n, err
}

// A tail that is read wrongly while it is copied does not replace the file that has it.
func TestATailIsCheckedBeforeItIsReplaced(t *testing.T) {
	s, name := withoutJournal(t)
	name = path.Join(root, name)
	before := tree(t, s.fs, root)[name]
	r := begin(t, flaky{s.fs, name, new(bool)})
	if err := r.Do(context.Background(), "/backup"); err == nil || !strings.Contains(err.Error(), "could be read, and now only") {
		t.Errorf("the repair: %v", err)
	}
	s.must(r.Close())
	if tree(t, s.fs, root)[name] != before {
		t.Error("the only good copy was replaced")
	}
}
