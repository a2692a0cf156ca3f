package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/replicatest"
)

func TestWhereEpochsEnd(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.put(t, "t", 2, "a")
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	p.SetRole(replicatest.Role(p, 1, 3, []int32{1}, []int32{1}))
	n.put(t, "t", 1, "b")
	w := n.dial(t)
	for version := int16(2); version <= 4; version++ {
		for _, c := range []struct {
			partition, current, epoch int32
			want                      *kerr.Error
			end                       int32
			offset                    int64
		}{
			{0, -1, 0, nil, 0, 2}, {0, -1, 1, nil, 0, 2}, {0, 3, 3, nil, 3, 3}, {0, -1, 4, nil, -1, -1}, {0, -1, -1, nil, -1, -1},
			{0, 2, 0, kerr.FencedLeaderEpoch, -1, -1}, {0, 4, 0, kerr.UnknownLeaderEpoch, -1, -1},
			{1, -1, 0, kerr.UnknownTopicOrPartition, -1, -1},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = "t"
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = c.partition, c.current, c.epoch
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			got := ask[*kmsg.OffsetForLeaderEpochResponse](t, w, version, req).Topics[0].Partitions[0]
			if got.ErrorCode != code(orNil(c.want)) || got.LeaderEpoch != c.end || got.EndOffset != c.offset {
				t.Errorf("version %d, %+v: %+v", version, c, got)
			}
		}
	}
}
