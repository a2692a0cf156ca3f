package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestARemovedDirectoryIsDetected(t *testing.T) {
	move := func(from, to string) func(dir string) error {
		return func(dir string) error { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) }
	}
	for _, c := range []struct {
		name string
		do   func(dir string) error
		want string // the reason; empty for none
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"the directory is removed", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "a [b]*")) }, "it was removed"},
		{"it is moved away", move("a [b]*", "b"), "it was removed"},
		{"it is replaced", func(dir string) error {
			if err := move("a [b]*", "b")(dir); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(dir, "a [b]*"), os.DirFS(filepath.Join(dir, "b")))
		}, "another directory or mount took its place"},
		{"its files are removed", func(dir string) error { return os.Remove(filepath.Join(dir, "a [b]*", "1.journal")) },
			"its files (*.journal) were removed"},
		{"a file is replaced by the next", move("a [b]*/1.journal", "a [b]*/2.journal"), ""},
		{"other files are removed", func(dir string) error { return os.Remove(filepath.Join(dir, "a [b]*", "other")) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "a [b]*")
			must.OK(t, os.Mkdir(at, 0o750))
			for _, name := range []string{"1.journal", "other"} {
				must.OK(t, os.WriteFile(filepath.Join(at, name), nil, 0o600))
			}
			p := NewPresence(Used{Role: checks.RoleJournal, Path: at, Files: "*.journal"},
				Used{Role: checks.RoleJournal, Path: filepath.Join(dir, "never there"), Files: "*"})
			must.OK(t, c.do(dir))
			found := lostOf(t, p)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.want != "" && (len(found) != 1 || found[0] != checks.Lost{Role: checks.RoleJournal, Path: at, Why: c.want}):
				t.Errorf("found %+v, want %s", found, c.want)
			}
		})
	}
}

// Of a directory that is there, single files may be missing. They have a remedy of their own.
func TestFilesInUseThatWereRemovedAreDetected(t *testing.T) {
	for want, missing := range map[string][]string{
		"":                                     nil,
		"its file 7.journal was removed":       {"7.journal"},
		"2 of its files, 7.journal the first,": {"7.journal", "8.journal"},
	} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "9.journal"), nil, 0o600))
		p := NewPresence(Used{Role: checks.RoleJournal, Path: dir, Files: "*.journal", Missing: func() []string { return missing }})
		found := lostOf(t, p)
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !found[0].Files || !strings.HasPrefix(found[0].Why, want)) {
			t.Errorf("%q: found %+v", missing, found)
		}
		must.OK(t, os.Remove(filepath.Join(dir, "9.journal")))
		if found = lostOf(t, p); len(found) != 1 || found[0].Files {
			t.Errorf("%q, and the other files: found %+v", missing, found)
		}
	}
}

// The remedy moves what is left of a log directory to a name that nothing has: mv would move it
// into a directory.
func TestALostLogDirectoryHasAFreeName(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "logs")
	must.OK(t, os.Mkdir(logs, 0o750))
	p := NewPresence(Used{Role: checks.RoleLogs, Path: logs, Files: "chronik.dir"}, Used{Role: checks.RoleMetadata, Path: dir, Files: "x"})
	for _, want := range []string{logs + ".away", logs + ".away2", logs + ".away3"} {
		lostOf(t, p)
		var f checks.Facts
		p.Source(&f)
		if len(f.Free) != 1 || f.Free[0] != (checks.Free{Path: logs, Away: want}) {
			t.Errorf("free names %+v, want %s", f.Free, want)
		}
		must.OK(t, os.MkdirAll(want, 0o750))
	}
}

// The presence of one file is not found by listing its directory, which may have a file for each
// partition.
func TestOneFileIsNotListed(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "chronik.dir")
	must.OK(t, os.WriteFile(name, nil, 0o600))
	p := NewPresence(Used{Role: checks.RoleLogs, Path: dir, Files: "chronik.dir"})
	for i := range 3000 {
		must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	if n := testing.AllocsPerRun(3, p.examine); n > 100 {
		t.Errorf("%v allocations for a directory of 3,000 files", n)
	}
	if found := lostOf(t, p); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	must.OK(t, os.Remove(name))
	if found := lostOf(t, p); len(found) != 1 || found[0].Why != "its file chronik.dir was removed" {
		t.Errorf("found %+v", found)
	}
}

// lostOf queries p until an examination that began after the call has ended.
func lostOf(t *testing.T, p *Presence) []checks.Lost {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	p.found.Store(nil)
	for p.found.Load() == nil || p.busy.Load() {
		if time.Now().After(deadline) {
			t.Fatal("no examination ends")
		}
		p.Source(&checks.Facts{})
	}
	var f checks.Facts
	p.Source(&f)
	return f.Lost
}

// A directory that cannot be read, for example because the process has no free file descriptor,
// does not count as empty: the remedy would stop the broker.
func TestADirectoryThatCannotBeReadIsNotLost(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "1.journal"), nil, 0o600))
	p := NewPresence(Used{Role: checks.RoleJournal, Path: dir, Files: "*.journal"})
	var limit unix.Rlimit
	must.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Skip("the limit of open files cannot be set here:", err)
	}
	p.examine()
	must.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if lost := p.found.Load().lost; len(lost) > 0 {
		t.Errorf("%+v", lost)
	}
}
