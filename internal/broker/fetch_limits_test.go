package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/vfs"
)

// A consumer of two partitions with a small max.partition.fetch.bytes gets every record, in order.
// Large records are in segments and do not fit into the second partition's answer; small ones
// follow in memory.
func TestConsumerWithSmallLimitsGetsEveryRecord(t *testing.T) {
	fs := vfs.Memory()
	if !t.Run("before", func(t *testing.T) { // its end stops the first broker
		n := newNode(t, func(o *nodeOptions) { o.fs = fs })
		for _, name := range []string{"a", "b"} {
			n.topic(t, name, 1)
			n.put(t, name, 3, strings.Repeat("x", 5000))
		}
	}) {
		t.FailNow()
	}
	n := newNode(t, func(o *nodeOptions) { o.fs = fs })
	for _, name := range []string{"a", "b"} {
		n.put(t, name, 2, "small")
	}
	req := fetchRequest(0, named("a", [16]byte{}), named("b", [16]byte{}))
	for i := range req.Topics {
		req.Topics[i].Partitions[0].PartitionMaxBytes = 1000
	}
	resp := ask[*kmsg.FetchResponse](t, n.dial(t), 12, req)
	for i, want := range []int{1, 0} { // only the first batch of an answer may be larger than the limit
		p := resp.Topics[i].Partitions[0]
		if got := offsets(t, p.RecordBatches); p.ErrorCode != 0 || len(got) != want || want > 0 && got[0] != 0 {
			t.Errorf("%s answers offset 0 with %v, error %d", resp.Topics[i].Topic, got, p.ErrorCode)
		}
	}
	c := n.client(t, kgo.ConsumeTopics("a", "b"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(1000), kgo.FetchMaxWait(20*time.Millisecond))
	next := map[string]int64{}
	for next["a"]+next["b"] < 10 {
		fetches := c.PollFetches(t.Context())
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next[r.Topic] {
				t.Fatalf("offset %d of %s came where %d should", r.Offset, r.Topic, next[r.Topic])
			}
			next[r.Topic]++
		})
	}
}
