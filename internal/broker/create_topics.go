package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// CreateTopics (key 19), versions 2 to 7. An answer without an error means that the topic is
// usable. If its logs could not be created, the answer is KAFKA_STORAGE_ERROR with the cause. If
// they are not created within the request's timeout, it is REQUEST_TIMED_OUT. Either way the topic
// exists, and the broker continues to create its logs.
func createTopicsAPI() api {
	return apiDef[*kmsg.CreateTopicsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.CreateTopics), Min: 2, Max: 7},
		asks: asks[*kmsg.CreateTopicsRequest]{parts: each(
			func(req *kmsg.CreateTopicsRequest) *[]kmsg.CreateTopicsRequestTopic { return &req.Topics },
			func(m rights, _ *kmsg.CreateTopicsRequest, x *kmsg.CreateTopicsRequestTopic) *kerr.Error {
				return m.create(x.Topic)
			})},
		refuse: func(_ *network.Request, req *kmsg.CreateTopicsRequest, code *kerr.Error) kmsg.Response {
			resp := refuseWhole(req, code).(*kmsg.CreateTopicsResponse)
			for i := range resp.Topics {
				resp.Topics[i].NumPartitions, resp.Topics[i].ReplicationFactor = -1, -1
			}
			return resp
		},
		overloaded: kerr.NotController,
		handle:     inBackground(atMetadata, createTopics),
	}.api()
}

func createTopics(ctx context.Context, b *Handler, r *network.Request, req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrCreateTopicsResponse())
	c := b.newChange(r, milliseconds(req.TimeoutMillis))
	times := counts(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	var specs []controller.TopicSpec
	var positions []int // the position of each spec in the answer
	for i := range req.Topics {
		t := &req.Topics[i]
		n := times[t.Topic]
		if n == 0 {
			continue // answered where it was named first
		}
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = t.Topic, -1, -1
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		err := b.creatable(t)
		if n > 1 {
			times[t.Topic], err = 0, errDuplicateTopic
		}
		if out.ErrorCode, out.ErrorMessage = c.verdict(err); err == nil {
			specs, positions = append(specs, specOf(t, req.ValidateOnly)), append(positions, len(resp.Topics))
		}
		resp.Topics = append(resp.Topics, out)
	}
	refused := func(i int, err error) {
		out := &resp.Topics[positions[i]]
		out.ErrorCode, out.ErrorMessage = c.verdict(err)
	}
	if err := b.opt.Controller.CheckTotal(specs); err != nil { // before the client is charged
		for i := range specs {
			refused(i, err)
		}
		return resp
	}
	n := 0
	for i := range specs {
		if s := &specs[i]; !s.ValidateOnly && b.image().Topic(s.Name) == nil {
			if err := b.mutate(r, b.wantedPartitions(s)); err != nil {
				refused(i, err)
				continue
			}
		}
		specs[n], positions[n] = specs[i], positions[i]
		n++
	}
	if specs = specs[:n]; n == 0 {
		return resp
	}
	made := c.createTopics(ctx, specs)
	for i := range made {
		b.created(c, &made[i], &resp.Topics[positions[i]], i < maxCreatedConfigs)
	}
	notSeen := c.waitVisible(ctx)
	img := b.image()
	for i := range made {
		err := notSeen
		if made[i].Revision <= img.Version() {
			err = b.createdLogs(img, &made[i], notSeen)
		}
		if out := &resp.Topics[positions[i]]; err != nil {
			out.ErrorCode, out.ErrorMessage = c.verdict(err)
		}
	}
	return resp
}

// createdLogs returns why a topic that was created is not usable; nil if it is. notSeen is that of
// missingLogs.
func (b *Handler) createdLogs(img *metadata.Image, made *controller.Outcome, notSeen error) error {
	if t := img.TopicByID(made.ID); made.Revision > 0 && t != nil {
		return b.missingLogs(t, 0, notSeen)
	}
	return nil
}

// creatable returns why a topic may not be created, whatever else the request asks for.
func (b *Handler) creatable(t *kmsg.CreateTopicsRequestTopic) error {
	if t.Topic == "__cluster_metadata" {
		return protocolErrorf(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", t.Topic)
	}
	if metadata.IsInternal(t.Topic) {
		return protocolErrorf(kerr.InvalidRequest, "Creation of internal topic %s is prohibited: the broker creates it, "+
			"with the configs that it needs, when a client first looks for a coordinator.", t.Topic)
	}
	return b.checkSpace(b.image())
}

// wantedPartitions returns how many partitions a new topic will have.
func (b *Handler) wantedPartitions(s *controller.TopicSpec) int32 {
	switch {
	case len(s.Assignments) > 0:
		return int32(len(s.Assignments))
	case s.Partitions > 0:
		return s.Partitions
	}
	return b.conf.NumPartitions
}

func specOf(t *kmsg.CreateTopicsRequestTopic, validateOnly bool) controller.TopicSpec {
	spec := controller.TopicSpec{Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor,
		Configs: make(map[string]*string, len(t.Configs)), ValidateOnly: validateOnly}
	for _, a := range t.ReplicaAssignment {
		spec.Assignments = append(spec.Assignments, controller.Assignment{Partition: a.Partition, Brokers: a.Replicas})
	}
	for _, conf := range t.Configs {
		spec.Configs[conf.Name] = conf.Value
	}
	return spec
}

func (c *change) createTopics(ctx context.Context, specs []controller.TopicSpec) []controller.Outcome {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	made := c.b.opt.Controller.CreateTopics(ctx, specs)
	for i := range made {
		c.addRevision(made[i].Revision)
	}
	return made
}

// maxCreatedConfigs is how many topics of a request are answered with their configs: these have a
// kilobyte, and an entry to validate has ten bytes.
const maxCreatedConfigs = 250

// created fills in the answer for one topic, with its configs or without.
func (b *Handler) created(c *change, made *controller.Outcome, out *kmsg.CreateTopicsResponseTopic, configs bool) {
	m := b.rights(c.r)
	if out.ErrorCode, out.ErrorMessage = c.verdict(m.collision(out.Topic, made.Err)); made.Err != nil {
		return
	}
	out.TopicID = made.ID
	if !m.mayTopic(acl.DescribeConfigs, out.Topic) { // as in Kafka, what the topic has got is part of its configs
		out.ConfigErrorCode, out.Configs = kerr.TopicAuthorizationFailed.Code, nil
		return
	}
	out.NumPartitions, out.ReplicationFactor = made.Partitions, made.ReplicationFactor
	if configs {
		out.Configs = b.createdConfigs(made.Configs)
	} else { // clients report it if they are asked for the configs
		out.ConfigErrorCode, out.Configs = kerr.InvalidRequest.Code, nil
	}
}

// createdConfigs returns the configs of a topic for the answer of CreateTopics (KIP-525): all
// effective ones, with their sources.
func (b *Handler) createdConfigs(set map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	values := b.opt.Configs.DescribeTopic(b.layers(b.image(), &metadata.Topic{Configs: set}))
	list := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(values))
	for i := range values {
		v := &values[i]
		out := kmsg.NewCreateTopicsResponseTopicConfig()
		out.Name, out.Source, out.IsSensitive = v.Def.Name, int8(v.Source), v.Def.Type == configdef.Password
		out.Value = shown(v.Def, v.Value, v.Null)
		list = append(list, out)
	}
	return list
}
