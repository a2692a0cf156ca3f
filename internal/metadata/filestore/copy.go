package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A second directory, best on another disk, can hold a copy of the metadata: KeepCopy. A
// goroutine follows the store as any watcher does and writes what it sees into a state log
// of its own, with the same revisions.
//
//	Txn ── committer: durable in Dir ──▶ visible ──▶ copier: durable in the copy ──▶ Txn returns
//
// Txn waits for the copy, so that an acknowledged transaction is in both, as long as the
// copy keeps up: it costs one more fdatasync, which those that came meanwhile share. A copy
// that fails or takes longer than Options.CopyPatience is behind: transactions go on without it,
// CopyBehind reports it, and the copier begins it again until it has caught up. The copy is
// never ahead of what Dir has durably; so one that is proves that Dir was set back, and
// CheckAgainst refuses that.
const (
	copyPatience = time.Second // the default of Options.CopyPatience
	copyRetry    = 2 * time.Second
	copyClose    = 10 * time.Second // for which Close waits for the copy
)

// CopyIn returns where a log directory has the copy of the metadata, if it has one.
func CopyIn(logDir string) string { return path.Join(logDir, "metadata.copy") }

// ErrForeignCopy marks a copy that was written by another cluster. Nothing was changed.
var ErrForeignCopy = errors.New("the copy is of another cluster's metadata")

// ErrOlder marks a store that ends before its copy does.
var ErrOlder = errors.New("the metadata is older than its copy")

// copier keeps the copy. One goroutine runs it.
type copier struct {
	store  *Store
	dir    string
	former []string      // where earlier starts may have kept it
	log    *statelog.Log // nil: not begun

	ended chan struct{}

	mu     sync.Mutex
	has    int64         // revision up to which the copy is durable
	behind error         // why transactions don't wait for it
	moved  chan struct{} // closed and replaced when has or behind changes
}

var errCopyBegins = errors.New("the copy was not begun yet")

// KeepCopy begins to keep a copy of the store in a directory, until Close, and waits until
// it is complete for at most Options.CopyPatience. A copy of the same cluster that is there already
// is replaced; one of another cluster is left alone. What prevents the copy is no error of
// the store: CopyBehind reports it. It must be called at most once.
//
// former names directories in which earlier starts may have kept the copy. When it is complete
// in dir, it is removed there: it would age, and nothing would show what it lacks.
func (s *Store) KeepCopy(ctx context.Context, dir string, former ...string) {
	c := &copier{store: s, dir: dir, former: former, ended: make(chan struct{}), behind: errCopyBegins, moved: make(chan struct{})}
	s.mu.Lock()
	s.copy = c
	s.mu.Unlock()
	go c.run()
	c.wait(ctx, 0, true)
}

// CopyBehind returns why the copy lacks transactions that were acknowledged, or may lack
// some soon; nil if it has all, or none is kept.
func (s *Store) CopyBehind() error {
	c := s.copier()
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behind
}

func (s *Store) copier() *copier {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.copy
}

// wait returns when the copy has a revision, or is behind. begins waits for one that is
// only beginning, too.
func (c *copier) wait(ctx context.Context, revision int64, begins bool) {
	patience := time.NewTimer(c.store.opts.CopyPatience)
	defer patience.Stop()
	for {
		c.mu.Lock()
		has, behind, moved := c.has, c.behind, c.moved
		c.mu.Unlock()
		if behind == nil && has >= revision || behind != nil && !(begins && errors.Is(behind, errCopyBegins)) {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		case <-c.ended:
			return
		case <-patience.C:
			c.slow(revision)
			return
		}
	}
}

// slow notes that the copy has kept a transaction waiting too long.
func (c *copier) slow(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.behind == nil && c.has < revision {
		c.reportLocked(fmt.Errorf("the disk of %s has not written a transaction for %v", c.dir, c.store.opts.CopyPatience))
	}
}

// report notes why transactions don't wait for the copy, nil when they do again.
func (c *copier) report(behind error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reportLocked(behind)
}

func (c *copier) reportLocked(behind error) {
	switch was := c.behind; {
	case behind != nil && (was == nil || errors.Is(was, errCopyBegins)):
		c.store.opts.Log.Warn("the copy of the metadata is behind", zap.String("dir", c.dir), zap.Error(behind))
	case behind == nil && was != nil && !errors.Is(was, errCopyBegins):
		c.store.opts.Log.Info("the copy of the metadata is complete again", zap.String("dir", c.dir))
	}
	c.behind = behind
	c.wakeLocked()
}

func (c *copier) wakeLocked() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// reached notes that the copy is durable up to a revision. One that was behind is complete
// when it has all that the store shows.
func (c *copier) reached(revision int64) {
	c.store.mu.RLock()
	all := revision >= c.store.state.revision
	c.store.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has = revision
	if all && c.behind != nil {
		c.reportLocked(nil)
	} else {
		c.wakeLocked()
	}
}

// run begins the copy and follows the store, again and again until the store closes.
func (c *copier) run() {
	defer close(c.ended)
	for {
		err := c.follow()
		if c.log != nil {
			if cerr := c.log.Close(); cerr != nil { // after a failure it only closes the file
				c.store.opts.Log.Warn("close of the copy of the metadata failed", zap.String("dir", c.dir), zap.Error(cerr))
			}
			c.log = nil
		}
		if errors.Is(err, metadata.ErrClosed) {
			return
		}
		if errors.Is(err, metadata.ErrCompacted) {
			continue // it was slow: begin with what is there now
		}
		c.report(err)
		select {
		case <-time.After(copyRetry):
		case <-c.store.stop:
			return
		}
	}
}

// follow writes a snapshot of the store, and then every transaction, with another snapshot
// when the log has grown, until something fails or the store closes.
func (c *copier) follow() error {
	if err := c.open(); err != nil {
		return err
	}
	for {
		kvs, revision := c.store.all()
		c.log.Restart(uint64(revision))
		if err := c.log.Rotate(emitKeys(kvs)); err != nil {
			return err
		}
		c.reached(revision)
		c.dropFormer()
		if err := c.append(revision + 1); err != nil {
			return err
		}
	}
}

// dropFormer removes what earlier starts kept elsewhere. What is not a copy of this cluster's
// metadata stays.
func (c *copier) dropFormer() {
	for _, dir := range c.former {
		found, err := Check(c.store.opts.FS, dir)
		if dir == c.dir || err != nil || !found.Used || found.cluster() == nil || !found.sameCluster(c.store.cluster()) {
			continue
		}
		if err := c.store.opts.FS.RemoveAll(dir); err != nil {
			c.store.opts.Log.Warn("a former copy of the metadata stays: a repair could take it for the present one", zap.String("dir", dir), zap.Error(err))
		}
	}
	c.former = nil
}

// append writes the transactions from a revision on, and returns nil when a snapshot is due.
func (c *copier) append(from int64) error {
	w := c.store.watch(from)
	defer w.Close()
	for !c.log.ShouldRotate() {
		records, revision, err := w.group()
		if err != nil {
			return err
		}
		if err := c.log.Append(records...); err != nil {
			return err
		}
		c.reached(revision)
	}
	return nil
}

// group waits for the next transaction and returns it and those that follow it by now, up to
// the size of a group, and the revision of the last one. It returns ErrClosed only when the
// store has ended: a transaction that is on its way when Close is called is acknowledged, too.
func (w *watcher) group() (records [][]byte, revision int64, err error) {
	for bytes, last := int64(0), false; bytes < maxGroup; {
		b, later, err := w.poll()
		switch {
		case err != nil:
			return nil, 0, err
		case later == nil:
			records, revision, bytes = append(records, encodeBatch(b)), b.Revision, bytes+batchSize(b)
			continue
		case len(records) > 0:
			return records, revision, nil
		case last:
			return nil, 0, metadata.ErrClosed
		}
		select {
		case <-later:
		case <-w.store.ended:
			last = true
		}
	}
	return records, revision, nil
}

// all returns all keys in order, and the revision at that moment.
func (s *Store) all() ([]metadata.KV, int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.sorted(func(string) bool { return true }), s.state.revision
}

// open opens the copy's log. A damaged copy is replaced, one of another cluster is not.
func (c *copier) open() error {
	fsys := c.store.opts.FS
	found, err := Check(fsys, c.dir)
	switch {
	case errors.Is(err, ErrDamaged):
		err = fsys.RemoveAll(c.dir)
	case err == nil && found.Used && !found.sameCluster(c.store.cluster()):
		err = fmt.Errorf("%w: %s; move it away", ErrForeignCopy, c.dir)
	}
	if err != nil {
		return err
	}
	old := newState()
	c.log, _, err = statelog.Open(statelog.Options{
		FS: fsys, Dir: c.dir, Format: format, CompactBytes: c.store.opts.CompactBytes, Log: c.store.opts.Log,
	}, &old)
	return err
}

// stopCopy ends the copy when the store has closed. It does not wait for a disk that hangs
// longer than copyClose.
func (s *Store) stopCopy() {
	c := s.copier()
	if c == nil {
		return
	}
	select {
	case <-c.ended:
	case <-time.After(copyClose):
	}
}

// cluster returns the value that names the cluster.
func (s *Store) cluster() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.keys[metadata.ClusterKey].Value
}

// SameCluster reports whether both are of one cluster. What names none is of any.
func (c *Content) SameCluster(other *Content) bool { return c.sameCluster(other.cluster()) }

func (c *Content) sameCluster(cluster []byte) bool {
	own := c.cluster()
	return own == nil || cluster == nil || bytes.Equal(own, cluster)
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

// CheckAgainst returns an error that matches ErrOlder if a copy, as KeepCopy has written
// it, has transactions that the store lacks: the store's files were put back from an older
// time. Whatever else is wrong with the copy is no error here. It must be called before
// the first transaction.
func (s *Store) CheckAgainst(dir string) error {
	found, err := Check(s.opts.FS, dir)
	s.mu.RLock()
	has := s.state.revision
	s.mu.RUnlock()
	if err != nil || !found.Used || found.Revision <= has || !found.sameCluster(s.cluster()) {
		return nil
	}
	return fmt.Errorf("%w: %s ends at revision %d, %s at %d", ErrOlder, s.opts.Dir, has, dir, found.Revision)
}

// Write makes a store in a directory, which must be missing or empty, that holds the keys
// at a revision. It is durable when Write returns.
func Write(fsys vfs.FS, dir string, keys []metadata.KV, revision int64) error {
	empty := newState()
	log, found, err := statelog.Open(statelog.Options{FS: fsys, Dir: dir, Format: format}, &empty)
	if err == nil && found.Used {
		err = errors.New("it holds a store already")
	}
	if err == nil {
		log.Restart(uint64(revision))
		err = log.Rotate(emitKeys(keys))
	}
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		return fmt.Errorf("write metadata in %s: %w", dir, err)
	}
	return nil
}

// emitKeys returns what emits keys, which are in order, as the records of a snapshot.
func emitKeys(keys []metadata.KV) func(statelog.Emit) error {
	return func(emit statelog.Emit) error {
		var record []byte
		for _, kv := range keys {
			record = appendKey(record[:0], kv)
			if err := emit(record); err != nil {
				return err
			}
		}
		return nil
	}
}

// encodeBatch is encodeTxn for what a watcher sees.
func encodeBatch(b metadata.Batch) []byte {
	var t metadata.Txn
	for _, e := range b.Events {
		if e.Deleted {
			t.Delete = append(t.Delete, e.Key)
		} else {
			t.Put = append(t.Put, metadata.KV{Key: e.Key, Value: e.Value})
		}
	}
	return encodeTxn(t)
}
