package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DeleteRecords (key 21), versions 0 to 2: moves the log start of partitions (KIP-107). It is
// answered when that is durable on this broker, whatever the request's timeout, because it cannot
// be undone halfway. Then it waits for the other replicas that may be elected, until the timeout.
func deleteRecordsAPI() api {
	return apiDef[*kmsg.DeleteRecordsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.DeleteRecords), Max: 2},
		asks: asks[*kmsg.DeleteRecordsRequest]{parts: each(
			func(req *kmsg.DeleteRecordsRequest) *[]kmsg.DeleteRecordsRequestTopic { return &req.Topics },
			func(m rights, _ *kmsg.DeleteRecordsRequest, x *kmsg.DeleteRecordsRequestTopic) *kerr.Error {
				return m.topic(acl.Delete, x.Topic)
			})},
		refuse: func(_ *network.Request, req *kmsg.DeleteRecordsRequest, code *kerr.Error) kmsg.Response {
			resp := refuseWhole(req, code).(*kmsg.DeleteRecordsResponse)
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					resp.Topics[i].Partitions[j].LowWatermark = -1
				}
			}
			return resp
		},
		overloaded: kerr.LeaderNotAvailable,
		route:      toLeader(recordsDeleted),
		handle:     inBackground(atReplicas, deleteRecords),
	}.api()
}

// maxDeleteWait bounds the request's timeout.
const maxDeleteWait = 5 * time.Minute

func deleteRecords(ctx context.Context, b *Handler, r *network.Request, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDeleteRecordsResponse())
	img := b.image()
	var list []replica.Deletion
	var positions [][2]int // the position of each deletion in the answer
	for i := range req.Topics {
		t := &req.Topics[i]
		known, err := b.deletableFrom(img, t.Topic)
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = t.Topic
		last := map[int32]int{} // if a partition is named twice, the last entry counts, as in Kafka
		for j := range t.Partitions {
			last[t.Partitions[j].Partition] = j
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if last[p.Partition] != j {
				continue
			}
			one := kmsg.NewDeleteRecordsResponseTopicPartition()
			one.Partition, one.LowWatermark = p.Partition, -1
			if err == nil {
				list = append(list, replica.Deletion{Topic: known.ID, Partition: p.Partition, Offset: p.Offset})
				positions = append(positions, [2]int{len(resp.Topics), len(out.Partitions)})
			} else {
				one.ErrorCode = b.code(r, err)
				r.Code = one.ErrorCode
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	ctx, cancel := context.WithTimeout(ctx, min(time.Duration(max(req.TimeoutMillis, 0))*time.Millisecond, maxDeleteWait))
	defer cancel()
	b.opt.Replicas.DeleteRecords(ctx, list)
	for i := range list {
		one := &resp.Topics[positions[i][0]].Partitions[positions[i][1]]
		if err := list[i].Err; err != nil {
			one.ErrorCode = b.code(r, err)
			r.Code = one.ErrorCode
		} else {
			one.LowWatermark = list[i].Low
		}
	}
	return resp
}

// deletableFrom returns a topic from which clients may delete records, which excludes the broker's
// internal topics.
func (b *Handler) deletableFrom(img *metadata.Image, name string) (*metadata.Topic, error) {
	t := img.Topic(name)
	switch {
	case t == nil:
		return nil, protocolErrorf(kerr.UnknownTopicOrPartition, "there is no topic %s", name)
	case t.Internal:
		return nil, protocolErrorf(kerr.InvalidTopicException, "records of the internal topic %s can't be deleted", name)
	}
	return t, nil
}
