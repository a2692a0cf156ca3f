package exchange

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/errcode"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// order is what a coordinator wants of the leader of a partition: to append a marker, or to make
// the records of a producer durable.
type order struct {
	Marker // of a flush: only ProducerID and Epoch
	flush  bool
	// leaderEpoch is that of the partition as the sender knows it, -1 from a tool. A leader of
	// another one refuses the order: a copy that is late on a link must not end a later transaction
	// of a producer whose epoch stays the same, and a flush must not miss that records were lost.
	leaderEpoch int32
	partition   txn.Partition
	// topic is the id of the partition's topic. A broker that knows another one of the name refuses
	// the order, so that it concerns no partition that the sender did not mean.
	topic [16]byte
}

// verdict is the result of an order. err is nil for success. known is the coordinator epoch that
// the partition knows, with TRANSACTION_COORDINATOR_FENCED.
type verdict struct {
	err   *kerr.Error
	known int32
}

// job is an order on its way. done is called once and must not block.
type job struct {
	order
	done func(verdict)
}

// carryOut carries out orders to partitions of this broker, so that they share group commits. It
// calls done once for each, from any goroutine. expire, which carryOut returns, takes back the
// markers that are not appended yet, and stops waiting for the others; they get an error. Neither
// waits for a disk.
func (x *Exchange) carryOut(list []order, done func(i int, v verdict)) (expire func()) {
	var batch groupcommit.Batch
	expire = x.begin(list, &batch, done)
	batch.HandOff()
	return expire
}

// begin queues orders with their partitions' logs. The caller must run the batch afterwards, or
// hand it off.
func (x *Exchange) begin(list []order, batch *groupcommit.Batch, done func(i int, v verdict)) (expire func()) {
	appends := make([]*replica.Append, 0, len(list))
	for i := range list {
		if a := x.beginOne(&list[i], batch, func(v verdict) { done(i, v) }); a != nil {
			appends = append(appends, a)
		}
	}
	return func() {
		for _, a := range appends {
			a.Expire()
		}
	}
}

// beginOne is begin for one order, which it keeps until done. It returns the append of a marker,
// nil if there is none.
func (x *Exchange) beginOne(o *order, batch *groupcommit.Batch, done func(v verdict)) *replica.Append {
	p, err := x.opt.Partition(o.topic, o.partition.Index)
	if o.partition.Topic == x.opt.Offsets && !o.flush {
		if !o.Foreign && (err != nil || p.LeaderEpoch() != o.leaderEpoch) {
			done(verdict{err: kerr.NotLeaderForPartition})
		} else {
			x.opt.WriteOffsets(o.partition.Index, o.Marker, func(err error) { done(x.verdictOf(o, err)) })
		}
		return nil
	}
	if err != nil {
		done(x.verdictOf(o, err))
		return nil
	}
	if o.flush {
		p.Flush(o.leaderEpoch, o.ProducerID, o.Epoch, func(err error) { done(x.verdictOf(o, err)) })
		return nil
	}
	a := o.append(time.Now().UnixMilli())
	a.Done = func(a *replica.Append) { done(x.verdictOf(o, a.Err)) }
	p.Append(a, batch)
	return a
}

// append returns the append of a marker, which counts when every in-sync replica has it.
func (o *order) append(now int64) *replica.Append {
	kind := record.Abort
	if o.Commit {
		kind = record.Commit
	}
	b := record.EndTxnMarker(o.ProducerID, o.Epoch, kind, o.CoordinatorEpoch, now)
	return &replica.Append{
		LeaderEpoch: o.leaderEpoch, Acks: replica.AcksAll, Kind: storage.Marker, Durable: true,
		Sender:  producers.Sender{Bumps: o.Bumps, Foreign: o.Foreign},
		Batches: record.Accepted{Bytes: b, Batches: 1, Records: 1, MaxTimestamp: now, AppendTime: -1},
	}
}

// verdictOf returns the verdict for the error of a partition.
func (x *Exchange) verdictOf(o *order, err error) verdict {
	if err == nil {
		return verdict{}
	}
	if f := (*producers.CoordinatorFenced)(nil); errors.As(err, &f) {
		return verdict{err: kerr.TransactionCoordinatorFenced, known: f.Epoch}
	}
	code := errcode.OfMarker(err)
	if code == kerr.UnknownServerError {
		x.opt.Logger.Error("transaction marker or flush failed for an unknown reason, its coordinator tries again",
			zap.Any("partition", o.partition), zap.Int64("producer", o.ProducerID), zap.Error(err))
	}
	return verdict{err: code}
}
