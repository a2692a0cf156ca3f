package storage

import (
	"fmt"
	"path"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs"
)

// aside keeps frames that no log takes now: those of logs that were found
// damaged, of logs whose files can't be written in this run, and of logs that
// nobody knows. They go to a file of their own, in the journal's frame format, so
// that they neither are lost nor hold the journal.
type aside struct {
	d     *Dir
	seq   uint64 // of the checkpoint before the one that will speak of the files
	files map[string]*asideFile
}

type asideFile struct {
	f   vfs.File
	end int64
}

func newAside(d *Dir) *aside {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return &aside{d: d, seq: d.ckptSeq, files: map[string]*asideFile{}}
}

// keep appends a frame to DIR/NAME-<checkpoint sequence>.frames and returns the
// file's name in DIR.
func (a *aside) keep(f *journal.Frame, dir, name string) (string, error) {
	base := asideName(name, a.seq)
	full := path.Join(dir, base)
	x := a.files[full]
	if x == nil {
		if err := a.d.opt.FS.MkdirAll(dir); err != nil {
			return "", fmt.Errorf("keep journal frames aside: %w", err)
		}
		_ = a.d.opt.FS.Remove(full) // of an earlier start that crashed here
		file, err := a.d.opt.FS.Create(full)
		if err != nil {
			return "", fmt.Errorf("keep journal frames aside: %w", err)
		}
		x = &asideFile{f: file}
		a.files[full] = x
		a.d.log.Error("journal holds frames that no partition takes now; they are kept aside", zap.String("file", full))
	}
	b := f.Encode(nil)
	if _, err := x.f.WriteAt(b, x.end); err != nil {
		return "", fmt.Errorf("keep journal frames aside: %w", err)
	}
	x.end += int64(len(b))
	return base, nil
}

func asideName(name string, seq uint64) string { return fmt.Sprintf("%s-%d", name, seq) + framesSuffix }

// close makes everything that was kept durable.
func (a *aside) close() error {
	var first error
	for name, x := range a.files {
		err := x.f.Datasync()
		if e := x.f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = a.d.opt.FS.SyncDir(path.Dir(name))
		}
		if err != nil && first == nil {
			first = fmt.Errorf("keep journal frames aside: %w", err)
		}
	}
	return first
}
