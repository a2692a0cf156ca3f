package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// WriteShareGroupState (key 85), versions 0 and 1: a tool changes states of share partitions, in
// the leader epoch that has opened them.
func writeShareGroupStateAPI() api {
	return apiDef[*kmsg.WriteShareGroupStateRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.WriteShareGroupState), Max: 1},
		asks:         clusterAsks[*kmsg.WriteShareGroupStateRequest](acl.ClusterAction),
		changes:      changedShareStates[*kmsg.WriteShareGroupStateRequest]("WRITE"),
		overloaded:   kerr.CoordinatorLoadInProgress,
		route:        toShares(sharesNamed[*kmsg.WriteShareGroupStateRequest]),
		handle:       inBackground(atShares(sharesNamed[*kmsg.WriteShareGroupStateRequest]), writeShareGroupState),
	}.api()
}

func writeShareGroupState(ctx context.Context, b *Handler, r *network.Request, req *kmsg.WriteShareGroupStateRequest) kmsg.Response {
	ctx, cancel := b.sharesTime(ctx)
	defer cancel()
	errs := b.writeShares(ctx, req)
	resp := respondTo(r, kmsg.NewPtrWriteShareGroupStateResponse())
	for i := range req.Topics {
		t := kmsg.NewWriteShareGroupStateResponseTopic()
		t.TopicID = req.Topics[i].TopicID
		for j := range req.Topics[i].Partitions {
			one := kmsg.NewWriteShareGroupStateResponseTopicPartition()
			one.Partition = req.Topics[i].Partitions[j].Partition
			setShareError(r, &one.ErrorCode, &one.ErrorMessage, errs[0])
			errs = errs[1:]
			t.Partitions = append(t.Partitions, one)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// writeShares writes to the states that there are when the request arrives, as it does not name the
// time of their creation. If another one is created meanwhile, the write to it is refused.
func (b *Handler) writeShares(ctx context.Context, req *kmsg.WriteShareGroupStateRequest) []*kerr.Error {
	keys := sharesNamed(req)
	known := askShares(ctx, b, keys, func(at []int) any { return sharestate.Peek(pick(keys, at)) }, failedPeek)
	at := askShares(ctx, b, keys, func(at []int) any { return sharestate.Summarize(pick(keys, at)) }, failedSummary)
	errs := make([]*kerr.Error, 0, len(keys))
	var items []sharestate.Writing
	var of []int // the items in errs
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			n := len(errs)
			w, err := writing(&req.Topics[i].Partitions[j], &known[n], &at[n])
			if errs = append(errs, err); err == nil {
				w.Key = keys[n]
				items, of = append(items, w), append(of, n)
			}
		}
	}
	written := askShares(ctx, b, pick(keys, of), func(at []int) any { return sharestate.Write(pick(items, at)) }, failedShare)
	for k, err := range written {
		errs[of[k]] = err
	}
	return errs
}

// writing returns a write to a state. What the request leaves open stays as it is: the state epoch,
// the leader epoch and the start if they are -1, and the number of finished offsets, which version
// 0 does not have.
func writing(p *kmsg.WriteShareGroupStateRequestTopicPartition, known *sharestate.Peeked, at *sharestate.Summary) (
	w sharestate.Writing, err *kerr.Error,
) {
	switch {
	case known.Err != nil:
		return w, known.Err
	case at.Err != nil:
		return w, at.Err
	case p.StateEpoch != -1 && p.StateEpoch != known.ID.StateEpoch:
		return w, kerr.FencedStateEpoch
	}
	w = sharestate.Writing{ID: known.ID, Leader: p.LeaderEpoch, Start: p.StartOffset, Complete: int64(p.DeliveryCompleteCount)}
	if w.Leader == -1 {
		w.Leader = known.Leader
	}
	if w.Start == -1 {
		w.Start = at.Start
	}
	if w.Complete == -1 {
		w.Complete = int64(at.Complete)
	}
	for _, s := range p.StateBatches {
		if s.DeliveryState < 0 {
			return w, kerr.InvalidRequest
		}
		w.Marks = append(w.Marks, window.Mark{First: s.FirstOffset, Last: s.LastOffset, State: window.State(s.DeliveryState),
			Count: int(s.DeliveryCount)})
	}
	return w, nil
}
