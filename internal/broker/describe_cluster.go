package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// DescribeCluster (key 60), versions 0 to 2.
func describeClusterAPI() api {
	return apiDef[*kmsg.DescribeClusterRequest]{
		API:    protocol.API{Key: int16(kmsg.DescribeCluster), Max: 2},
		asks:   asks[*kmsg.DescribeClusterRequest]{nothing: true},
		handle: answering(describeCluster),
	}.api()
}

// Types of endpoints (KIP-919). Clients connect to brokers only.
const (
	brokerEndpoint     = 1
	controllerEndpoint = 2
)

func describeCluster(b *Handler, r *network.Request, req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeClusterResponse())
	switch {
	case req.Version == 0 || req.EndpointType == brokerEndpoint:
	case req.EndpointType == controllerEndpoint:
		resp.ErrorCode, resp.ErrorMessage = verdict(protocolErrorf(kerr.MismatchedEndpointType,
			"The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"))
	default:
		resp.ErrorCode, resp.ErrorMessage = verdict(protocolErrorf(kerr.UnsupportedEndpointType,
			"Unsupported endpoint type %d", req.EndpointType))
	}
	if resp.ErrorCode != 0 {
		r.Code, resp.ControllerID = resp.ErrorCode, -1
		return resp
	}
	img := b.image()
	resp.ClusterID, resp.ControllerID = img.ClusterID(), b.controllerID(r, img)
	resp.ClusterAuthorizedOperations = b.rights(r).clusterOperations(req.IncludeClusterAuthorizedOperations)
	starts, partitions := false, 0
	req.UnknownTags.Each(func(tag uint32, _ []byte) { starts = starts || tag == view.StartTag })
	if starts = starts && b.rights(r).cluster(acl.Describe) == nil; starts {
		for t := range img.Topics() {
			partitions += int(t.Partitions.Len())
		}
	}
	for _, broker := range img.Brokers() {
		n, ok := b.address(r, img, broker.ID)
		one := kmsg.NewDescribeClusterResponseBroker()
		one.IsFenced = isFenced(img, broker.ID)
		if !ok || one.IsFenced && !req.IncludeFencedBrokers {
			continue
		}
		one.NodeID, one.Host, one.Port, one.Rack = n.ID, n.Host, n.Port, nonEmpty(n.Rack)
		if starts {
			one.UnknownTags.Set(view.StartTag, view.Start{Epoch: broker.Epoch, Partitions: int32(partitions)}.Append(nil))
		}
		resp.Brokers = append(resp.Brokers, one)
	}
	req.UnknownTags.Each(func(tag uint32, _ []byte) {
		if tag == health.Tag && b.opt.Report != nil {
			resp.UnknownTags.Set(tag, b.report(r))
		}
	})
	return resp
}

// report returns the health report for a client that asks for it. That needs the right to describe
// the cluster: findings name topics and directories, as DescribeLogDirs does.
func (b *Handler) report(r *network.Request) []byte {
	if code := b.rights(r).cluster(acl.Describe); code != nil {
		return health.Refusal(health.Denied)
	}
	return b.encodedReport()
}

// encodedReport returns the report for clients. A request for it has 30 bytes, and would cost 80
// times what others do.
func (b *Handler) encodedReport() []byte {
	return b.reported.Of(func() []byte {
		p, err := b.opt.Report().Encode(health.MaxAnswer)
		if err != nil {
			return health.Refusal(err.Error())
		}
		return p
	})
}
