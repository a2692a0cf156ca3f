package broker

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/vfs"
)

// A client library produces, idempotently and compressed. After a restart, when all records are on
// disk only, it reads them back in order, in fetch sessions, and waits for further ones.
func TestAClientReadsBackWhatItWrote(t *testing.T) {
	const partitions, each = 3, 400
	fs := vfs.Memory()
	disk := func(o *nodeOptions) { o.fs = fs }
	value := func(p, i int) []byte { return fmt.Appendf(nil, "%d/%d", p, i) }
	write := func(t *testing.T, n *node, from, to int) {
		t.Helper()
		c := n.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(1000))
		for p := range partitions {
			for i := from; i < to; i++ {
				c.Produce(t.Context(), &kgo.Record{Topic: "t", Partition: int32(p), Value: value(p, i)}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("produce: %v", err)
					}
				})
			}
		}
		must(t, c.Flush(t.Context()))
	}
	t.Run("first life", func(t *testing.T) {
		n := newNode(t, disk)
		n.topic(t, "t", partitions, "segment.bytes", "1048576")
		write(t, n, 0, each)
	})
	t.Run("second life", func(t *testing.T) {
		n := newNode(t, disk)
		c := n.client(t, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(4<<10))
		next := make([]int, partitions)
		for read := 0; read < partitions*(each+10); {
			if read == partitions*each {
				write(t, n, each, each+10)
			}
			got := c.PollFetches(t.Context())
			must(t, got.Err())
			got.EachRecord(func(r *kgo.Record) {
				p := int(r.Partition)
				if want := value(p, next[p]); !bytes.Equal(r.Value, want) || r.Offset != int64(next[p]) {
					t.Fatalf("partition %d, offset %d: %s, want %s at %d", p, r.Offset, r.Value, want, next[p])
				}
				next[p]++
				read++
			})
		}
		ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), "t")
		must(t, err)
		ends.Each(func(o kadm.ListedOffset) {
			if o.Err != nil || o.Offset != each+10 {
				t.Errorf("end of partition %d: %d, %v", o.Partition, o.Offset, o.Err)
			}
		})
	})
}
