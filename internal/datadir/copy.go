package datadir

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/storage"
)

// The metadata of all topics is a few files in data.dir. As long as few voters have them, their
// copy is in a log directory, if possible in one outside of data.dir. It starts after storage has
// locked the log directories, so that none of them belongs to another broker.

// CheckAge rejects metadata that is older than one of its copies: topics that were created since
// would be gone, and deleted ones would reappear. If there are other voters, what they have counts.
func (d *Dirs) CheckAge(store *raftstore.Store) error {
	if role, _ := store.Leadership(); store.Sole() == 0 || !role.Ready { // what it shows is not all that it has
		return nil
	}
	dir := d.Metadata()
	for _, p := range d.Answering() {
		err := copies.CheckAgainst(d.fs, copies.In(p.Path), dir, store.View())
		if errors.Is(err, copies.ErrOlder) {
			return exit.With(exit.Data, fmt.Errorf("directory %s: %w: the metadata was restored from an older state; %s",
				d.data, err, d.useCopy(copies.In(p.Path))))
		}
		if err != nil {
			d.log.Warn("cannot check whether the metadata is older than its copy; the broker starts with it",
				zap.String("dir", dir), zap.String("copy", copies.In(p.Path)), zap.Error(err))
		}
	}
	return nil
}

// useCopy is the remedy that replaces the metadata with a copy. If a cluster has registered the log
// directories, other brokers may also have the metadata: it needs another generation then.
func (d *Dirs) useCopy(from string) string {
	if d.owners.cluster != "" {
		return fmt.Sprintf("move %s away, and restore the copy: chronikd recover --from %s with the same configuration (docs/cluster.md)", d.Metadata(), from)
	}
	return d.repair(d.locations, "--backup", path.Join(d.data, "before-repair")) + " replaces it with the copy; " +
		"to continue with the older metadata, move the copy away"
}

// repair returns the command that repairs all directories of this broker, with the flags more.
func (d *Dirs) repair(all []storage.Location, more ...string) string {
	dirs := []string{"chronikctl", "log", "repair", "--dir", d.data}
	var journals []string
	for _, p := range all {
		if p.Path != path.Join(d.data, resolve.LogsDir) {
			dirs = append(dirs, "--dir", p.Path)
		}
		if p.Journal != "" {
			journals = append(journals, "--journal", p.Journal)
		}
	}
	return health.Command(slices.Concat(dirs, journals, more)...)
}

const (
	// enoughVoters is how many voters a cluster needs to lose one of their directories without
	// loss.
	enoughVoters = 3
	// votersInterval is how often a member reads the number of voters.
	votersInterval = time.Second
)

// Copy is the copy that a voter keeps while its cluster has less than enoughVoters: the loss
// of its disk may then be the loss of the metadata. With more, the other brokers have them, and a
// copy would only become outdated.
type Copy struct {
	dirs   *Dirs
	store  *raftstore.Store
	id     string // of the cluster
	at     string
	former []string
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu   sync.Mutex
	copy *copies.Copy // nil: none is kept
	none bool         // former copies were removed; used by turn only
}

// KeepCopy keeps a copy of the metadata for as long as it is needed, until its Stop. dirs are the
// log directories, id is that of the cluster.
func (d *Dirs) KeepCopy(ctx context.Context, store *raftstore.Store, id string, dirs []*storage.Dir) *Copy {
	k := &Copy{dirs: d, store: store, id: id, cancel: func() {}}
	if len(dirs) == 0 {
		return k
	}
	at := dirs[0].Path()
	for _, x := range dirs {
		if !resolve.Within(x.Path(), path.Clean(d.data)) {
			at = x.Path()
			break
		}
	}
	k.at, k.former = copies.In(at), make([]string, len(dirs))
	for i, x := range dirs {
		k.former[i] = copies.In(x.Path())
	}
	d.restrict(k.former...)
	k.turn(ctx)
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.work.Go(func() { k.follow(ctx) })
	return k
}

// Facts is a source of health.
func (k *Copy) Facts(f *checks.Facts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.copy != nil {
		f.Metadata.Copy, f.Metadata.Behind = k.at, observe.Reason(k.copy.Behind())
	}
}

// Stop ends the copy. It stays on the disk.
func (k *Copy) Stop() {
	k.cancel()
	k.work.Wait()
	k.end()
}

func (k *Copy) follow(ctx context.Context) {
	t := time.NewTicker(votersInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			k.turn(ctx)
		}
	}
}

// turn starts the copy, or ends and removes it, as the number of voters requires.
func (k *Copy) turn(ctx context.Context) {
	store := k.store
	voters := store.Voters()
	k.mu.Lock()
	kept := k.copy != nil
	k.mu.Unlock()
	switch few := len(voters) < enoughVoters && slices.Contains(voters, store.Member()); {
	case len(voters) == 0: // not known yet
	case few && !kept:
		k.none = false
		c := copies.Start(ctx, copies.Options{FS: k.dirs.fs, Dir: k.at, View: store.View(), Ended: store.Ended(),
			Former: k.former, Log: k.dirs.log.Named("metadata")})
		store.SetCopy(c)
		k.mu.Lock()
		k.copy = c
		k.mu.Unlock()
	case !few && !k.none:
		k.none = true
		k.end()
		k.dirs.dropCopies(k.former, k.id)
	}
}

// end ends the copy.
func (k *Copy) end() {
	k.mu.Lock()
	c := k.copy
	k.copy = nil
	k.mu.Unlock()
	if c != nil {
		k.store.SetCopy(nil)
		c.Stop()
	}
}

// NameCopy logs which copy a member without metadata may be restored from, if its cluster had too
// few voters.
func (d *Dirs) NameCopy() {
	cluster := d.owners.cluster
	for _, p := range d.Answering() {
		dir := copies.In(p.Path)
		if of, err := copies.ClusterOf(d.fs, dir); err == nil && of != "" && of == cluster {
			d.log.Warn("this broker has no metadata of its cluster, and its log directory has a copy; if no other broker has the metadata, "+
				"stop this one and restore the copy: chronikd recover --from "+dir+" with the same configuration (docs/cluster.md)",
				zap.String("cluster", cluster), zap.String("copy", dir))
		}
	}
}

// dropCopies removes copies of the metadata that this broker kept while its cluster was smaller.
func (d *Dirs) dropCopies(dirs []string, id string) {
	for _, dir := range dirs {
		of, err := copies.ClusterOf(d.fs, dir)
		if err == nil && of == id {
			err = d.fs.RemoveAll(dir)
		}
		if err != nil {
			d.log.Warn("cannot remove an old copy of the metadata", zap.String("dir", dir), zap.Error(err))
		}
	}
}
