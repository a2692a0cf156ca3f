package copies

import (
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
)

// format describes the files of a copy. A record of a snapshot is what kv.AppendKV appends, and one
// of the log what kv.AppendChanges appends.
var format = statelog.Format{Name: "metadata", Magic: "chronikm", Version: 1}

// reader loads the records of a copy's files into a state. It implements statelog.Reader.
type reader struct{ state *kv.State }

// Load implements statelog.Reader: a record of a snapshot is a key.
func (r reader) Load(record []byte) error {
	key, err := kv.ParseKV(record)
	if err == nil {
		r.state.Load(key)
	}
	return err
}

// Apply implements statelog.Reader: a record of the log is a transaction, and its number the
// revision.
func (r reader) Apply(sequence uint64, record []byte) error {
	t, err := kv.ParseChanges(record)
	if err == nil {
		r.state.SetRevision(int64(sequence) - 1)
		r.state.Replay(t)
	}
	return err
}

// emitKeys returns a function that emits keys, which must be sorted, as the records of a snapshot.
func emitKeys(keys []metadata.KV) func(statelog.Emit) error {
	return func(emit statelog.Emit) error {
		var record []byte
		for _, key := range keys {
			record = kv.AppendKV(record[:0], key)
			if err := emit(record); err != nil {
				return err
			}
		}
		return nil
	}
}

// encodeBatch returns the record of a watcher's batch.
func encodeBatch(b metadata.Batch) []byte {
	var t metadata.Txn
	for _, e := range b.Events {
		if e.Deleted {
			t.Delete = append(t.Delete, e.Key)
		} else {
			t.Put = append(t.Put, metadata.KV{Key: e.Key, Value: e.Value})
		}
	}
	return kv.AppendChanges(nil, t)
}
