package records

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// detour is the client's default partitioner, except that records without a key avoid
// partitions that take no records at present. Kafka's clients do this for partitions
// without a leader only, and would retry all records on one whose leader has lost its
// log. A record with a key belongs to one partition and has to wait for it.
type detour struct {
	closed []int32 // sorted; set it before the first record
}

// String names the closed partitions.
func (d *detour) String() string {
	name := "partition "
	if len(d.closed) > 1 {
		name = "partitions "
	}
	return name + strings.Trim(strings.ReplaceAll(fmt.Sprint(d.closed), " ", ","), "[]")
}

// ForTopic is called by the client when a topic's first record is produced.
func (d *detour) ForTopic(topic string) kgo.TopicPartitioner {
	if len(d.closed) == 0 {
		return kgo.UniformBytesPartitioner(64<<10, true, true, nil).ForTopic(topic) // the client's default
	}
	return &around{closed: d.closed, keyed: kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
}

// around is one batch for each open partition in turn.
type around struct {
	closed []int32
	keyed  kgo.TopicPartitioner // the same hash as the default's
	turn   int
}

// RequiresConsistency makes the client pass the number of all partitions, so that a
// choice is a partition's number.
func (*around) RequiresConsistency(*kgo.Record) bool { return true }

// OnNewBatch is called by the client when a batch is full.
func (a *around) OnNewBatch() { a.turn++ }

// Partition chooses among partitions 0 to n-1.
func (a *around) Partition(r *kgo.Record, n int) int {
	if r.Key != nil {
		return a.keyed.Partition(r, n)
	}
	for range n {
		if p := a.turn % n; !slices.Contains(a.closed, int32(p)) {
			return p
		}
		a.turn++
	}
	return a.turn % n // all are closed: the broker's error says why
}

var _ kgo.TopicPartitionerOnNewBatch = (*around)(nil)
