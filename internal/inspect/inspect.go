package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrNotData means that a directory was not created by chronik.
var ErrNotData = errors.New("is neither a data directory nor a log directory of chronik")

// Options name the directories to check.
type Options struct {
	FS vfs.FS
	// Locations are the log directories with their journals. Data are the data directories whose
	// metadata is also checked.
	Locations []storage.Location
	Data      []string
	// LastCopy permits a repair of partitions of which other brokers have replicas. It leaves out
	// what those may have.
	LastCopy bool
	// LastCopyCommand is the command that repairs with LastCopy, for messages; it may be empty.
	LastCopyCommand string
	// Restore has batches of other replicas, which a repair writes where the logs lack them; it may
	// be nil.
	Restore *Donor
	// Node is the node.id of the broker, for partitions of which only the logs are left.
	Node int32
	// Progress is called with the number of bytes read since the last call; it may be nil. Size
	// returns their sum.
	Progress func(n int64)
}

// Find returns Options for directories, each of which is a data directory with metadata and logs,
// or a single log directory. journals, if there are any, are the journals of the log directories in
// the same order.
func Find(fsys vfs.FS, dirs, journals []string) (Options, error) {
	o := Options{FS: fsys}
	var empty []string
	for _, dir := range dirs {
		dir = path.Clean(dir)
		names, err := fsys.List(dir)
		if err != nil {
			return o, fmt.Errorf("data directory: %w", err)
		}
		logs := path.Join(dir, logsDir)
		isData, err := exists(fsys, path.Join(dir, metadataDir))
		found := false
		for _, at := range []string{dir, logs} {
			switch is, err := isLogDir(fsys, at); {
			case err != nil:
				return o, fmt.Errorf("data directory: %w", err)
			case is:
				o.Locations, found = append(o.Locations, storage.Location{Path: at}), true
				isData = isData || at == logs // even if its metadata is lost
			}
		}
		if isData {
			o.Data, found = append(o.Data, dir), true
		} else if err != nil {
			return o, fmt.Errorf("data directory: %w", err)
		}
		if !found && !slices.ContainsFunc(names, func(in vfs.Info) bool { return in.Dir }) {
			empty = append(empty, dir)
			continue
		}
		if !found {
			return o, fmt.Errorf("%s %w: it holds neither %s nor %s", dir, ErrNotData, storage.IdentityFile, metadataDir)
		}
	}
	if len(empty) == 1 && len(o.Data) == 0 && len(o.Locations) > 0 { // the disk of the data directory was replaced
		o.Data, empty = empty, nil
	}
	if len(empty) > 0 {
		return o, fmt.Errorf("%s %w: it holds neither %s nor %s", empty[0], ErrNotData, storage.IdentityFile, metadataDir)
	}
	if len(journals) > 0 && len(journals) != len(o.Locations) {
		return o, fmt.Errorf("%s given for %s; name one journal for each log directory, in the same order",
			text.Count(len(journals), "journal"), text.Plural(len(o.Locations), "log directory", "log directories"))
	}
	for i, j := range journals {
		o.Locations[i].Journal = j
	}
	return o, nil
}

// Subdirectories of a data directory.
const (
	metadataDir = "metadata"
	logsDir     = "logs"
)

// isLogDir reports whether a directory has one of the names of a log directory. One that cannot be
// read is an error unless another one is found.
func isLogDir(fsys vfs.FS, dir string) (bool, error) {
	var failed error
	for _, name := range []string{storage.IdentityFile, storage.CheckpointDir, "journal"} {
		has, err := exists(fsys, path.Join(dir, name))
		if has {
			return true, nil
		}
		failed = cmp.Or(failed, err)
	}
	return false, failed
}

// exists reports whether a name exists. With any other error of the system that is unknown: what
// would follow from a missing file must not follow from a disk that fails.
func exists(fsys vfs.FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// Verify checks everything and changes nothing. It locks the directories, so that no broker can
// start in the meantime; if a broker is running, the error matches storage.ErrLocked. Other errors
// mean that something could not be checked at all, usually for lack of permission.
func Verify(ctx context.Context, opt Options) (*Inspection, error) {
	opt.FS = vfs.ReadOnly(opt.FS)
	dirs := slices.Clone(opt.Data)
	for _, p := range opt.Locations {
		dirs = append(dirs, p.Path)
	}
	locks, err := lockAll(opt.FS, dirs, "")
	defer func() {
		for _, l := range locks {
			_ = l.Close() // the lock ends with the process in any case
		}
	}()
	if err != nil {
		return nil, err
	}
	return verify(ctx, opt)
}

// lockAll locks directories. After an error it returns the locks that it got.
func lockAll(fsys vfs.FS, dirs []string, holder string) (locks []io.Closer, err error) {
	for _, dir := range dirs {
		l, err := fsys.Lock(path.Join(dir, storage.LockFile), holder)
		if errors.Is(err, vfs.ErrLocked) {
			return locks, fmt.Errorf("%w: %s: %w", storage.ErrLocked, dir, err)
		}
		if err != nil {
			return locks, fmt.Errorf("lock %s: %w", dir, err)
		}
		locks = append(locks, l)
	}
	return locks, nil
}

// verify is Verify for a caller that holds the locks.
func verify(ctx context.Context, opt Options) (*Inspection, error) {
	if opt.Progress == nil {
		opt.Progress = func(int64) {}
	}
	rep := &Inspection{Directories: []Directory{}, Partitions: []Partition{}, Findings: []Finding{}, lastCopy: opt.LastCopyCommand}
	for _, location := range opt.Locations {
		location.Path = path.Clean(location.Path)
		d := &dir{ctx: ctx, fs: opt.FS, location: location, opt: &opt, out: Directory{Path: location.Path, Journal: location.JournalPath()}}
		if err := d.read(); err != nil {
			return nil, err
		}
		rep.dirs = append(rep.dirs, d)
	}
	if err := rep.metadata(opt); err != nil {
		return nil, err
	}
	for _, d := range rep.dirs {
		rep.Directories = append(rep.Directories, d.out)
		rep.Findings = append(rep.Findings, d.findings...)
		rep.Partitions = append(rep.Partitions, d.partitions()...)
	}
	sorts.SortStable(rep.Partitions, func(a, b Partition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return rep, ctx.Err()
}

// access reports whether an error concerns the caller's access or its context, and not the data.
func access(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, context.Canceled)
}

// Size estimates how many bytes Verify reads.
func Size(opt Options) (n int64) {
	for _, p := range opt.Locations {
		infos, _ := opt.FS.List(p.Path) // Verify reports directories that cannot be listed
		for _, in := range infos {
			if !in.Dir {
				continue
			}
			below, _ := opt.FS.List(path.Join(p.Path, in.Name))
			for _, f := range below {
				if _, ok := segment.ParseName(f.Name); ok {
					n += f.Size
				}
			}
		}
	}
	return n
}
