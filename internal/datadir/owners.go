package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/vfs"
)

// CheckFormats rejects directories that a newer version wrote, before anything is changed: a
// directory that is converted only in part would suit neither version.
func (d *Dirs) CheckFormats() error {
	if err := d.refuseUnfinished(); err != nil { // an unfinished restore has logs without metadata
		return err
	}
	for _, loc := range d.Answering() {
		if err := storage.Peek(d.fs, loc); err != nil {
			return d.Errors(&storage.DirError{Path: loc.Path, Journal: loc.Journal, Err: err})
		}
	}
	dir := d.Metadata()
	if err := raftstore.Peek(d.fs, dir); err != nil {
		return d.Error(err)
	}
	var err error
	if d.owners, err = readOwners(d.fs, d.Answering()); err != nil {
		return exit.With(exit.Data, err)
	}
	if there, err := raftstore.Exists(d.fs, dir); err != nil || there {
		return nil // opening it reports any other error
	}
	return d.CheckOwners()
}

// owners says to whom the logs in the log directories belong.
type owners struct {
	cluster string // the id of the cluster that has registered them, "" if none has
	unread  error  // why a directory could not be read, nil if all were
	alone   string // a directory with logs of a broker without seeds, "" if there is none
}

// readOwners reads the checkpoints, because log directories are opened only when the node is a
// member of its cluster. A broker whose metadata directory is lost must not form a new cluster, in
// which its logs have no topics.
func readOwners(fsys vfs.FS, all []storage.Location) (o owners, err error) {
	from := ""
	for _, p := range all {
		s, err := checkpoint.Read(fsys, path.Join(p.Path, storage.CheckpointDir))
		// The broker can serve without it. A file in its place has no logs, and no start takes it.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			o.unread = errors.Join(o.unread, fmt.Errorf("log directory %s: %w", p.Path, err))
		}
		if err != nil || s == nil {
			continue
		}
		if s.Owner == (checkpoint.Owner{}) {
			if slices.ContainsFunc(s.Logs, func(l checkpoint.Log) bool { return !l.Deleted }) {
				o.alone = p.Path
			}
			continue
		}
		owner := metadata.FormatID(s.Owner.Cluster)
		if o.cluster != "" && o.cluster != owner {
			return o, fmt.Errorf("the log directories %s and %s belong to different clusters, %s and %s; remove one of them from log.dirs",
				from, p.Path, o.cluster, owner)
		}
		o.cluster, from = owner, p.Path
	}
	return o, nil
}

// CheckOwners rejects logs whose metadata is missing. It is called if this node has none: its
// cluster would begin without the topics of these logs.
func (d *Dirs) CheckOwners() error {
	o, dir := d.owners, d.Metadata()
	switch linked := d.linked; {
	case linked && o.unread != nil:
		return d.refuseUnread(o.unread)
	case !linked && o.cluster != "":
		return exit.With(exit.Data, fmt.Errorf("the log directories of this broker hold records of the cluster %s, and %s %w; "+
			"set cluster.name and cluster.seeds, or use empty log directories", o.cluster, dir, errNoMetadata))
	case !linked:
		return d.requireMetadata()
	case o.cluster == "" && o.alone != "":
		return exit.With(exit.Data, fmt.Errorf("the log directory %s holds partitions of a broker without cluster.seeds, and %s %w; "+
			"put the metadata back to begin a cluster with them, or give this broker an empty log directory", o.alone, dir, errNoMetadata))
	}
	return nil
}

// refuseUnread rejects log directories that may hold partitions, if there is no metadata.
func (d *Dirs) refuseUnread(err error) error {
	return exit.With(exit.Data, fmt.Errorf("%w; %s has no metadata, so those of this directory may be lost: "+
		"make it readable, or give this broker another one", err, d.Metadata()))
}

// requireMetadata rejects log directories that hold partitions, or may hold some, if the metadata
// that describes them is missing: all their topics would be gone, and a new topic of the same name
// would be a different one.
func (d *Dirs) requireMetadata() error {
	all, unread := d.Answering(), d.owners.unread
	for _, loc := range all {
		used, err := storage.Used(d.fs, loc)
		if err != nil { // another directory may have been used for certain, which says more
			unread = cmp.Or(unread, fmt.Errorf("log directory %s: %w", loc.Path, err))
			continue
		}
		if used {
			lock, err := d.fs.Lock(path.Join(loc.Path, storage.LockFile), Holder())
			if err != nil { // the broker that holds the lock also has the metadata
				return d.Errors(&storage.DirError{Path: loc.Path, Journal: loc.Journal, Err: err})
			}
			_ = lock.Close() // the lock ends with the process in any case
			return exit.With(exit.Data, fmt.Errorf("directory %s: the log directory %s holds partitions, and %s %w; "+
				"set data.dir (--data-dir) to the directory that has it, or give this broker an empty log directory; if it is lost, %s shows which topics can be restored",
				d.data, loc.Path, d.Metadata(), errNoMetadata, d.repair(all, "--dry-run")))
		}
	}
	if unread != nil {
		return d.refuseUnread(unread)
	}
	return nil
}
