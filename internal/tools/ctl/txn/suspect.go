package txn

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// suspect is an open transaction of a partition that may hang.
type suspect struct {
	kadm.DescribedProducer
	owner *transaction // the transactional id with its producer id, nil if no coordinator has one
	age   time.Duration
	why   string
}

// limits are the ages from which a transaction may hang.
type limits struct {
	maxAge  time.Duration // for all; 0: a minute longer than the timeout
	unknown time.Duration // the timeout of a transaction that no coordinator knows
}

// unowned returns why no coordinator will end a transaction in a partition, or "" if one will.
// owner is the transactional id with its producer id, or nil.
func unowned(owner *transaction, w where) string {
	switch {
	case owner == nil:
		return "no coordinator knows its producer id"
	case decided(owner.State):
		return "" // its markers are on the way
	case owner.State != ongoing:
		return "its coordinator has no open transaction"
	case !owner.in.Lookup(w.topic, w.index):
		return "its coordinator has an open transaction without this partition"
	}
	return ""
}

// of returns the age from which a transaction of an id may hang.
func (l limits) of(owner *transaction) time.Duration {
	switch {
	case l.maxAge > 0:
		return l.maxAge
	case owner == nil:
		return l.unknown + grace
	}
	return owner.timeout() + grace
}

// report returns the finding.
func (x *suspect) report(w where, v *view) hanging {
	h := hanging{Topic: w.topic, Partition: w.index, First: x.CurrentTxnStartOffset, Stable: offset(v.stable), End: offset(v.end),
		AgeMs: x.age.Milliseconds(), Written: time.UnixMilli(x.LastTimestamp).UTC(), ProducerID: x.ProducerID, Epoch: x.ProducerEpoch,
		Coordinator: x.CoordinatorEpoch, Why: x.why, Abort: abortCommand(w, x.CurrentTxnStartOffset)}
	if x.owner != nil {
		h.Transactional, h.State = x.owner.ID, x.owner.State
	}
	if n, holds := v.held(x.CurrentTxnStartOffset); holds {
		h.Held = &n
	}
	return h
}

// headBytes bounds the fetch of a first batch: only its head matters.
const headBytes = 1 << 10

// beginning returns the timestamp of the first record of a transaction, or of its last batch if the
// first one was deleted or cannot be read. No protocol carries the time at which a transaction
// began in a partition.
func beginning(ctx context.Context, cl *kgo.Client, id kadm.TopicID, w where, leader int32, p kadm.DescribedProducer) time.Time {
	last := time.UnixMilli(p.LastTimestamp)
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes = -1, headBytes
	t, part := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, t.TopicID = w.topic, id
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = w.index, p.CurrentTxnStartOffset, headBytes
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl.Broker(int(leader)))
	if err != nil || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return last
	}
	if kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode) != nil {
		return last
	}
	at, ok := firstTimestamp(resp.Topics[0].Partitions[0].RecordBatches, p.CurrentTxnStartOffset)
	if !ok || at.After(last) {
		return last
	}
	return at
}

// firstTimestamp returns the timestamp of the first record of the first batch, if that begins at
// the offset.
func firstTimestamp(batches []byte, offset int64) (time.Time, bool) {
	const baseOffset, timestamp, header = 0, 27, 61
	if len(batches) < header || int64(binary.BigEndian.Uint64(batches[baseOffset:])) != offset {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(batches[timestamp:]))), true
}
