package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ListConfigResources (key 74), versions 0 to 1: the resources that have configs (KIP-1142).
// Version 0 lists only subscriptions to metrics of clients (KIP-714).
func listConfigResourcesAPI() api {
	return apiDef[*kmsg.ListConfigResourcesRequest]{
		API:    protocol.API{Key: int16(kmsg.ListConfigResources), Max: 1},
		asks:   clusterAsks[*kmsg.ListConfigResourcesRequest](acl.DescribeConfigs),
		handle: answering(listConfigResources),
	}.api()
}

func listConfigResources(b *Handler, r *network.Request, req *kmsg.ListConfigResourcesRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrListConfigResourcesResponse())
	known := []int8{int8(kmsg.ConfigResourceTypeTopic), int8(kmsg.ConfigResourceTypeBroker), int8(kmsg.ConfigResourceTypeBrokerLogger),
		int8(kmsg.ConfigResourceTypeClientMetrics), int8(kmsg.ConfigResourceTypeGroupConfig)}
	wanted := req.ResourceTypes
	if req.Version == 0 {
		wanted = []int8{int8(kmsg.ConfigResourceTypeClientMetrics)}
	}
	if len(wanted) == 0 {
		wanted = known
	}
	for _, t := range wanted {
		if !slices.Contains(known, t) {
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			r.Code = resp.ErrorCode
			return resp
		}
	}
	add := func(t kmsg.ConfigResourceType, name string) {
		one := kmsg.NewListConfigResourcesResponseConfigResource()
		one.Name, one.Type = name, int8(t)
		resp.ConfigResources = append(resp.ConfigResources, one)
	}
	img := b.image()
	if slices.Contains(wanted, int8(kmsg.ConfigResourceTypeBroker)) {
		for _, n := range img.Brokers() {
			add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(n.ID)))
		}
	}
	if slices.Contains(wanted, int8(kmsg.ConfigResourceTypeBrokerLogger)) {
		for _, n := range img.Brokers() {
			add(kmsg.ConfigResourceTypeBrokerLogger, strconv.Itoa(int(n.ID)))
		}
	}
	if slices.Contains(wanted, int8(kmsg.ConfigResourceTypeTopic)) {
		for t := range img.Topics() {
			add(kmsg.ConfigResourceTypeTopic, t.Name)
		}
	}
	if slices.Contains(wanted, int8(kmsg.ConfigResourceTypeGroupConfig)) {
		for _, g := range slices.Sorted(img.GroupConfigs()) {
			add(kmsg.ConfigResourceTypeGroupConfig, g)
		}
	}
	if slices.Contains(wanted, int8(kmsg.ConfigResourceTypeClientMetrics)) {
		for _, s := range slices.Sorted(img.Subscriptions()) {
			add(kmsg.ConfigResourceTypeClientMetrics, s)
		}
	}
	return resp
}
