package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ReadShareGroupStateSummary (key 87), versions 0 and 1: where share groups are.
func readShareGroupStateSummaryAPI() api {
	return apiDef[*kmsg.ReadShareGroupStateSummaryRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.ReadShareGroupStateSummary), Max: 1},
		asks:         clusterAsks[*kmsg.ReadShareGroupStateSummaryRequest](acl.ClusterAction),
		overloaded:   kerr.CoordinatorLoadInProgress,
		route:        toShares(sharesNamed[*kmsg.ReadShareGroupStateSummaryRequest]),
		handle:       inBackground(atShares(sharesNamed[*kmsg.ReadShareGroupStateSummaryRequest]), readShareGroupStateSummary),
	}.api()
}

func readShareGroupStateSummary(ctx context.Context, b *Handler, r *network.Request,
	req *kmsg.ReadShareGroupStateSummaryRequest,
) kmsg.Response {
	keys := sharesNamed(req)
	ctx, cancel := b.sharesTime(ctx)
	defer cancel()
	list := askShares(ctx, b, keys, func(at []int) any { return sharestate.Summarize(pick(keys, at)) }, failedSummary)
	resp := respondTo(r, kmsg.NewPtrReadShareGroupStateSummaryResponse())
	for i := range req.Topics {
		t := kmsg.NewReadShareGroupStateSummaryResponseTopic()
		t.TopicID = req.Topics[i].TopicID
		for _, p := range req.Topics[i].Partitions {
			one := kmsg.NewReadShareGroupStateSummaryResponseTopicPartition()
			one.Partition = p.Partition
			s := list[0]
			list = list[1:]
			if s.Err == nil && p.LeaderEpoch >= 0 && p.LeaderEpoch < s.Leader {
				s.Err = kerr.FencedLeaderEpoch
			}
			if setShareError(r, &one.ErrorCode, &one.ErrorMessage, s.Err); s.Err == nil {
				one.StateEpoch, one.LeaderEpoch, one.StartOffset, one.DeliveryCompleteCount = s.StateEpoch, s.Leader, s.Start, s.Complete
			}
			t.Partitions = append(t.Partitions, one)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
