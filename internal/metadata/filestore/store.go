package filestore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/vfs"
)

const (
	maxGroup    = 4 << 20 // bytes after which a group accepts no further transaction
	queueLength = 256     // transactions that wait for the committer
)

// Options configure a store.
type Options struct {
	FS vfs.FS
	// Dir is the directory; it belongs to the store. Its parent must exist.
	Dir string
	Log *zap.Logger
	// CompactBytes is the size of the log at which a new generation begins, unless the snapshot is
	// larger. 0 means 4 MiB.
	CompactBytes int64
	// History is how many transactions, at most 16 MiB, a watcher may be behind before it gets
	// ErrCompacted. 0 means 4,096.
	History int
	// CopyPatience is how long a transaction waits for the copy of KeepCopy before the copy counts
	// as behind. 0 means 1 s.
	CopyPatience time.Duration
}

// Store is a metadata.Store in a directory. One goroutine, started by Open and ended by Close,
// writes:
//
//	Txn ── queue ──▶ committer: compare all, one write, one fdatasync
//	                    ▼
//	                 keys, revision, history become visible ──▶ Txn returns, watchers wake
//
// The only lock is mu; no code blocks while it holds it.
type Store struct {
	opts  Options
	queue chan *request
	stop  chan struct{} // closed by Close
	ended chan struct{} // closed when the committer ended
	once  sync.Once
	err   error // error of the committer's end, valid when ended is closed

	// owned by the committer
	log *statelog.Log

	view *kv.View // only the committer changes it

	began atomic.Pointer[time.Time] // of the commit in progress; nil: none

	mu     sync.RWMutex
	failed error // why nothing is written
	copy   *Copy // nil: none is kept
}

// Get implements metadata.Store.
func (s *Store) Get(ctx context.Context, key string) (metadata.KV, int64, error) {
	return s.view.Get(ctx, key)
}

// Range implements metadata.Store.
func (s *Store) Range(ctx context.Context, prefix string) ([]metadata.KV, int64, error) {
	return s.view.Range(ctx, prefix)
}

// WaitFor implements metadata.Store. The revision of an answered Txn is visible already.
func (s *Store) WaitFor(ctx context.Context, revision int64) error {
	return s.view.WaitFor(ctx, revision)
}

// Watch implements metadata.Store. It may be called for a future revision.
func (s *Store) Watch(ctx context.Context, from int64) (metadata.Watcher, error) {
	return s.view.Watch(ctx, from)
}

// Txn implements metadata.Store. It returns when the changes are on disk, and in the copy if there
// is one that is not behind. If the context ends meanwhile, the changes may still be made.
func (s *Store) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	revision, err := s.txn(ctx, t)
	if c := s.copier(); c != nil && err == nil {
		c.Wait(ctx, revision)
	}
	return revision, err
}

func (s *Store) txn(ctx context.Context, t metadata.Txn) (int64, error) {
	if err := kv.Check(t); err != nil {
		return 0, err
	}
	t.Put = slices.Clone(t.Put)
	for i := range t.Put {
		t.Put[i].Value = append([]byte{}, t.Put[i].Value...) // the caller may reuse its slices
	}
	t.Delete = slices.Clone(t.Delete)
	r := &request{txn: t, done: make(chan outcome, 1)}
	select {
	case <-s.stop:
		return 0, metadata.ErrClosed
	default:
	}
	select {
	case s.queue <- r:
	case <-s.stop:
		return 0, metadata.ErrClosed
	case <-ctx.Done():
		return 0, fmt.Errorf("metadata transaction: %w", ctx.Err())
	}
	select {
	case o := <-r.done:
		return o.revision, o.err
	case <-ctx.Done():
		return 0, fmt.Errorf("metadata transaction: %w", ctx.Err())
	case <-s.ended:
	}
	select { // the committer may have answered before it ended
	case o := <-r.done:
		return o.revision, o.err
	default:
		return 0, metadata.ErrClosed
	}
}

// Hanging returns for how long the commit in progress waits for the disk, 0 if there is none.
func (s *Store) Hanging() time.Duration {
	if t := s.began.Load(); t != nil {
		return time.Since(*t)
	}
	return 0
}

// Failed returns why the store accepts no transactions, nil if it does.
func (s *Store) Failed() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.failed
}

// Close implements metadata.Store. It marks the log as cleanly stopped and returns the error of
// that.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.stop) })
	<-s.ended
	s.stopCopy()
	return s.err
}
