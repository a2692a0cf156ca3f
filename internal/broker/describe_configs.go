package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/topicconf"
)

// DescribeConfigs (key 32), versions 1 to 4: the configs that chronik reads, of
// topics, of this broker, those set for all brokers, those of consumer groups, and
// the level of its log.
func describeConfigsAPI() api {
	return api{protocol.API{Key: int16(kmsg.DescribeConfigs), Min: 1, Max: 4}, decoded(describeConfigs)}
}

func describeConfigs(b *Broker, r *network.Request, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeConfigsResponse())
	img := b.image()
	whole := map[resource]bool{}
	for i := range req.Resources {
		res := &req.Resources[i]
		if which := (resource{res.ResourceType, res.ResourceName}); len(res.ConfigNames) == 0 {
			if whole[which] {
				continue // answered where all of it was asked for first: an entry of a few bytes has an answer of many
			}
			whole[which] = true
		}
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
		var err error
		out.Configs, err = b.describedConfigs(img, req, res)
		out.ErrorCode, out.ErrorMessage = verdict(err)
		if err != nil {
			r.Code = out.ErrorCode
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// describedConfigs are those of a resource that are asked for.
func (b *Broker) describedConfigs(img *metadata.Image, req *kmsg.DescribeConfigsRequest, res *kmsg.DescribeConfigsRequestResource) (list []kmsg.DescribeConfigsResponseResourceConfig, err error) {
	if res.ResourceType == kmsg.ConfigResourceTypeBrokerLogger {
		return b.loggersOf(req, res)
	}
	values, err := b.configsOf(img, res)
	for j := range values {
		if len(res.ConfigNames) == 0 || slices.Contains(res.ConfigNames, values[j].Def.Name) {
			list = append(list, describedConfig(req, res.ResourceType, &values[j]))
		}
	}
	return list, err
}

// configsOf resolves all configs of a resource.
func (b *Broker) configsOf(img *metadata.Image, res *kmsg.DescribeConfigsRequestResource) ([]topicconf.Value, error) {
	switch res.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := controller.CheckTopicName(res.ResourceName); err != nil {
			return nil, err
		}
		t := img.Topic(res.ResourceName)
		if t == nil {
			return nil, refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", res.ResourceName)
		}
		return b.opt.Configs.DescribeTopic(b.layers(img, t)), nil
	case kmsg.ConfigResourceTypeBroker:
		if res.ResourceName == "" {
			return b.opt.Configs.DescribeAll(img.BrokerConfig(metadata.DefaultBroker)), nil
		}
		id, err := strconv.ParseInt(res.ResourceName, 10, 32)
		if err != nil {
			return nil, refuse(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", res.ResourceName)
		}
		if id != int64(b.opt.Self) {
			return nil, refuse(kerr.InvalidRequest, "Unexpected broker id, expected %d or empty string, but received %d", b.opt.Self, id)
		}
		return b.opt.Configs.DescribeBroker(b.layers(img, nil)), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if res.ResourceName == "" {
			return nil, refuse(kerr.InvalidRequest, "Group name must not be empty")
		}
		l := b.layers(img, nil)
		l.Group = img.GroupConfig(res.ResourceName) // none for a group that nobody has heard of yet
		return b.opt.Configs.DescribeGroup(l), nil
	}
	return nil, unknownResource(res.ResourceType)
}

// unknownResource refuses the kind of resources that Kafka has and chronik
// doesn't, client metrics, and those that nobody has.
func unknownResource(t kmsg.ConfigResourceType) error {
	return refuse(kerr.InvalidRequest, "Unknown resource type %d: topics (2), brokers (4), broker loggers (8) and groups (32) have configs here", t)
}

// describedConfig is how a config is answered.
func describedConfig(req *kmsg.DescribeConfigsRequest, t kmsg.ConfigResourceType, v *topicconf.Value) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.IsSensitive = v.Def.Name, shown(v.Def, v.Value, v.Null), v.Def.Type == topicconf.Password
	out.ReadOnly = t == kmsg.ConfigResourceTypeBroker && v.Def.Update == topicconf.ReadOnly
	out.Source, out.ConfigType = kmsg.ConfigSource(v.Source), kmsg.ConfigType(v.Def.Type)
	if req.IncludeDocumentation {
		doc := v.Def.Documentation()
		out.Documentation = &doc
	}
	if req.IncludeSynonyms {
		for _, s := range v.Settings {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Value, synonym.Source = s.Name, shown(v.Def, s.Value, false), kmsg.ConfigSource(s.Source)
			out.ConfigSynonyms = append(out.ConfigSynonyms, synonym)
		}
	}
	return out
}

// shown is a config's value as clients may see it: a secret is null.
func shown(d *topicconf.Def, value string, null bool) *string {
	if null || d.Type == topicconf.Password {
		return nil
	}
	return &value
}
