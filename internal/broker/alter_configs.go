package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// AlterConfigs (key 33), versions 0 to 2: replaces all configs of a resource.
func alterConfigsAPI() api {
	return apiDef[*kmsg.AlterConfigsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.AlterConfigs), Max: 2},
		asks: asks[*kmsg.AlterConfigsRequest]{parts: each(
			func(req *kmsg.AlterConfigsRequest) *[]kmsg.AlterConfigsRequestResource { return &req.Resources },
			func(m rights, _ *kmsg.AlterConfigsRequest, x *kmsg.AlterConfigsRequestResource) *kerr.Error {
				return m.configs(acl.AlterConfigs, resource{x.ResourceType, x.ResourceName})
			})},
		overloaded: kerr.NotController,
		handle:     inBackground(atMetadata, replaceConfigs),
	}.api()
}

// resource is a resource that a request for configs names.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

var errRepeatedResource = protocolErrorf(kerr.InvalidRequest, "Each resource must appear at most once.")

func replaceConfigs(ctx context.Context, b *Handler, r *network.Request, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAlterConfigsResponse())
	c := b.newChange(r, changeTimeout)
	which := make([]resource, len(req.Resources))
	for i, x := range req.Resources {
		which[i] = resource{x.ResourceType, x.ResourceName}
	}
	resp.Resources = c.alterEach(ctx, which, func(i int) error {
		return c.replaceConfigs(ctx, which[i], req.Resources[i].Configs, req.ValidateOnly)
	})
	return resp
}

// alterEach changes the configs of each resource with alter, which receives its index, waits until
// the changes are visible and returns the answers. A repeated resource is refused.
func (c *change) alterEach(ctx context.Context, which []resource, alter func(i int) error) []kmsg.AlterConfigsResponseResource {
	times := counts(which, func(x *resource) resource { return *x })
	list := make([]kmsg.AlterConfigsResponseResource, len(which))
	for i, x := range which {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = x.kind, x.name
		err := errRepeatedResource
		if times[x] == 1 {
			err = alter(i)
		}
		out.ErrorCode, out.ErrorMessage = c.verdict(err)
		list[i] = out
	}
	if err := c.waitVisible(ctx); err != nil {
		for i := range list {
			if out := &list[i]; out.ErrorCode == 0 {
				out.ErrorCode, out.ErrorMessage = c.verdict(err)
			}
		}
	}
	return list
}

func (c *change) replaceConfigs(ctx context.Context, which resource, configs []kmsg.AlterConfigsRequestResourceConfig,
	validateOnly bool) error {
	res, err := which.of()
	if err != nil {
		return err
	}
	set := make(map[string]*string, len(configs))
	for i := range configs {
		if _, twice := set[configs[i].Name]; twice {
			return protocolErrorf(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		set[configs[i].Name] = configs[i].Value
	}
	return c.do(ctx, func(ctx context.Context) (int64, error) {
		return c.b.opt.Controller.ReplaceConfigs(ctx, res, set, validateOnly)
	})
}

// of returns the resource in the controller's terms.
func (x resource) of() (controller.Resource, error) {
	switch x.kind {
	case kmsg.ConfigResourceTypeTopic:
		return controller.Resource{Type: controller.TopicResource, Name: x.name}, nil
	case kmsg.ConfigResourceTypeBroker:
		return controller.Resource{Type: controller.BrokerResource, Name: x.name}, nil
	case kmsg.ConfigResourceTypeGroupConfig:
		return controller.Resource{Type: controller.GroupResource, Name: x.name}, nil
	case kmsg.ConfigResourceTypeClientMetrics:
		return controller.Resource{Type: controller.SubscriptionResource, Name: x.name}, nil
	}
	if x.kind == kmsg.ConfigResourceTypeBrokerLogger {
		return controller.Resource{}, protocolErrorf(kerr.InvalidRequest,
			"Unknown resource type %d: levels of loggers are changed with IncrementalAlterConfigs", x.kind)
	}
	return controller.Resource{}, unknownResource(x.kind)
}
