// Package datadir knows the directories of a broker before its components open them, and while it
// runs what they have to do with each other.
//
// Before anything is changed, it finds directories whose disks hang, that a newer version wrote,
// whose logs belong to another cluster, or whose metadata is missing or older than its copy. It
// locks the data directory, closes the metadata to other users, and keeps the copy of the metadata
// while few voters have them. Its errors say what to do, with an exit code. Packages storage and
// raftstore open the directories; datadir does not know the formats of their files.
package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/health/host"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Dirs are the directories of a broker. One goroutine uses it until the broker has started.
type Dirs struct {
	fs        vfs.FS
	data      string
	set       map[string]string // the settings under Kafka's names
	linked    bool              // there may be other brokers
	log       *zap.Logger
	locations []storage.Location // of the log directories
	owners    owners             // of the logs in them
}

// New returns the directories of a configuration. It touches none of them.
func New(fsys vfs.FS, cfg *config.Config, conf *configdef.Broker, log *zap.Logger) *Dirs {
	return &Dirs{fs: fsys, data: cfg.DataDir, set: cfg.Broker, linked: len(conf.Cluster.Seeds) > 0, log: log,
		locations: storage.Locations(conf.LogDirs, conf.JournalDirs)}
}

// Metadata returns the directory of the metadata.
func (d *Dirs) Metadata() string { return path.Join(d.data, resolve.MetadataDir) }

// Locations returns all log directories.
func (d *Dirs) Locations() []storage.Location { return d.locations }

// Cluster returns the id of the cluster that has registered the log directories; "" if none has.
func (d *Dirs) Cluster() string { return d.owners.cluster }

// Holder returns what lock files record about this process.
func Holder() string { return "pid " + strconv.Itoa(os.Getpid()) }

// Create creates the data directory and locks it, until the returned lock is closed. That no
// restore is unfinished there is durable then.
func (d *Dirs) Create() (io.Closer, error) {
	if err := vfs.MakeDir(d.fs, d.data); err != nil {
		return nil, d.Error(err)
	}
	lock, err := d.Lock()
	if err != nil {
		return nil, err
	}
	// A restore may have been killed before this sync. A loss of power would make it unfinished
	// again, and an operator who then empties the directories loses what this broker has stored.
	if err := d.fs.SyncDir(d.data); err != nil {
		return nil, errors.Join(d.Error(err), lock.Close())
	}
	d.restrict(d.Metadata())
	return lock, nil
}

// Lock locks a data directory that is there, and is not that of an unfinished restore.
func (d *Dirs) Lock() (io.Closer, error) {
	lock, err := d.lock()
	if err != nil {
		return nil, err
	}
	if err := d.refuseUnfinished(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func (d *Dirs) lock() (io.Closer, error) {
	lock, err := d.fs.Lock(path.Join(d.data, storage.LockFile), Holder())
	if err != nil {
		return nil, d.Error(err)
	}
	return lock, nil
}

// Used reports whether a process has the data directory, which its broker locks.
func (d *Dirs) Used() (bool, error) {
	at := path.Join(d.data, storage.LockFile)
	if _, err := d.fs.Stat(at); err != nil { // no broker has started there yet
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, d.Error(err)
	}
	lock, err := d.fs.Lock(at, Holder())
	if errors.Is(err, vfs.ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, d.Error(err)
	}
	return false, lock.Close()
}

// restrict makes directories of metadata unreadable for other users: the metadata has the keys with
// which users log in. A directory that stays readable is no reason not to start.
func (d *Dirs) restrict(dirs ...string) {
	for _, dir := range dirs {
		switch changed, err := vfs.Restrict(d.fs, dir); {
		case err != nil:
			d.log.Warn("the metadata directory is readable by other users and contains password keys; run chmod -R go= on it",
				zap.String("dir", dir), zap.Error(err))
		case changed:
			d.log.Info("the metadata directory is no longer readable by other users", zap.String("dir", dir))
		}
	}
}

// Presence watches the directories in which the broker has open files: that of the metadata, and
// the log directories.
func (d *Dirs) Presence(dirs []*storage.Dir) *host.Presence {
	used := []host.Used{{Role: checks.RoleMetadata, Path: health.Path(d.Metadata()), Files: "*.log"}}
	for _, x := range dirs {
		used = append(
			used,
			host.Used{Role: checks.RoleLogs, Path: health.Path(x.Path()), Files: storage.IdentityFile},
			host.Used{Role: checks.RoleJournal, Path: health.Path(x.JournalPath()), Files: storage.JournalIdentityFile},
			host.Used{Role: checks.RoleJournal, Path: health.Path(x.JournalPath()), Files: "*.journal", Missing: x.MissingJournalFiles},
		)
	}
	return host.NewPresence(used...)
}
