package brokers

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/tries"
)

// Leaders of partitions whose old records are only in the object store are killed one after the
// other. Readers get every acknowledged record, from all brokers.
func TestOldRecordsAreInTheStore(t *testing.T) {
	historyOf(t, 21, kind{tiered: true}, func(w *world, c *clients) {
		for id := int32(1); id <= 3; id++ {
			time.Sleep(20 * time.Second)
			w.kill(id)
			c.progress(10 * time.Second)
			w.start(id)
			c.inSync()
		}
		for _, p := range c.parts[:2] {
			at, err := c.offset4(p)
			if err != nil || at == 0 {
				t.Errorf("%v begins at %d on the disks, %v", p, at, err)
			}
		}
	})
}

// offset4 returns where the local log of a partition's leader begins.
func (c *clients) offset4(p *partition) (int64, error) {
	q := kmsg.NewPtrListOffsetsRequest()
	q.ReplicaID = -1
	x := kmsg.NewListOffsetsRequestTopicPartition()
	x.Partition, x.Timestamp, x.CurrentLeaderEpoch = p.index, -4, -1
	q.Topics = append(q.Topics, kmsg.ListOffsetsRequestTopic{Topic: p.topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{x}})
	resp, err := q.RequestWith(c.ctx, c.admin)
	if err != nil {
		return -1, err
	}
	return resp.Topics[0].Partitions[0].Offset, nil
}

// Random faults of tiered topics. CHRONIK_SIM_TIERS is the number of histories or how long they
// take.
func TestRandomFaultsOfTiers(t *testing.T) {
	for seed := range seeds(t, "CHRONIK_SIM_TIERS", tries.Some(3, 1)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			k := kindOf(seed)
			k.tiered = true
			historyOf(t, seed, k, func(_ *world, c *clients) { c.walk() })
		})
	}
}
