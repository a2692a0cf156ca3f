package files

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// New files have the owner and mode of the former ones. If one can't be replaced, all former ones
// are there, and nothing else.
func TestFilesAreReplacedTogether(t *testing.T) {
	dir := t.TempDir()
	key, certificate := filepath.Join(dir, "key"), filepath.Join(dir, "certificate")
	write := func(path, text string, mode os.FileMode) {
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		must.OK(t, os.Chmod(path, mode))
	}
	write(key, "old", 0o640)
	write(certificate, "old", 0o604)
	owner := os.Getuid()
	if owner == 0 { // only root can give files away
		owner = 12345
		must.OK(t, os.Chown(key, owner, 54321))
	}
	check := func(when, want string) {
		t.Helper()
		for path, mode := range map[string]os.FileMode{key: 0o640, certificate: 0o604} {
			text, err := os.ReadFile(path)
			info, statErr := os.Stat(path)
			if err != nil || statErr != nil || string(text) != want || info.Mode().Perm() != mode {
				t.Errorf("%s: %s has %q, mode %o, %v", when, path, text, info.Mode().Perm(), err)
			}
		}
		if info, err := os.Stat(key); err != nil {
			t.Error(err)
		} else if uid, _, _ := ownerOf(info); uid != owner {
			t.Errorf("%s: the owner of the key is %d, want %d", when, uid, owner)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
			t.Errorf("%s: left are %v", when, left)
		}
	}
	all := []Replacement{{key, []byte("new")}, {certificate, []byte("new")}}
	full := errors.New("no space")
	err := replace(all, func(from, to string) error {
		if to == certificate {
			return full
		}
		return os.Rename(from, to)
	}, vfs.OS().SyncDir)
	if !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	check("after a failure", "old")
	if err := replace(all, os.Rename, func(string) error { return syscall.EIO }); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	check("after a sync of the directory that failed", "old")
	write(key+".new", "of an attempt that was interrupted", 0o600)
	must.OK(t, Replace(all))
	check("replaced", "new")
	if err := Replace([]Replacement{{key, []byte("newer")}, {filepath.Join(dir, "missing"), nil}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	check("one is missing", "new")
}

// A former file that can't be renamed back stays under its other name.
func TestAFormerFileIsNotLost(t *testing.T) {
	dir := t.TempDir()
	key, certificate := filepath.Join(dir, "key"), filepath.Join(dir, "certificate")
	must.OK(t, os.WriteFile(key, []byte("old"), 0o600))
	must.OK(t, os.WriteFile(certificate, []byte("old"), 0o600))
	err := replace([]Replacement{{key, []byte("new")}, {certificate, []byte("new")}}, func(from, to string) error {
		if to == certificate || from == key+".old" {
			return syscall.EIO
		}
		return os.Rename(from, to)
	}, vfs.OS().SyncDir)
	former, readErr := os.ReadFile(key + ".old")
	if !errors.Is(err, syscall.EIO) || readErr != nil || string(former) != "old" {
		t.Errorf("%v, the former key is %q, %v", err, former, readErr)
	}
}

// A link in a directory of another user does not give that user the file that it names.
func TestNoFileIsGivenAwayThroughALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	must.OK(t, os.Symlink(file, link))
	must.OK(t, OwnAs(file, dir))
	if err := OwnAs(link, dir); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
}
