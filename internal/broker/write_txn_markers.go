package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// WriteTxnMarkers (key 27), versions 1 and 2: a tool ends transactions in partitions that this
// broker leads. chronik's coordinators send markers on links instead.
func writeTxnMarkersAPI() api {
	return apiDef[*kmsg.WriteTxnMarkersRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.WriteTxnMarkers), Min: 1, Max: 2},
		asks:         clusterAsks[*kmsg.WriteTxnMarkersRequest](acl.Alter, acl.ClusterAction),
		refuse:       refuseMarkers,
		overloaded:   kerr.NotLeaderForPartition,
		route:        toLeader(markersWritten),
		handle:       inBackground(atTransactions, writeTxnMarkers),
	}.api()
}

func writeTxnMarkers(ctx context.Context, b *Handler, r *network.Request, req *kmsg.WriteTxnMarkersRequest) kmsg.Response {
	var markers []exchange.Marker
	var partitions []txn.Partition
	for i := range req.Markers {
		m := &req.Markers[i]
		for _, t := range m.Topics {
			for _, p := range partitionsOf(t.Topic, t.Partitions) {
				partitions = append(partitions, p)
				markers = append(markers, exchange.Marker{ProducerID: m.ProducerID, Epoch: m.ProducerEpoch,
					CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Committed, Bumps: m.TransactionVersion >= 2})
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, b.opt.AppendTime)
	defer cancel()
	errs := b.opt.Exchange.WriteMarkers(ctx, markers, partitions)
	return markersAnswer(r, req, func() *kerr.Error {
		err := errs[0]
		errs = errs[1:]
		return err
	})
}

func refuseMarkers(r *network.Request, req *kmsg.WriteTxnMarkersRequest, code *kerr.Error) kmsg.Response {
	return markersAnswer(r, req, func() *kerr.Error { return code })
}

// markersAnswer answers for each partition of each marker; next is called for them in their order.
func markersAnswer(r *network.Request, req *kmsg.WriteTxnMarkersRequest, next func() *kerr.Error) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrWriteTxnMarkersResponse())
	for i := range req.Markers {
		m := kmsg.NewWriteTxnMarkersResponseMarker()
		m.ProducerID = req.Markers[i].ProducerID
		for _, t := range req.Markers[i].Topics {
			out := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			out.Topic = t.Topic
			for _, p := range t.Partitions {
				one := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				one.Partition = p
				setCode(r, &one.ErrorCode, next())
				out.Partitions = append(out.Partitions, one)
			}
			m.Topics = append(m.Topics, out)
		}
		resp.Markers = append(resp.Markers, m)
	}
	return resp
}
