package datadir

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A single journal file that the next start needs is missed, and so is the journal's identity,
// which no orderly stop writes again.
func TestSingleFilesOfAJournalAreMissed(t *testing.T) {
	for _, identity := range []bool{false, true} {
		data := t.TempDir()
		at := filepath.Join(data, "logs")
		d, err := storage.OpenDir(storage.Location{Path: at},
			storage.Options{FS: vfs.OS(), JournalFileSize: 64 << 10, JournalBytes: 4 << 20})
		must.OK(t, err)
		p := (&Dirs{fs: vfs.OS(), data: data}).Presence([]*storage.Dir{d})
		files, err := filepath.Glob(filepath.Join(at, "journal", "0*.journal"))
		must.OK(t, err)
		name := "its file " + storage.JournalIdentityFile
		if identity {
			files = append(files, filepath.Join(at, "journal", storage.JournalIdentityFile))
		} else {
			name = "its file 0"
		}
		for _, file := range files {
			must.OK(t, os.Remove(file))
		}
		var f checks.Facts
		for end := time.Now().Add(time.Minute); len(f.Lost) == 0 && time.Now().Before(end); runtime.Gosched() {
			p.Source(&f)
		}
		if len(f.Lost) != 1 || f.Lost[0].Role != checks.RoleJournal || f.Lost[0].Files == identity ||
			!strings.HasPrefix(f.Lost[0].Why, name) {
			t.Errorf("identity %t: found %+v", identity, f.Lost)
		}
		must.OK(t, d.Close())
	}
}
