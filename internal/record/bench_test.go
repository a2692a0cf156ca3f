package record

import (
	"testing"
)

// BenchmarkAccept measures the cost of a batch before it is appended.
func BenchmarkAccept(b *testing.B) {
	many := make([]Record, 100)
	for i := range many {
		many[i] = Record{Timestamp: testNow.UnixMilli(), Key: []byte("key"), Value: noise(256)}
	}
	for _, codec := range allCodecs {
		for name, recs := range map[string][]Record{"1x256": many[:1], "100x256": many} {
			b.Run(codec.String()+"/"+name, func(b *testing.B) {
				p := foreignBatch(b, codec, recs, nil)
				b.SetBytes(int64(len(p)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := (&Rules{}).Accept(p, testNow); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
