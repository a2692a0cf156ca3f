package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chronik-io/chronik/internal/record"
)

// telemetryAttacks push metrics (KIP-714), while a subscription asks every client for all of them.
// Each push is of a new client instance, so that none is too early.
func telemetryAttacks() []Attack {
	pushes := func(connections int, metrics func() ([]byte, record.Codec)) func(context.Context, *Attacker) error {
		return func(ctx context.Context, m *Attacker) error {
			req := kmsg.NewPtrPushTelemetryRequest()
			body, codec := metrics()
			req.Metrics, req.CompressionType = body, int8(codec)
			return m.again(ctx, m.connections(connections), func(c *Conn, i, turn int) error {
				mine := *req
				binary.BigEndian.PutUint64(mine.ClientInstanceID[:8], uint64(i+1)<<32|uint64(turn))
				return c.push(m, &mine)
			})
		}
	}
	return []Attack{
		{
			Name: "bombs-of-metrics", Aim: "20 clients push metrics of 24 kB that become 768 MiB",
			Holds: budget, Keeps: some, prepare: allMetrics,
			run: pushes(20, func() ([]byte, record.Codec) { return metricsBomb(), record.Zstd }),
		},
		{
			Name: "many-metrics", Aim: "20 clients, new ones each time, push 4,000 values with long names and attributes of their own",
			Holds: budget, Keeps: some, Part: 30, prepare: allMetrics,
			run: pushes(20, func() ([]byte, record.Codec) { return manyMetrics(4000), record.None }),
		},
	}
}

// allMetrics subscribes to all metrics of all clients.
func allMetrics(_ context.Context, c *Conn, _ *Attacker) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeClientMetrics, victim
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "metrics", Value: kmsg.StringPtr("*")}}
	req.Resources = append(req.Resources, r)
	resp, err := c.Ask(req)
	if err != nil {
		return err
	}
	for _, r := range resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		err = errors.Join(err, kerr.ErrorForCode(r.ErrorCode))
	}
	return err
}

// push asks for the subscription of an instance, pushes, and notes the outcome.
func (c *Conn) push(m *Attacker, req *kmsg.PushTelemetryRequest) error {
	ask := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	ask.ClientInstanceID = req.ClientInstanceID
	resp, err := c.Ask(ask)
	if err != nil {
		return err
	}
	req.SubscriptionID = resp.(*kmsg.GetTelemetrySubscriptionsResponse).SubscriptionID
	if resp, err = c.Ask(req); err != nil {
		return err
	}
	m.note(codeName(resp.(*kmsg.PushTelemetryResponse).ErrorCode))
	return nil
}

// metricsBomb returns a zstd frame of blocks that repeat one byte.
func metricsBomb() []byte {
	const blocks, block = 6144, 128 << 10
	z := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x38}
	for i := range blocks {
		kind := uint32(2)
		if i == blocks-1 {
			kind |= 1
		}
		z = append(appendBlock(z, block, kind), 0)
	}
	return z
}

// manyMetrics returns an OTLP message of gauges, each with a long name and long attributes.
func manyMetrics(n int) []byte {
	const scopes, resources, name, gauge, points, attributes, value, key, text = 2, 1, 1, 5, 1, 7, 4, 1, 1
	field := func(dst []byte, num protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), body)
	}
	var scope []byte
	for i := range n {
		label := field(field(nil, key, []byte("topic")), 2, field(nil, text, []byte(strings.Repeat("t", 40))))
		point := protowire.AppendFixed64(protowire.AppendTag(nil, value, protowire.Fixed64Type), 0)
		point = field(point, attributes, label)
		metric := field(nil, name, fmt.Appendf(nil, "%s.%d", strings.Repeat("m", 150), i))
		scope = field(scope, scopes, field(metric, gauge, field(nil, points, point)))
	}
	return field(nil, resources, field(nil, scopes, scope))
}
