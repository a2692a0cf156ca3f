package broker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeConfigs (key 32), versions 1 to 4: the configs that chronik uses. Resources are topics,
// this broker, the default of all brokers, consumer groups, subscriptions to metrics of clients,
// and the broker's log level.
func describeConfigsAPI() api {
	return apiDef[*kmsg.DescribeConfigsRequest]{
		API: protocol.API{Key: int16(kmsg.DescribeConfigs), Min: 1, Max: 4, MaxCost: maxDescribeConfigs},
		asks: asks[*kmsg.DescribeConfigsRequest]{parts: each(
			func(req *kmsg.DescribeConfigsRequest) *[]kmsg.DescribeConfigsRequestResource { return &req.Resources },
			func(m rights, _ *kmsg.DescribeConfigsRequest, x *kmsg.DescribeConfigsRequestResource) *kerr.Error {
				return m.configs(acl.DescribeConfigs, resource{x.ResourceType, x.ResourceName})
			})},
		answerBytes: describedBytes,
		route:       toBroker(configsDescribed, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger),
		handle:      answering(describedResources),
	}.api()
}

// maxDescribeConfigs bounds how many resources one request may name, since each takes microseconds
// to describe. A request may name 12,000.
const maxDescribeConfigs = 2 << 20

// describedBytes estimates the size of an answer: each resource has some forty configs.
func describedBytes(_ *Handler, req *kmsg.DescribeConfigsRequest) int64 {
	n := int64(1600)
	if req.IncludeSynonyms {
		n += 4 << 10
	}
	if req.IncludeDocumentation {
		n += 10 << 10
	}
	return n * int64(len(req.Resources))
}

func describedResources(b *Handler, r *network.Request, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeConfigsResponse())
	img := b.image()
	room := b.mostAnswer()
	for _, want := range wantedConfigs(req) {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = want.kind, want.name
		var err error
		if room > 0 {
			out.Configs, err = b.describedConfigs(img, req, want)
		} else {
			err = protocolErrorf(kerr.InvalidRequest, "The answer would have more than %d bytes. Describe fewer resources in one request, "+
				"or give the broker more memory.", b.mostAnswer())
		}
		room -= configBytes(out.Configs)
		out.ErrorCode, out.ErrorMessage = b.verdict(r, err)
		if err != nil {
			r.Code = out.ErrorCode
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// configBytes returns about how many bytes configs have in an answer.
func configBytes(list []kmsg.DescribeConfigsResponseResourceConfig) (n int64) {
	text := func(p *string) int64 {
		if p == nil {
			return 0
		}
		return int64(len(*p))
	}
	for i := range list {
		c := &list[i]
		n += entryConfig + int64(len(c.Name)) + text(c.Value) + text(c.Documentation)
		for _, s := range c.ConfigSynonyms {
			n += entryConfig + int64(len(s.Name)) + text(s.Value)
		}
	}
	return n
}

// entryConfig is what a config or synonym has besides its texts.
const entryConfig = 12

// wanted are the requested configs of one resource.
type wanted struct {
	resource
	names map[string]bool // nil: all configs
}

func (w *wanted) has(name string) bool { return w.names == nil || w.names[name] }

// wantedConfigs merges the entries that name the same resource, at the place of the first one: an
// entry of a few bytes has a large answer, which takes time to build.
func wantedConfigs(req *kmsg.DescribeConfigsRequest) []*wanted {
	list := make([]*wanted, 0, len(req.Resources))
	known := make(map[resource]*wanted, len(req.Resources))
	for i := range req.Resources {
		res := &req.Resources[i]
		which := resource{res.ResourceType, res.ResourceName}
		key := which.canonical()
		w := known[key]
		if w == nil {
			w = &wanted{resource: which, names: map[string]bool{}}
			list, known[key] = append(list, w), w
		}
		if len(res.ConfigNames) == 0 {
			w.names = nil
		}
		for _, name := range res.ConfigNames {
			if w.names != nil {
				w.names[name] = true
			}
		}
	}
	return list
}

// canonical returns the resource with a normalized broker number.
func (x resource) canonical() resource {
	if x.kind == kmsg.ConfigResourceTypeBroker || x.kind == kmsg.ConfigResourceTypeBrokerLogger {
		if id, err := strconv.ParseInt(x.name, 10, 32); err == nil {
			x.name = strconv.FormatInt(id, 10)
		}
	}
	return x
}

// describedConfigs returns the requested configs of a resource.
func (b *Handler) describedConfigs(img *metadata.Image, req *kmsg.DescribeConfigsRequest,
	want *wanted) (list []kmsg.DescribeConfigsResponseResourceConfig, err error) {
	if want.kind == kmsg.ConfigResourceTypeBrokerLogger {
		return b.loggersOf(req, want)
	}
	values, err := b.configsOf(img, want.resource)
	for j := range values {
		if want.has(values[j].Def.Name) {
			list = append(list, describedConfig(req, want.kind, &values[j]))
		}
	}
	return list, err
}

// configsOf resolves all configs of a resource.
func (b *Handler) configsOf(img *metadata.Image, res resource) ([]configdef.Value, error) {
	switch res.kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := controller.CheckTopicName(res.name); err != nil {
			return nil, err
		}
		t := img.Topic(res.name)
		if t == nil {
			return nil, protocolErrorf(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", res.name)
		}
		return b.opt.Configs.DescribeTopic(b.layers(img, t)), nil
	case kmsg.ConfigResourceTypeBroker:
		if res.name == "" {
			return b.opt.Configs.DescribeAll(img.BrokerConfig(metadata.DefaultBroker)), nil
		}
		id, err := strconv.ParseInt(res.name, 10, 32)
		if err != nil {
			return nil, protocolErrorf(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", res.name)
		}
		if id != int64(b.opt.Self) {
			return nil, protocolErrorf(kerr.InvalidRequest,
				"Unexpected broker id, expected %d or empty string, but received %d", b.opt.Self, id)
		}
		return b.opt.Configs.DescribeBroker(b.layers(img, nil)), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if res.name == "" {
			return nil, protocolErrorf(kerr.InvalidRequest, "Group name must not be empty")
		}
		l := b.layers(img, nil)
		l.Group = img.GroupConfig(res.name) // none for an unknown group
		return b.opt.Configs.DescribeGroup(l), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if res.name == "" {
			return nil, protocolErrorf(kerr.InvalidRequest, "Client metrics subscription name must not be empty")
		}
		set, _ := img.Subscription(res.name) // none for an unknown one: the defaults, as in Kafka
		return b.opt.Configs.DescribeSubscription(set), nil
	}
	return nil, unknownResource(res.kind)
}

// unknownResource refuses unknown resource types.
func unknownResource(t kmsg.ConfigResourceType) error {
	return protocolErrorf(kerr.InvalidRequest,
		"Unknown resource type %d: only topics (2), brokers (4), broker loggers (8), client metrics (16) and groups (32) have configs",
		t)
}

// describedConfig returns a config in the form of the answer.
func describedConfig(req *kmsg.DescribeConfigsRequest, t kmsg.ConfigResourceType,
	v *configdef.Value) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.IsSensitive = v.Def.Name, shown(v.Def, v.Value, v.Null), v.Def.Type == configdef.Password
	out.ReadOnly = t == kmsg.ConfigResourceTypeBroker && v.Def.Update == configdef.ReadOnly
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

// shown returns a config's value as clients may see it: a secret is null.
func shown(d *configdef.Def, value string, null bool) *string {
	if null || d.Type == configdef.Password {
		return nil
	}
	return &value
}
