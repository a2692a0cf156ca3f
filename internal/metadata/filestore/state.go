package filestore

import (
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/statelog"
)

// state is the result of all transactions up to a revision.
type state struct {
	keys     map[string]metadata.KV
	revision int64
	bytes    int64 // of keys and values
}

func newState() state { return state{keys: map[string]metadata.KV{}} }

func size(kv metadata.KV) int64 { return int64(len(kv.Key) + len(kv.Value)) }

// apply applies a transaction under the next revision and returns its events.
func (s *state) apply(t metadata.Txn) metadata.Batch {
	s.revision++
	b := metadata.Batch{Revision: s.revision, Events: make([]metadata.Event, 0, len(t.Put)+len(t.Delete))}
	for _, kv := range t.Put {
		kv.ModRevision = s.revision
		s.bytes += size(kv) - size(s.keys[kv.Key])
		s.keys[kv.Key] = kv
		b.Events = append(b.Events, metadata.Event{Key: kv.Key, Value: kv.Value})
	}
	for _, key := range t.Delete {
		if old, ok := s.keys[key]; ok {
			s.bytes -= size(old)
			delete(s.keys, key)
			b.Events = append(b.Events, metadata.Event{Key: key, Deleted: true})
		}
	}
	return b
}

// Load implements statelog.Reader: a record of a snapshot is a key.
func (s *state) Load(record []byte) error {
	kv, err := parseKey(record)
	if err != nil {
		return err
	}
	s.bytes += size(kv) - size(s.keys[kv.Key])
	s.keys[kv.Key] = kv
	return nil
}

// Apply implements statelog.Reader: a record of the log is a transaction, and its number the
// revision.
func (s *state) Apply(sequence uint64, record []byte) error {
	t, err := parseTxn(record)
	if err != nil {
		return err
	}
	s.revision = int64(sequence) - 1
	s.apply(t)
	return nil
}

// emit writes all keys into a snapshot.
func (s *state) emit(emit statelog.Emit) error {
	return emitKeys(s.sorted(func(string) bool { return true }))(emit)
}

// sorted returns all keys that match, in order.
func (s *state) sorted(match func(string) bool) []metadata.KV {
	var kvs []metadata.KV
	for k, kv := range s.keys {
		if match(k) {
			kvs = append(kvs, kv)
		}
	}
	slices.SortFunc(kvs, func(a, b metadata.KV) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return kvs
}
