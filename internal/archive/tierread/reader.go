package tierread

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
)

// ErrClosed reports that the Reader was closed.
var ErrClosed = errors.New("the reader of tiered records is closed")

// Options are a Reader's. Open, Prefix and Pool must be set.
type Options struct {
	// Open returns the store. The calls of the store must have bounds of their own.
	Open func() (objects.Store, error)
	// Prefix returns the beginning of the names of the cluster's objects.
	Prefix func() string
	// CacheBytes bounds the memory of the cache, next to one batch that is larger than half of it.
	// It has at least two chunks.
	CacheBytes int64
	// Transfers is how many transfers run at once, at most; 0 means 8. Each has up to one chunk of
	// memory, or those of one batch, in addition to the cache.
	Transfers int
	// Pause is how long a transfer that failed is not tried again; 0 means a second.
	Pause time.Duration
	// Pool provides the memory of reads.
	Pool *bufpool.Pool
	// Limits bound the inflated size of a batch in which a timestamp is searched.
	Limits record.Limits
	// Broken are the rules that a test has removed.
	Broken breakrules.Removed[Rule]
}

// Copy is what the metadata name of a partition's log in the store: the batches of [Start, End) of
// a manifest. Start may be within a batch, and End is between two.
type Copy struct {
	ID         format.ID
	Manifest   objects.Nonce
	Start, End int64
}

// Reader reads records that only the object store has. All methods may be called concurrently.
//
// The context of a call bounds how long its caller waits, and nothing else: transfers continue. If
// it has ended, a call returns what the cache has, or begins the first transfer that it needs and
// fails with the context's error.
//
// Errors match objects.ErrNotFound if an object is missing: the Copy may be an old one by now. They
// match objects.ErrDamaged, objects.ErrNewer or format.ErrContradiction if an object cannot be
// used, storage.ErrOffsetOutOfRange below the Copy's Start, and ErrClosed. All others are the
// store's or the context's. A failure is returned again for a short time, without a transfer.
type Reader struct {
	opt    Options
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the goroutines of transfers
	got    atomic.Int64   // bytes that the store has returned

	mu      sync.Mutex // guards the following fields; not held during transfers
	closed  bool
	cache   cache
	flights map[key]*flight
	queue   []*flight // that wait for others to end, in order
	running int
	failed  map[key]failure
	ends    readEnds
	stats   Stats
}

// Stats are counters of a Reader, and its current state.
type Stats struct {
	Bytes        int64 // that the store has returned
	Hits, Misses int64 // chunks, footers and manifests that were in the cache, or were not
	Shared       int64 // misses for which a transfer was running or waiting
	Ahead        int64 // transfers that began before a caller needed them
	Errors       int64 // transfers that failed
	Running      int   // transfers
	Waiting      int   // transfers that wait for others to end
	CacheBytes   int64 // memory that the cache has
}

// New returns a Reader with an empty cache. It must be closed.
func New(o Options) *Reader {
	if o.Transfers <= 0 {
		o.Transfers = 8
	}
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	r := &Reader{opt: o, cache: newCache(max(o.CacheBytes, 2*(format.ChunkSize+entryBytes))), flights: make(map[key]*flight),
		failed: make(map[key]failure)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends all transfers, waits for them, and drops the cache. Calls that wait fail with
// ErrClosed.
func (r *Reader) Close() {
	r.mu.Lock()
	r.closed = true
	for _, f := range r.queue {
		f.end(nil, ErrClosed)
	}
	r.queue = nil
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache, r.flights = newCache(0), nil
}

// Stats returns the counters.
func (r *Reader) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Bytes, s.Running, s.Waiting, s.CacheBytes = r.got.Load(), r.running, len(r.queue), r.cache.bytes()
	return s
}

// outOfRange is the error for an offset that the copy does not have.
func (c *Copy) outOfRange(offset int64) error {
	return fmt.Errorf("%w: offset %d of %v, which is tiered from %d to %d", storage.ErrOffsetOutOfRange, offset, c, c.Start, c.End)
}

// String names the partition.
func (c *Copy) String() string { return fmt.Sprintf("%x-%d", c.ID.Topic, c.ID.Partition) }
