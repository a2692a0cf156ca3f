package kv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func put(key, value string) metadata.Txn {
	return metadata.Txn{Put: []metadata.KV{{Key: key, Value: []byte(value)}}}
}

func TestHistoryIsBoundedInBytes(t *testing.T) {
	h := history{limit: 1 << 20}
	big := metadata.Batch{Events: []metadata.Event{{Value: make([]byte, historyBytes/4)}}}
	for range 10 {
		h.add(big)
	}
	if len(h.batches) != 3 || h.bytes > historyBytes {
		t.Errorf("%d batches, %d bytes", len(h.batches), h.bytes)
	}
	h.add(metadata.Batch{Events: []metadata.Event{{Value: make([]byte, 2*historyBytes)}}})
	if len(h.batches) != 1 {
		t.Errorf("%d batches next to one that fills the limit", len(h.batches))
	}
}

func TestHistoryIsBoundedInTransactions(t *testing.T) {
	v := NewView(NewState(), 3, nil)
	for i := range 5 {
		v.Apply([]metadata.Txn{put("/a", fmt.Sprint(i))})
	}
	if n := len(v.past.batches); n != 3 {
		t.Errorf("%d revisions kept, want 3", n)
	}
}

// The outcomes of a sequence of transactions do not depend on how it is divided into groups, and
// agree with a plain map.
func TestOutcomesDoNotDependOnGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		txns := rapid.SliceOfN(rapid.Custom(drawTxn), 0, 12).Draw(t, "txns")
		model, revision, want := map[string]metadata.KV{}, int64(0), []string{}
		for _, txn := range txns {
			want = append(want, applyToModel(model, &revision, txn))
		}
		v := NewView(NewState(), 0, nil)
		got := []string{}
		for rest := txns; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "group")
			for _, o := range v.Apply(rest[:n]) {
				got = append(got, describe(o.Revision, o.Err))
			}
			rest = rest[n:]
		}
		var keys []metadata.KV
		bytes := int64(0)
		for _, k := range slices.Sorted(maps.Keys(model)) {
			keys = append(keys, model[k])
			bytes += size(model[k])
		}
		have, at := v.All("")
		if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(have, at) != fmt.Sprint(keys, revision) || v.State().Bytes() != bytes {
			t.Fatalf("outcomes %v, want %v\nkeys %v@%d, want %v@%d", got, want, have, at, keys, revision)
		}
	})
}

func describe(revision int64, err error) string {
	if c := (&metadata.ConflictError{}); errors.As(err, &c) {
		return fmt.Sprintf("%+v", *c)
	}
	return fmt.Sprint(revision)
}

func applyToModel(model map[string]metadata.KV, revision *int64, txn metadata.Txn) string {
	for _, c := range txn.If {
		if found := model[c.Key].ModRevision; found != c.ModRevision {
			return describe(0, &metadata.ConflictError{Revision: *revision, Key: c.Key, Found: found, Expected: c.ModRevision})
		}
	}
	if len(txn.Put)+len(txn.Delete) > 0 {
		*revision++
	}
	for _, kv := range txn.Put {
		kv.ModRevision = *revision
		model[kv.Key] = kv
	}
	for _, k := range txn.Delete {
		delete(model, k)
	}
	return describe(*revision, nil)
}

func drawTxn(t *rapid.T) metadata.Txn {
	var txn metadata.Txn
	key := rapid.SampledFrom([]string{"/a", "/b", "/c"})
	for _, k := range rapid.SliceOfNDistinct(key, 0, 2, rapid.ID[string]).Draw(t, "changed") {
		if rapid.Bool().Draw(t, "delete") {
			txn.Delete = append(txn.Delete, k)
		} else {
			txn.Put = append(txn.Put, metadata.KV{Key: k, Value: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value")})
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		revision := rapid.Int64Range(0, 4).Draw(t, "revision")
		txn.If = append(txn.If, metadata.Compare{Key: key.Draw(t, "compared"), ModRevision: revision})
	}
	return txn
}

// After a snapshot replaced the state, a watcher of the time before rereads the store.
func TestReplacedStateCompactsTheHistory(t *testing.T) {
	v := NewView(NewState(), 0, nil)
	v.Apply([]metadata.Txn{put("/a", "1")})
	w := v.Follow(1)
	next := NewState()
	next.Load(metadata.KV{Key: "/b", ModRevision: 7})
	next.SetRevision(9)
	v.Replace(next)
	if _, err := w.Next(context.Background()); !errors.Is(err, metadata.ErrCompacted) {
		t.Errorf("a watcher from before the snapshot: %v", err)
	}
	w = v.Follow(10)
	v.Apply([]metadata.Txn{put("/a", "2")})
	if b, err := w.Next(context.Background()); b.Revision != 10 || err != nil {
		t.Errorf("a watcher from after the snapshot: %+v, %v", b, err)
	}
}
