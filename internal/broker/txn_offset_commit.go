package broker

import (
	"cmp"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// TxnOffsetCommit (key 28), versions 0 to 6: offsets of a group that a producer's transaction
// commits. From version 5 on, the offsets are added to the transaction; before, the client has
// added the group (AddOffsetsToTxn).
func txnOffsetCommitAPI() api {
	return apiDef[*kmsg.TxnOffsetCommitRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.TxnOffsetCommit), Max: 6},
		asks: asks[*kmsg.TxnOffsetCommitRequest]{
			whole: func(m rights, req *kmsg.TxnOffsetCommitRequest) *kerr.Error {
				return cmp.Or(m.transaction(acl.Write, req.TransactionalID), m.group(acl.Read, req.Group))
			},
			parts: each(func(req *kmsg.TxnOffsetCommitRequest) *[]kmsg.TxnOffsetCommitRequestTopic { return &req.Topics },
				func(m rights, req *kmsg.TxnOffsetCommitRequest, x *kmsg.TxnOffsetCommitRequestTopic) *kerr.Error {
					return m.topicRef(acl.Read, req.Version >= 6, x.Topic, x.TopicID)
				}),
		},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toGroup(func(req *kmsg.TxnOffsetCommitRequest) string { return req.Group }),
		handle:     later(atGroup(func(req *kmsg.TxnOffsetCommitRequest) string { return req.Group }), txnOffsetCommit),
	}.api()
}

const (
	// txnCommitTime bounds how long offsets wait for the end of the producer's transaction before:
	// the default of Kafka's offsets.commit.timeout.ms.
	txnCommitTime = 5 * time.Second
	// maxPermits bounds how often the transaction's coordinator is asked: markers that arrive
	// meanwhile make its answers worthless.
	maxPermits = 3
)

// txnCommitOp is a TxnOffsetCommit under way. The group decides whether it needs a permit of the
// transaction's coordinator, and gets the request again with it:
//
//	group ──NeedsPermit──▶ coordinator ──yes──▶ group, with the permit ──▶ answer
//	  ▲──────────────── version 5: a marker came meanwhile ──┘
type txnCommitOp struct {
	c        call
	resp     *kmsg.TxnOffsetCommitResponse
	event    group.TxnCommit
	left     []*int16 // the codes for the partitions of the event, in order
	permits  int      // asked for
	deadline time.Time
}

func txnOffsetCommit(c call, req *kmsg.TxnOffsetCommitRequest) {
	op := &txnCommitOp{c: c, resp: respondTo(c.r, kmsg.NewPtrTxnOffsetCommitResponse()), deadline: time.Now().Add(txnCommitTime)}
	rest := *req
	rest.Topics = nil
	op.event.Body = &rest
	op.split(req)
	if len(op.left) == 0 {
		c.respond(op.resp)
		return
	}
	op.submit()
}

// split adds every partition of the request to the answer; an unknown one gets its error. The event
// gets the others.
func (op *txnCommitOp) split(req *kmsg.TxnOffsetCommitRequest) {
	img := op.c.b.image()
	for i := range req.Topics {
		t := &req.Topics[i]
		known, missing := img.Topic(t.Topic), kerr.UnknownTopicOrPartition
		if req.Version >= 6 {
			known, missing = img.TopicByID(t.TopicID), kerr.UnknownTopicID
		}
		out := kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic, out.TopicID, out.Partitions = t.Topic, t.TopicID, make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(t.Partitions))
		var some kmsg.TxnOffsetCommitRequestTopic
		if known != nil {
			some.Topic, some.TopicID, missing = known.Name, known.ID, kerr.UnknownTopicOrPartition
		}
		for n := range t.Partitions {
			entry := &out.Partitions[n]
			entry.Partition = t.Partitions[n].Partition
			if known == nil || known.Partitions.At(entry.Partition) == nil {
				setCode(op.c.r, &entry.ErrorCode, missing)
				continue
			}
			some.Partitions, op.left = append(some.Partitions, t.Partitions[n]), append(op.left, &entry.ErrorCode)
		}
		op.resp.Topics = append(op.resp.Topics, out)
		if len(some.Partitions) > 0 {
			op.event.Body.Topics = append(op.event.Body.Topics, some)
		}
	}
}

// submit passes the offsets to the group.
func (op *txnCommitOp) submit() {
	b := op.c.b
	b.opt.Groups.Submit(op.event.Body.Group, op.event, func(answer any, err error) {
		need, asks := answer.(group.NeedsPermit)
		got, ok := answer.(*kmsg.TxnOffsetCommitResponse)
		switch code := b.coordinatorError(op.event, answer, ok || asks, err); {
		case code != nil:
			op.refuse(code)
		case asks:
			op.ask(need)
		default:
			op.answer(got)
		}
	})
}

// ask asks the coordinator of the transaction for a permit.
func (op *txnCommitOp) ask(need group.NeedsPermit) {
	b, req := op.c.b, op.event.Body
	shard, ok := b.opt.Groups.Partition(req.Group)
	if op.permits++; !ok || op.permits > maxPermits || b.opt.Coordinators == nil {
		op.refuse(kerr.CoordinatorLoadInProgress)
		return
	}
	q := gate.Question{ID: req.TransactionalID, ProducerID: req.ProducerID, Epoch: req.ProducerEpoch, Add: req.Version >= 5,
		Partitions: []txn.AddedPartition{{Partition: txn.Partition{Topic: service.OffsetsTopic, Index: shard}}}, Deadline: op.deadline}
	b.opt.Coordinators.Ask(q, func(a gate.Answer) {
		err := a.Err
		if err == nil && len(a.Partitions) > 0 {
			err = a.Partitions[0]
		}
		if err != nil {
			op.refuse(offsetsRefused(req.Version, err))
			return
		}
		op.event.Permit = group.Permit{Guard: need.Guard, CoordinatorEpoch: a.CoordinatorEpoch}
		op.submit()
	})
}

// offsetsRefused returns the error for an answer of the transaction's coordinator. After a
// temporary one, clients send the request again without looking for another group coordinator.
func offsetsRefused(version int16, err *kerr.Error) *kerr.Error {
	switch err {
	case kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch, kerr.InvalidTxnState:
		return err
	case kerr.ProducerFenced: // in no version of the API
		return kerr.InvalidProducerEpoch
	case kerr.TransactionAbortable:
		return abortableBefore(4, version, err)
	}
	return kerr.CoordinatorLoadInProgress
}

// answer answers with the group's codes.
func (op *txnCommitOp) answer(got *kmsg.TxnOffsetCommitResponse) {
	codes := op.left
	for _, t := range got.Topics {
		for _, p := range t.Partitions {
			setCode(op.c.r, codes[0], op.known(kerr.TypedErrorForCode(p.ErrorCode)))
			codes = codes[1:]
		}
	}
	op.c.respond(op.resp)
}

// refuse answers with one error for all partitions that the group was asked for.
func (op *txnCommitOp) refuse(code *kerr.Error) {
	for _, at := range op.left {
		setCode(op.c.r, at, op.known(code))
	}
	op.c.respond(op.resp)
}

// known returns an error as the request's version knows it: clients retry
// COORDINATOR_LOAD_IN_PROGRESS from version 2 on.
func (op *txnCommitOp) known(err *kerr.Error) *kerr.Error {
	if err == kerr.CoordinatorLoadInProgress && op.c.r.Version < 2 {
		return kerr.CoordinatorNotAvailable
	}
	return err
}
