package kv

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Limits of what a store holds, in bytes.
const (
	MaxKey = 1 << 10
	// MaxTxn bounds the keys and values of one transaction, with 32 bytes for each change.
	MaxTxn = 64 << 20
)

// Outcome is the decision about one transaction.
type Outcome struct {
	// Revision is the transaction's own revision, or that of the state if it changed nothing.
	Revision int64
	// Err is nil or a *metadata.ConflictError.
	Err error
}

// Group is a sequence of transactions that become visible together. Each one is decided against the
// state after those before it. A Group is valid until its state changes.
type Group struct {
	state    *State
	admitted []metadata.Txn
	written  map[string]int64 // the revision that a key will have; 0: deleted
	bytes    int
}

// Begin returns an empty group.
func (s *State) Begin() *Group { return &Group{state: s, written: map[string]int64{}} }

// Add decides one transaction. If it is admitted and has changes, the group keeps it, with its
// slices.
func (g *Group) Add(t metadata.Txn) Outcome {
	revision := g.state.revision + int64(len(g.admitted))
	for _, c := range t.If {
		found, ok := g.written[c.Key]
		if !ok {
			found = g.state.Get(c.Key).ModRevision
		}
		if found != c.ModRevision {
			return Outcome{revision, &metadata.ConflictError{Revision: revision, Key: c.Key, Found: found, Expected: c.ModRevision}}
		}
	}
	if len(t.Put)+len(t.Delete) == 0 {
		return Outcome{Revision: revision}
	}
	revision++
	for _, kv := range t.Put {
		g.written[kv.Key] = revision
		g.bytes += int(size(kv))
	}
	for _, key := range t.Delete {
		g.written[key] = 0
		g.bytes += len(key)
	}
	t.If = nil
	g.admitted = append(g.admitted, t)
	return Outcome{Revision: revision}
}

// Bytes returns the size of the admitted keys and values.
func (g *Group) Bytes() int { return g.bytes }

// Check returns an error if a transaction exceeds the limits or changes a key twice.
func Check(t metadata.Txn) error {
	total := 0
	seen := make(map[string]bool, len(t.Put)+len(t.Delete))
	change := func(key string, value []byte) error {
		if key == "" || len(key) > MaxKey {
			return fmt.Errorf("%w: a key of %d bytes, 1 to %d are allowed", metadata.ErrTooLarge, len(key), MaxKey)
		}
		if seen[key] {
			return fmt.Errorf("metadata transaction changes %s twice", key)
		}
		seen[key] = true
		total += len(key) + len(value) + 32
		return nil
	}
	for _, kv := range t.Put {
		if err := change(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	for _, key := range t.Delete {
		if err := change(key, nil); err != nil {
			return err
		}
	}
	for _, c := range t.If {
		if len(c.Key) > MaxKey {
			return fmt.Errorf("%w: a condition on a key of %d bytes, %d are allowed", metadata.ErrTooLarge, len(c.Key), MaxKey)
		}
		total += len(c.Key) + 16
	}
	if total > MaxTxn {
		return fmt.Errorf("%w: %d bytes, %d are allowed", metadata.ErrTooLarge, total, MaxTxn)
	}
	return nil
}
