package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Used is a directory in which the broker has open files, and a pattern that at least one of its
// files matches at any time.
type Used struct {
	Role, Path, Files string
	// Missing returns the names of files in use that were removed, and may wait for the disk. It
	// may be nil.
	Missing func() []string
}

// Presence detects that a directory was removed, replaced or emptied while the broker uses it. The
// broker itself does not notice: on Unix its open files stay readable and writable until it closes
// them.
type Presence struct {
	used  []identity
	busy  atomic.Bool
	found atomic.Pointer[missing]
}

// missing is what an examination found.
type missing struct {
	lost []checks.Lost
	free []checks.Free
}

// identity is a directory as it was when the broker opened it.
type identity struct {
	Used
	info fs.FileInfo
}

// NewPresence records the identity of the directories. It skips those that cannot be read, because
// opening them has already reported that.
func NewPresence(used ...Used) *Presence {
	p := &Presence{}
	for _, u := range used {
		if info, err := os.Stat(u.Path); err == nil {
			p.used = append(p.used, identity{u, info})
		}
	}
	return p
}

// Source is a checks.Source. It does not wait for a disk: it starts an examination in the
// background, unless one is running, and returns the result of the last. Nothing waits for the
// goroutine: a system call on a disk that hangs can't be canceled, and must not hold up a stop.
func (p *Presence) Source(f *checks.Facts) {
	if p.busy.CompareAndSwap(false, true) {
		go func() {
			defer p.busy.Store(false)
			p.examine()
		}()
	}
	if found := p.found.Load(); found != nil {
		f.Lost, f.Free = found.lost, found.free
	}
}

func (p *Presence) examine() {
	var found missing
	for i := range p.used {
		u := &p.used[i]
		if slices.ContainsFunc(found.lost, func(l checks.Lost) bool { return l.Path == u.Path }) {
			continue // by another of its files
		}
		x := checks.Lost{Role: u.Role, Path: u.Path, Why: u.why()}
		if x.Why == "" && u.Missing != nil {
			x.Why, x.Files = withoutFiles(u.Missing()), true
		}
		if x.Why != "" {
			found.lost = append(found.lost, x)
		}
	}
	for i := range p.used {
		if u := &p.used[i]; u.Role == checks.RoleLogs && len(found.lost) > 0 {
			found.free = append(found.free, checks.Free{Path: u.Path, Away: vfs.FreeName(vfs.OS(), u.Path)})
		}
	}
	p.found.Store(&found)
}

// withoutFiles returns what happened to a directory that lacks files, or "" if it lacks none.
func withoutFiles(gone []string) string {
	switch len(gone) {
	case 0:
		return ""
	case 1:
		return "its file " + gone[0] + " was removed"
	}
	return fmt.Sprintf("%d of its files, %s the first, were removed", len(gone), gone[0])
}

// why returns what happened to the directory, or "" if nothing did. It does not report other errors
// of reading it: they prove nothing, and other checks report disks that fail.
func (d *identity) why() string {
	info, err := os.Stat(d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it was removed"
	case err != nil:
		return ""
	case !os.SameFile(info, d.info):
		return "another directory or mount took its place"
	}
	if !strings.ContainsAny(d.Files, `*?[\\`) { // one file; the directory may have very many
		if _, err := os.Lstat(filepath.Join(d.Path, d.Files)); !errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		return fmt.Sprintf("its file %s was removed", d.Files)
	}
	// A file that is renamed while the directory is read can be missed, so it must be missing
	// twice.
	for range 2 {
		names, err := namesIn(d.Path)
		if err != nil || slices.ContainsFunc(names, func(name string) bool { ok, _ := path.Match(d.Files, name); return ok }) {
			return ""
		}
	}
	return fmt.Sprintf("its files (%s) were removed", d.Files)
}

// namesIn lists a directory. An error does not prove that a file is missing: the process may have
// no free file descriptor.
func namesIn(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
