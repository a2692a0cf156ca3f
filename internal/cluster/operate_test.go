package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
)

// control is a controller that answers with the same errors always.
type control struct {
	err  error
	gone []int32
}

func (c *control) Unregister(_ context.Context, broker int32) (int64, error) {
	c.gone = append(c.gone, broker)
	return 7, c.err
}

func (c *control) ElectUnclean(_ context.Context, list []metadata.TopicPartition) (int64, []error) {
	errs := make([]error, len(list))
	for i := range errs {
		if list[i].Partition%2 == 1 || errors.Is(c.err, controller.ErrNotController) {
			errs[i] = c.err
		}
	}
	return 9, errs
}

// leads returns the metadata leader that all members know, which a test may change.
func leads(member uint64) *atomic.Uint64 {
	leader := new(atomic.Uint64)
	leader.Store(member)
	return leader
}

// two returns the operators of two members, 1 and 2, of which leader leads. Requests to members
// that are cut off are not sent.
func two(leader *atomic.Uint64, loops map[uint64]*control, cut map[uint64]bool) (all map[uint64]*Operator) {
	all = map[uint64]*Operator{}
	for id := uint64(1); id <= 2; id++ {
		all[id] = &Operator{leader: func() uint64 { return leader.Load() }, alone: func() time.Duration { return 0 }, own: id,
			quorum: func(context.Context) controller.Quorum {
				return controller.Quorum{Leader: leader.Load(), Term: 3, Commit: 5, Members: []controller.QuorumMember{
					{Member: 1 << 63, Voter: true, End: 4, Silent: time.Second}}}
			},
			loop: func() operations {
				if l := loops[id]; l != nil {
					return l
				}
				return nil
			},
			call: func(ctx context.Context, member uint64, method uint16, body []byte) ([]byte, error) {
				if cut[member] {
					return nil, fmt.Errorf("%w: cut", link.ErrNotSent)
				}
				p, err := all[member].handle(ctx, method, body)
				if r := (*link.RemoteError)(nil); errors.As(err, &r) { // as book.Call does
					return nil, &membership.Failure{Code: r.Code, Text: r.Text}
				}
				return p, err
			}}
	}
	return all
}

// A member that lost the leader before an election could have ended says so at once.
func TestTheQuorumIsNotWaitedForByAMemberThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, x := range []struct{ alone, want time.Duration }{{electionTime - 1, time.Minute}, {electionTime, 0}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			o := two(leads(0), nil, nil)[1]
			o.alone = func() time.Duration { return x.alone }
			begun := time.Now()
			_, err := o.Quorum(ctx)
			cancel()
			if took := time.Since(begun); !errors.Is(err, controller.ErrNotController) || took != x.want {
				t.Errorf("without a leader for %v: %v after %v", x.alone, err, took)
			}
		}
	})
}

// Every member gets the answers of the leader, refusals included, as if it led itself.
func TestOperationsReachTheLeader(t *testing.T) {
	leader, c := leads(1), &control{}
	all := two(leader, map[uint64]*control{1: c}, nil)
	for id, o := range all {
		q, err := o.Quorum(t.Context())
		if diff := cmp.Diff(all[1].quorum(t.Context()), q); err != nil || diff != "" {
			t.Errorf("member %d: %v (-want +got):\n%s", id, err, diff)
		}
		c.err = nil
		if revision, err := o.Unregister(t.Context(), 4); revision != 7 || err != nil || c.gone[len(c.gone)-1] != 4 {
			t.Errorf("member %d: %d, %v", id, revision, err)
		}
		want := controller.Error{Kind: controller.BrokerNotRegistered, Msg: "no"}
		c.err = &want
		refused := &controller.Error{}
		if _, err := o.Unregister(t.Context(), 4); !errors.As(err, &refused) || *refused != want {
			t.Errorf("member %d: %v", id, err)
		}
		revision, errs := o.ElectUnclean(t.Context(), []metadata.TopicPartition{{Topic: [16]byte{1}}, {Topic: [16]byte{2}, Partition: 1}})
		if revision != 9 || errs[0] != nil || !errors.As(errs[1], &refused) || refused.Kind != controller.BrokerNotRegistered {
			t.Errorf("member %d: %d, %v", id, revision, errs)
		}
		c.err = errors.New("the disk failed")
		_, err = o.Unregister(t.Context(), 4)
		if !errors.Is(err, metadata.ErrUnknown) || !strings.Contains(err.Error(), "the disk failed") {
			t.Errorf("member %d: %v", id, err)
		}
	}
}

// A request waits for a leader that accepts it, and ends with its context.
func TestOperationsWaitForALeader(t *testing.T) {
	for name, c := range map[string]struct {
		leader uint64
		loops  map[uint64]*control
		cut    map[uint64]bool
	}{
		"none":            {0, nil, nil},
		"not ready":       {1, nil, nil},
		"itself":          {2, nil, nil},
		"no longer":       {1, map[uint64]*control{1: {err: controller.ErrNotController}}, nil},
		"another is away": {1, map[uint64]*control{1: {}}, map[uint64]bool{1: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			leader := leads(c.leader)
			o := two(leader, c.loops, c.cut)[2]
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := o.Unregister(ctx, 4); !errors.Is(err, controller.ErrNotController) {
				t.Errorf("%s: %v", name, err)
			}
			if _, errs := o.ElectUnclean(ctx, make([]metadata.TopicPartition, 1)); !errors.Is(errs[0], controller.ErrNotController) {
				t.Errorf("%s: %v", name, errs)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		leader := leads(0)
		o := two(leader, map[uint64]*control{1: {}}, nil)[2]
		done := make(chan error)
		go func() { _, err := o.Unregister(t.Context(), 4); done <- err }()
		synctest.Wait()
		leader.Store(1)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Requests that another member could not have sent are refused, and change nothing.
func TestHostileOperations(t *testing.T) {
	leader, c := leads(1), &control{}
	o := two(leader, map[uint64]*control{1: c}, nil)[1]
	for name, q := range map[string]struct {
		method uint16
		body   string
	}{
		"unknown method": {99, "{}"}, "no JSON": {methodUnregister, "x"}, "wrong type": {methodElect, `{"partitions":7}`},
		"no topic id": {methodElect, `{"partitions":[{"topic":"x"}]}`}, "too large": {methodElect, strings.Repeat(" ", maxOperation+1)},
		"out of range": {methodUnregister, `{"broker":4294967296}`}, "empty": {methodElect, ""},
	} {
		if p, err := o.handle(t.Context(), q.method, []byte(q.body)); err == nil {
			t.Errorf("%s: %s", name, p)
		}
	}
	if len(c.gone) != 0 {
		t.Errorf("unregistered: %v", c.gone)
	}
	o.leader, o.own = func() uint64 { return 2 }, 1
	o.call = func(context.Context, uint64, uint16, []byte) ([]byte, error) { return []byte(`{"errors":[]}`), nil }
	if _, err := o.Unregister(t.Context(), 4); !errors.Is(err, metadata.ErrUnknown) {
		t.Errorf("an answer without outcome: %v", err)
	}
	if _, errs := o.ElectUnclean(t.Context(), make([]metadata.TopicPartition, 2)); !errors.Is(errs[1], metadata.ErrUnknown) {
		t.Errorf("an answer without outcomes: %v", errs)
	}
	o.call = func(context.Context, uint64, uint16, []byte) ([]byte, error) { return nil, link.ErrNoAnswer }
	if _, err := o.Unregister(t.Context(), 4); !errors.Is(err, metadata.ErrUnknown) {
		t.Errorf("no answer: %v", err)
	}
}

// An election of more partitions than one request has is several of them.
func TestElectionsOfManyPartitions(t *testing.T) {
	o := two(leads(1), map[uint64]*control{1: {}}, nil)[1]
	o.leader, o.own = func() uint64 { return 2 }, 1
	var sizes []int
	o.call = func(_ context.Context, _ uint64, _ uint16, body []byte) ([]byte, error) {
		var q electRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, err
		}
		sizes = append(sizes, len(q.Partitions))
		return json.Marshal(outcome{Revision: int64(len(sizes)), Errors: make([]refusal, len(q.Partitions))})
	}
	const most = controller.MaxPartitions
	revision, errs := o.ElectUnclean(t.Context(), make([]metadata.TopicPartition, 2*most+1))
	if revision != 3 || len(errs) != 2*most+1 || !slices.Equal(sizes, []int{most, most, 1}) {
		t.Errorf("revision %d, %d outcomes of requests of %v", revision, len(errs), sizes)
	}
}
