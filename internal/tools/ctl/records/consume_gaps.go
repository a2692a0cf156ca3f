package records

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Compaction leaves offsets without records, even just before the end of the log, and the client
// does not report them; nor does it report aborted records to a reader of committed ones. A reader
// that waits for the record before the end may wait for one that is gone. So after a poll without
// records the reader asks each partition that is not finished for its next record.

// probeBytes bounds the answer to a probe: only the headers of batches matter.
const probeBytes = 64 << 10

// skipGaps drops partitions that have no record left before their end.
func (r *reader) skipGaps(ctx context.Context) error {
	for p, s := range r.left {
		next, err := r.nextRecord(ctx, p, s.next)
		if err != nil {
			if err := r.failed(ctx, p, err); err != nil {
				return err
			}
			continue
		}
		if next >= s.end && s.end <= r.ends[p.topic][p.index].End {
			delete(r.left, p)
		}
	}
	return nil
}

// nextRecord returns the first offset at or after from that may have a record: the base offset of a
// batch with records, or the end.
func (r *reader) nextRecord(ctx context.Context, at partition, from int64) (int64, error) {
	p, err := r.probe(ctx, at)
	if err != nil {
		return from, err
	}
	return p.next(ctx, from)
}

// probe fetches from the leader of a partition to find out what is at an offset.
type probe struct {
	leader *kgo.Broker
	req    *kmsg.FetchRequest // for one partition
}

// probe returns a probe of the partition's leader.
func (r *reader) probe(ctx context.Context, at partition) (*probe, error) {
	topics, err := r.admin.ListTopicsWithInternal(ctx, at.topic)
	if err != nil {
		return nil, app.BrokerError(err)
	}
	d, ok := topics[at.topic].Partitions[at.index]
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	if d.Err != nil {
		return nil, d.Err
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, 0, 0, probeBytes // no wait for more data
	if r.committed() {
		req.IsolationLevel = 1
	}
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, t.TopicID = at.topic, topics[at.topic].ID
	p.Partition, p.PartitionMaxBytes = at.index, probeBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return &probe{r.client.Broker(int(d.Leader)), req}, nil
}

// next is nextRecord.
func (p *probe) next(ctx context.Context, from int64) (int64, error) {
	for {
		p.req.Topics[0].Partitions[0].FetchOffset = from
		resp, err := p.req.RequestWith(ctx, p.leader)
		if kgo.IsRetryableBrokerErr(err) { // the client closed the connection to restart its fetches
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
		next, full := after(answer.RecordBatches, from, answer.AbortedTransactions)
		if full || next == from {
			if len(answer.RecordBatches) == 0 {
				return max(from, p.end(answer)), nil
			}
			return next, nil
		}
		from = next
	}
}

// end returns the offset at which readers of the probe's isolation level stop.
func (p *probe) end(answer *kmsg.FetchResponseTopicPartition) int64 {
	if p.req.IsolationLevel == 1 && answer.LastStableOffset >= 0 {
		return answer.LastStableOffset
	}
	return answer.HighWatermark
}

// after reads the headers of complete batches. It returns the first offset at or after from in a
// batch with records that are not aborted, or the offset after the last batch. full reports whether
// it found such a batch, or one that it cannot read.
func after(batches []byte, from int64, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) (next int64, full bool) {
	const baseOffset, lengthAt, countAt, header = 8, 12, 57, 61
	next = from
	ends := outcomes{left: aborted, open: map[int64]bool{}}
	for len(batches) >= header {
		var b kmsg.RecordBatch
		size := lengthAt + int(int32(uint32(batches[baseOffset])<<24|uint32(batches[9])<<16|uint32(batches[10])<<8|uint32(batches[11])))
		if size < header || size > len(batches) || b.ReadFrom(batches[:size]) != nil {
			return next, true
		}
		last := b.FirstOffset + int64(b.LastOffsetDelta)
		if !ends.aborted(&b) && b.NumRecords > 0 && last >= from {
			return max(from, b.FirstOffset), true
		}
		next, batches = max(next, last+1), batches[size:]
	}
	return next, len(batches) > 0
}

// outcomes finds the batches of aborted transactions in a response, which lists the transactions by
// first offset.
type outcomes struct {
	left []kmsg.FetchResponseTopicPartitionAbortedTransaction
	open map[int64]bool // producers whose aborted transaction has begun
}

// aborted reports whether the next batch has records of an aborted transaction. Its marker ends it.
func (o *outcomes) aborted(b *kmsg.RecordBatch) bool {
	const transactional, control = 1 << 4, 1 << 5
	for len(o.left) > 0 && o.left[0].FirstOffset <= b.FirstOffset+int64(b.LastOffsetDelta) {
		o.open[o.left[0].ProducerID] = true
		o.left = o.left[1:]
	}
	if b.Attributes&control != 0 {
		delete(o.open, b.ProducerID)
		return false
	}
	return b.Attributes&transactional != 0 && o.open[b.ProducerID]
}
