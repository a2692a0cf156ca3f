package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
)

// ListOffsets (key 2), versions 1 to 11. A lookup by time may read the disk, so
// it runs beside the connection's reader. Who claims to be a replica is answered
// as a consumer: nobody is told an offset above the high watermark.
func listOffsetsAPI() api {
	return line[*kmsg.ListOffsetsRequest]{
		API: protocol.API{Key: int16(kmsg.ListOffsets), Min: 1, Max: 11},
		needs: func(req *kmsg.ListOffsetsRequest, n *needs) {
			for i := range req.Topics {
				n.topic(opDescribe, req.Topics[i].Topic)
			}
		},
		busy:   kerr.LeaderNotAvailable,
		handle: beside(listOffsets),
	}.api()
}

func listOffsets(_ context.Context, b *Broker, r *network.Request, req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrListOffsetsResponse())
	twice := repeatedOffsets(req)
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			found, err := b.listOffset(req, t.Topic, p, twice)
			one := kmsg.NewListOffsetsResponseTopicPartition()
			one.Partition = p.Partition
			if err != nil {
				one.ErrorCode = listOffsetsCode(req.Version, err)
				r.Code = one.ErrorCode
			} else {
				one.Offset, one.Timestamp, one.LeaderEpoch = found.Offset, found.Time, found.Epoch
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// listOffset answers for one partition, unless it is asked for twice.
func (b *Broker) listOffset(req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition,
	twice map[topicPartition]bool) (storage.Timestamp, error) {
	none := storage.Timestamp{Offset: -1, Time: -1, Epoch: -1}
	if twice[topicPartition{topic, p.Partition}] {
		return none, refuse(kerr.InvalidRequest, "%s-%d is asked for twice", topic, p.Partition)
	}
	if !knownTimestamp(p.Timestamp, req.Version) {
		return none, refuse(kerr.UnsupportedVersion, "timestamp %d has no meaning in version %d", p.Timestamp, req.Version)
	}
	part, err := b.partitionByName(topic, p.Partition)
	if err != nil {
		return none, err
	}
	return part.ListOffset(p.Timestamp, p.CurrentLeaderEpoch, req.IsolationLevel == 1)
}

// knownTimestamp says whether a version has a special timestamp. All others are
// times.
func knownTimestamp(ts int64, version int16) bool {
	switch ts {
	case replica.Latest, replica.Earliest:
		return true
	case replica.MaxTimestamp:
		return version >= 7
	case replica.EarliestLocal:
		return version >= 8
	case replica.LatestTiered:
		return version >= 9
	case replica.EarliestToGo:
		return version >= 11
	}
	return ts >= 0
}

// listOffsetsCode is code, for clients that don't know OFFSET_NOT_AVAILABLE too.
func listOffsetsCode(version int16, err error) int16 {
	if version < 5 && errors.Is(err, replica.ErrOffsetNotAvailable) {
		return kerr.LeaderNotAvailable.Code
	}
	return code(err)
}

type topicPartition struct {
	topic     string
	partition int32
}

// repeatedOffsets returns the partitions that a request names more than once; it
// is nil where there are none.
func repeatedOffsets(req *kmsg.ListOffsetsRequest) (twice map[topicPartition]bool) {
	seen := map[topicPartition]bool{}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			tp := topicPartition{req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition}
			if seen[tp] {
				if twice == nil {
					twice = map[topicPartition]bool{}
				}
				twice[tp] = true
			}
			seen[tp] = true
		}
	}
	return twice
}
