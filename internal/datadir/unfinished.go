package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/vfs"
)

// unfinishedFile is the name of the file in the data directory that exists while a restore has not
// ended: a state file of kind "restore", whose payload is an Unfinished as JSON.
const (
	unfinishedFile    = "restore.unfinished"
	unfinishedKind    = "restore"
	unfinishedVersion = 1
)

// Unfinished is a restore that has begun in the directories of a broker, and has not ended. No
// broker starts there.
type Unfinished struct {
	// Cluster, Number and Nonce, in hexadecimal digits, name the snapshot.
	Cluster string `json:"cluster"`
	Number  int64  `json:"number"`
	Nonce   string `json:"nonce"`
	// Into, Generation and Node are those of the cluster that the restore makes.
	Into       string `json:"into"`
	Generation string `json:"generation"`
	Node       int32  `json:"node"`
	// Dirs are the log directories, each with its journal.
	Dirs []string `json:"dirs"`
	// Topics are the names of those that are restored, sorted; none: all.
	Topics []string `json:"topics,omitempty"`
}

// of returns which snapshot is restored, for errors.
func (u *Unfinished) of() string {
	return fmt.Sprintf("snapshot %d of the cluster %s", u.Number, u.Cluster)
}

// Unfinished returns the restore that has not ended in the directories, nil if there is none.
func (d *Dirs) Unfinished() (*Unfinished, error) {
	name := path.Join(d.data, unfinishedFile)
	b, err := statefile.Read(d.fs, name, unfinishedKind, unfinishedVersion)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, d.Error(err)
	}
	u := new(Unfinished)
	if err := json.Unmarshal(b, u); err != nil {
		return nil, d.Error(fmt.Errorf("%w: %s: %w", statefile.ErrCorrupt, name, err))
	}
	return u, nil
}

// refuseUnfinished rejects directories in which a restore has not ended: their logs may be short.
func (d *Dirs) refuseUnfinished() error {
	u, err := d.Unfinished()
	if err != nil || u == nil {
		return err
	}
	return exit.With(exit.Data, fmt.Errorf("directory %s: the restore of %s has not ended; "+
		"repeat chronikd restore with the same configuration, "+
		"or empty the data directory and the log directories", d.data, u.of()))
}

// BeginRestore prepares directories for a restore and locks the data directory, until the returned
// lock is closed. They must be empty, or have what an earlier call of the same snapshot has left.
// It returns u, or what that call was given: its cluster is continued.
func (d *Dirs) BeginRestore(u Unfinished) (now Unfinished, lock io.Closer, err error) {
	if err := vfs.MakeDir(d.fs, d.data); err != nil {
		return u, nil, d.Error(err)
	}
	if lock, err = d.lock(); err != nil {
		return u, nil, err
	}
	if now, err = d.beginRestore(u); err != nil {
		return u, nil, errors.Join(err, lock.Close())
	}
	return now, lock, nil
}

func (d *Dirs) beginRestore(u Unfinished) (Unfinished, error) {
	u.Dirs = nil
	for _, loc := range d.locations {
		u.Dirs = append(u.Dirs, loc.Path, loc.JournalPath())
	}
	before, err := d.Unfinished()
	switch {
	case err != nil:
		return u, err
	case before == nil:
		if err := d.requireEmpty(); err != nil {
			return u, err
		}
		if err := d.writeUnfinished(&u); err != nil {
			return u, d.Error(err)
		}
		return u, nil
	case before.Cluster != u.Cluster || before.Number != u.Number || before.Nonce != u.Nonce:
		return u, exit.With(exit.Data, fmt.Errorf("directory %s: the restore of %s has not ended, and this is %s; "+
			"repeat that one (--snapshot %d), "+
			"or empty the data directory and the log directories", d.data, before.of(), u.of(), before.Number))
	case !slices.Equal(before.Topics, u.Topics):
		return u, exit.With(exit.Data, fmt.Errorf("directory %s: the restore that has not ended is of %s, and this is of %s; "+
			"repeat that one, or empty the data directory and the log directories", d.data, chosen(before.Topics), chosen(u.Topics)))
	case before.Node != u.Node || !equal(before.Dirs, u.Dirs):
		return u, exit.With(exit.Data, fmt.Errorf("directory %s: the restore that has not ended is of node.id %d "+
			"with the log and journal directories %v; "+
			"repeat it with these, or empty all of them", d.data, before.Node, before.Dirs))
	}
	if err := d.fs.SyncDir(d.data); err != nil { // the call that made the name may have ended before its sync
		return u, d.Error(err)
	}
	return *before, nil
}

func (d *Dirs) writeUnfinished(u *Unfinished) error {
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return statefile.Write(d.fs, path.Join(d.data, unfinishedFile), unfinishedKind, unfinishedVersion, b)
}

// chosen says which topics are restored, and with which flags.
func chosen(names []string) string {
	if len(names) == 0 {
		return "all topics (without --topic)"
	}
	return fmt.Sprintf("%s (--topic %s)", text.Count(len(names), "topic"), strings.Join(names, " --topic "))
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if path.Clean(a[i]) != path.Clean(b[i]) {
			return false
		}
	}
	return true
}

// requireEmpty rejects directories that a restore would have to change: those of a broker, and log
// directories with anything in them.
func (d *Dirs) requireEmpty() error {
	dirs := []string{d.Metadata()}
	for _, loc := range d.locations {
		dirs = append(dirs, loc.Path, loc.JournalPath())
	}
	for _, dir := range dirs {
		infos, err := d.fs.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.ErrorOf(dir, err)
		}
		for _, in := range infos {
			if in.Name == "lost+found" || in.Name == storage.LockFile || path.Join(dir, in.Name) == path.Clean(d.data) ||
				contains(dirs, path.Join(dir, in.Name)) || path.Clean(dir) == path.Clean(d.data) && !broker(in.Name) {
				continue
			}
			return exit.With(exit.Data, fmt.Errorf("directory %s: it is not empty: it has %s; a restore needs empty directories: "+
				"move away what is in it, or choose others with data.dir (--data-dir), log.dirs and journal.dirs", dir, in.Name))
		}
	}
	return nil
}

// broker reports whether a name in a data directory that is also a log directory belongs to a
// broker. It may have other files, such as keys.
func broker(name string) bool { return name == storage.IdentityFile || name == storage.CheckpointDir }

func contains(dirs []string, dir string) bool {
	for _, x := range dirs {
		if path.Clean(x) == dir {
			return true
		}
	}
	return false
}

// EndRestore makes the directories those of a broker. It is durable when it returns nil. After an
// error, the restore can be repeated.
func (d *Dirs) EndRestore() error {
	u, err := d.Unfinished()
	if err != nil {
		return err
	}
	if err := d.fs.Remove(path.Join(d.data, unfinishedFile)); err != nil {
		return d.Error(err)
	}
	if err := d.fs.SyncDir(d.data); err != nil {
		// Without the file, a repetition would refuse the directories, which are not empty.
		return d.Error(errors.Join(err, d.writeUnfinished(u)))
	}
	d.restrict(d.Metadata())
	return nil
}
