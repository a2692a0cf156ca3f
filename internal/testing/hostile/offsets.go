package hostile

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
)

// offsetAttacks use the offsets of groups and partitions.
func offsetAttacks() []Attack {
	return []Attack{
		{
			Name: "commit-metadata", Aim: "four clients commit offsets with 4 MB of text each",
			Holds: some, Keeps: little, Part: 100,
			run: func(ctx context.Context, m *Attacker) error {
				return repeat(ctx, m, frame(commitRequest("texts", strings.Repeat("m", 4_000_000))))
			},
		},
		{
			Name: "offsets-of-many-groups", Aim: "four clients fetch the offsets of 400,000 groups in one request",
			Holds: budget, Keeps: some, Part: 10,
			run: func(ctx context.Context, m *Attacker) error {
				return repeat(ctx, m, frame(manyGroups(m.some(400_000))))
			},
		},
		{
			Name: "offset-of-one-partition", Aim: "four clients request one partition's offset 170,000 times in one request",
			Holds: budget, Keeps: some, Part: 10, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				return repeat(ctx, m, frame(listRepeated(m.some(170_000))))
			},
		},
	}
}

// repeatEvery is the pause of a connection between requests: an attack must show the cost of its
// requests, not the bandwidth of a loopback interface.
const repeatEvery = 20 * time.Millisecond

// repeat sends one request repeatedly on four connections.
func repeat(ctx context.Context, m *Attacker, request []byte) error {
	return m.again(ctx, 4, func(c *Conn, _, _ int) error {
		pause.Wait(ctx.Done(), repeatEvery)
		return c.burst(request, 1)
	})
}

func manyGroups(n int) kmsg.Request {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	for i := range n {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = fmt.Sprintf("group-of-strangers-%06d", i)
		req.Groups = append(req.Groups, g)
	}
	return req
}

func listRepeated(n int) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 7, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = victim
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1
	for range n {
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}
