package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shareAttacks are members of share groups (KIP-932).
func shareAttacks() []Attack {
	return []Attack{
		{
			Name: "share-sessions", Aim: "20 clients open 100 share sessions each, name 400 made-up partitions in each, and fetch from all",
			Holds: budget, Keeps: little, Part: 20, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				return m.once(ctx, m.connections(20), func(c *Conn, i int) error { return c.nameShares(m, i, 400) })
			},
		},
		{
			Name: "share-groups", Aim: "a client joins 300 share groups, whose names have 1,000 bytes, and subscribes to a topic of 100 partitions",
			Holds: budget, Keeps: budget, Part: 30,
			prepare: func(_ context.Context, c *Conn, _ *Attacker) error {
				return errors.Join(c.makeTopic(broad, manyPartitions), c.coordinator(broad))
			},
			run: func(ctx context.Context, m *Attacker) error { return joinShares(ctx, m, m.some(300)) },
		},
		{
			Name: "share-acknowledgements", Aim: "four members acknowledge 10,000 ranges of one partition, and one of each of 5,000 partitions",
			Holds: budget, Keeps: some, Part: 100, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				return m.again(ctx, m.connections(4), func(c *Conn, i, turn int) error {
					return c.acknowledgeMuch(m, fmt.Sprint(i, "-", turn), m.some(10_000))
				})
			},
		},
	}
}

// shareFetch is the first fetch of a share session.
func shareFetch(group, member string) *kmsg.ShareFetchRequest {
	req := newest(kmsg.ShareFetch).(*kmsg.ShareFetchRequest)
	req.GroupID, req.MemberID = &group, &member
	req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize = 1, 1<<20, 500, 500
	return req
}

// madeUp returns a topic id that no topic has.
func madeUp(i int) (id [16]byte) {
	binary.BigEndian.PutUint64(id[8:], uint64(i)+1)
	return id
}

// nameShares opens share sessions that name n partitions each, and then fetches from each.
func (c *Conn) nameShares(m *Attacker, client, n int) error {
	for i := range m.some(100) {
		req := shareFetch("named", fmt.Sprint(client, "-", i))
		t := kmsg.ShareFetchRequestTopic{TopicID: madeUp(i)}
		for p := range n {
			t.Partitions = append(t.Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: int32(p)})
		}
		req.Topics = []kmsg.ShareFetchRequestTopic{t}
		for req.ShareSessionEpoch = range int32(2) { // the second request names none
			resp, err := c.Ask(req)
			if err != nil {
				return err
			}
			m.note(codeName(resp.(*kmsg.ShareFetchResponse).ErrorCode))
			req.Topics = nil
		}
	}
	return nil
}

// joinShares joins n share groups, which get states of all partitions of a topic.
func joinShares(ctx context.Context, m *Attacker, n int) error {
	return m.once(ctx, 1, func(c *Conn, _ int) error {
		for i := range n {
			req := newest(kmsg.ShareGroupHeartbeat).(*kmsg.ShareGroupHeartbeatRequest)
			req.GroupID, req.MemberID = fmt.Sprintf("%06d-%s", i, strings.Repeat("g", 993)), "member"
			req.SubscribedTopicNames = []string{broad}
			for {
				resp, err := c.Ask(req)
				if err != nil {
					return err
				}
				code := resp.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode
				m.note(codeName(code))
				if !kerr.IsRetriable(kerr.ErrorForCode(code)) {
					break
				}
				if i > 0 {
					return nil // its shard has no more memory
				}
			}
		}
		return nil
	})
}

// acknowledgeMuch opens a share session, and acknowledges n ranges of one partition, and a range of
// each of many partitions.
func (c *Conn) acknowledgeMuch(m *Attacker, member string, n int) error {
	opened, err := c.Ask(shareFetch("acknowledged", member))
	if err != nil {
		return err
	}
	m.note(codeName(opened.(*kmsg.ShareFetchResponse).ErrorCode))
	group := "acknowledged"
	req := newest(kmsg.ShareAcknowledge).(*kmsg.ShareAcknowledgeRequest)
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &group, &member, 1
	one := kmsg.ShareAcknowledgeRequestTopicPartition{}
	for i := range int64(n) {
		one.AcknowledgementBatches = append(one.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{
			FirstOffset: i, LastOffset: i, AcknowledgeTypes: []int8{int8(1 + i%3)}})
	}
	t := kmsg.ShareAcknowledgeRequestTopic{TopicID: madeUp(0), Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{one}}
	for p := range int32(n) / 2 {
		some := kmsg.ShareAcknowledgeRequestTopicPartition{Partition: p + 1}
		some.AcknowledgementBatches = one.AcknowledgementBatches[:1]
		t.Partitions = append(t.Partitions, some)
	}
	req.Topics = []kmsg.ShareAcknowledgeRequestTopic{t}
	resp, err := c.Ask(req)
	if err == nil {
		m.note(codeName(resp.(*kmsg.ShareAcknowledgeResponse).ErrorCode))
	}
	return err
}
