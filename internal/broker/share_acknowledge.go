package broker

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/view"
)

// ShareAcknowledge (key 79), versions 1 to 2: a member of a share group acknowledges records
// without a fetch (KIP-932, KIP-1222).
func shareAcknowledgeAPI() api {
	return apiDef[*kmsg.ShareAcknowledgeRequest]{
		refuse: func(r *network.Request, _ *kmsg.ShareAcknowledgeRequest, code *kerr.Error) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrShareAcknowledgeResponse())
			resp.ErrorCode = code.Code
			return resp
		},
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.ShareAcknowledge), Min: 1, Max: 2},
		asks:         asks[*kmsg.ShareAcknowledgeRequest]{inside: true},
		enabled:      sharesEnabled,
		overloaded:   kerr.CoordinatorNotAvailable,
		route:        route[*kmsg.ShareAcknowledgeRequest]{by: byNone},
		handle: later(func(b *Handler, _ *kmsg.ShareAcknowledgeRequest) (*network.Waiter, string) {
			return b.at.shareWrite, ""
		},
			shareAcknowledge),
	}.api()
}

func shareAcknowledge(c call, req *kmsg.ShareAcknowledgeRequest) {
	if ask := operatorAsk(&req.UnknownTags, view.ShareTag); ask != nil {
		c.operate(req.GroupID, ask, true, func(answer []byte, err *operatorError) {
			resp := respondTo(c.r, kmsg.NewPtrShareAcknowledgeResponse())
			if err != nil {
				resp.ErrorCode, resp.ErrorMessage, c.r.Code = err.code.Code, &err.text, err.code.Code
			} else {
				resp.UnknownTags.Set(view.ShareTag, answer)
			}
			c.respond(resp)
		})
		return
	}
	resp := respondTo(c.r, kmsg.NewPtrShareAcknowledgeResponse())
	caller := shareCaller{req.GroupID, req.MemberID, req.ShareSessionEpoch}
	code := caller.refused(c.b, c.r)
	if code == nil && caller.epoch == shareleader.OpenSession {
		code = kerr.InvalidShareSessionEpoch
	}
	var s *shareleader.Session
	if code == nil {
		s, code = caller.session(c.b, c.r)
	}
	if code != nil {
		resp.ErrorCode, c.r.Code = code.Code, code.Code
		if text := denialText(code); text != "" {
			resp.ErrorMessage = &text
		}
		c.respond(resp)
		return
	}
	// The parts are found as those of a fetch are.
	op := newShareOp(c, s, *req.GroupID)
	acks := acksOf(req)
	for i := range acks {
		op.name(acks[i].of)
	}
	op.find()
	answer := shareAnswer{op: op, resp: resp, pending: 1}
	for i := range acks {
		answer.acknowledge(&acks[i], req.IsRenewAck)
	}
	if caller.epoch == shareleader.CloseSession {
		s.End()
	}
	answer.end()
}

// acksOf returns the acknowledgements of a request, with an entry for each partition.
func acksOf(req *kmsg.ShareAcknowledgeRequest) (all []shareAcks) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			one := shareAcks{of: shareleader.Named{Topic: t.TopicID, Partition: p.Partition}}
			for _, a := range p.AcknowledgementBatches {
				one.acks = append(one.acks, window.Ack{First: a.FirstOffset, Last: a.LastOffset, Types: ackTypes(a.AcknowledgeTypes)})
			}
			all = append(all, one)
		}
	}
	return all
}

// shareAnswer is the answer to a ShareAcknowledge. It leaves when each partition has its result.
type shareAnswer struct {
	op   *shareOp
	resp *kmsg.ShareAcknowledgeResponse

	mu      sync.Mutex
	pending int
}

// acknowledge passes on the acknowledgements of a partition.
func (a *shareAnswer) acknowledge(of *shareAcks, renew bool) {
	op := a.op
	i := op.indexOf(&partitionRequest{topic: topicRef{id: of.of.Topic}, index: of.of.Partition})
	share := &op.shares[i]
	if err := op.parts[i].err; err != nil {
		share.ack = kerr.TypedErrorForCode(op.c.b.codeByID(op.c.r, err))
		return
	}
	a.mu.Lock()
	a.pending++
	a.mu.Unlock()
	share.p.Acknowledge(op.s, of.acks, renew, func(code *kerr.Error) {
		a.mu.Lock()
		if share.ack == nil { // a partition may be named repeatedly
			share.ack = code
		}
		a.mu.Unlock()
		a.end()
	})
}

// end notes that one more result is known.
func (a *shareAnswer) end() {
	a.mu.Lock()
	a.pending--
	done := a.pending == 0
	a.mu.Unlock()
	if done {
		a.answer()
	}
}

func (a *shareAnswer) answer() {
	op, r := a.op, a.op.c.r
	a.resp.AcquisitionLockTimeoutMillis = int32(op.lock.Milliseconds())
	var leaders nodeSet
	for i := range op.parts {
		p := &op.parts[i]
		if n := len(a.resp.Topics); n == 0 || a.resp.Topics[n-1].TopicID != p.topicRef().id {
			t := kmsg.NewShareAcknowledgeResponseTopic()
			t.TopicID = p.topicRef().id
			a.resp.Topics = append(a.resp.Topics, t)
		}
		one := kmsg.NewShareAcknowledgeResponseTopicPartition()
		one.Partition, one.CurrentLeader.LeaderID, one.CurrentLeader.LeaderEpoch = p.index, -1, -1
		if code := op.shares[i].ack; code != nil {
			one.ErrorCode, r.Code = code.Code, code.Code
			if hint := op.b.leaderHint(code.Code, p.topic, p.index, p.part); hint != nil {
				one.CurrentLeader.LeaderID, one.CurrentLeader.LeaderEpoch = hint.ID, hint.Epoch
				leaders.add(hint.ID)
			}
		}
		t := &a.resp.Topics[len(a.resp.Topics)-1]
		t.Partitions = append(t.Partitions, one)
	}
	for _, n := range op.b.endpoints(r, leaders) {
		at := kmsg.NewShareAcknowledgeResponseNodeEndpoint()
		at.NodeID, at.Host, at.Port = n.ID, n.Host, n.Port
		if n.Rack != "" {
			at.Rack = &n.Rack
		}
		a.resp.NodeEndpoints = append(a.resp.NodeEndpoints, at)
	}
	op.c.respond(a.resp)
}
