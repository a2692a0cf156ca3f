package copies

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A Copy is a copy of a store's metadata in a second directory, preferably on another disk. A
// goroutine follows the store like any watcher and writes the transactions to a state log of its
// own, with the same revisions.
//
//	Txn ── store: durable in its directory ──▶ visible ──▶ copier: durable in the copy ──▶ Txn returns
//
// Txn waits for the copy, so that an acknowledged transaction is in both as long as the copy keeps
// up. This costs one more fdatasync, which concurrent transactions share. A copy that fails or
// takes longer than Options.Patience is behind: transactions continue without it, Behind
// reports it, and the copier starts it again until it has caught up. The copy is never ahead of the
// durable data of the store. If it is, those were restored to an older state, and CheckAgainst
// refuses that.
const (
	defaultPatience = time.Second
	retryAfter      = 2 * time.Second
	maxGroup        = 4 << 20 // bytes after which a group accepts no further transaction
)

// In returns the path of the metadata copy in a log directory, whether or not there is one.
func In(logDir string) string { return path.Join(logDir, "metadata.copy") }

// damagedSuffix ends the name of a damaged copy, which nothing reads.
const damagedSuffix = ".damaged"

// ErrForeign marks a copy that was written by another cluster. Nothing was changed.
var ErrForeign = errors.New("copy belongs to another cluster")

// ErrOlder marks a store that ends before its copy does.
var ErrOlder = errors.New("metadata is older than its copy")

// Options configure a Copy.
type Options struct {
	FS   vfs.FS
	Dir  string
	View *kv.View // of the store
	// Ended is closed when the store has ended and its View no longer changes.
	Ended <-chan struct{}
	// Former lists directories in which earlier starts may have kept the copy. When the copy is
	// complete in Dir, they are removed: they would become outdated without notice.
	Former []string
	// CompactBytes is the size of the log at which a new generation begins, unless the snapshot is
	// larger. 0 means 4 MiB.
	CompactBytes int64
	// Patience is how long a transaction waits for the copy before the copy counts as behind. 0
	// means 1 s.
	Patience time.Duration
	Log      *zap.Logger
}

// Copy is a copy in progress.
type Copy struct {
	opts  Options
	log   *statelog.Log // nil: not open
	stop  chan struct{} // closed by Stop
	once  sync.Once
	ended chan struct{} // closed by run at its end

	mu     sync.Mutex
	has    int64         // the copy is durable up to this revision
	behind error         // why transactions don't wait for it
	moved  chan struct{} // closed and replaced when has or behind changes
}

var errStarting = errors.New("copy not started yet")

// Start starts a copy, until Stop or the end of the store. It waits until the copy is complete,
// for at most the patience. It replaces an existing copy of the same cluster, renames a damaged
// one, and leaves one of another cluster alone. A failing copy is not an error: Behind reports it.
func Start(ctx context.Context, o Options) *Copy {
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	c := &Copy{opts: o, stop: make(chan struct{}), ended: make(chan struct{}), behind: errStarting, moved: make(chan struct{})}
	go c.run()
	c.wait(ctx, 0, true)
	return c
}

// Wait waits until the copy has a revision, unless it is behind.
func (c *Copy) Wait(ctx context.Context, revision int64) { c.wait(ctx, revision, false) }

// Behind returns why the copy lacks acknowledged transactions, or may soon lack some, nil if it is
// complete.
func (c *Copy) Behind() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behind
}

// Stop ends the copy, whose files remain, and returns when nothing writes to them any longer: not
// before a disk that hangs answers again. They may be removed then, or belong to another broker.
func (c *Copy) Stop() {
	c.once.Do(func() { close(c.stop) })
	<-c.ended
}

// wait waits until the copy has a revision or is behind. If begins is true, it also waits for a
// copy that is only starting.
func (c *Copy) wait(ctx context.Context, revision int64, begins bool) {
	patience := time.NewTimer(c.opts.Patience)
	defer patience.Stop()
	for {
		c.mu.Lock()
		has, behind, moved := c.has, c.behind, c.moved
		c.mu.Unlock()
		if behind == nil && has >= revision || behind != nil && !(begins && errors.Is(behind, errStarting)) {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		case <-c.ended:
			return
		case <-patience.C:
			c.reportSlow(revision)
			return
		}
	}
}

// reportSlow notes that the copy has delayed a transaction for too long.
func (c *Copy) reportSlow(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.behind == nil && c.has < revision {
		c.reportLocked(fmt.Errorf("the disk of %s has not written a transaction for %v", c.opts.Dir, c.opts.Patience))
	}
}

// report notes why transactions don't wait for the copy, nil if they do again.
func (c *Copy) report(behind error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportLocked(behind)
}

func (c *Copy) reportLocked(behind error) {
	switch was := c.behind; {
	case behind != nil && (was == nil || errors.Is(was, errStarting)):
		c.opts.Log.Warn("metadata copy is behind", zap.String("dir", c.opts.Dir), zap.Error(behind))
	case behind == nil && was != nil && !errors.Is(was, errStarting):
		c.opts.Log.Info("metadata copy is complete again", zap.String("dir", c.opts.Dir))
	}
	c.behind = behind
	c.wakeLocked()
}

func (c *Copy) wakeLocked() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// advance notes that the copy is durable up to a revision. A copy that was behind is complete when
// it has everything that the store shows.
func (c *Copy) advance(revision int64) {
	all := revision >= c.opts.View.Revision()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has = revision
	if all && c.behind != nil {
		c.reportLocked(nil)
	} else {
		c.wakeLocked()
	}
}

// run starts the copy and follows the store, repeatedly, until the store closes.
func (c *Copy) run() {
	defer close(c.ended)
	for {
		err := c.follow()
		if c.log != nil {
			if cerr := c.log.Close(); cerr != nil { // after a failure it only closes the file
				c.opts.Log.Warn("closing the metadata copy failed", zap.String("dir", c.opts.Dir), zap.Error(cerr))
			}
			c.log = nil
		}
		if errors.Is(err, metadata.ErrClosed) {
			return
		}
		if errors.Is(err, metadata.ErrCompacted) {
			continue // it was slow: start with the current state
		}
		c.report(err)
		select {
		case <-time.After(retryAfter):
		case <-c.opts.Ended:
			return
		case <-c.stop:
			return
		}
	}
}

// follow writes a snapshot of the store and then every transaction, with another snapshot when the
// log has grown, until an error or the end of the store.
func (c *Copy) follow() error {
	if err := c.open(); err != nil {
		return err
	}
	for {
		keys, revision := c.opts.View.All("")
		c.log.Restart(uint64(revision))
		if err := c.log.Rotate(emitKeys(keys)); err != nil {
			return err
		}
		c.advance(revision)
		c.dropFormer()
		if err := c.append(revision + 1); err != nil {
			return err
		}
	}
}

// dropFormer removes copies that earlier starts kept elsewhere, but only copies of this cluster's
// metadata.
func (c *Copy) dropFormer() {
	for _, dir := range c.opts.Former {
		found, err := Check(c.opts.FS, dir)
		if dir == c.opts.Dir || err != nil || !found.Used || found.cluster() == nil || !found.sameCluster(c.cluster()) {
			continue
		}
		if err := c.opts.FS.RemoveAll(dir); err != nil {
			c.opts.Log.Warn("former metadata copy can't be removed, a repair could use it instead of the current one",
				zap.String("dir", dir), zap.Error(err))
		}
	}
	c.opts.Former = nil
}

// append writes the transactions from a revision on, and returns nil when a snapshot is due.
func (c *Copy) append(from int64) error {
	w := c.opts.View.Follow(from)
	defer w.Close()
	for !c.log.ShouldRotate() {
		records, revision, err := c.group(w)
		if err != nil {
			return err
		}
		if err := c.log.Append(records...); err != nil {
			return err
		}
		c.advance(revision)
	}
	return nil
}

// group waits for the next transaction and returns it together with those that follow already, up
// to the size of a group, and the last revision. It returns ErrClosed only when the store has
// ended: a transaction in progress when Close is called is also acknowledged.
func (c *Copy) group(w *kv.Watcher) (records [][]byte, revision int64, err error) {
	for bytes, last := int64(0), false; bytes < maxGroup; {
		b, later, err := w.Poll()
		switch {
		case err != nil:
			return nil, 0, err
		case later == nil:
			records, revision, bytes = append(records, encodeBatch(b)), b.Revision, bytes+kv.BatchSize(b)
			continue
		case len(records) > 0:
			return records, revision, nil
		case last:
			return nil, 0, metadata.ErrClosed
		}
		select {
		case <-later:
		case <-c.opts.Ended:
			last = true
		case <-c.stop:
			return nil, 0, metadata.ErrClosed
		}
	}
	return records, revision, nil
}

// open opens the copy's log. It renames a damaged copy, but not one of another cluster.
func (c *Copy) open() error {
	fsys := c.opts.FS
	found, err := Check(fsys, c.opts.Dir)
	switch {
	case errors.Is(err, ErrDamaged):
		err = c.quarantine(err)
	case err == nil && found.Used && !found.sameCluster(c.cluster()):
		err = fmt.Errorf("%w: %s; move it away", ErrForeign, c.opts.Dir)
	}
	if err != nil {
		return err
	}
	c.log, _, err = statelog.Open(statelog.Options{
		FS: fsys, Dir: c.opts.Dir, Format: format, CompactBytes: c.opts.CompactBytes, Log: c.opts.Log,
	}, reader{kv.NewState()})
	return err
}

// quarantine renames the damaged copy: it may have the only record of transactions that the store
// has lost. It replaces one that was renamed before, so that they fill no disk.
func (c *Copy) quarantine(damage error) error {
	fsys, name := c.opts.FS, c.opts.Dir+damagedSuffix
	err := fsys.RemoveAll(name)
	if err == nil {
		err = fsys.Rename(c.opts.Dir, name)
	}
	if err == nil {
		err = fsys.SyncDir(path.Dir(c.opts.Dir))
	}
	if err != nil {
		return fmt.Errorf("rename the damaged metadata copy %s to %s (%w): %w", c.opts.Dir, name, damage, err)
	}
	c.opts.Log.Warn("metadata copy is damaged: it was renamed, and a new one is written; remove the damaged one when it is not needed",
		zap.String("dir", c.opts.Dir), zap.String("renamed", name), zap.Error(damage))
	return nil
}

func (c *Copy) cluster() []byte { return clusterIn(c.opts.View) }

func clusterIn(v *kv.View) []byte {
	key, _ := v.Key(metadata.ClusterKey)
	return key.Value
}

// SameCluster reports whether both belong to one cluster. Content without a cluster belongs to any.
func (c *Content) SameCluster(other *Content) bool { return c.sameCluster(other.cluster()) }

// sameCluster compares the ids: a cluster keeps its id when a broker alone begins it with its
// metadata, and when these are restored.
func (c *Content) sameCluster(cluster []byte) bool {
	own := c.cluster()
	return own == nil || cluster == nil || bytes.Equal(own, cluster) || clusterID(own) != "" && clusterID(own) == clusterID(cluster)
}

// clusterID returns the id in a value that names a cluster, "" if it has none.
func clusterID(value []byte) string {
	record, err := metadata.DecodeCluster(metadata.KV{Key: metadata.ClusterKey, Value: value, ModRevision: 1})
	if err != nil {
		return ""
	}
	return record.ID
}

// ClusterOf returns the id of the cluster whose metadata a directory has, "" if there is none. It
// changes nothing.
func ClusterOf(fsys vfs.FS, dir string) (id string, err error) {
	found, err := Check(fsys, dir)
	if value := found.cluster(); err == nil && value != nil {
		var record metadata.Cluster
		record, err = metadata.DecodeCluster(metadata.KV{Key: metadata.ClusterKey, Value: value, ModRevision: 1})
		id = record.ID
	}
	return id, err
}

// cluster returns the value that names the cluster, nil if there is none.
func (c *Content) cluster() []byte {
	for _, kv := range c.Keys {
		if kv.Key == metadata.ClusterKey {
			return kv.Value
		}
	}
	return nil
}

// CheckAgainst returns an error that matches ErrOlder if a copy in dir has transactions that a
// store lacks: the store's files were restored from an older state. The store is in the directory
// at, and view is what it shows after all that its files have. Another error is why the copy could
// not be compared. A copy of another cluster is no error. CheckAgainst must be called before the
// first transaction.
func CheckAgainst(fsys vfs.FS, dir, at string, view *kv.View) error {
	found, err := Check(fsys, dir)
	has := view.Revision()
	switch {
	case err != nil:
		return fmt.Errorf("compare %s, which ends at revision %d, with its copy %s, of which revision %d was read: %w",
			at, has, dir, found.Revision, err)
	case !found.Used || found.Revision <= has || !found.sameCluster(clusterIn(view)):
		return nil
	}
	return fmt.Errorf("%w: %s ends at revision %d, %s at %d", ErrOlder, at, has, dir, found.Revision)
}

// Write creates a copy with the given keys and revision in a directory, which must be missing or
// empty. The copy is durable when Write returns.
func Write(fsys vfs.FS, dir string, keys []metadata.KV, revision int64) error {
	log, found, err := statelog.Open(statelog.Options{FS: fsys, Dir: dir, Format: format}, reader{kv.NewState()})
	if err == nil && found.Used {
		err = errors.New("it already has a copy")
	}
	if err == nil {
		log.Restart(uint64(revision))
		err = log.Rotate(emitKeys(keys))
	}
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		return fmt.Errorf("write a copy of the metadata in %s: %w", dir, err)
	}
	return nil
}
