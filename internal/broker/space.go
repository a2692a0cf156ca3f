package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
)

// canCreate returns why no partition can be created for a client now, nil if one can: the disks of
// all brokers that run have too little space, or do not work. The error is that of this broker's
// disks.
func (b *Handler) canCreate(img *metadata.Image) error {
	err := b.opt.Replicas.CanCreate()
	if err != nil && slices.ContainsFunc(img.Brokers(), func(x metadata.Broker) bool {
		return x.ID != b.opt.Self && controller.TakesPartitions(img, x.ID)
	}) {
		return nil
	}
	return err
}

// checkSpace is canCreate for CreateTopics and CreatePartitions, whose callers need to know:
// clients do not retry POLICY_VIOLATION and show its message at once.
func (b *Handler) checkSpace(img *metadata.Image) error {
	if err := b.canCreate(img); err != nil {
		return protocolErrorf(kerr.PolicyViolation, "no partition can be created now: %s", err)
	}
	return nil
}
