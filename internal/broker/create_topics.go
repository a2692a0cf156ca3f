package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/topicconf"
)

// CreateTopics (key 19), versions 2 to 7. An answer without an error means that
// the topic can be used.
func createTopicsAPI() api {
	return api{protocol.API{Key: int16(kmsg.CreateTopics), Min: 2, Max: 7}, changing(createTopics)}
}

func createTopics(ctx context.Context, b *Broker, r *network.Request, req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrCreateTopicsResponse())
	c := b.newChange(r, milliseconds(req.TimeoutMillis))
	times := counts(req.Topics, func(t *kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	var revisions []int64 // of the topics of the answer
	for i := range req.Topics {
		t := &req.Topics[i]
		n := times[t.Topic]
		if n == 0 {
			continue // answered where it was first named
		}
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = t.Topic, -1, -1
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		var made controller.Created
		var err error
		if n > 1 {
			times[t.Topic], err = 0, errDuplicateTopic
		} else {
			made, err = c.createTopic(ctx, t, req.ValidateOnly)
		}
		out.ErrorCode, out.ErrorMessage = c.verdict(err)
		if err == nil {
			out.TopicID, out.NumPartitions, out.ReplicationFactor = made.ID, made.Partitions, made.ReplicationFactor
			out.Configs = b.createdConfigs(made.Configs)
		}
		resp.Topics, revisions = append(resp.Topics, out), append(revisions, made.Revision)
	}
	if err := c.seen(ctx); err != nil {
		for i, now := 0, b.image().Version(); i < len(resp.Topics); i++ {
			if revisions[i] > now {
				resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = c.verdict(err)
			}
		}
	}
	return resp
}

// createTopic creates one topic.
func (c *change) createTopic(ctx context.Context, t *kmsg.CreateTopicsRequestTopic, validateOnly bool) (made controller.Created, err error) {
	if t.Topic == "__cluster_metadata" {
		return made, refuse(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", t.Topic)
	}
	if err := c.b.noRoom(); err != nil {
		return made, err
	}
	spec := controller.TopicSpec{Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor,
		Configs: make(map[string]*string, len(t.Configs)), ValidateOnly: validateOnly}
	for _, a := range t.ReplicaAssignment {
		spec.Assignments = append(spec.Assignments, controller.Assignment{Partition: a.Partition, Brokers: a.Replicas})
	}
	for _, conf := range t.Configs {
		spec.Configs[conf.Name] = conf.Value
	}
	err = c.do(ctx, func(ctx context.Context) (int64, error) {
		made, err = c.b.opt.Controller.CreateTopic(ctx, spec)
		return made.Revision, err
	})
	return made, err
}

// createdConfigs are the configs of a topic as CreateTopics answers with them
// (KIP-525): all that hold for it, with where they come from.
func (b *Broker) createdConfigs(set map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	values := b.opt.Configs.DescribeTopic(b.layers(b.image(), &metadata.Topic{Configs: set}))
	list := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(values))
	for i := range values {
		v := &values[i]
		out := kmsg.NewCreateTopicsResponseTopicConfig()
		out.Name, out.Source, out.IsSensitive = v.Def.Name, int8(v.Source), v.Def.Type == topicconf.Password
		out.Value = shown(v.Def, v.Value, v.Null)
		list = append(list, out)
	}
	return list
}
