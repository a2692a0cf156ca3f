package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDirectoryErrorsSayWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"stop it":          fmt.Errorf("lock: %w (pid 7)", vfs.ErrLocked),
		"make it writable": &fs.PathError{Op: "mkdir", Path: "/d", Err: syscall.EACCES},
		"free space":       &fs.PathError{Op: "write", Path: "/d", Err: syscall.ENOSPC},
		"choose another with data.dir (--data-dir)": errors.New("is of format 9, newer than this version's 1"),
		"make it writable ":                         &fs.PathError{Op: "mkdir", Path: "/d", Err: syscall.EROFS},
	} {
		got := (&Dirs{data: "/d"}).Error(err)
		if exit.CodeOf(got) != exit.Data || !strings.Contains(got.Error(), want) || !strings.HasPrefix(got.Error(), "directory /d: ") ||
			strings.Contains(got.Error(), "\n") {
			t.Errorf("code %d, %v", exit.CodeOf(got), got)
		}
	}
}

// The metadata of a broker of a cluster are copied from the others: its start names the command
// that moves the damaged ones away, and what to do if the others have lost theirs.
func TestDamagedMetadataOfAMemberAreMovedAway(t *testing.T) {
	damaged := fmt.Errorf("open: %w", &statelog.Damage{Name: "metadata"})
	fsys := vfs.Memory()
	d := &Dirs{fs: fsys, data: "/d", linked: true}
	for _, free := range []string{"/d/metadata.away", "/d/metadata.away2"} {
		got := d.Error(damaged)
		if exit.CodeOf(got) != exit.Data || !strings.HasSuffix(got.Error(), health.Rejoin("/d/metadata", free)) ||
			!strings.Contains(got.Error(), "`mv /d/metadata "+free+"`") {
			t.Errorf("code %d, %v", exit.CodeOf(got), got)
		}
		must.OK(t, vfs.MakeDir(fsys, free))
	}
	d.linked = false
	if got := d.Error(damaged).Error(); strings.Contains(got, "voters") || !strings.Contains(got, "log repair") {
		t.Errorf("without other brokers: %s", got)
	}
}

// A repair refuses a damaged journal whose records other brokers have: the error says what to do
// then. An empty directory would lose the partitions that have their only replica here, so it comes
// last.
func TestTheErrorOfADamagedJournalSaysWhatToDo(t *testing.T) {
	for _, c := range []struct{ at, journal, flags, backup, moves string }{
		{"/a", "/j/a", "--dir /a --journal /j/a", "/a.before-repair", "`mv /a /a.away`, `mkdir -p /j/a` and `mv /j/a /j/a.away`"},
		{"/a", "", "--dir /data --dir /a", "/a.before-repair", "`mv /a /a.away`"},
		{"/data/logs", "", "--dir /data", "/data/logs.before-repair", "`mv /data/logs /data/logs.away`"},
		{"/data/logs", "/j", "--dir /data --journal /j", "/data/logs.before-repair", "`mv /data/logs /data/logs.away`"},
	} {
		for _, replicated := range []bool{false, true} {
			d := &storage.DirError{Path: c.at, Journal: c.journal, Err: fmt.Errorf("frame: %w", journal.ErrDamaged), Replicated: replicated}
			got := dirErrors("/data", map[string]string{"log.dirs": "/a"}, d).Error()
			keep := strings.Index(got, "`chronikctl log repair "+c.flags+" --last-copy --backup "+c.backup+"` keeps")
			away := strings.Index(got, "only if all partitions have other replicas, "+c.moves)
			if replicated != (keep > 0) || replicated != (away > keep) {
				t.Errorf("replicated %v: %s", replicated, got)
			}
			if replicated && !strings.Contains(got, "`chronikctl log repair --dry-run "+c.flags+"`") ||
				!strings.Contains(got, "`chronikctl log verify --dir ") {
				t.Errorf("replicated %v: %s", replicated, got)
			}
		}
	}
}
