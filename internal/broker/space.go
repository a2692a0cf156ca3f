package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// checkSpace says why no partition is made now, nil where one may be: the disks have
// too little space for what would be written to it. Whoever asked for it by
// CreateTopics or CreatePartitions is a person or a program that wants to know:
// POLICY_VIOLATION is not repeated by clients, and its text is shown at once.
func (b *Broker) checkSpace() error {
	if err := b.opt.Replicas.CanCreate(); err != nil {
		return refuse(kerr.PolicyViolation, "no partition can be made now: %s", err)
	}
	return nil
}
