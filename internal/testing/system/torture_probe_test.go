package system

import (
	"context"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 500 * time.Millisecond
)

// availability measures for how long no broker acknowledges a record of a partition: a probe asks
// every broker all the time, so neither a client's metadata nor its waits between attempts count.
type availability struct {
	mu   sync.Mutex
	last [torturePartitions]time.Time     // when the latest acknowledged record was sent
	gap  [torturePartitions]time.Duration // the longest time between two of them
}

// begin forgets what was measured.
func (a *availability) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.gap {
		a.gap[p], a.last[p] = 0, time.Now()
	}
}

// worst returns the longest time for which a partition was unavailable.
func (a *availability) worst() (longest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, gap := range a.gap {
		longest = max(longest, gap)
	}
	return longest
}

func (a *availability) acked(p int32, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.last[p].IsZero() && sent.After(a.last[p]) {
		a.gap[p] = max(a.gap[p], sent.Sub(a.last[p]))
		a.last[p] = sent
	}
}

// probe writes records to a partition with acks=all, to one broker, whether or not it leads, until
// ctx ends.
func (a *availability) probe(ctx context.Context, t *testing.T, client connect, broker int, p int32) {
	cl, err := client(kgo.MaxVersions(kversion.V3_0_0()), kgo.RequestRetries(0),
		kgo.DialTimeout(probeTimeout), kgo.RequestTimeoutOverhead(probeTimeout))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = p, oneRecord()
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = tortureAlone, append(topic.Partitions, part)
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis, req.Topics = -1, int32(probeTimeout.Milliseconds()), []kmsg.ProduceRequestTopic{topic}
		sent := time.Now()
		until, cancel := context.WithTimeout(ctx, 2*probeTimeout)
		resp, err := cl.Broker(broker+1).Request(until, req)
		cancel()
		if err == nil && resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			a.acked(p, sent)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// oneRecord returns a batch with one record and without a producer.
func oneRecord() []byte {
	r := kmsg.Record{Value: []byte("probe")}
	r.Length = int32(len(r.AppendTo(nil)) - 1) // the length 0 takes one byte
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		FirstTimestamp: 1, MaxTimestamp: 1, NumRecords: 1, Records: r.AppendTo(nil)}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	p := b.AppendTo(nil)
	b.CRC = int32(crc32.Checksum(p[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}
