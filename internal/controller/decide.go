package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// knowledge is what the controller decides by: an image, and the brokers that get no leadership as
// long as others can lead (sessions.shunned).
type knowledge struct {
	img     *metadata.Image
	shunned []int32
}

// of returns what is known of the brokers of a partition.
func (k knowledge) of(tp metadata.TopicPartition) view { return view{k, tp} }

// view is what the controller knows of the brokers of one partition. It implements election.View.
type view struct {
	knowledge
	tp metadata.TopicPartition
}

// replaceable reports whether another member of the ISR than the leader could lead, perhaps when
// its log is compared: that takes a second while it follows.
func (v view) replaceable(p *metadata.Partition) bool {
	return slices.ContainsFunc(p.ISR, func(b int32) bool { return b != p.Leader && v.Active(b) && v.Online(b) })
}

// Active implements election.View.
func (v view) Active(broker int32) bool {
	state, _ := v.img.Liveness(broker)
	return state == metadata.Active
}

// Running implements election.View.
func (v view) Running(broker int32) bool {
	state, _ := v.img.Liveness(broker)
	return running(state)
}

// running reports whether a broker in a state may have a role and a lease.
func running(state metadata.Liveness) bool {
	return state == metadata.Active || state == metadata.Draining || state == metadata.Drained
}

// Online implements election.View.
func (v view) Online(broker int32) bool {
	works, _ := v.able(broker)
	return works
}

// Writes implements election.View. The followers of a shunned broker have no records of it, so
// acks=all would be refused.
func (v view) Writes(broker int32) bool {
	_, writes := v.able(broker)
	return writes && !slices.Contains(v.shunned, broker)
}

// Compared implements election.View.
func (v view) Compared(broker int32) bool { return v.img.Compared(broker, v.tp) }

// able reports whether a broker's replica of the partition can lead or be in sync, and whether it
// takes records of clients, too.
func (v view) able(broker int32) (works, writes bool) {
	if v.damaged(broker) {
		return false, false
	}
	return v.dir(broker)
}

// dir is able without regard to damage of the log.
func (v view) dir(broker int32) (works, writes bool) {
	_, _, works, writes = v.place(broker)
	return works, writes
}

// place is dir, with the directory of the broker's replica if one is recorded.
func (v view) place(broker int32) (dir [16]byte, placed, works, writes bool) {
	dir, placed = v.img.Placement(broker, v.tp)
	if b, ok := v.img.Broker(broker); ok {
		state, _ := v.img.State(broker)
		works, writes = b.Able(&state, dir)
	}
	return dir, placed, works, writes
}

// damaged reports whether a broker has reported its log of the partition as damaged, and another
// replica has what it lacks. The last member of ISR and ELR continues to serve the rest, as a
// broker without a cluster does.
func (v view) damaged(broker int32) bool {
	state, _ := v.img.State(broker)
	if !slices.Contains(state.Damaged, v.tp) { // hardly any is, and the sweep asks for each replica
		return false
	}
	p := v.img.Partition(v.tp)
	return p == nil || v.hasOther(p, broker)
}

// hasOther reports whether another broker's replica has all committed records and can lead: it is
// in the ISR, or in the ELR and active, and not among those that are about to leave both. One to
// which a running leader gives way has to be active and able to lead in either case: the leader
// knows where its log ends, so it has lost nothing that it acknowledged behind the damage, and can
// wait for a replica that is down. A replica that was just started does not know that. Whether the
// other one is compared does not count: it may be the one that has found what the leader lacks.
func (v view) hasOther(p *metadata.Partition, broker int32, gone ...election.Replica) bool {
	leads := p.Leader == broker && v.Running(broker)
	stays := func(b int32) bool {
		return b != broker && !slices.ContainsFunc(gone, func(x election.Replica) bool { return x.Broker == b })
	}
	there := func(b int32) bool {
		works, _ := v.dir(b)
		return stays(b) && v.Active(b) && works
	}
	return !leads && slices.ContainsFunc(p.ISR, stays) || slices.ContainsFunc(p.ISR, there) || slices.ContainsFunc(p.ELR, there)
}

// leaving returns the replicas of a partition that have to leave its ISR.
func (v view) leaving(p *metadata.Partition) (all election.Leaving) {
	for _, b := range p.Replicas {
		state, _ := v.img.Liveness(b)
		dir, placed, works, _ := v.place(b)
		switch {
		case placed && v.damaged(b) && v.hasOther(p, b, all.Damaged...):
			all.Damaged = append(all.Damaged, election.Replica{Broker: b, Dir: dir})
		case state == metadata.Fenced, !works:
			all.Fenced = append(all.Fenced, b)
		case state == metadata.Drained:
			all.Drained = append(all.Drained, b)
		}
	}
	return all
}

// decide returns the record that follows from the state of the brokers, whatever has led to it, and
// whether it differs. waits reports that the partition has no leader and members of its ELR could
// lead if the members of its ISR cannot for a session timeout (d.ISRLost).
func decide(d election.Decider, v view, p metadata.Partition) (next metadata.Partition, changed, waits bool) {
	d.View, next = v, p
	apply := func(to metadata.Partition, differs bool) {
		if differs {
			next, changed = to, true
		}
	}
	apply(d.Leave(next, v.leaving(&p)))
	apply(d.Elect(next))
	if last := next.Last; !last.IsZero() && v.Active(last.Broker) {
		if dir, ok := v.img.Placement(last.Broker, v.tp); ok {
			apply(d.Restore(next, last.Broker, dir))
		}
	}
	apply(d.Complete(next))
	if changed {
		next.PartitionEpoch = p.PartitionEpoch + 1
	}
	return next, changed, next.Leader == election.None && len(next.ISR) > 0 && len(next.ELR) > 0
}

// change is a new record of a partition, and the transaction that writes it.
type change struct {
	tp   metadata.TopicPartition
	next metadata.Partition
	txn  metadata.Txn
}

// newChange returns the change of a record to another one that was decided on an image. It requires
// that neither the record nor the state of one of its brokers has changed since, also of those that
// the new record adds: they may just have been unregistered, or drained, which is in their configs.
// After an unclean election it requires that the leader's registration has not changed: its log is
// what that process reported.
func newChange(img *metadata.Image, tp metadata.TopicPartition, from *metadata.Partition, next metadata.Partition) change {
	c := change{tp: tp, next: next}
	key := metadata.PartitionKey(tp.Topic, tp.Partition)
	c.txn.If = append(c.txn.If, metadata.Compare{Key: key, ModRevision: from.Revision})
	for i, b := range slices.Concat(next.Replicas, from.Replicas) {
		if i >= len(next.Replicas) && next.HasReplica(b) {
			continue
		}
		_, revision := img.Liveness(b)
		c.txn.If = append(c.txn.If, metadata.Compare{Key: metadata.LivenessKey(b), ModRevision: revision})
		if !from.HasReplica(b) {
			c.txn.If = append(c.txn.If, metadata.Compare{Key: metadata.BrokerConfigKey(b), ModRevision: img.BrokerConfigRevision(b)})
		}
	}
	if b, ok := img.Broker(next.Leader); ok && next.Unclean != from.Unclean {
		c.txn.If = append(c.txn.If, metadata.Compare{Key: metadata.BrokerKey(b.ID), ModRevision: b.Epoch})
	}
	c.txn.Put = []metadata.KV{{Key: key, Value: next.Encode()}}
	return c
}

// writer writes transactions: a metadata.Store for what a client asked for, and inTerm for what the
// controller decides.
type writer interface {
	Txn(ctx context.Context, t metadata.Txn) (revision int64, err error)
}

// write writes the record. One that contradicts itself would end the applier of every broker.
func (c *change) write(ctx context.Context, store writer) (revision int64, err error) {
	if why := c.next.Check(); why != "" {
		return 0, fmt.Errorf("decision about partition %d of topic %s contradicts itself: %s", c.tp.Partition,
			metadata.FormatID(c.tp.Topic), why)
	}
	return store.Txn(ctx, c.txn)
}

// submitters bounds the transactions that are in flight at once. The store combines them in its
// writes.
const submitters = 64

// submit writes each change in its own transaction, so that a conflict concerns one partition. It
// returns the newest revision that wrote or refused one; an image that shows it has everything on
// which the next decision depends. It returns the first error that is not a conflict.
func submit(ctx context.Context, store writer, changes []change) (revision int64, err error) {
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	free := make(chan struct{}, submitters)
	for i := range changes {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			at, err := changes[i].write(ctx, store)
			if newer, ok := metadata.Refused(err); ok {
				at, err = newer, nil
			}
			mu.Lock()
			defer mu.Unlock()
			revision = max(revision, at)
			if err != nil && len(errs) == 0 { // the others are alike
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return revision, errors.Join(errs...)
}
