package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
)

// longest is the longest session and rebalance timeout that a member may request.
const longest = 1_800_000

// groupAttacks join groups.
func groupAttacks() []Attack {
	return []Attack{
		{
			Name: "big-joins", Aim: "20 members join with 16 MiB of metadata each, and close their connections",
			Holds: budget, Keeps: budget, Part: 30,
			run: func(ctx context.Context, m *Attacker) error { return abandon(ctx, m, m.some(20), 16<<20-64) },
		},
		{
			Name: "many-joins", Aim: "300 members of a group each join with a million bytes, and close their connections",
			Holds: budget, Keeps: budget,
			run: func(ctx context.Context, m *Attacker) error { return abandon(ctx, m, m.some(300), 1_000_000) },
		},
		{
			Name: "pending-members", Aim: "20,000 joins with client ids of 15 kB get a member id and do not use it",
			Holds: some, Keeps: little, Part: 25,
			run: func(ctx context.Context, m *Attacker) error {
				request := pendingJoin()
				each := m.some(20_000) / 5
				return m.once(ctx, 5, func(c *Conn, _ int) error { return c.burst(request, each) })
			},
		},
		{
			Name: "claimed-partitions", Aim: "members of six KIP-848 groups claim in a classic join that they own 16 million partitions",
			Holds: budget, Keeps: some, Part: 100,
			run: claimPartitions,
		},
		{
			Name: "expressions", Aim: "four members subscribe to expressions of 3 kB that expand to 3 MB",
			Holds: some, Keeps: little, Part: 100,
			run: func(ctx context.Context, m *Attacker) error {
				return m.again(ctx, 4, func(c *Conn, i, turn int) error { return c.subscribe(m, fmt.Sprintf("expression-%d-%d", i, turn)) })
			},
		},
		{
			Name: "join-churn", Aim: "8 connections join and leave a group repeatedly",
			Holds: some, Keeps: little,
			run: func(ctx context.Context, m *Attacker) error {
				return m.again(ctx, m.connections(8), func(c *Conn, i, turn int) error { return c.churn(m, turn) })
			},
		},
	}
}

func joinRequest(version int16, group string, metadata []byte) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = version, group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = longest, longest
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata}}
	return req
}

// abandon creates members that join groups of their own with so much metadata; each then closes its
// connection.
func abandon(ctx context.Context, m *Attacker, n, size int) error {
	metadata := make([]byte, size)
	turns := make(chan int, n)
	for i := range n {
		turns <- i
	}
	close(turns)
	return m.each(2, func(int) error {
		for i := range turns {
			c, err := m.dial(ctx)
			if err == nil {
				err = c.Request(joinRequest(3, fmt.Sprintf("abandoned-%d", i), metadata))
				pause.Wait(ctx.Done(), 100*time.Millisecond)
				m.drop(c)
			}
			if err := m.judge(ctx, err); err != nil {
				return err
			}
		}
		return nil
	})
}

// pendingJoin returns the first join of a member (KIP-394), which gets an id and must join again
// with it.
func pendingJoin() []byte {
	req := joinRequest(5, "pending", []byte{0, 0, 0, 0})
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(strings.Repeat("c", 15_000))).AppendRequest(nil, req, 1)
}

// claimPartitions joins groups of the new protocol in the old one, with a subscription whose owned
// partitions are as many as zeros fit: a decoder that trusts the array's length turns 4 bytes into
// 100.
func claimPartitions(ctx context.Context, m *Attacker) error {
	const size = 16<<20 - 64
	metadata := binary.BigEndian.AppendUint16(nil, 1)             // version
	metadata = binary.BigEndian.AppendUint32(metadata, 0)         // topics
	metadata = append(metadata, bytes.Repeat([]byte{0xff}, 4)...) // user data: null
	metadata = binary.BigEndian.AppendUint32(metadata, uint32(size-len(metadata)-4))
	metadata = append(metadata, make([]byte, size-len(metadata))...)
	return m.once(ctx, m.connections(6), func(c *Conn, i int) error {
		group := fmt.Sprintf("claimed-%d", i)
		if err := c.heartbeat(m, group,
			func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.SubscribedTopicNames = []string{victim} }); err != nil {
			return err
		}
		resp, err := c.Ask(joinRequest(3, group, metadata))
		if err == nil {
			m.note(codeName(resp.(*kmsg.JoinGroupResponse).ErrorCode))
		}
		return err
	})
}

// heartbeat joins a group of the new protocol (KIP-848), and returns when the coordinator has sent
// a final response.
func (c *Conn) heartbeat(m *Attacker, group string, with func(*kmsg.ConsumerGroupHeartbeatRequest)) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, "AAAAAAAAAAAAAAAAAAAAAA", 10_000
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	with(req)
	for {
		resp, err := c.Ask(req)
		if err != nil {
			return err
		}
		code := resp.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
		m.note(codeName(code))
		if !kerr.IsRetriable(kerr.ErrorForCode(code)) {
			return nil
		}
	}
}

func (c *Conn) subscribe(m *Attacker, group string) error {
	return c.heartbeat(m, group, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.SubscribedTopicRegex = kmsg.StringPtr("(" + strings.Repeat("x", 3000) + "){1000}")
	})
}

// churn joins a group as a new member and leaves it.
func (c *Conn) churn(m *Attacker, turn int) error {
	// Version 3 has no first response that only assigns an id (KIP-394).
	req := joinRequest(3, "churned", []byte{0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 6000, 1000
	resp, err := c.Ask(req)
	if err != nil {
		return err
	}
	join := resp.(*kmsg.JoinGroupResponse)
	m.note(codeName(join.ErrorCode))
	if join.ErrorCode != 0 || turn%2 == 0 { // every other member stays
		return nil
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.MemberID = 1, "churned", join.MemberID
	_, err = c.Ask(leave)
	return err
}
