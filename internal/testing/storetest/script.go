package storetest

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
)

// Script is a workload of transactions with several keys each, so that an incomplete one would
// show, and long enough for several generations.
func Script() []metadata.Txn {
	var txns []metadata.Txn
	for i := range 14 {
		t := metadata.Txn{}
		for k := range 3 {
			t.Put = append(t.Put, metadata.KV{Key: fmt.Sprintf("/k%d", (i+k)%7), Value: fmt.Appendf(nil, "%d-%0*d", i, 40*i%300, k)})
		}
		if i%3 == 2 {
			t.Delete = []string{fmt.Sprintf("/k%d", (i+3)%7)}
		}
		txns = append(txns, t)
	}
	return txns
}

// Text returns keys at a revision as one line.
func Text(keys []metadata.KV, revision int64) string {
	all := fmt.Sprintf("@%d", revision)
	for _, key := range keys {
		all += fmt.Sprintf(" %s=%s@%d", key.Key, key.Value, key.ModRevision)
	}
	return all
}

// Expectations returns the texts of the keys after the first n transactions, for every n.
func Expectations(txns []metadata.Txn) []string {
	st := kv.NewState()
	want := []string{Text(nil, 0)}
	for _, t := range txns {
		st.Replay(t)
		want = append(want, Text(st.Range(""), st.Revision()))
	}
	return want
}
