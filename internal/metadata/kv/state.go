package kv

import (
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/sorts"
)

// State is the result of all transactions up to a revision. Its methods must not be called
// concurrently.
type State struct {
	// families has the keys by their first segment: a request for the brokers, of which each
	// creation of a topic makes one, must not read the keys of all partitions.
	families map[string]map[string]metadata.KV
	n        int // keys
	revision int64
	bytes    int64 // of keys and values
}

// NewState returns an empty state at revision 0.
func NewState() *State { return &State{families: map[string]map[string]metadata.KV{}} }

// family returns the first segment of a key with both slashes, or the whole key if there is no
// second slash.
func family(key string) string {
	if len(key) > 0 {
		if i := strings.IndexByte(key[1:], '/'); i >= 0 {
			return key[:i+2]
		}
	}
	return key
}

// Revision returns the revision of the last transaction that changed something.
func (s *State) Revision() int64 { return s.revision }

// Bytes returns the total size of all keys and values.
func (s *State) Bytes() int64 { return s.bytes }

// Len returns the number of keys.
func (s *State) Len() int { return s.n }

// Get returns one key; ModRevision is 0 if it does not exist.
func (s *State) Get(key string) metadata.KV {
	kv := s.families[family(key)][key]
	kv.Key = key
	return kv
}

// Range returns all keys with a prefix in order. The values are shared with the state, which never
// modifies them. It examines the keys that share the first segment with the prefix.
func (s *State) Range(prefix string) []metadata.KV {
	kvs := s.list(prefix)
	Sort(kvs)
	return kvs
}

// list is Range in no order.
func (s *State) list(prefix string) []metadata.KV {
	var kvs []metadata.KV
	add := func(keys map[string]metadata.KV) {
		for k, kv := range keys {
			if strings.HasPrefix(k, prefix) {
				kvs = append(kvs, kv)
			}
		}
	}
	if f := family(prefix); strings.HasSuffix(f, "/") && len(f) > 1 {
		add(s.families[f]) // no other family has such keys
	} else {
		for _, keys := range s.families {
			add(keys)
		}
	}
	return kvs
}

// Keys returns all keys in no order, which is faster than Range. The slice belongs to the caller;
// the values are shared with the state, which never modifies them.
func (s *State) Keys() []metadata.KV {
	kvs := make([]metadata.KV, 0, s.n)
	for _, keys := range s.families {
		for _, kv := range keys {
			kvs = append(kvs, kv)
		}
	}
	return kvs
}

// Sort puts keys in order.
func Sort(kvs []metadata.KV) {
	sorts.Sort(kvs, func(a, b metadata.KV) int { return strings.Compare(a.Key, b.Key) })
}

// Load sets one key of a snapshot, with its ModRevision, and changes no revision.
func (s *State) Load(kv metadata.KV) {
	f := family(kv.Key)
	keys := s.families[f]
	if keys == nil {
		keys = map[string]metadata.KV{}
		s.families[f] = keys
	}
	old, had := keys[kv.Key]
	if !had {
		s.n++
	}
	s.bytes += size(kv) - size(old)
	keys[kv.Key] = kv
}

// SetRevision sets the revision of a state that was loaded from a snapshot.
func (s *State) SetRevision(revision int64) { s.revision = revision }

// Replay applies the changes of a transaction that was admitted earlier, without checking its
// conditions, and returns its events.
func (s *State) Replay(t metadata.Txn) metadata.Batch {
	s.revision++
	b := metadata.Batch{Revision: s.revision, Events: make([]metadata.Event, 0, len(t.Put)+len(t.Delete))}
	for _, kv := range t.Put {
		kv.ModRevision = s.revision
		s.Load(kv)
		b.Events = append(b.Events, metadata.Event{Key: kv.Key, Value: kv.Value})
	}
	for _, key := range t.Delete {
		f := family(key)
		if old, ok := s.families[f][key]; ok {
			s.bytes -= size(old)
			s.n--
			if delete(s.families[f], key); len(s.families[f]) == 0 {
				delete(s.families, f)
			}
			b.Events = append(b.Events, metadata.Event{Key: key, Deleted: true})
		}
	}
	return b
}

func size(kv metadata.KV) int64 { return int64(len(kv.Key) + len(kv.Value)) }
