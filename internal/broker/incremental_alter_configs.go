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

// IncrementalAlterConfigs (key 44), versions 0 to 1: sets, deletes, appends to and subtracts from
// single configs (KIP-339). The configs of one resource change together or not at all.
func incrementalAlterConfigsAPI() api {
	return apiDef[*kmsg.IncrementalAlterConfigsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.IncrementalAlterConfigs), Max: 1},
		asks: asks[*kmsg.IncrementalAlterConfigsRequest]{parts: each(
			func(req *kmsg.IncrementalAlterConfigsRequest) *[]kmsg.IncrementalAlterConfigsRequestResource {
				return &req.Resources
			},
			func(m rights, _ *kmsg.IncrementalAlterConfigsRequest, x *kmsg.IncrementalAlterConfigsRequestResource) *kerr.Error {
				return m.configs(acl.AlterConfigs, resource{x.ResourceType, x.ResourceName})
			})},
		overloaded: kerr.NotController,
		route:      toBroker(configsAltered, kmsg.ConfigResourceTypeBrokerLogger),
		handle:     inBackground(atMetadata, incrementalAlterConfigs),
	}.api()
}

func incrementalAlterConfigs(ctx context.Context, b *Handler, r *network.Request, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrIncrementalAlterConfigsResponse())
	c := b.newChange(r, changeTimeout)
	which := make([]resource, len(req.Resources))
	for i, x := range req.Resources {
		which[i] = resource{x.ResourceType, x.ResourceName}
	}
	for _, out := range c.alterEach(ctx, which, func(i int) error {
		return c.alterConfigs(ctx, which[i], req.Resources[i].Configs, req.ValidateOnly)
	}) {
		resp.Resources = append(resp.Resources, kmsg.IncrementalAlterConfigsResponseResource(out))
	}
	return resp
}

func (c *change) alterConfigs(ctx context.Context, which resource, configs []kmsg.IncrementalAlterConfigsRequestResourceConfig,
	validateOnly bool) error {
	ops := make([]controller.ConfigOp, 0, len(configs))
	for _, x := range configs {
		ops = append(ops, controller.ConfigOp{Name: x.Name, Op: controller.Op(x.Op), Value: x.Value})
	}
	if which.kind == kmsg.ConfigResourceTypeBrokerLogger {
		return c.b.alterLoggers(which.name, ops, validateOnly)
	}
	res, err := which.of()
	if err != nil {
		return err
	}
	return c.do(ctx, func(ctx context.Context) (int64, error) {
		return c.b.opt.Controller.AlterConfigs(ctx, res, ops, validateOnly)
	})
}
