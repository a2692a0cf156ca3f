package cleaner

import (
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// FuzzPass cleans arbitrary bytes that look like batches: the result can be read, and has no record
// that was not there before.
func FuzzPass(f *testing.F) {
	seed := func(o record.BatchOptions, keys ...string) []byte {
		w := record.NewBuilder(o)
		for i, k := range keys {
			var value []byte
			if i%2 == 0 {
				value = []byte("value")
			}
			w.Append(int64(i), []byte(k), value, nil)
		}
		b, err := w.Build()
		must.OK(f, err)
		return b
	}
	p := &record.Producer{ID: 1}
	f.Add(append(seed(record.BatchOptions{}, "a", "b", "a"), seed(record.BatchOptions{BaseOffset: 3, Producer: p}, "b", "c")...),
		int64(10), int64(0))
	f.Add(append(seed(record.BatchOptions{Producer: p, Transactional: true}, "a", "b"),
		seed(record.BatchOptions{BaseOffset: 2, Producer: p, Transactional: true, Control: true}, "\x00\x00\x00\x00")...), int64(2),
		int64(1000))
	f.Fuzz(func(t *testing.T, p []byte, end, now int64) {
		var o Outcomes
		var list []record.Batch
		next := int64(0)
		for len(p) > 0 {
			b, rest, err := record.Next(p)
			if err != nil {
				break
			}
			p = rest
			if b.BaseOffset() < next || b.LastOffsetDelta() < 0 || b.LastOffset() < b.BaseOffset() || o.Batch(b) != nil {
				continue
			}
			next = b.LastOffset() + 1
			list = append(list, b)
		}
		m := Mapper{Keys: NewKeyMap(0), Transactions: NewTransactions(o.Aborted()), Inflate: record.Limits{Bytes: 1 << 20}}
		for _, b := range list {
			if more, err := m.Batch(b); !more || err != nil {
				break
			}
		}
		x := Filter{
			Keys: m.Keys, End: min(m.End, end), Last: m.Last, Now: now, Transactions: NewTransactions(o.Aborted()),
			Inflate: record.Limits{Bytes: 1 << 20}, IsLast: func(int64, int64) bool { return false },
		}
		for _, b := range list {
			out, changed, err := x.Batch(b)
			if err != nil || out == nil || !changed {
				continue
			}
			had := map[[2]int64]bool{}
			if err := b.Each(record.Limits{Bytes: 1 << 20}, func(r record.Record) error {
				had[[2]int64{r.Offset, r.Timestamp}] = true
				return nil
			}); err != nil && out.Records() > 0 {
				t.Fatalf("records stay of what can't be read: %v", err)
			}
			if err := out.Each(record.Limits{Bytes: 1 << 20}, func(r record.Record) error {
				if !had[[2]int64{r.Offset, r.Timestamp}] {
					t.Fatalf("record %d of time %d was not there", r.Offset, r.Timestamp)
				}
				return nil
			}); err != nil || out.CheckCRC() != nil {
				t.Fatalf("what stays can't be read: %v", err)
			}
		}
	})
}
