package grouping

import (
	"context"
	"sync"
)

// groupState collects the assignments that the members of one group report.
type groupState struct {
	partitions int

	mu      sync.Mutex
	shares  map[int]share // by member
	members int           // expected number of members
	epoch   int32         // last epoch in which the group was stable
	rest    chan struct{} // closed when the group is stable
	resting bool
}

func newGroupState(partitions int32) *groupState {
	return &groupState{partitions: int(partitions), shares: map[int]share{}, rest: make(chan struct{})}
}

// expect sets the number of members: from now on the group is stable only when they have agreed on
// an epoch above the last.
func (b *groupState) expect(members int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members = members
	if b.resting {
		b.resting, b.rest = false, make(chan struct{})
	}
}

// assigned is called by a member that has received its assignment.
func (b *groupState) assigned(member int, s share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shares[member] != s {
		b.shares[member] = s
		b.checkStable()
	}
}

// left is called by a member that has left. The others may have their assignments already.
func (b *groupState) left(member int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.shares, member)
	b.checkStable()
}

// checkStable checks whether the group is stable: all members are in one epoch, and all partitions
// are distributed evenly.
func (b *groupState) checkStable() {
	if b.resting || len(b.shares) != b.members {
		return
	}
	epoch, sum, least, most := int32(-1), 0, b.partitions, 0
	for _, s := range b.shares {
		if epoch >= 0 && s.epoch != epoch {
			return
		}
		epoch, sum, least, most = s.epoch, sum+s.partitions, min(least, s.partitions), max(most, s.partitions)
	}
	if epoch > b.epoch && sum == b.partitions && most-least <= 1 {
		b.resting, b.epoch = true, epoch
		close(b.rest)
	}
}

// await returns when the group is stable.
func (b *groupState) await(ctx context.Context) error {
	b.mu.Lock()
	rest := b.rest
	b.mu.Unlock()
	select {
	case <-rest:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
