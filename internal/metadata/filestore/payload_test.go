package filestore

import (
	"encoding/hex"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Exact bytes of the records, so that no change of the format goes unnoticed. Other lengths are
// refused.
func TestBytesOfRecords(t *testing.T) {
	key := appendKey(nil, metadata.KV{Key: "/a", Value: []byte("xyz"), ModRevision: 300})
	txn := encodeTxn(metadata.Txn{Put: []metadata.KV{{Key: "/a", Value: []byte("xyz")}, {Key: "/b"}}, Delete: []string{"/c"}})
	for name, c := range map[string]struct {
		record []byte
		want   string
		parse  func([]byte) error
	}{
		"key": {key, "022f61" + "ac02" + "0378797a", func(p []byte) error { _, err := parseKey(p); return err }},
		"transaction": {txn, "02" + "022f610378797a" + "022f6200" + "01" + "022f63",
			func(p []byte) error { _, err := parseTxn(p); return err }},
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
