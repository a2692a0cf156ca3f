package brokers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/desk"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// sharers are leaders of share partitions, as far as the share coordinator knows them.
type sharers struct {
	*world
	admin *kadm.Client
	epoch int32 // of the last open
	all   []*sharer
}

// sharer is a share partition and what its leader has accepted.
type sharer struct {
	sharestate.Writing
	accepted []int64
}

const shareTopic = "__share_group_state"

// newSharers creates a topic with three partitions, and begins the states of two groups.
func newSharers(w *world) *sharers {
	if until(patience, w.allRun) != nil {
		w.Fatal("not all brokers serve")
	}
	s := &sharers{world: w, admin: kadm.NewClient(w.client(w.direct())), epoch: 1000}
	w.Cleanup(s.admin.Close)
	var id kadm.TopicID
	s.soon("the topic is created", func(ctx context.Context) bool {
		made, err := s.admin.CreateTopic(ctx, 3, 3, nil, "shared")
		id = made.ID
		return err == nil
	})
	var items []sharestate.Initializing
	for i := range int32(6) {
		k := format.Key{Group: fmt.Sprint("g", i/3), Topic: id, Partition: i % 3}
		s.all = append(s.all, &sharer{Writing: sharestate.Writing{Key: k}})
		items = append(items, sharestate.Initializing{Key: k, StateEpoch: 1, Start: 0, Coordinator: sharestate.AnyCoordinator})
	}
	s.soon("states begin", func(ctx context.Context) bool {
		return !slices.ContainsFunc(asked(ctx, s.desk(2).Initialize, items...), func(err *kerr.Error) bool { return err != nil })
	})
	s.open(1)
	return s
}

// soon repeats something until it succeeds.
func (s *sharers) soon(what string, ok func(context.Context) bool) {
	s.Helper()
	if until(patience, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return ok(ctx)
	}) != nil {
		s.Fatalf("it never happened: %s", what)
	}
}

// desk returns the desk of a broker, or that of the next one that serves.
func (s *sharers) desk(id int32) *desk.Desk {
	for range s.size() {
		if p := s.process(id); p != nil {
			return p.broker.Coordinators().Desk
		}
		id = id%s.size() + 1
	}
	s.Fatal("no broker serves")
	return nil
}

// asked waits for the results of a request.
func asked[Item, Result any](ctx context.Context, method func(context.Context, []Item, func([]Result)), items ...Item) []Result {
	answered := make(chan []Result, 1)
	method(ctx, items, func(list []Result) { answered <- list })
	return <-answered
}

// open opens all states in the next leader epoch, by a broker, and compares them with what was
// accepted.
func (s *sharers) open(by int32) {
	s.Helper()
	s.epoch++
	for _, x := range s.all {
		var o sharestate.Opened
		s.soon("a state is opened", func(ctx context.Context) bool {
			p := asked(ctx, s.desk(by).Peek, x.Key)[0]
			if x.ID = p.ID; p.Err == kerr.CoordinatorNotAvailable {
				return false
			}
			if p.Err != nil {
				s.Fatalf("%s: %v", x.Key, p.Err)
			}
			o = asked(ctx, s.desk(by).Open, sharestate.Opening{Key: x.Key, ID: p.ID, Recorded: p.Leader, Leader: s.epoch, Cut: -1,
				Epochs: sharetest.Epochs(s.epoch)})[0]
			return o.Err == nil
		})
		x.Leader = s.epoch
		var stored []int64
		for _, m := range o.Stored.Marks {
			for offset := m.First; offset <= m.Last; offset++ {
				if m.State == window.Acknowledged {
					stored = append(stored, offset)
				}
			}
		}
		if !slices.Equal(stored, x.accepted) {
			s.Errorf("%s has %v, accepted were %v", x.Key, stored, x.accepted)
		}
	}
}

// accept accepts an offset of each share partition, by a broker, until that is answered.
func (s *sharers) accept(by int32, offset int64) {
	s.Helper()
	for _, x := range s.all {
		x.Marks = []window.Mark{{First: offset, Last: offset, State: window.Acknowledged, Count: 1}}
		s.soon("an offset is accepted", func(ctx context.Context) bool {
			err := asked(ctx, s.desk(by).Write, x.Writing)[0]
			if err != nil && err != kerr.CoordinatorNotAvailable {
				s.Fatalf("%s: %v", x.Key, err)
			}
			return err == nil
		})
		x.accepted = append(x.accepted, offset)
	}
}

// inSync waits until every partition of the coordinators' topic has all its replicas, and returns
// their leaders.
func (s *sharers) inSync() (leaders []int32) {
	s.Helper()
	s.soon("the coordinators have all replicas", func(ctx context.Context) bool {
		list, err := s.admin.ListTopicsWithInternal(ctx, shareTopic)
		leaders = nil
		for _, p := range list[shareTopic].Partitions.Sorted() {
			if len(p.ISR) < 3 || p.Leader < 0 {
				return false
			}
			leaders = append(leaders, p.Leader)
		}
		return err == nil && len(leaders) == 3
	})
	return leaders
}

// Share coordinators move when their broker is killed, loses its power, or restarts. What was
// answered stays, and brokers find the next coordinator.
func TestStatesOfShareGroupsSurvive(t *testing.T) {
	for seed, fault := range []func(s *sharers, id int32){
		func(s *sharers, id int32) { s.kill(id) },
		func(s *sharers, id int32) { s.powerLoss(id, crashfs.Modes()[0]) },
		func(s *sharers, id int32) { s.stop(id) },
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, uint64(seed))
			synctest.Test(t, func(t *testing.T) {
				s := newSharers(newWorld(t, uint64(seed), kind{}))
				moved := false
				for i := range int32(3) {
					before := s.inSync()
					s.accept(1+i, int64(i)*10)
					fault(s, before[i])
					s.accept(1+(i+1)%3, int64(i)*10+2)
					s.open(1 + (i+2)%3)
					s.start(before[i])
					moved = moved || !slices.Equal(before, s.inSync())
				}
				if !moved {
					t.Error("no coordinator has moved")
				}
				for by := range int32(3) {
					s.open(1 + by)
				}
			})
		})
	}
}

// All brokers lose their power at once.
func TestStatesOfShareGroupsSurviveAPowerLoss(t *testing.T) {
	for seed, mode := range crashfs.Modes() {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, uint64(seed))
			synctest.Test(t, func(t *testing.T) {
				s := newSharers(newWorld(t, uint64(seed), kind{}))
				s.inSync()
				s.accept(1, 5)
				for id := range int32(3) {
					s.powerLoss(id+1, mode)
				}
				for id := range int32(3) {
					s.start(id + 1)
				}
				s.soon("all brokers serve", func(context.Context) bool { return s.allRun() })
				s.open(1)
				s.accept(3, 7)
				s.open(2)
			})
		})
	}
}
