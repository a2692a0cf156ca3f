package broker

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// Produce (key 0), versions 3 to 13. Versions 0 to 2 are listed, because librdkafka then assumes
// that the broker supports compression, but have no handler, as in Kafka 4.
func produceAPI() api {
	a := apiDef[*produceOp]{
		inProportion: true,
		API:          protocol.API{Key: protocol.KeyProduce, Min: 3, Max: 13, ListZero: true},
		decode:       parseProduce,
		fresh:        func() kmsg.Request { return kmsg.NewPtrProduceRequest() },
		asks:         asks[*produceOp]{inside: true},
		handle: later(func(_ *Handler, op *produceOp) (*network.Waiter, string) { return &op.waiter, "" },
			func(c call, op *produceOp) { op.run(c, op.refused()) }),
	}.api()
	a.route, a.lost = byLeader, lostProduce
	return a
}

// produceOp is one Produce request in flight. It collects the results of the partitions' appends
// until the last one has ended, and is reused afterwards.
//
// Promise: the answer reports success for a partition only after replica.Append has; any other
// outcome is an error in the answer, or no answer at all.
type produceOp struct {
	b     *Handler
	r     *network.Request
	view  protocol.ProduceView
	parts []producePart
	delay time.Duration // how long the connection is throttled
	// inflates: a batch takes long to validate, and decompressing takes up to 8 MiB of memory.
	inflates bool
	// turn is used, and turn.Gate set, if the request has transactional batches.
	turn gate.Turn
	// unwatch ends the watch over the connection of a request with batches that wait at the gate.
	unwatch func() bool
	left    atomic.Int32 // parts without a result, and one until all were started
	out     []byte
	raw     [1][]byte
	writer  protocol.ProduceWriter // of encode: on the stack it would be moved to the heap
	// Created once: the functions that the appends, the answer, the expiry and GET /v1/waits call.
	waiter network.Waiter
	done   func(*replica.Append)
	give   func()
	expire func()
	// expires is when the partitions may be expired, since born; notStarted before all of them were
	// started and after all have ended, endless with acks=0. A late expiry, when the op serves
	// another request already, reads the time of that request.
	expires atomic.Int64
	born    time.Time
}

// Values of produceOp.expires that no time reaches.
const (
	notStarted = math.MaxInt64
	endless    = notStarted - 1
)

// producePart is one partition of the request.
type producePart struct {
	replica.Append
	wait  *gate.Entry // of a batch that waited at the gate; nil for others
	err   error       // refused before its append started
	topic *metadata.Topic
	conf  *topicConf
	part  *replica.Partition
}

// produceOp takes an op from the pool.
func (b *Handler) produceOp(r *network.Request) *produceOp {
	op, _ := b.produces.Get().(*produceOp)
	if op == nil {
		op = &produceOp{b: b, born: time.Now()}
		op.done = func(*replica.Append) { op.finished() }
		op.give, op.expire, op.waiter.Steps = op.recycle, op.expired, op.waiting
		op.expires.Store(notStarted)
	}
	op.r = r
	return op
}

// parseProduce reads a request in place.
func parseProduce(b *Handler, r *network.Request) (*produceOp, int, error) {
	op := b.produceOp(r)
	if err := op.view.Parse(r.Version, r.Body); err != nil {
		op.recycle()
		return nil, 0, err
	}
	if b.forwards(r) && b.passProduce(r, &op.view) {
		op.recycle()
		return nil, 0, errHandedOver
	}
	n := op.view.Partitions()
	if cap(op.parts) < n {
		op.parts = make([]producePart, n)
	}
	op.parts = op.parts[:n]
	// A poller must not decompress much: the request starts again on the connection's reader.
	op.resolve()
	if op.inflates = op.heavy(); op.inflates && !r.MayBlock() {
		op.recycle()
		r.HandOver()
		return nil, 0, errHandedOver
	}
	return op, 0, nil
}

// run starts the appends, or refuses all of them, and returns; the last one to finish answers.
func (op *produceOp) run(c call, refused error) {
	op.delay = c.quota.Wait(quota.Produced)
	op.left.Store(int32(len(op.parts)) + 1)
	if refused != nil {
		for i := range op.parts {
			op.parts[i].err = refused
			op.left.Add(-1)
		}
	} else if op.begin(); op.left.Load() > 1 {
		op.started()
	}
	op.finished()
}

// started sets when the appends that have not ended yet expire. An expiry may come at once, so
// every append was started before.
func (op *produceOp) started() {
	if op.view.Acks == int16(replica.AcksNone) {
		op.expires.Store(endless)
		return
	}
	wait := milliseconds(op.view.TimeoutMillis)
	op.watch()
	if op.view.Acks != int16(replica.AcksAll) {
		wait = max(wait, op.b.opt.AppendTime)
	}
	op.expireAt(op.r.Received.Add(wait))
}

// expireAt expires the appends at t, unless all have ended by then.
func (op *produceOp) expireAt(t time.Time) {
	op.expires.Store(int64(t.Sub(op.born)))
	op.r.ExpireAt(t, op.expire)
}

// refused returns why the request as a whole is refused, nil if it is not.
func (op *produceOp) refused() error {
	switch replica.Acks(op.view.Acks) {
	case replica.AcksNone, replica.AcksLeader, replica.AcksAll:
	default:
		return protocolErrorf(kerr.InvalidRequiredAcks, "acks is %d; use 0, 1 or -1 (all)", op.view.Acks)
	}
	return op.beginTurn()
}

// resolve finds the topics that the request names, and their configurations.
func (op *produceOp) resolve() {
	img, m, i := op.b.image(), op.b.rights(op.r), 0
	for t := range op.view.Topics {
		vt := &op.view.Topics[t]
		topic, conf, err := op.topic(img, m, vt)
		for range vt.Partitions {
			part := &op.parts[i]
			i++
			part.err, part.topic, part.conf, part.part, part.wait = err, topic, conf, nil, nil
		}
	}
}

// heavy reports whether a batch takes long to validate, which would delay a poller's other
// connections.
func (op *produceOp) heavy() bool {
	i := 0
	for t := range op.view.Topics {
		vt := &op.view.Topics[t]
		for p := range vt.Partitions {
			part := &op.parts[i]
			i++
			if part.err == nil && part.conf.Rules.Heavy(vt.Partitions[p].Records) {
				return true
			}
		}
	}
	return false
}

// begin validates every partition's batch and passes it to its log.
func (op *produceOp) begin() {
	now, i := op.r.Now(), 0
	for t := range op.view.Topics {
		vt := &op.view.Topics[t]
		for p := range vt.Partitions {
			part := &op.parts[i]
			i++
			if part.err == nil {
				part.err = op.append(part, &vt.Partitions[p], now)
			}
			if part.err != nil {
				op.left.Add(-1)
			}
		}
	}
	if op.turn.Gate != nil {
		op.turn.Ask()
	}
}

// topic returns the topic that the request names by name or id, if the client may write to it.
func (op *produceOp) topic(img *metadata.Image, m rights, vt *protocol.ProduceTopic) (*metadata.Topic, *topicConf, error) {
	byID := op.view.Version >= 13
	var t *metadata.Topic
	var name string
	if byID {
		t = img.TopicByID(vt.ID)
	} else if t = img.Topic(string(vt.Name)); t != nil {
		name = t.Name // which takes no allocation
	} else {
		name = string(vt.Name)
	}
	t, err := m.found(acl.Write, t, byID, name, vt.ID)
	if err != nil {
		return nil, nil, err
	}
	if t.Internal {
		return nil, nil, protocolErrorf(kerr.InvalidTopicException, "topic %s is internal: only the broker writes to it", t.Name)
	}
	conf := op.b.topicConf(img, t)
	return t, conf, conf.Err
}

// accept validates a batch, at a place if the request has one that takes long.
func (op *produceOp) accept(part *producePart, vp *protocol.ProducePartition, now time.Time) (record.Accepted, error) {
	if op.inflates {
		op.r.WaitsAt(op.b.at.place, "")
		if op.b.batches.Take(op.b.ctx, nil, op.r.Holder().Origin) == nil {
			defer op.b.batches.Leave()
		}
		op.r.WaitsAt(&op.waiter, "")
	}
	return part.conf.Rules.Accept(vp.Records, now)
}

// append starts one partition's append: the records are in the queue of their log, and nothing of
// them is durable or visible. Their answer is due when the partition completes the append, as acks
// and the profile demand. An error means that nothing was started.
func (op *produceOp) append(part *producePart, vp *protocol.ProducePartition, now time.Time) error {
	p, err := op.b.partition(part.topic, vp.Index)
	if err != nil {
		return err
	}
	accepted, err := op.accept(part, vp, now)
	if err != nil {
		return err
	}
	if accepted.Codec == record.Zstd && op.view.Version < 7 {
		return protocolErrorf(kerr.UnsupportedCompressionType, "zstd needs Produce version 7 or later (KIP-110), this is version %d",
			op.view.Version)
	}
	if n := int64(len(accepted.Bytes)); n > int64(part.conf.Conf.SegmentBytes) {
		return protocolErrorf(kerr.RecordListTooLarge, "%d bytes of records exceed segment.bytes of topic %s, which is %d; "+
			"lower batch.size of the producer, or raise segment.bytes",
			n, part.topic.Name, part.conf.Conf.SegmentBytes)
	}
	op.r.CountRecords(accepted.Records)
	part.part = p
	part.LeaderEpoch, part.Acks = -1, replica.Acks(op.view.Acks)
	part.Batches = accepted
	part.Done = op.done
	if op.turn.Gate != nil && record.Batch(accepted.Bytes).Transactional() {
		part.wait = op.turn.Append(p, part.topic.Name, &part.Append, op.r.Batch())
		return nil
	}
	part.Permit = producers.Permit{}
	p.Append(&part.Append, op.r.Batch())
	return nil
}

// finished counts down; the last call answers.
func (op *produceOp) finished() {
	if op.left.Add(-1) > 0 {
		return
	}
	op.expires.Store(notStarted)
	if op.unwatch != nil {
		op.unwatch()
	}
	if op.delay > 0 {
		op.r.Throttle(op.delay)
	}
	if op.view.Acks == int16(replica.AcksNone) {
		op.endQuietly()
		return
	}
	if op.r.Listener.Forward || op.r.Session.Via {
		if err := op.moved(); err != nil {
			r := op.r
			r.Code = op.code(err)
			op.recycle()
			r.Abort(fmt.Errorf("%w: %w", errRepeat, err))
			return
		}
	}
	op.out = op.encode(op.out[:0])
	op.raw[0] = op.out
	op.r.RespondRaw(op.raw[:], op.give)
}

// moved returns why an idempotent producer sends records again, maybe to another leader; nil if it
// does not. Through one address, what it has sent meanwhile would come to that leader first, while
// a connection to one broker ends there.
func (op *produceOp) moved() error {
	i := 0
	for t := range op.view.Topics {
		for p := range op.view.Topics[t].Partitions {
			err := op.parts[i].result()
			i++
			if err == nil {
				continue
			}
			switch op.code(err) {
			case kerr.NotLeaderForPartition.Code, kerr.KafkaStorageError.Code, kerr.RequestTimedOut.Code,
				kerr.NotEnoughReplicasAfterAppend.Code:
				if record.Idempotent(op.view.Topics[t].Partitions[p].Records) {
					return err
				}
			}
		}
	}
	return nil
}

// endQuietly ends a request that wants no answer; if there was an error, it closes the connection
// to inform the producer.
func (op *produceOp) endQuietly() {
	r := op.r
	for i := range op.parts {
		if err := op.parts[i].result(); err != nil {
			err = fmt.Errorf("acks=0: %w", err)
			r.Code = op.b.code(r, err)
			op.recycle()
			r.Abort(err)
			return
		}
	}
	op.recycle()
	r.RespondNone()
}

// expired ends unacknowledged appends with REQUEST_TIMED_OUT: at the request's timeout those that
// wait for other replicas, after Options.AppendTime all of them. Their records may still be stored
// later. An append whose offsets are being assigned at this moment ends on that goroutine, which
// then answers.
func (op *produceOp) expired() {
	for {
		n := op.left.Load()
		if n == 0 {
			return // answered
		}
		if op.left.CompareAndSwap(n, n+1) {
			break // it can't be answered, nor reused, before finished below
		}
	}
	if int64(time.Since(op.born)) >= op.expires.Load() {
		last := op.r.Received.Add(op.b.opt.AppendTime)
		early := time.Now().Before(last)
		for i := range op.parts {
			switch part := &op.parts[i]; {
			case part.part == nil:
			case early && part.wait != nil:
				part.wait.Overdue()
			case early:
				part.Overdue()
			case part.wait != nil:
				part.wait.Expire()
			default:
				part.Expire()
			}
		}
		if early && op.left.Load() > 1 {
			op.expireAt(last)
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
	op.writer = protocol.NewProduceWriter(dst, op.view.Version, len(op.view.Topics))
	w, i := &op.writer, 0
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
	out := w.End(throttleMillis(op.delay), op.b.endpoints(op.r, leaders))
	*w = protocol.ProduceWriter{} // it would keep a large answer
	return out
}

// fail fills in the answer for a partition that failed.
func (op *produceOp) fail(res *protocol.ProducePartitionResult, part *producePart, err error, leaders *nodeSet) {
	res.Code = op.code(err)
	res.Message = message(err)
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

// maxKeptParts and maxKeptOut bound the memory that an idle op keeps.
const (
	maxKeptParts = 64
	maxKeptOut   = 8 << 10
)

// recycle makes the op ready for another use.
func (op *produceOp) recycle() {
	op.view.Reset()
	for i := range op.parts {
		part := &op.parts[i]
		part.part, part.topic, part.conf, part.err, part.Batches, part.wait = nil, nil, nil, nil, record.Accepted{}, nil
	}
	if cap(op.parts) > maxKeptParts {
		op.parts = nil
	}
	if cap(op.out) > maxKeptOut {
		op.out = nil
	}
	op.r, op.raw[0], op.delay, op.turn, op.unwatch = nil, nil, 0, gate.Turn{}, nil
	op.b.produces.Put(op)
}
