package gate

import (
	"github.com/chronik-io/chronik/internal/view"
)

// Waits appends the step at which the batch waits to list; nothing if it has ended. It acquires the
// lock of the batch's queue, and that of its partition.
func (e *Entry) Waits(list []view.WaitStep) []view.WaitStep {
	q := e.queue
	q.shard.mu.Lock()
	state, t := e.state, e.try
	if state == waiting && q.opening != nil { // the coordinator has accepted the partition
		state, t = q.opening.entry.state, q.opening
	}
	q.shard.mu.Unlock()
	switch state {
	case waiting:
		return append(list, view.WaitStep{Step: view.StepTransaction, Partition: q.partition.String(),
			For: "the coordinator of transactional id " + view.Cut(e.from.TransactionalID) + " to accept the partition"})
	case entered:
		return t.Append.Waits(list)
	}
	return list
}
