package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/storage"
)

// ListOffsets (key 2), versions 1 to 11. A lookup by time may read the disk, so the handler runs on
// a goroutine of its own. A request that claims to come from a replica is answered like a
// consumer's: no client sees an offset above the high watermark.
func listOffsetsAPI() api {
	return apiDef[*kmsg.ListOffsetsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.ListOffsets), Min: 1, Max: 11},
		asks: asks[*kmsg.ListOffsetsRequest]{parts: each(
			func(req *kmsg.ListOffsetsRequest) *[]kmsg.ListOffsetsRequestTopic { return &req.Topics },
			func(m rights, _ *kmsg.ListOffsetsRequest, x *kmsg.ListOffsetsRequestTopic) *kerr.Error {
				return m.topic(acl.Describe, x.Topic)
			})},
		overloaded: kerr.LeaderNotAvailable,
		route:      toLeader(offsetsListed),
		handle: later(atDisk, func(c call, req *kmsg.ListOffsetsRequest) {
			c.b.work.Go(func() { c.respond(listOffsets(c, req)) })
		}),
	}.api()
}

// listOffsets first answers for the partitions whose records need no search. A search reads the
// disk, and may take a place to inflate a batch, so that a large request gives its own place back
// before.
func listOffsets(c call, req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := respondTo(c.r, kmsg.NewPtrListOffsetsResponse())
	times := timesAsked(req)
	var searches []func()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			tp := topicPartition{t.Topic, p.Partition}
			n := times[tp]
			if n == 0 {
				continue // answered where it was named first
			}
			times[tp] = 0
			if n == 1 && (p.Timestamp >= 0 || p.Timestamp == replica.MaxTimestamp) {
				top, at := len(resp.Topics), len(out.Partitions)
				searches = append(searches, func() {
					resp.Topics[top].Partitions[at] = listOffset(c, req, t.Topic, p, false)
				})
				out.Partitions = append(out.Partitions, kmsg.ListOffsetsResponseTopicPartition{})
				continue
			}
			out.Partitions = append(out.Partitions, listOffset(c, req, t.Topic, p, n > 1))
		}
		if len(out.Partitions) > 0 || len(t.Partitions) == 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	if len(searches) > 0 {
		c.place.end()
	}
	for _, search := range searches {
		search()
	}
	return resp
}

// listOffset answers for one partition.
func listOffset(c call, req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition,
	repeated bool) kmsg.ListOffsetsResponseTopicPartition {
	one := kmsg.NewListOffsetsResponseTopicPartition()
	one.Partition = p.Partition
	found, err := c.b.findOffset(req, topic, p, repeated)
	if err != nil {
		one.ErrorCode = c.listOffsetsCode(req.Version, err)
		c.r.Code = one.ErrorCode
	} else {
		one.Offset, one.Timestamp, one.LeaderEpoch = found.Offset, found.Time, found.Epoch
	}
	return one
}

// findOffset finds the offset for one partition, unless the request names it repeatedly.
func (b *Handler) findOffset(req *kmsg.ListOffsetsRequest, topic string, p *kmsg.ListOffsetsRequestTopicPartition,
	repeated bool) (storage.Timestamp, error) {
	none := storage.Timestamp{Offset: -1, Time: -1, Epoch: -1}
	if repeated {
		return none, protocolErrorf(kerr.InvalidRequest, "%s-%d is named twice", topic, p.Partition)
	}
	if !knownTimestamp(p.Timestamp, req.Version) {
		return none, protocolErrorf(kerr.UnsupportedVersion, "timestamp %d is not supported in version %d", p.Timestamp, req.Version)
	}
	part, err := b.partitionByName(topic, p.Partition)
	if err != nil {
		return none, err
	}
	return part.ListOffset(p.Timestamp, p.CurrentLeaderEpoch, req.IsolationLevel == 1)
}

// knownTimestamp reports whether a version has this special timestamp. All others are times.
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

// listOffsetsCode is code, also for clients that don't know OFFSET_NOT_AVAILABLE.
func (c call) listOffsetsCode(version int16, err error) int16 {
	if version < 5 && errors.Is(err, replica.ErrOffsetNotAvailable) {
		return kerr.LeaderNotAvailable.Code
	}
	return c.b.code(c.r, err)
}

type topicPartition struct {
	topic     string
	partition int32
}

// timesAsked counts how often a request names each partition.
func timesAsked(req *kmsg.ListOffsetsRequest) map[topicPartition]int {
	times := map[topicPartition]int{}
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			times[topicPartition{req.Topics[i].Topic, req.Topics[i].Partitions[j].Partition}]++
		}
	}
	return times
}
