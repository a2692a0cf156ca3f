package service

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/groupcommit"
)

// ShareStates are the share coordinators, and the leaders of share partitions, of all brokers. Its
// methods do not block. They call done exactly once, from any goroutine and possibly before they
// return, soon after ctx ends at the latest. The results are in the order of the items;
// COORDINATOR_NOT_AVAILABLE says that the item may have been carried out.
type ShareStates interface {
	Initialize(ctx context.Context, items []sharestate.Initializing, done func([]*kerr.Error))
	Delete(ctx context.Context, items []sharestate.Deleting, done func([]*kerr.Error))
	Summarize(ctx context.Context, keys []format.Key, done func([]sharestate.Summary))
	// Inspect asks the leaders of the data partitions.
	Inspect(ctx context.Context, keys []format.Key, done func([]sharestate.Led))
}

// shareTimeout is how long a request to share coordinators may take. A client that deletes a group
// waits for it.
const shareTimeout = 10 * time.Second

// shareRequests carries out the requests of share groups to share coordinators, those of a group
// one after the other, also those of former machines.
type shareRequests struct {
	states ShareStates // nil: there are none
	ctx    context.Context
	stop   context.CancelFunc

	failures shareFailures

	mu sync.Mutex
	// out has the groups with a request on the way, and those that wait for its end.
	out map[string][]*shareRequest
}

// shareRequest is a request of a group.
type shareRequest struct {
	group      string
	what       string // is done with the states
	partitions []group.SharePartition
	// begin sends it.
	begin func(ctx context.Context, done func([]*kerr.Error))
	done  func([]*kerr.Error)
}

func newShareRequests(states ShareStates) *shareRequests {
	r := &shareRequests{states: states, out: map[string][]*shareRequest{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// send is that of coordinator.Options. The share coordinators refuse what a machine has sent in a
// former leader epoch: it may have waited here, at the desk or on the wire while its successor
// asked for the opposite.
func (r *shareRequests) send(_, epoch int32, request any, _ *groupcommit.Batch, done func(result any)) {
	var q *shareRequest
	switch e := request.(type) {
	case group.InitializeShares:
		q = &shareRequest{group: e.Group, what: "begun", partitions: e.Partitions,
			begin: func(ctx context.Context, done func([]*kerr.Error)) {
				items := make([]sharestate.Initializing, len(e.Partitions))
				for i, p := range e.Partitions {
					items[i] = sharestate.Initializing{Key: keyOf(e.Group, p), StateEpoch: e.StateEpoch, Start: -1, Coordinator: epoch}
					switch {
					case e.Starts != nil:
						items[i].Start = e.Starts[i]
					case e.Added:
						items[i].Start = sharestate.FromFirst
					}
				}
				r.states.Initialize(ctx, items, done)
			},
			done: func(errs []*kerr.Error) { done(group.SharesInitialized{InitializeShares: e, Errs: errs}) }}
	case group.DeleteShares:
		q = &shareRequest{group: e.Group, what: "removed", partitions: e.Partitions,
			begin: func(ctx context.Context, done func([]*kerr.Error)) {
				items := make([]sharestate.Deleting, len(e.Partitions))
				for i, p := range e.Partitions {
					items[i] = sharestate.Deleting{Key: keyOf(e.Group, p), Coordinator: epoch}
				}
				r.states.Delete(ctx, items, done)
			},
			done: func(errs []*kerr.Error) { done(group.SharesDeleted{DeleteShares: e, Errs: errs}) }}
	default: // a bug: package group makes the requests, and nothing that was received chooses their type
		panic(fmt.Sprintf("group coordinator: it sends an unknown %T", request))
	}
	if r.states == nil {
		q.refuse()
		return
	}
	r.add(q)
}

func keyOf(id string, p group.SharePartition) format.Key {
	return format.Key{Group: id, Topic: p.Topic, Partition: p.Partition}
}

// refuse ends a request that was not sent.
func (q *shareRequest) refuse() {
	q.done(slices.Repeat([]*kerr.Error{kerr.CoordinatorNotAvailable}, len(q.partitions)))
}

// add begins a request, or lets it wait for those of its group. A machine sends no second request
// for a partition before the result of the first. So a request that waits and names one of the
// partitions is that of a former machine, which needs no result.
func (r *shareRequests) add(q *shareRequest) {
	named := make(map[group.SharePartition]struct{}, len(q.partitions))
	for _, p := range q.partitions {
		named[p] = struct{}{}
	}
	var former []*shareRequest
	r.mu.Lock()
	waiting, busy := r.out[q.group]
	waiting = slices.DeleteFunc(waiting, func(x *shareRequest) bool {
		old := slices.ContainsFunc(x.partitions, func(p group.SharePartition) bool { _, same := named[p]; return same })
		if old {
			former = append(former, x)
		}
		return old
	})
	if busy {
		waiting = append(waiting, q)
	}
	r.out[q.group] = waiting
	r.mu.Unlock()
	for _, x := range former {
		x.refuse()
	}
	if !busy {
		r.begin(q)
	}
}

// begin sends a request, and the next one of its group after its result.
func (r *shareRequests) begin(q *shareRequest) {
	ctx, cancel := context.WithTimeout(r.ctx, shareTimeout)
	q.begin(ctx, func(errs []*kerr.Error) {
		cancel()
		if r.ctx.Err() == nil {
			r.failures.note(q, errs)
		}
		for i, err := range errs {
			if err == kerr.FencedLeaderEpoch { // to the client, whose request it was
				errs[i] = kerr.NotCoordinator
			}
		}
		q.done(errs)
		if next := r.next(q.group); next != nil {
			r.begin(next)
		}
	})
}

// next takes the request of a group that waits longest, nil if none does.
func (r *shareRequests) next(id string) *shareRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.out[id]
	if len(waiting) == 0 {
		delete(r.out, id)
		return nil
	}
	r.out[id] = waiting[1:]
	return waiting[0]
}
