package broker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeShareGroupOffsets (key 90), versions 0 and 1: where share groups are. Version 1 has their
// lag. As in Kafka, a group that does not exist has no positions, and that is no error. Neither is
// a topic or a partition that does not exist.
func describeShareGroupOffsetsAPI() api {
	type request = kmsg.DescribeShareGroupOffsetsRequest
	return apiDef[*request]{
		API:     protocol.API{Key: int16(kmsg.DescribeShareGroupOffsets), Max: 1},
		enabled: sharesEnabled,
		// The rights to topics are asked inside, in positionsAsked.
		asks: asks[*request]{parts: each(func(req *request) *[]kmsg.DescribeShareGroupOffsetsRequestGroup { return &req.Groups },
			func(m rights, _ *request, x *kmsg.DescribeShareGroupOffsetsRequestGroup) *kerr.Error {
				return m.group(acl.Describe, x.GroupID)
			})},
		refuse: func(_ *network.Request, req *request, code *kerr.Error) kmsg.Response {
			for i := range req.Groups {
				req.Groups[i].Topics = nil
			}
			return refuseWhole(req, code)
		},
		overloaded: kerr.CoordinatorNotAvailable,
		route: toGroups(func(req *request) []string {
			ids := make([]string, len(req.Groups))
			for i := range req.Groups {
				ids[i] = req.Groups[i].GroupID
			}
			return ids
		}),
		handle: inBackground(atGroups, describeShareGroupOffsets),
	}.api()
}

// sharePositionsTime bounds how long share coordinators are asked. Some clients wait for 5 s.
const sharePositionsTime = 4 * time.Second

func describeShareGroupOffsets(ctx context.Context, b *Handler, r *network.Request,
	req *kmsg.DescribeShareGroupOffsetsRequest,
) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeShareGroupOffsetsResponse())
	ctx, cancel := context.WithTimeout(ctx, sharePositionsTime)
	defer cancel()
	list := b.shareStatesOf(ctx, req)
	p := &positionsAsked{m: b.rights(r), img: b.image()}
	p.topics = make([][]kmsg.DescribeShareGroupOffsetsResponseGroupTopic, len(req.Groups))
	for i := range req.Groups {
		if list[i].Err == nil {
			p.ask(i, &req.Groups[i], list[i].Topics)
		}
	}
	positions := b.opt.Groups.SharePositions(ctx, p.keys, req.Version >= 1)
	for k := range positions {
		setPosition(r, p.to[k], &positions[k])
	}
	for i := range req.Groups {
		g := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
		g.GroupID, g.Topics = req.Groups[i].GroupID, p.topics[i]
		if list[i].Err != nil {
			setShareError(r, &g.ErrorCode, &g.ErrorMessage, list[i].Err)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}

// shareStatesOf returns the states of the groups of a request.
func (b *Handler) shareStatesOf(ctx context.Context, req *kmsg.DescribeShareGroupOffsetsRequest) []group.StatesOf {
	ids := make([]string, len(req.Groups))
	for i := range req.Groups {
		ids[i] = req.Groups[i].GroupID
	}
	found := make(chan []group.StatesOf, 1)
	perShard(b, b.opt.Groups, ids, func(at []int) any { return group.ShareStates{Groups: pick(ids, at)} },
		func(_ string, code *kerr.Error) group.StatesOf { return group.StatesOf{Err: code} },
		func(list []group.StatesOf) { found <- list })
	select {
	case list := <-found:
		return list
	case <-ctx.Done():
	}
	return slices.Repeat([]group.StatesOf{{Err: kerr.CoordinatorNotAvailable}}, len(ids))
}

// positionsAsked are the positions that a request asks for.
type positionsAsked struct {
	m      rights
	img    *metadata.Image
	topics [][]kmsg.DescribeShareGroupOffsetsResponseGroupTopic // by group

	// keys are the share partitions to ask for, and to has where their answers are.
	keys []format.Key
	to   []*kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition
}

// ask adds the positions of a group that a request asks for: those of the topics that it names, or
// all that there are. Who may not describe a topic does not see it among all of them.
func (a *positionsAsked) ask(i int, g *kmsg.DescribeShareGroupOffsetsRequestGroup, states []group.ShareTopic) {
	if g.Topics == nil {
		for _, t := range states {
			if a.m.mayTopic(acl.Describe, t.Name) {
				a.add(i, g.GroupID, t.Name, t.ID, t.Partitions, nil)
			}
		}
		return
	}
	for j := range g.Topics {
		t := &g.Topics[j]
		if code := a.m.topic(acl.Describe, t.Topic); code != nil {
			a.add(i, g.GroupID, t.Topic, [16]byte{}, t.Partitions, code)
		} else if known := a.img.Topic(t.Topic); known != nil {
			a.add(i, g.GroupID, t.Topic, known.ID, t.Partitions, nil)
		} else {
			a.add(i, g.GroupID, t.Topic, [16]byte{}, t.Partitions, nil)
		}
	}
}

func (a *positionsAsked) add(i int, id, topic string, topicID [16]byte, partitions []int32, code *kerr.Error) {
	t := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
	t.Topic, t.TopicID = topic, topicID
	t.Partitions = make([]kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition, len(partitions))
	known := a.img.TopicByID(topicID)
	for k, index := range partitions {
		p := &t.Partitions[k]
		p.Default()
		p.Partition, p.StartOffset = index, -1
		if code != nil {
			p.ErrorCode, p.ErrorMessage = code.Code, kmsg.StringPtr(cmp.Or(denialText(code), code.Description))
		} else if known != nil && known.Partitions.At(index) != nil {
			a.keys, a.to = append(a.keys, format.Key{Group: id, Topic: topicID, Partition: index}), append(a.to, p)
		}
	}
	a.topics[i] = append(a.topics[i], t)
}

// setPosition sets the position of a share partition. A state that does not exist, and one whose
// start the first leader will decide, have none.
func setPosition(r *network.Request, p *kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition, at *service.SharePosition) {
	switch at.Err {
	case nil:
		p.StartOffset, p.LeaderEpoch, p.Lag = at.Start, max(at.Leader, 0), at.Lag()
	case kerr.InvalidRequest, kerr.UnknownTopicOrPartition:
	default:
		setShareError(r, &p.ErrorCode, &p.ErrorMessage, at.Err)
	}
}
