package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// CreatePartitions (key 37), versions 0 to 3.
func createPartitionsAPI() api {
	return apiDef[*kmsg.CreatePartitionsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.CreatePartitions), Max: 3},
		asks: asks[*kmsg.CreatePartitionsRequest]{parts: each(
			func(req *kmsg.CreatePartitionsRequest) *[]kmsg.CreatePartitionsRequestTopic { return &req.Topics },
			func(m rights, _ *kmsg.CreatePartitionsRequest, x *kmsg.CreatePartitionsRequestTopic) *kerr.Error {
				return m.topic(acl.Alter, x.Topic)
			})},
		overloaded: kerr.NotController,
		handle:     inBackground(atMetadata, createPartitions),
	}.api()
}

func createPartitions(ctx context.Context, b *Handler, r *network.Request, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrCreatePartitionsResponse())
	c := b.newChange(r, milliseconds(req.TimeoutMillis))
	times := counts(req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	// For each topic of the answer, how many partitions it had and how many it will have: 0 if none
	// was created.
	var before, wanted []int32
	for i := range req.Topics {
		t := &req.Topics[i]
		n := times[t.Topic]
		if n == 0 {
			continue // answered where it was named first
		}
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		had := int32(0)
		if known := b.image().Topic(t.Topic); known != nil {
			had = known.Partitions.Len()
		}
		var err error
		if n > 1 {
			times[t.Topic], err = 0, errDuplicateTopic
		} else {
			err = c.createPartitions(ctx, t, req.ValidateOnly)
		}
		out.ErrorCode, out.ErrorMessage = c.verdict(err)
		count := t.Count
		if err != nil || req.ValidateOnly {
			count = 0
		}
		resp.Topics, before, wanted = append(resp.Topics, out), append(before, had), append(wanted, count)
	}
	notSeen := c.waitVisible(ctx)
	img := b.image()
	for i := range resp.Topics {
		t := img.Topic(resp.Topics[i].Topic)
		if t == nil || wanted[i] == 0 {
			continue
		}
		err := notSeen
		if t.Partitions.Len() >= wanted[i] {
			err = b.missingLogs(t, before[i], notSeen)
		}
		if err != nil {
			resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = c.verdict(err)
		}
	}
	return resp
}

func (c *change) createPartitions(ctx context.Context, t *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	if metadata.IsInternal(t.Topic) {
		return protocolErrorf(kerr.InvalidRequest,
			"The number of partitions of internal topic %s can't be changed: its records are assigned to partitions by it.",
			t.Topic)
	}
	if err := c.b.checkSpace(c.b.image()); err != nil {
		return err
	}
	if known := c.b.image().Topic(t.Topic); known != nil && !validateOnly && t.Count > known.Partitions.Len() {
		add := t.Count - known.Partitions.Len()
		if err := controller.CheckCount(int64(add)); err != nil { // before the client is charged
			return err
		}
		if err := c.b.mutate(c.r, add); err != nil {
			return err
		}
	}
	spec := controller.PartitionsSpec{Topic: t.Topic, Count: t.Count, ValidateOnly: validateOnly}
	for _, a := range t.Assignment {
		spec.Assignments = append(spec.Assignments, a.Replicas)
	}
	if t.Assignment != nil && len(t.Assignment) == 0 {
		if err := emptyAssignment(c.b.image(), t); err != nil {
			return err
		}
	}
	return c.do(ctx, func(ctx context.Context) (int64, error) { return c.b.opt.Controller.CreatePartitions(ctx, spec) })
}

// emptyAssignment refuses an empty list of assignments; null leaves the choice to the broker.
func emptyAssignment(img *metadata.Image, t *kmsg.CreatePartitionsRequestTopic) error {
	topic := img.Topic(t.Topic)
	if topic == nil || t.Count <= topic.Partitions.Len() {
		return nil // other checks report more important errors
	}
	return protocolErrorf(kerr.InvalidReplicaAssignment,
		"Attempted to add %d additional partition(s), but only 0 assignment(s) were specified.",
		t.Count-topic.Partitions.Len())
}
