package kv

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Exact bytes of the records, so that no change of the format goes unnoticed. Other lengths are
// refused.
func TestBytesOfRecords(t *testing.T) {
	key := AppendKV(nil, metadata.KV{Key: "/a", Value: []byte("xyz"), ModRevision: 300})
	txn := AppendTxn(nil, metadata.Txn{If: []metadata.Compare{{Key: "/d", ModRevision: 5}},
		Put: []metadata.KV{{Key: "/a", Value: []byte("xyz")}, {Key: "/b"}}, Delete: []string{"/c"}})
	for name, c := range map[string]struct {
		record []byte
		want   string
		parse  func([]byte) error
	}{
		"key": {key, "022f61" + "ac02" + "0378797a", func(p []byte) error { _, err := ParseKV(p); return err }},
		"transaction": {txn, "01" + "022f64" + "05" + "02" + "022f610378797a" + "022f6200" + "01" + "022f63",
			func(p []byte) error { _, err := ParseTxn(p); return err }},
	} {
		if got := hex.EncodeToString(c.record); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for n := range len(c.record) + 2 {
			err := c.parse(append(c.record, 0)[:n])
			if whole := n == len(c.record); whole != (err == nil) {
				t.Errorf("%d of %d bytes of a %s: %v", n, len(c.record), name, err)
			}
		}
	}
}

func FuzzParseTxn(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendTxn(nil, metadata.Txn{If: []metadata.Compare{{Key: "/c", ModRevision: 7}},
		Put: []metadata.KV{{Key: "/a", Value: []byte("1")}}, Delete: []string{"/b"}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		txn, err := ParseTxn(p)
		if err != nil {
			return
		}
		if back, err := ParseTxn(AppendTxn(nil, txn)); err != nil || fmt.Sprint(back) != fmt.Sprint(txn) {
			t.Errorf("%v comes back as %v, %v", txn, back, err)
		}
	})
}

func FuzzParseKV(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendKV(nil, metadata.KV{Key: "/a", Value: []byte("1"), ModRevision: 300}))
	f.Fuzz(func(t *testing.T, p []byte) {
		kv, err := ParseKV(p)
		if err != nil {
			return
		}
		if back, err := ParseKV(AppendKV(nil, kv)); err != nil || fmt.Sprint(back) != fmt.Sprint(kv) {
			t.Errorf("%v comes back as %v, %v", kv, back, err)
		}
	})
}
