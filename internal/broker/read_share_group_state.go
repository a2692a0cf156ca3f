package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ReadShareGroupState (key 84), version 0: whole states of share partitions. With a leader epoch it
// opens them as a leader does, but cuts nothing, as the request does not say what the log has lost.
func readShareGroupStateAPI() api {
	return apiDef[*kmsg.ReadShareGroupStateRequest]{
		API:        protocol.API{Key: int16(kmsg.ReadShareGroupState)},
		asks:       clusterAsks[*kmsg.ReadShareGroupStateRequest](acl.ClusterAction),
		overloaded: kerr.CoordinatorLoadInProgress,
		route:      toShares(sharesNamed[*kmsg.ReadShareGroupStateRequest]),
		handle:     inBackground(atShares(sharesNamed[*kmsg.ReadShareGroupStateRequest]), readShareGroupState),
	}.api()
}

const (
	// readAtOnce is how many states are read at a time. Their marks take memory.
	readAtOnce = 100
	// stateBatchAnswer is what an answer has for a mark, in bytes.
	stateBatchAnswer = 20
)

func readShareGroupState(ctx context.Context, b *Handler, r *network.Request, req *kmsg.ReadShareGroupStateRequest) kmsg.Response {
	ctx, cancel := b.sharesTime(ctx)
	defer cancel()
	keys := sharesNamed(req)
	epochs := make([]int32, 0, len(keys))
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			epochs = append(epochs, p.LeaderEpoch)
		}
	}
	var states []sharestate.State
	resp, left := respondTo(r, kmsg.NewPtrReadShareGroupStateResponse()), b.mostAnswer()
	for i := range req.Topics {
		t := kmsg.NewReadShareGroupStateResponseTopic()
		t.TopicID = req.Topics[i].TopicID
		for _, p := range req.Topics[i].Partitions {
			if len(states) == 0 {
				n := min(readAtOnce, len(keys))
				states = b.readStates(ctx, keys[:n], epochs[:n])
				keys, epochs = keys[n:], epochs[n:]
			}
			one := shareState(r, p.Partition, &states[0], &left)
			states = states[1:]
			t.Partitions = append(t.Partitions, one)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// readStates returns states, and opens those that are asked for with a leader epoch. One whose
// start is not decided is not opened: the first leader decides it.
func (b *Handler) readStates(ctx context.Context, keys []format.Key, epochs []int32) []sharestate.State {
	states := askShares(ctx, b, keys, func(at []int) any { return sharestate.Read(pick(keys, at)) }, failedState)
	var items []sharestate.Opening
	var of []int
	for i := range states {
		if s := &states[i]; s.Err == nil && epochs[i] >= 0 && s.Stored.Start >= 0 {
			items = append(items, sharestate.Opening{Key: keys[i], ID: s.ID, Recorded: s.Leader, Leader: epochs[i], Cut: -1})
			of = append(of, i)
		}
	}
	opened := askShares(ctx, b, pick(keys, of), func(at []int) any { return sharestate.Open(pick(items, at)) }, failedOpen)
	for k := range opened {
		states[of[k]].Err, states[of[k]].Stored = opened[k].Err, opened[k].Stored
	}
	return states
}

// shareState returns the answer for a state. left is how many bytes the answers of this request may
// still have: a state that does not fit gets an error, and the tool asks for fewer.
func shareState(r *network.Request, partition int32, s *sharestate.State, left *int64,
) kmsg.ReadShareGroupStateResponseTopicPartition {
	one := kmsg.NewReadShareGroupStateResponseTopicPartition()
	one.Partition = partition
	err := s.Err
	if size := int64(len(s.Stored.Marks)) * stateBatchAnswer; err == nil && size > *left {
		err = kerr.RecordListTooLarge
	} else {
		*left -= size
	}
	if setShareError(r, &one.ErrorCode, &one.ErrorMessage, err); err != nil {
		return one
	}
	one.StateEpoch, one.StartOffset = s.ID.StateEpoch, s.Stored.Start
	for _, m := range s.Stored.Marks {
		batch := kmsg.NewReadShareGroupStateResponseTopicPartitionStateBatch()
		batch.FirstOffset, batch.LastOffset = m.First, m.Last
		batch.DeliveryState, batch.DeliveryCount = int8(m.State), int16(m.Count)
		one.StateBatches = append(one.StateBatches, batch)
	}
	return one
}
