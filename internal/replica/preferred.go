package replica

import (
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
)

// PreferredReplica returns the in-sync replica from which a consumer in a rack should read instead
// of this leader (KIP-392). It returns -1 if this broker does not lead or is in that rack itself,
// or if no other in-sync replica is. Partitions with the same replicas prefer different ones.
func (p *Partition) PreferredReplica(img *metadata.Image, rack string) int32 {
	r := p.role.Load()
	if rack == "" || !r.leader || r.isr < 2 {
		return -1
	}
	part := img.Partition(metadata.TopicPartition{Topic: p.id.Topic, Partition: p.id.Partition})
	if part == nil || part.LeaderEpoch != r.epoch {
		return -1
	}
	near := func(id int32) bool {
		b, ok := img.Broker(id)
		state, _ := img.Liveness(id)
		return ok && b.Rack == rack && state.Serves()
	}
	if near(p.env.self) {
		return -1
	}
	n := len(part.Replicas)
	for i := range n {
		id := part.Replicas[(i+int(p.id.Partition)%n)%n]
		if slices.Contains(part.ISR, id) && near(id) {
			return id
		}
	}
	return -1
}
