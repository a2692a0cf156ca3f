package metadata

import (
	"context"
	"errors"
	"fmt"
)

// Errors of a Store. They are wrapped; match them with errors.Is.
var (
	// ErrConflict: a condition of a Txn did not hold. Nothing was changed; the caller should wait
	// for the revision in the *ConflictError, read, and decide again.
	ErrConflict = errors.New("metadata changed concurrently")
	// ErrCompacted: the requested history is no longer kept. The watcher is unusable; its owner
	// must read the store with Range and watch from there.
	ErrCompacted = errors.New("history was compacted")
	// ErrFailed: a write or sync of the store failed earlier. Writes fail until the store has begun
	// a new file (I5).
	ErrFailed = errors.New("metadata store has failed")
	// ErrClosed: the store or the watcher was closed.
	ErrClosed = errors.New("metadata store is closed")
	// ErrUnknown: the store lost contact with the node that decides before it learned the outcome.
	// The changes are complete, absent, or may still be made; the caller must read to find out.
	ErrUnknown = errors.New("outcome of the metadata transaction is unknown")
	// ErrUnavailable: the store had no leader for too long. Nothing was changed.
	ErrUnavailable = errors.New("metadata store has no leader")
	// ErrTooLarge: a key, value or transaction exceeds the store's limits.
	ErrTooLarge = errors.New("metadata transaction too large")
)

// ConflictError reports which condition of a Txn did not hold. It matches ErrConflict.
type ConflictError struct {
	// Revision is the revision of the state that refused the transaction. On another node, the
	// local state may be older: a caller that reads again before its own store shows this revision
	// (Store.WaitFor) would repeat its decision on the same outdated state.
	Revision int64
	Key      string // the first key whose condition did not hold
	Found    int64  // its ModRevision then; 0: it did not exist
	Expected int64  // the ModRevision that the condition names
}

// Error names the key and both revisions.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at revision %d, not %d: %v", e.Key, e.Found, e.Expected, ErrConflict)
}

// Unwrap makes the error match ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Refused reports whether err has a ConflictError, and returns its Revision.
func Refused(err error) (revision int64, ok bool) {
	var conflict *ConflictError
	if !errors.As(err, &conflict) {
		return 0, false
	}
	return conflict.Revision, true
}

// KV is one key with its value.
type KV struct {
	Key string
	// Value must not be modified.
	Value []byte
	// ModRevision is the revision of the transaction that wrote the value; at least 1. Txn.Put
	// ignores it.
	ModRevision int64
}

// Compare is a condition of a Txn: the key has the given ModRevision. Zero means that the key does
// not exist.
type Compare struct {
	Key         string
	ModRevision int64
}

// Txn is a set of changes that are applied together or not at all. A key may appear once among Put
// and Delete. Deleting a missing key is not an error.
type Txn struct {
	If     []Compare
	Put    []KV
	Delete []string
}

// Event is the change of one key.
type Event struct {
	Key string
	// Value is the new value, nil if the key was deleted. It must not be modified.
	Value   []byte
	Deleted bool
}

// Batch is the changes of one transaction.
type Batch struct {
	Revision int64
	Events   []Event
}

// Store keeps keys and values. Each transaction with changes raises its revision by one. All
// methods may be called concurrently. Visible data is durable, as defined by the back end.
type Store interface {
	// Get returns one key and the store's revision at that moment. A missing key has ModRevision 0.
	Get(ctx context.Context, key string) (kv KV, revision int64, err error)
	// Range returns all keys with a prefix at one revision, sorted by key.
	Range(ctx context.Context, prefix string) (kvs []KV, revision int64, err error)
	// Txn applies the changes if every condition holds, and returns their revision when they are
	// durable. It returns a *ConflictError if a condition did not hold; nothing is changed then. A
	// Txn without changes only compares and returns the current revision. After any other error the
	// changes are either complete or absent; the caller must read to find out. After ErrUnknown, or
	// if the context ended, they may also be made later. A store on several nodes may show the
	// revision only later: WaitFor it before reading.
	Txn(ctx context.Context, t Txn) (revision int64, err error)
	// WaitFor waits until Get, Range and Watch show the given revision or a later one. It returns
	// the context's error if that ends first, or ErrClosed.
	WaitFor(ctx context.Context, revision int64) error
	// Watch returns the history from a revision on, inclusive.
	Watch(ctx context.Context, from int64) (Watcher, error)
	// Close ends the store and its watchers. A second call does nothing.
	Close() error
}

// Watcher reads the history of a Store. It must be used by one goroutine, but Close may be called
// by any.
type Watcher interface {
	// Next waits for the next revision and returns its changes. Revisions have no gaps. A revision
	// that need not be waited for is returned even if ctx has ended. Next returns ErrCompacted if
	// the history is no longer kept, because the watcher was too slow or the requested revision too
	// old.
	Next(ctx context.Context) (Batch, error)
	// Close wakes a waiting Next, which then returns ErrClosed.
	Close()
}
