package broker

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
)

// Produce (key 0), versions 3 to 13. Versions 0 to 2 are listed, since
// librdkafka takes them for the sign of a broker that knows compression, but have
// no handler, as in Kafka 4.
func produceAPI() api {
	return api{protocol.API{Key: protocol.KeyProduce, Min: 3, Max: 13, ListZero: true}, (*Broker).produce}
}

// produceOp is one Produce request on its way. It holds what the partitions'
// appends report until the last of them has, and is used again afterwards.
//
// Promise: the answer says success for a partition only after replica.Append
// has; whatever else happened is an error in it, or no answer at all.
type produceOp struct {
	b     *Broker
	r     *network.Request
	view  protocol.ProduceView
	parts []producePart
	left  atomic.Int32 // parts without a result, and one until all were begun
	out   []byte
	raw   [1][]byte
	// Made once: what the appends, the answer and the expiry call.
	done   func(*replica.Append)
	give   func()
	expire func()
	// expires is when the partitions may be expired, since born; never before all
	// of them were begun. An expiry that comes late, when the op serves another
	// request already, finds that one's.
	expires atomic.Int64
	born    time.Time
}

const never = math.MaxInt64

// producePart is one partition of the request.
type producePart struct {
	replica.Append
	err   error // refused before it came to an append
	topic *metadata.Topic
	part  *replica.Partition
}

// produceOp takes an op out of the pool.
func (b *Broker) produceOp(r *network.Request) *produceOp {
	op, _ := b.produces.Get().(*produceOp)
	if op == nil {
		op = &produceOp{b: b, born: time.Now()}
		op.done = func(*replica.Append) { op.finished() }
		op.give, op.expire = op.giveBack, op.expired
		op.expires.Store(never)
	}
	op.r = r
	return op
}

// produce begins the appends and returns; the last one to finish answers.
func (b *Broker) produce(r *network.Request) {
	op := b.produceOp(r)
	if err := op.view.Parse(r.Version, r.Body); err != nil {
		op.giveBack()
		r.Abort(err)
		return
	}
	n := op.view.Partitions()
	if cap(op.parts) < n {
		op.parts = make([]producePart, n)
	}
	op.parts = op.parts[:n]
	op.left.Store(int32(n) + 1)
	if err := op.refused(); err != nil {
		for i := range op.parts {
			op.parts[i].err = err
			op.left.Add(-1)
		}
	} else if op.begin(); op.view.Acks != int16(replica.AcksNone) && op.left.Load() > 1 {
		// Only now: an expiry may come at once, and finds every append begun.
		at := r.Received.Add(time.Duration(max(op.view.TimeoutMillis, 0)) * time.Millisecond)
		op.expires.Store(int64(at.Sub(op.born)))
		r.ExpireAt(at, op.expire)
	}
	op.finished()
}

// refused says why the request as a whole can't be served.
func (op *produceOp) refused() error {
	switch replica.Acks(op.view.Acks) {
	case replica.AcksNone, replica.AcksLeader, replica.AcksAll:
	default:
		return refuse(kerr.InvalidRequiredAcks, "acks is %d; use 0, 1 or -1 (all)", op.view.Acks)
	}
	if op.view.TransactionalID != nil {
		return refuse(kerr.TransactionalIDAuthorizationFailed,
			"transactions are not available in this version of chronik; remove transactional.id from the producer's configuration")
	}
	return nil
}

// begin validates every partition's batch and hands it to its log.
func (op *produceOp) begin() {
	img, now, i := op.b.image(), time.Now(), 0
	for t := range op.view.Topics {
		vt := &op.view.Topics[t]
		topic, conf, err := op.topic(img, vt)
		for p := range vt.Partitions {
			part := &op.parts[i]
			i++
			part.err, part.topic, part.part = err, topic, nil
			if err == nil {
				part.err = op.append(part, topic, conf, &vt.Partitions[p], now)
			}
			if part.err != nil {
				op.left.Add(-1)
			}
		}
	}
}

// topic finds the topic that the request names, or its id.
func (op *produceOp) topic(img *metadata.Image, vt *protocol.ProduceTopic) (*metadata.Topic, *topicConf, error) {
	var t *metadata.Topic
	if op.view.Version >= 13 {
		if t = img.TopicByID(vt.ID); t == nil {
			return nil, nil, refuse(kerr.UnknownTopicID, "this broker knows no topic with id %s", metadata.FormatID(vt.ID))
		}
	} else if t = img.Topic(string(vt.Name)); t == nil {
		return nil, nil, refuse(kerr.UnknownTopicOrPartition, "this broker knows no topic %q", vt.Name)
	}
	if t.Internal {
		return nil, nil, refuse(kerr.InvalidTopicException, "topic %s is internal: only the broker writes to it", t.Name)
	}
	conf := op.b.topicConf(img, t)
	return t, conf, conf.Err
}

// append begins one partition's append. An error means that nothing was begun.
func (op *produceOp) append(part *producePart, t *metadata.Topic, conf *topicConf, vp *protocol.ProducePartition, now time.Time) error {
	p, err := op.b.partition(t, vp.Index)
	if err != nil {
		return err
	}
	accepted, err := conf.Rules.Accept(vp.Records, now)
	if err != nil {
		return err
	}
	if accepted.Codec == record.Zstd && op.view.Version < 7 {
		return refuse(kerr.UnsupportedCompressionType, "zstd needs Produce version 7 or later (KIP-110), this is version %d", op.view.Version)
	}
	part.part = p
	part.LeaderEpoch, part.Acks, part.MinISR = -1, replica.Acks(op.view.Acks), conf.Conf.MinInSyncReplicas
	part.Batches = accepted
	part.Done = op.done
	p.Queue(&part.Append)
	op.r.Later(p)
	return nil
}

// finished counts down; the last one answers.
func (op *produceOp) finished() {
	if op.left.Add(-1) > 0 {
		return
	}
	op.expires.Store(never)
	if op.view.Acks == int16(replica.AcksNone) {
		op.endQuietly()
		return
	}
	op.out = op.encode(op.out[:0])
	op.raw[0] = op.out
	op.r.RespondRaw(op.raw[:], op.give)
}

// endQuietly ends a request that wants no answer; an error closes the
// connection, which is how its producer learns of it.
func (op *produceOp) endQuietly() {
	r := op.r
	for i := range op.parts {
		if err := op.parts[i].result(); err != nil {
			err = fmt.Errorf("acks=0: %w", err)
			r.Code = code(err)
			op.giveBack()
			r.Abort(err)
			return
		}
	}
	op.giveBack()
	r.RespondNone()
}

// expired ends the appends that are not acknowledged with REQUEST_TIMED_OUT.
// Their records may still come to be stored. One that is being numbered at this
// moment ends on that goroutine, which then answers.
func (op *produceOp) expired() {
	for {
		n := op.left.Load()
		if n == 0 {
			return // answered
		}
		if op.left.CompareAndSwap(n, n+1) {
			break // it can't be answered, nor used again, before finished below
		}
	}
	if int64(time.Since(op.born)) >= op.expires.Load() {
		for i := range op.parts {
			if op.parts[i].part != nil {
				op.parts[i].Expire()
			}
		}
	}
	op.finished()
}

func (part *producePart) result() error {
	if part.err != nil {
		return part.err
	}
	return part.Err
}

// encode writes the response body.
func (op *produceOp) encode(dst []byte) []byte {
	w := protocol.NewProduceWriter(dst, op.view.Version, len(op.view.Topics))
	i := 0
	var leaders nodeSet
	for t := range op.view.Topics {
		vt := &op.view.Topics[t]
		w.Topic(vt.Name, vt.ID, len(vt.Partitions))
		for p := range vt.Partitions {
			part := &op.parts[i]
			i++
			res := protocol.ProducePartitionResult{Index: vt.Partitions[p].Index, BaseOffset: -1, AppendTime: -1, LogStart: -1}
			if err := part.result(); err != nil {
				op.fail(&res, part, err, &leaders)
			} else {
				res.BaseOffset, res.AppendTime, res.LogStart = part.BaseOffset, part.AppendTime, part.LogStart
			}
			w.Partition(&res)
		}
	}
	return w.End(0, op.b.endpoints(op.r, leaders))
}

// fail fills the answer for a partition that failed.
func (op *produceOp) fail(res *protocol.ProducePartitionResult, part *producePart, err error, leaders *nodeSet) {
	res.Code = code(err)
	if op.view.Version >= 13 {
		res.Code = codeByID(err)
	}
	res.Message = words(err)
	op.r.Code = res.Code
	var bad *record.Error
	if errors.As(err, &bad) {
		for _, f := range bad.Records {
			if f.Msg == record.NoKey {
				f.Msg = fmt.Sprintf("%s in topic partition %s-%d", f.Msg, part.topic.Name, res.Index)
			}
			res.ErrorRecords = append(res.ErrorRecords, protocol.ProduceErrorRecord{Index: f.Index, Message: f.Msg})
		}
	}
	if res.Leader = op.b.leaderHint(res.Code, part.topic, res.Index, part.part); res.Leader != nil {
		leaders.add(res.Leader.ID)
	}
}

// maxKeptParts and maxKeptOut bound what an idle op holds on to.
const (
	maxKeptParts = 64
	maxKeptOut   = 8 << 10
)

// giveBack makes the op ready for another use.
func (op *produceOp) giveBack() {
	op.view.Reset()
	for i := range op.parts {
		part := &op.parts[i]
		part.part, part.topic, part.err, part.Batches = nil, nil, nil, record.Accepted{}
	}
	if cap(op.parts) > maxKeptParts {
		op.parts = nil
	}
	if cap(op.out) > maxKeptOut {
		op.out = nil
	}
	op.r, op.raw[0] = nil, nil
	op.b.produces.Put(op)
}
