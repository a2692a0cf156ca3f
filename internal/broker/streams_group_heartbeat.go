package broker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// StreamsGroupHeartbeat (key 88), versions 0 and 1: everything that a member of a streams group
// sends (KIP-1071). The broker creates the internal topics that the application misses.
func streamsGroupHeartbeatAPI() api {
	return apiDef[*kmsg.StreamsGroupHeartbeatRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.StreamsGroupHeartbeat), Max: 1},
		// The right to create internal topics is asked inside.
		asks: asks[*kmsg.StreamsGroupHeartbeatRequest]{whole: func(m rights, req *kmsg.StreamsGroupHeartbeatRequest) *kerr.Error {
			return cmp.Or(m.group(acl.Read, req.Group), m.allTopics(acl.Describe, topicsOf(req)))
		}},
		refuse: func(_ *network.Request, req *kmsg.StreamsGroupHeartbeatRequest, code *kerr.Error) kmsg.Response {
			return group.Refuse(req, code)
		},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toGroup(func(req *kmsg.StreamsGroupHeartbeatRequest) string { return req.Group }),
		handle:     later(atGroup(func(req *kmsg.StreamsGroupHeartbeatRequest) string { return req.Group }), streamsGroupHeartbeat),
	}.api()
}

// topicsOf returns the names of all topics of a heartbeat's topology.
func topicsOf(req *kmsg.StreamsGroupHeartbeatRequest) (names []string) {
	if req.Topology == nil {
		return nil
	}
	for i := range req.Topology.Subtopologies {
		s := &req.Topology.Subtopologies[i]
		names = append(append(names, s.SourceTopics...), s.RepartitionSinkTopics...)
		for _, t := range slices.Concat(s.StateChangelogTopics, s.RepartitionSourceTopics) {
			names = append(names, t.Topic)
		}
	}
	return names
}

func streamsGroupHeartbeat(c call, req *kmsg.StreamsGroupHeartbeatRequest) {
	if refusal := refuseTopology(req); refusal != "" {
		resp := group.Refuse(req, kerr.StreamsInvalidTopology).(*kmsg.StreamsGroupHeartbeatResponse)
		resp.ErrorMessage, c.r.Code = &refusal, resp.ErrorCode
		c.respond(resp)
		return
	}
	c.b.opt.Groups.Submit(req.Group, c.b.groupRequest(c.r, req), func(answer any, err error) {
		beat, ok := answer.(*group.StreamsHeartbeat)
		var resp kmsg.Response
		if errors.Is(err, coordinator.ErrLoading) {
			resp = group.Loading(req)
		} else if code := c.b.coordinatorError(req, answer, ok, err); code != nil {
			resp = group.Refuse(req, code)
		} else {
			c.b.createInternal(c.r, beat)
			resp = within(c.r, req, beat.Response)
		}
		c.r.Code = firstError(resp)
		c.respond(resp)
	})
}

// refuseTopology returns why the topics of a topology can't be those of an application, "" if they
// can.
func refuseTopology(req *kmsg.StreamsGroupHeartbeatRequest) string {
	var internal, invalid []string
	for _, name := range topicsOf(req) {
		switch {
		case metadata.IsInternal(name):
			internal = append(internal, name)
		case controller.CheckTopicName(name) != nil:
			invalid = append(invalid, name)
		}
	}
	switch {
	case len(internal) > 0:
		return fmt.Sprintf("Use of Kafka internal topics %s in a Kafka Streams topology is prohibited.", strings.Join(internal, ","))
	case len(invalid) > 0:
		return fmt.Sprintf("Topic names %s are not valid topic names.", strings.Join(invalid, ","))
	}
	return ""
}

// createInternal starts creating the internal topics that a streams group misses, in the
// background, if the client may create them. If that is not possible, the status says so.
func (b *Handler) createInternal(r *network.Request, beat *group.StreamsHeartbeat) {
	if len(beat.Create) == 0 {
		return
	}
	specs := make(map[string]controller.TopicSpec, len(beat.Create))
	var names, denied []string
	m := b.rights(r)
	for _, t := range beat.Create {
		if m.create(t.Name) != nil {
			denied = append(denied, t.Name)
			continue
		}
		names, specs[t.Name] = append(names, t.Name), internalSpec(t)
	}
	if len(denied) > 0 {
		beat.MissingBecause("Unauthorized to CREATE on topics " + strings.Join(denied, ", ") + ".")
		return // as in Kafka, all or none
	}
	if err := b.canCreate(b.image()); err != nil {
		beat.MissingBecause(fmt.Sprintf("Creation failed: %s.", err))
		return
	}
	fresh, failed := b.internal.begin(names, nil)
	if len(fresh) > 0 {
		list := make([]controller.TopicSpec, len(fresh))
		for i, name := range fresh {
			list[i] = specs[name]
		}
		ctx := b.contextOf(r)
		b.work.Go(func() { b.internal.end(fresh, b.createTopics(ctx, list)) })
	}
	if len(failed) > 0 {
		var why []string
		for _, name := range slices.Sorted(maps.Keys(failed)) {
			why = append(why, fmt.Sprintf("%s (%s)", name, m.collision(name, failed[name])))
		}
		beat.MissingBecause("Creation failed: " + strings.Join(why, ", ") + ".")
	}
}

// internalSpec returns the topic to create for an internal topic of a topology.
func internalSpec(t group.InternalTopic) controller.TopicSpec {
	s := controller.TopicSpec{Name: t.Name, Partitions: t.Partitions, ReplicationFactor: t.ReplicationFactor,
		Configs: make(map[string]*string, len(t.Configs))}
	if s.ReplicationFactor == 0 {
		s.ReplicationFactor = -1
	}
	for _, c := range t.Configs {
		s.Configs[c.Key] = &c.Value
	}
	return s
}
