package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrBackup means that the backup directory cannot be used.
var ErrBackup = errors.New("backup directory cannot be used")

// Manifest is the table of contents of a backup, as JSON.
type Manifest struct {
	Version int     `json:"v"`    // manifestVersion
	Made    string  `json:"made"` // RFC 3339
	Back    string  `json:"wayBack"`
	Acts    []Act   `json:"acts"`
	Files   []Saved `json:"files"`
}

// Saved is one copied file.
type Saved struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
	// Missing: there was no file. Directory: the entries that follow are its files. To restore,
	// both are removed.
	Missing   bool `json:"missing,omitempty"`
	Directory bool `json:"directory,omitempty"`
}

const (
	// ManifestFile is the name of the manifest in a backup.
	ManifestFile    = "manifest.json"
	manifestVersion = 1 // raised if a field changes its meaning; a new field needs no new version
	copiesDir       = "files"
	wayBack         = "stop the broker, remove everything that is listed as missing or as a directory, and copy the files below " +
		copiesDir + " back to their places (cp -a " + copiesDir + "/. /)"
)

// save copies everything that the plan changes, and then writes a manifest. Both are synced.
func (r *Repair) save(ctx context.Context, backup string) error {
	fsys := r.opt.FS
	backup = path.Clean(backup)
	if err := r.usable(backup); err != nil {
		return err
	}
	if err := vfs.MakeDir(fsys, path.Join(backup, copiesDir)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBackup, backup, err)
	}
	m := Manifest{Version: manifestVersion, Made: time.Now().UTC().Format(time.RFC3339), Back: wayBack, Acts: r.plan.Acts}
	for _, s := range r.files() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !s.Directory {
			var err error
			if s, err = copyFile(fsys, s.Path, path.Join(backup, copiesDir, strings.TrimPrefix(s.Path, "/"))); err != nil {
				return fmt.Errorf("copy %s: %w; nothing was changed", s.Path, err)
			}
		}
		m.Files = append(m.Files, s)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if err := cmp.Or(vfs.WriteFile(fsys, path.Join(backup, ManifestFile), append(b, '\n'), true), fsys.SyncDir(backup)); err != nil {
		return fmt.Errorf("%w: %w; nothing was changed", ErrBackup, err)
	}
	return nil
}

// files lists what must be saved: the files of the plan, and all files of its directories.
func (r *Repair) files() []Saved {
	var list []Saved
	for _, name := range r.plan.Files() {
		infos, err := r.opt.FS.List(name)
		if err != nil { // a file, or missing; copying it reports any other error
			in, _ := r.opt.FS.Stat(name)
			list = append(list, Saved{Path: name, Bytes: in.Size})
			continue
		}
		list = append(list, Saved{Path: name, Directory: true})
		for _, in := range infos {
			list = append(list, Saved{Path: path.Join(name, in.Name), Bytes: in.Size})
		}
	}
	return list
}

// usable returns an error if copies cannot be stored in the directory.
func (r *Repair) usable(backup string) error {
	for _, d := range r.inspection.dirs {
		for _, at := range []string{d.location.Path, d.location.JournalPath()} {
			if backup == at || strings.HasPrefix(backup, at+"/") {
				return fmt.Errorf("%w: %s is inside %s; use a directory outside of it, preferably on another disk", ErrBackup, backup, at)
			}
		}
	}
	infos, err := r.opt.FS.List(backup)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBackup, err)
	case len(infos) > 0:
		return fmt.Errorf("%w: %s is not empty; use a new one", ErrBackup, backup)
	}
	if err := vfs.MakeDir(r.opt.FS, backup); err != nil {
		return fmt.Errorf("%w: %w", ErrBackup, err)
	}
	var need uint64
	for _, s := range r.files() {
		need += uint64(s.Bytes)
	}
	if free, _, err := r.opt.FS.Free(backup); err == nil && free < need {
		return fmt.Errorf("%w: %s has %d bytes free, %d are needed", ErrBackup, backup, free, need)
	}
	return nil
}

// copyFile copies a file and syncs the copy.
func copyFile(fsys vfs.FS, from, to string) (Saved, error) {
	s := Saved{Path: from}
	f, err := fsys.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		s.Missing = true
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	size, err := f.Size()
	if err := cmp.Or(err, vfs.MakeDir(fsys, path.Dir(to))); err != nil {
		return s, err
	}
	t, err := fsys.Create(to)
	if err != nil {
		return s, err
	}
	sum := sha256.New()
	step := make([]byte, max(1, min(size, copyStep))) // most files are small
	s.Bytes, err = io.CopyBuffer(io.MultiWriter(io.NewOffsetWriter(t, 0), sum), io.NewSectionReader(f, 0, size), step)
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return s, cmp.Or(err, t.Datasync(), t.Close(), fsys.SyncDir(path.Dir(to)))
}
