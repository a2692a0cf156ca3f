package controller

import (
	"context"
	"errors"
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Reassignment asks for other replicas of a partition (KIP-455).
type Reassignment struct {
	metadata.TopicPartition
	// Replicas are the new ones, the preferred leader first; nil cancels the reassignment in
	// progress.
	Replicas []int32
	// SameFactor refuses another number of replicas.
	SameFactor bool
}

// errUnchanged is the decision that nothing has to change.
var errUnchanged = errors.New("nothing to change")

// Reassign begins, replaces or cancels reassignments. The brokers copy the logs, and the controller
// completes each reassignment when all of its replicas are in sync. It returns an error or nil for
// each, and a revision that shows the result. Any broker may call it.
func (c *Controller) Reassign(ctx context.Context, images *metadata.Applier, list []Reassignment) (revision int64, errs []error) {
	wanted := make(map[metadata.TopicPartition]*Reassignment, len(list))
	partitions := make([]metadata.TopicPartition, len(list))
	for i := range list {
		partitions[i] = list[i].TopicPartition
		wanted[partitions[i]] = &list[i]
	}
	canceled := map[metadata.TopicPartition][]int32{} // the replicas that a cancellation has asked for
	return changeEach(ctx, c.opts.Store, images, "reassign", partitions, func(img *metadata.Image, _ []metadata.TopicPartition) decision {
		brokers := make([]candidate, 0, len(img.Brokers()))
		for _, b := range img.Brokers() {
			state, _ := img.State(b.ID)
			brokers = append(brokers, candidate{id: b.ID, fit: fitnessOf(&b, &state, img.BrokerConfig(b.ID))})
		}
		return func(tp metadata.TopicPartition, p *metadata.Partition) (metadata.Partition, error) {
			d := election.Decider{View: c.known(img).of(tp), MinISR: 1}
			if c.opts.MinISR != nil {
				d.MinISR = c.opts.MinISR(img, img.TopicByID(tp.Topic), p)
			}
			to := wanted[tp]
			if before, tried := canceled[tp]; tried && slices.Equal(p.Target(), before) {
				return *p, errUnchanged // by the former attempt; other replicas mean that the reassignment was complete first
			}
			if to.Replicas == nil && p.Reassigning() {
				canceled[tp] = p.Former()
			}
			return reassign(d, p, to, brokers)
		}
	})
}

func reassign(d election.Decider, p *metadata.Partition, to *Reassignment, brokers []candidate) (metadata.Partition, error) {
	if to.Replicas == nil {
		if !p.Reassigning() {
			return *p, refuse(NoReassignmentInProgress, "No partition reassignment is in progress.")
		}
		next, ok := d.Cancel(*p)
		if !ok && p.Leader == election.None {
			return *p, refuse(InvalidReplicaAssignment, "The partition has no leader, and gives up no replica until it has.")
		}
		if !ok {
			return *p, refuse(InvalidReplicaAssignment, "The reassignment cannot be canceled now: too few of the former replicas %v are in sync (%v). "+
				"Try again when they have caught up.", p.Former(), p.ISR)
		}
		return next, nil
	}
	if err := checkReplicas(to.Replicas, p.Replicas, brokers, 0); err != nil {
		return *p, err
	}
	if was := len(p.Former()); to.SameFactor && was != len(to.Replicas) {
		return *p, refuse(InvalidReplicationFactor, "The replication factor is changed from %d to %d", was, len(to.Replicas))
	}
	if slices.Equal(to.Replicas, p.Target()) {
		return *p, errUnchanged
	}
	next, ok := d.Reassign(*p, to.Replicas)
	if !ok && p.Leader == election.None {
		return *p, refuse(InvalidReplicaAssignment, "The partition has no leader, and gives up no replica until it has.")
	}
	if !ok {
		return *p, refuse(InvalidReplicaAssignment, "The replicas %v would lack committed records: too few of those in sync (%v) are among them or "+
			"were there before the reassignment in progress. Try again when the others have caught up.", to.Replicas, p.ISR)
	}
	return next, nil
}
