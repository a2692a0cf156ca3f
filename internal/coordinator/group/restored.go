package group

import (
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// A restored group keeps its offsets. It has no members: those that the snapshot has are members of
// the original. Some clients may know later generations and epochs than those of the snapshot. They
// must not take a new one for one of these, so all of them are above. Until the group writes again,
// every load derives this from the same records.

// riseShift is by how many bits the rise of a group's epoch is smaller than that of the leader
// epoch: it is 2^16 at least, and there are 16 random bits.
const riseShift = 4

// restored returns the value of a record that was written before the cluster was restored, as the
// group applies it; nil if it does not count, or is a tombstone.
func (s *Shard) restored(v value, rise int32) (value, error) {
	if s.cfg.Broken.Has(KeepMembers) {
		return v, nil
	}
	rise >>= riseShift
	var epoch *int32
	var raised func() value
	switch v := v.(type) {
	case format.ClassicGroup:
		v.Protocol, v.Leader, v.Members = nil, nil, nil
		epoch, raised = &v.Generation, func() value { return v }
	case format.Group:
		epoch, raised = &v.Epoch, func() value { return v }
	case format.Share:
		epoch, raised = &v.Epoch, func() value { return v }
	case format.Streams:
		epoch, raised = &v.Epoch, func() value { return v }
	case format.TargetEpoch:
		epoch, raised = &v.Epoch, func() value { return v }
	case format.Offset, format.ShareStates, format.Topology, nil:
		return v, nil
	default:
		return nil, nil // of a member
	}
	if *epoch > math.MaxInt32-rise {
		return nil, fmt.Errorf("epoch %d of a restored group cannot rise by %d", *epoch, rise)
	}
	*epoch += rise
	return raised(), nil
}

// retainedFrom returns when the retention of an offset that was committed at a time begins, both in
// ms since 1970. The time between a snapshot and its restore does not count.
func (s *Shard) retainedFrom(g *group, from int64) int64 {
	if g.restored {
		return max(from, s.loaded)
	}
	return from
}
