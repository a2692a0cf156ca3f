package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// maxCoordinatorCost bounds the memory of a decoded request in bytes, and so its keys to about
// 50,000: the answer has a host for each, which has twenty times the bytes of a short key.
const maxCoordinatorCost = 2 << 20

// FindCoordinator (key 10), versions 0 to 6: the coordinator of a group, a transactional id or a
// share partition, or of several from version 4 on. The first request of a kind creates its
// internal topic and is answered with a retriable error.
func findCoordinatorAPI() api {
	return apiDef[*kmsg.FindCoordinatorRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.FindCoordinator), Max: 6, MaxCost: maxCoordinatorCost},
		asks: asks[*kmsg.FindCoordinatorRequest]{
			whole: func(m rights, req *kmsg.FindCoordinatorRequest) *kerr.Error {
				if req.Version >= 4 {
					return nil
				}
				return m.coordinator(req, req.CoordinatorKey)
			},
			parts: each(func(req *kmsg.FindCoordinatorRequest) *[]string { return &req.CoordinatorKeys },
				func(m rights, req *kmsg.FindCoordinatorRequest, key *string) *kerr.Error {
					return m.coordinator(req, *key)
				}),
		},
		refuse: func(r *network.Request, req *kmsg.FindCoordinatorRequest, code *kerr.Error) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrFindCoordinatorResponse())
			resp.NodeID, resp.Port = -1, -1
			resp.ErrorCode, resp.ErrorMessage = verdict(denied(code))
			for _, key := range req.CoordinatorKeys {
				one := kmsg.NewFindCoordinatorResponseCoordinator()
				one.Key, one.NodeID, one.Port, one.ErrorCode = key, -1, -1, code.Code
				resp.Coordinators = append(resp.Coordinators, one)
			}
			return resp
		},
		handle: answering(findCoordinator),
	}.api()
}

// coordinator asks for what finding the coordinator of a key needs. The handler refuses unknown
// types.
func (m rights) coordinator(req *kmsg.FindCoordinatorRequest, key string) *kerr.Error {
	switch req.CoordinatorType {
	case groupCoordinator:
		return m.group(acl.Describe, key)
	case transactionCoordinator:
		return m.transaction(acl.Describe, key)
	}
	return m.cluster(acl.ClusterAction)
}

// The types of coordinators.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

func findCoordinator(b *Handler, r *network.Request, req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrFindCoordinatorResponse())
	if req.Version >= 4 {
		for _, key := range req.CoordinatorKeys {
			one := kmsg.NewFindCoordinatorResponseCoordinator()
			node, err := b.coordinatorOf(r, req, key)
			one.Key, one.NodeID, one.Host, one.Port = key, node.ID, node.Host, node.Port
			if one.ErrorCode, one.ErrorMessage = b.verdict(r, err); one.ErrorCode != 0 {
				r.Code = one.ErrorCode
			}
			resp.Coordinators = append(resp.Coordinators, one)
		}
		return resp
	}
	node, err := b.coordinatorOf(r, req, req.CoordinatorKey)
	resp.NodeID, resp.Host, resp.Port = node.ID, node.Host, node.Port
	resp.ErrorCode, resp.ErrorMessage = b.verdict(r, err)
	r.Code = resp.ErrorCode
	return resp
}

// coordinatorOf returns the coordinator of one key.
func (b *Handler) coordinatorOf(r *network.Request, req *kmsg.FindCoordinatorRequest, key string) (protocol.NodeEndpoint, error) {
	noNode := protocol.NodeEndpoint{ID: -1, Port: -1}
	var of *service.Service
	switch {
	case req.CoordinatorType == groupCoordinator:
		of = b.opt.Groups.Service
	case req.CoordinatorType == transactionCoordinator && key == "":
		return noNode, protocolErrorf(kerr.InvalidRequest, "the transactional id is empty")
	case req.CoordinatorType == transactionCoordinator:
		of = b.opt.Transactions
	case req.CoordinatorType == shareCoordinator && req.Version >= 6:
		if _, err := format.ParseCoordinator(key); err != nil {
			return noNode, protocolErrorf(kerr.InvalidRequest, "%s", err)
		}
		of = b.opt.Shares.Service
	default:
		return noNode, protocolErrorf(kerr.InvalidRequest, "there is no coordinator of type %d", req.CoordinatorType)
	}
	img := b.image()
	t := img.Topic(of.Topic())
	index, ok := of.Partition(key)
	if t == nil || !ok || index >= t.Partitions.Len() {
		if err := of.Ensure(); err != nil {
			return noNode, protocolErrorf(kerr.CoordinatorNotAvailable, "%s", err)
		}
		return noNode, protocolErrorf(kerr.CoordinatorNotAvailable, "topic %s is being created", of.Topic())
	}
	leader := b.partitionState(img, t, index, t.Partitions.At(index)).leader
	node, ok := b.node(r, img, leader)
	if !ok {
		return noNode, protocolErrorf(kerr.CoordinatorNotAvailable, "partition %d of %s has no leader", index, of.Topic())
	}
	return node, nil
}
