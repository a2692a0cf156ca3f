package metadata

import (
	"context"
	"errors"
)

// Errors of a Store. They are wrapped; match them with errors.Is.
var (
	// ErrConflict: a compare of a Txn did not hold. Nothing was changed; the
	// caller reads again and decides again.
	ErrConflict = errors.New("metadata changed in between")
	// ErrCompacted: the history that a watcher asked for is gone. The watcher is
	// dead; its owner reads the whole with Range and watches from there.
	ErrCompacted = errors.New("history is compacted")
	// ErrFailed: a write or sync of the store failed earlier. Nothing is written
	// any more until the process starts again (I5).
	ErrFailed = errors.New("metadata store has failed")
	// ErrClosed: the store or the watcher was closed.
	ErrClosed = errors.New("metadata store is closed")
	// ErrTooLarge: a key, value or transaction is over the store's limits.
	ErrTooLarge = errors.New("metadata transaction too large")
)

// KV is one key with its value.
type KV struct {
	Key string
	// Value must not be changed by whoever gets it.
	Value []byte
	// ModRevision is the revision of the transaction that wrote the value; at
	// least 1. It is ignored in Txn.Put.
	ModRevision int64
}

// Compare is a condition of a Txn: the key's ModRevision is the given one. Zero
// means that the key does not exist.
type Compare struct {
	Key         string
	ModRevision int64
}

// Txn is a set of changes that happen together or not at all. A key may appear
// once among Put and Delete. Deleting a key that does not exist is no error.
type Txn struct {
	If     []Compare
	Put    []KV
	Delete []string
}

// Event is the change of one key.
type Event struct {
	Key string
	// Value is the new value; nil where the key was deleted. It must not be
	// changed.
	Value   []byte
	Deleted bool
}

// Batch is what one transaction changed.
type Batch struct {
	Revision int64
	Events   []Event
}

// Store keeps keys and values under a revision that each transaction which
// changes something raises by one. All methods may be called concurrently. What
// a method shows is durable as the back end means it.
type Store interface {
	// Get returns one key, and the store's revision at that moment. A missing
	// key has ModRevision 0.
	Get(ctx context.Context, key string) (kv KV, revision int64, err error)
	// Range returns all keys with a prefix, sorted by key, as they were together
	// at one revision.
	Range(ctx context.Context, prefix string) (kvs []KV, revision int64, err error)
	// Txn applies the changes if every compare holds, and returns the revision
	// that they got, durable. ErrConflict: a compare did not hold, nothing
	// changed. A Txn without changes only compares and returns the revision
	// compared with. After any other error the changes are all there or all
	// absent; only reading tells.
	Txn(ctx context.Context, t Txn) (revision int64, err error)
	// Watch returns the history from a revision on, that one included.
	Watch(ctx context.Context, from int64) (Watcher, error)
	// Close ends the store and its watchers. A second Close does nothing.
	Close() error
}

// Watcher walks the history of a Store. It is used by one goroutine; Close may
// be called by any.
type Watcher interface {
	// Next waits for the next revision and returns what it changed. Revisions
	// follow one another without a gap. ErrCompacted: the watcher was too slow
	// or asked for too old a revision, history is gone.
	Next(ctx context.Context) (Batch, error)
	// Close wakes a waiting Next, which then returns ErrClosed.
	Close()
}
