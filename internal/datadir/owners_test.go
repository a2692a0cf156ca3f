package datadir

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// A broker without seeds whose metadata are missing begins with none only if its log directories
// are known to be unused. Those that it cannot read may have partitions, which would lose their
// topics.
func TestNoMetadataBeginNextToLogsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		rule errfs.Rule
		lost string // a file that is missing in addition
	}{
		"denied":         {rule: errfs.Rule{Ops: errfs.Any &^ errfs.Lock, Path: "/one/*", Err: fs.ErrPermission}},
		"the whole disk": {rule: errfs.Rule{Path: "/one/*", Err: syscall.EIO}},
		"its names":      {rule: errfs.Rule{Ops: errfs.Stat, Path: "/one/*", Err: syscall.EIO}},
		"the checkpoint, and no identity": {rule: errfs.Rule{Ops: errfs.List, Path: "/one/checkpoint", Err: syscall.EIO},
			lost: "/one/chronik.dir"},
	} {
		for _, dirs := range [][]string{{"/one"}, {"/two", "/one"}} {
			disk := crashfs.New(1)
			must.OK(t, disk.MkdirAll("/data"))
			d, err := storage.OpenDir(storage.Location{Path: "/one"},
				storage.Options{FS: disk, JournalFileSize: 64 << 10, JournalBytes: 4 << 20})
			must.OK(t, err)
			must.OK(t, d.Close())
			if err := dirsOf(disk, dirs...).CheckFormats(); !errors.Is(err, errNoMetadata) {
				t.Errorf("%s: without a fault: %v", name, err)
			}
			if c.lost != "" {
				must.OK(t, disk.Remove(c.lost))
			}
			faulty := errfs.New(disk)
			faulty.Add(c.rule)
			err = dirsOf(faulty, dirs...).CheckFormats()
			if !errors.Is(err, c.rule.Err) || !strings.Contains(err.Error(), "log directory /one: ") ||
				!strings.HasSuffix(err.Error(), "make it readable, or give this broker another one") {
				t.Errorf("%s, %v: %v", name, dirs, err)
			}
		}
	}
	if err := dirsOf(crashfs.New(1), "/one", "/two").CheckFormats(); err != nil {
		t.Errorf("a first start: %v", err)
	}
}
