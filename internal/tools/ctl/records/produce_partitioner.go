package records

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/text"
)

// openPartitioner is the client's default partitioner, except that records without a key avoid
// partitions that accept no records at present. Kafka's clients do this only for partitions without
// a leader. They would retry all records on a partition whose leader has lost its log. A record
// with a key belongs to one partition and has to wait for it.
type openPartitioner struct {
	closed []int32 // sorted; set before the first record
}

// String lists the closed partitions.
func (d *openPartitioner) String() string {
	if len(d.closed) > 1 {
		return "partitions " + text.Numbers(d.closed)
	}
	return "partition " + text.Numbers(d.closed)
}

// ForTopic implements kgo.Partitioner.
func (d *openPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if len(d.closed) == 0 {
		return kgo.UniformBytesPartitioner(64<<10, true, true, nil).ForTopic(topic) // the client's default
	}
	return &roundRobin{closed: d.closed, keyed: kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
}

// roundRobin fills one batch for each open partition in turn.
type roundRobin struct {
	closed []int32
	keyed  kgo.TopicPartitioner // hashes as the default does
	turn   int
}

// RequiresConsistency implements kgo.TopicPartitioner. With true, the client passes the number of
// all partitions, so that Partition returns a partition's number.
func (*roundRobin) RequiresConsistency(*kgo.Record) bool { return true }

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch.
func (a *roundRobin) OnNewBatch() { a.turn++ }

// Partition implements kgo.TopicPartitioner.
func (a *roundRobin) Partition(r *kgo.Record, n int) int {
	if r.Key != nil {
		return a.keyed.Partition(r, n)
	}
	for range n {
		if p := a.turn % n; !slices.Contains(a.closed, int32(p)) {
			return p
		}
		a.turn++
	}
	return a.turn % n // all are closed: the broker's error gives the reason
}

var _ kgo.TopicPartitionerOnNewBatch = (*roundRobin)(nil)
