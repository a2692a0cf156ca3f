package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// checkSpace returns why no partition can be created now, nil if one can: the disks have too little
// space. Only CreateTopics and CreatePartitions use it, whose callers need to know: clients do not
// retry POLICY_VIOLATION and show its message at once.
func (b *Broker) checkSpace() error {
	if err := b.opt.Replicas.CanCreate(); err != nil {
		return protocolErrorf(kerr.PolicyViolation, "no partition can be created now: %s", err)
	}
	return nil
}
