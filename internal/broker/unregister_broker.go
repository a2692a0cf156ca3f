package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// UnregisterBroker (key 64), version 0. In addition to what Kafka refuses, it refuses a broker that
// runs or has replicas.
func unregisterBrokerAPI() api {
	return apiDef[*kmsg.UnregisterBrokerRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.UnregisterBroker), Max: 0},
		asks:         clusterAsks[*kmsg.UnregisterBrokerRequest](acl.Alter),
		overloaded:   kerr.RequestTimedOut,
		handle:       inBackground(atMetadata, unregisterBroker),
	}.api()
}

func unregisterBroker(ctx context.Context, b *Handler, r *network.Request, req *kmsg.UnregisterBrokerRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrUnregisterBrokerResponse())
	c := b.newChange(r, changeTimeout)
	err := c.do(ctx, func(ctx context.Context) (int64, error) { return b.opt.Cluster.Unregister(ctx, req.BrokerID) })
	b.recordChange(ctx, "DELETE", fmt.Sprintf("Broker:%d", req.BrokerID), err)
	if err == nil {
		err = c.waitVisible(ctx)
	}
	resp.ErrorCode, resp.ErrorMessage = c.verdict(err)
	return resp
}
