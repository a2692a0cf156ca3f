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

// DeleteShareGroupState (key 86), version 0: a tool removes states of share partitions.
func deleteShareGroupStateAPI() api {
	return apiDef[*kmsg.DeleteShareGroupStateRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.DeleteShareGroupState)},
		asks:         clusterAsks[*kmsg.DeleteShareGroupStateRequest](acl.ClusterAction),
		changes:      changedShareStates[*kmsg.DeleteShareGroupStateRequest]("DELETE_STATES"),
		overloaded:   kerr.CoordinatorLoadInProgress,
		route:        toShares(sharesNamed[*kmsg.DeleteShareGroupStateRequest]),
		handle:       inBackground(atShares(sharesNamed[*kmsg.DeleteShareGroupStateRequest]), deleteShareGroupState),
	}.api()
}

func deleteShareGroupState(ctx context.Context, b *Handler, r *network.Request, req *kmsg.DeleteShareGroupStateRequest) kmsg.Response {
	keys := sharesNamed(req)
	items := make([]sharestate.Deleting, len(keys))
	for i, k := range keys {
		items[i] = sharestate.Deleting{Key: k, Coordinator: sharestate.AnyCoordinator}
	}
	ctx, cancel := b.sharesTime(ctx)
	defer cancel()
	errs := askShares(ctx, b, keys, func(at []int) any { return sharestate.Delete(pick(items, at)) }, failedShare)
	resp := respondTo(r, kmsg.NewPtrDeleteShareGroupStateResponse())
	for i := range req.Topics {
		t := kmsg.NewDeleteShareGroupStateResponseTopic()
		t.TopicID = req.Topics[i].TopicID
		for _, p := range req.Topics[i].Partitions {
			one := kmsg.NewDeleteShareGroupStateResponseTopicPartition()
			one.Partition = p.Partition
			setShareError(r, &one.ErrorCode, &one.ErrorMessage, errs[0])
			errs = errs[1:]
			t.Partitions = append(t.Partitions, one)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
