package broker

import (
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// InitializeShareGroupState (key 83), version 0: a tool begins states of share partitions.
func initializeShareGroupStateAPI() api {
	return apiDef[*kmsg.InitializeShareGroupStateRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.InitializeShareGroupState)},
		asks:         clusterAsks[*kmsg.InitializeShareGroupStateRequest](acl.ClusterAction),
		changes:      changedShareStates[*kmsg.InitializeShareGroupStateRequest]("INITIALIZE"),
		overloaded:   kerr.CoordinatorLoadInProgress,
		route:        toShares(sharesNamed[*kmsg.InitializeShareGroupStateRequest]),
		handle:       inBackground(atShares(sharesNamed[*kmsg.InitializeShareGroupStateRequest]), initializeShareGroupState),
	}.api()
}

func initializeShareGroupState(ctx context.Context, b *Handler, r *network.Request,
	req *kmsg.InitializeShareGroupStateRequest,
) kmsg.Response {
	keys := sharesNamed(req)
	items := make([]sharestate.Initializing, 0, len(keys))
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			start := p.StartOffset
			if start < -1 {
				start = math.MinInt64 // what is below has a meaning between brokers
			}
			items = append(items, sharestate.Initializing{Key: keys[len(items)], StateEpoch: p.StateEpoch, Start: start,
				Coordinator: sharestate.AnyCoordinator})
		}
	}
	ctx, cancel := b.sharesTime(ctx)
	defer cancel()
	errs := askShares(ctx, b, keys, func(at []int) any { return sharestate.Initialize(pick(items, at)) }, failedShare)
	resp := respondTo(r, kmsg.NewPtrInitializeShareGroupStateResponse())
	for i := range req.Topics {
		t := kmsg.NewInitializeShareGroupStateResponseTopic()
		t.TopicID = req.Topics[i].TopicID
		for _, p := range req.Topics[i].Partitions {
			one := kmsg.NewInitializeShareGroupStateResponseTopicPartition()
			one.Partition = p.Partition
			setShareError(r, &one.ErrorCode, &one.ErrorMessage, errs[0])
			errs = errs[1:]
			t.Partitions = append(t.Partitions, one)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
