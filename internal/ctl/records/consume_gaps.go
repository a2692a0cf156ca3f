package records

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/ctl/app"
)

// Compaction leaves offsets without records, also just before the end, and the
// client does not tell of them: who waits for the record before the end may wait
// for one that is gone. So when nothing came for a while each partition that is
// still waited for is asked what it has there.

// probeBytes is how much one question may bring: headers of batches are wanted.
const probeBytes = 64 << 10

// skipGaps drops the partitions of which no record is left below their end.
func (r *reader) skipGaps(ctx context.Context) error {
	for p, s := range r.left {
		next, err := r.nextRecord(ctx, p, s.next)
		if err != nil {
			if err := r.failed(ctx, p, err); err != nil {
				return err
			}
			continue
		}
		if next >= s.end && s.end <= r.ends[r.topic][p].End {
			delete(r.left, p)
		}
	}
	return nil
}

// nextRecord is an offset at or after from below which, from there on, no record
// is left: the base of a batch that has records, or the end.
func (r *reader) nextRecord(ctx context.Context, partition int32, from int64) (int64, error) {
	p, err := r.probe(ctx, partition)
	if err != nil {
		return from, err
	}
	return p.next(ctx, from)
}

// probe asks the leader of a partition what lies at an offset.
type probe struct {
	leader *kgo.Broker
	req    *kmsg.FetchRequest // of one partition
}

// probe finds the leader of a partition.
func (r *reader) probe(ctx context.Context, partition int32) (*probe, error) {
	topics, err := r.admin.ListTopicsWithInternal(ctx, r.topic)
	if err != nil {
		return nil, app.Words(err)
	}
	d, ok := topics[r.topic].Partitions[partition]
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	if d.Err != nil {
		return nil, d.Err
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, 0, 0, probeBytes // without waiting for more
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, t.TopicID = r.topic, topics[r.topic].ID
	p.Partition, p.PartitionMaxBytes = partition, probeBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return &probe{r.client.Broker(int(d.Leader)), req}, nil
}

// next is nextRecord.
func (p *probe) next(ctx context.Context, from int64) (int64, error) {
	for {
		p.req.Topics[0].Partitions[0].FetchOffset = from
		resp, err := p.req.RequestWith(ctx, p.leader)
		if kgo.IsRetryableBrokerErr(err) { // the client has closed the connection to begin its fetches anew
			resp, err = p.req.RequestWith(ctx, p.leader)
		}
		if err != nil {
			return from, err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return from, kerr.UnknownServerError
		}
		answer := &resp.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return from, err
		}
		next, full := after(answer.RecordBatches, from)
		if full || next == from {
			if len(answer.RecordBatches) == 0 {
				return max(from, answer.HighWatermark), nil
			}
			return next, nil
		}
		from = next
	}
}

// after reads the headers of whole batches: the first offset that a batch with
// records may have, or the one after the last batch.
func after(batches []byte, from int64) (next int64, full bool) {
	const baseOffset, lengthAt, countAt, header = 8, 12, 57, 61
	next = from
	for len(batches) >= header {
		var b kmsg.RecordBatch
		size := lengthAt + int(int32(uint32(batches[baseOffset])<<24|uint32(batches[9])<<16|uint32(batches[10])<<8|uint32(batches[11])))
		if size < header || size > len(batches) || b.ReadFrom(batches[:size]) != nil {
			return next, true
		}
		last := b.FirstOffset + int64(b.LastOffsetDelta)
		if b.NumRecords > 0 && last >= from {
			return max(from, b.FirstOffset), true
		}
		next, batches = max(next, last+1), batches[size:]
	}
	return next, len(batches) > 0
}
