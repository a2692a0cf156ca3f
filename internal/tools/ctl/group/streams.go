package group

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// streams describes as streams groups (KIP-1071) the groups that are neither consumer groups nor
// classic ones. What is none of them keeps its error.
func streams(ctx context.Context, a *app.App, found map[string]*described, failed map[string]error) {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	for name, err := range failed {
		if errors.Is(err, kerr.GroupIDNotFound) {
			req.Groups = append(req.Groups, name)
		}
	}
	if len(req.Groups) == 0 {
		return
	}
	cl, err := a.Requests(ctx)
	if err != nil {
		return
	}
	defer cl.Close()
	for _, shard := range cl.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.StreamsGroupDescribeResponse)
		if shard.Err != nil || !ok {
			continue
		}
		for i := range resp.Groups {
			if g := &resp.Groups[i]; g.ErrorCode == 0 && g.Topology != nil {
				found[g.Group] = streamsOf(g, shard.Meta.NodeID)
				delete(failed, g.Group)
			}
		}
	}
}

// streamsOf returns a streams group. A member is assigned the partitions that its active tasks
// read.
func streamsOf(g *kmsg.StreamsGroupDescribeResponseGroup, coordinator int32) *described {
	d := &described{Group: g.Group, State: g.State, Type: "streams", Epoch: &g.Epoch, Coordinator: coordinator, Members: []member{}}
	sources := map[string][]string{}
	for i := range g.Topology.Subtopologies {
		s := &g.Topology.Subtopologies[i]
		sources[s.SubtopologyID] = slices.Clone(s.SourceTopics)
		for _, r := range s.RepartitionSourceTopics {
			sources[s.SubtopologyID] = append(sources[s.SubtopologyID], r.Topic)
		}
	}
	for i := range g.Members {
		m := &g.Members[i]
		x := member{m.MemberID, app.OrEmpty(m.InstanceID), m.ClientID, m.ClientHost, map[string][]int32{}}
		for _, t := range m.Assignment.ActiveTasks {
			for _, topic := range sources[t.SubtopologyID] {
				x.Assignment[topic] = append(x.Assignment[topic], t.Partitions...)
				slices.Sort(x.Assignment[topic])
			}
		}
		d.Members = append(d.Members, x)
	}
	return d
}
