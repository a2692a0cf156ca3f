package controller

import (
	"context"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// cannot has processes report to which brokers they cannot connect.
func (w *world) cannot(all map[int32][]int32) {
	w.Helper()
	for id, p := range w.procs {
		p.unreached = all[id]
	}
	w.step()
}

// A broker to which more than half of the other running ones cannot connect is shunned. Which
// these are follows from the newest heartbeats only.
func TestShunnedBrokers(t *testing.T) {
	type reports = map[int32][]int32
	for name, c := range map[string]struct {
		brokers int32
		reports reports
		want    []int32
	}{
		"none reports":          {3, nil, nil},
		"both others":           {3, reports{1: {2}, 3: {2}}, []int32{2}},
		"one of two others":     {3, reports{1: {2}}, nil},
		"one that reaches none": {3, reports{3: {1, 2}}, nil},
		"one that reaches none, and is not reached":       {3, reports{1: {3}, 2: {3}, 3: {1, 2}}, []int32{3}},
		"two that do not reach each other":                {3, reports{1: {2}, 2: {1}}, nil},
		"none reaches another one":                        {3, reports{1: {2, 3}, 2: {1, 3}, 3: {1, 2}}, []int32{1, 2, 3}},
		"the only other one":                              {2, reports{1: {2}}, []int32{2}},
		"both of two":                                     {2, reports{1: {2}, 2: {1}}, []int32{1, 2}},
		"two of four others":                              {5, reports{1: {5}, 2: {5}}, nil},
		"three of four others":                            {5, reports{1: {5}, 2: {5}, 3: {5}}, []int32{5}},
		"a broker that reports itself":                    {2, reports{2: {2}}, nil},
		"a broker that reports another one several times": {3, reports{1: {2, 2, 2}}, nil},
		"a broker that is not registered":                 {2, reports{1: {7}}, nil},
		"the only broker":                                 {1, reports{1: {1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lead()
			for id := range c.brokers {
				w.start(id + 1)
			}
			w.step()
			w.cannot(c.reports)
			if got := w.loop.known().shunned; !slices.Equal(got, c.want) {
				t.Errorf("shunned are %v, want %v", got, c.want)
			}
			w.cannot(nil)
			if got := w.loop.known().shunned; len(got) > 0 {
				t.Errorf("shunned are %v although all are reached again", got)
			}
		})
	}
}

// A leadership moves away from a shunned broker to another replica in sync, and returns by the
// election of preferred leaders only when the broker is reached again.
func TestAShunnedBrokerDoesNotLead(t *testing.T) {
	w := three(t)
	w.loop.opt.Balance = true
	w.cannot(map[int32][]int32{2: {1}})
	w.pass(2 * balanceInterval)
	w.want("one of two does not reach the leader", "1@0 isr [1 2 3] elr []")
	w.cannot(map[int32][]int32{2: {1}, 3: {1}})
	w.want("none reaches the leader", "2@1 isr [1 2 3] elr []")
	w.pass(2 * balanceInterval)
	w.want("after elections of preferred leaders", "2@1 isr [1 2 3] elr []")
	w.procs[2].drain = true
	w.pass(DefaultSessionTimeout)
	w.want("the next leader drains", "3@2 isr [1 3] elr []")
	w.procs[2].drain = false
	w.cannot(nil)
	w.pass(2 * balanceInterval)
	w.want("reached again", "1@3 isr [1 3] elr []")
}

// The only replica in sync leads, although no other reaches its broker: clients may.
func TestAShunnedBrokerLeadsIfNoOtherCan(t *testing.T) {
	w := three(t)
	w.topic(metadata.Partition{Leader: 1, LeaderEpoch: 4, Replicas: []int32{1, 2, 3}, ISR: []int32{1}, ELR: []int32{2, 3}})
	w.cannot(map[int32][]int32{2: {1}, 3: {1}})
	w.pass(balanceInterval)
	w.want("the only one in sync", "1@4 isr [1] elr [2 3]")
	w.topic(metadata.Partition{Leader: 2, LeaderEpoch: 4, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}})
	w.procs[2].up = false
	w.pass(2 * DefaultSessionTimeout)
	w.want("the leader has ended", "1@5 isr [1] elr [2]")
}

// What a broker reported is forgotten when its session ends, and a controller that has just begun
// knows nothing until it has heard of it.
func TestReportsEndWithTheirSession(t *testing.T) {
	w := three(t)
	w.cannot(map[int32][]int32{2: {1}, 3: {1}})
	w.procs[2].up, w.procs[3].silent = false, true
	w.pass(2 * DefaultSessionTimeout)
	if got := w.loop.known().shunned; len(got) > 0 {
		t.Errorf("both that reported are fenced, and shunned are %v", got)
	}

	w = three(t)
	w.cannot(map[int32][]int32{2: {1}, 3: {1}})
	w.want("none reaches the leader", "2@1 isr [1 2 3] elr []")
	w.loop.end()
	w.newLoop()
	w.lead()
	w.loop.opt.Balance, w.loop.balanceAt = true, w.now+balanceInterval
	w.must(w.loop.step(context.Background(), w.now))
	if got := w.loop.known().shunned; len(got) > 0 {
		t.Errorf("the next controller was not heard, and knows of %v", got)
	}
	w.beat(w.procs[3])
	w.must(w.loop.step(context.Background(), w.now))
	if got := w.loop.known().shunned; len(got) > 0 {
		t.Errorf("the next controller was heard by one broker, and knows of %v", got)
	}
	w.step()
	if got := w.loop.known().shunned; !slices.Equal(got, []int32{1}) {
		t.Errorf("the next controller was heard by all, and knows of %v", got)
	}
	w.want("at the next controller", "2@1 isr [1 2 3] elr []")
}

// A broker that has just been restarted does not know yet what it cannot connect to: until then, it
// does not outvote the others about what they knew. It is not counted out in a new verdict.
func TestARestartHidesNoShunnedBroker(t *testing.T) {
	w := three(t)
	w.cannot(map[int32][]int32{2: {1}, 3: {1}})
	w.pass(3 * DefaultSessionTimeout)
	w.start(2)
	w.step()
	for w.state(2) != metadata.Active {
		w.step()
	}
	if got := w.loop.known().shunned; !slices.Equal(got, []int32{1}) {
		t.Errorf("broker 2 was restarted, and shunned are %v", got)
	}
	w.cannot(map[int32][]int32{3: {1, 2}})
	if got := w.loop.known().shunned; !slices.Equal(got, []int32{1}) {
		t.Errorf("broker 3 reports all others, and shunned are %v", got)
	}
	w.pass(2 * DefaultSessionTimeout)
	if got := w.loop.known().shunned; len(got) > 0 {
		t.Errorf("broker 2 reports nothing for long, and shunned are %v", got)
	}
}

// Answers name the shunned brokers. So any broker refuses to elect them and places the leaders of
// new partitions elsewhere.
func TestAnswersNameShunnedBrokers(t *testing.T) {
	w := three(t)
	w.cannot(map[int32][]int32{1: {2}, 3: {2}})
	a, err := w.beat(w.procs[1])
	must.OK(t, err)
	if !slices.Equal(a.Shunned, []int32{2}) {
		t.Fatalf("the answer names %v", a.Shunned)
	}
	c := New(Options{Store: w.store, Shunned: func() []int32 { return a.Shunned }})
	w.topic(metadata.Partition{Leader: 1, Replicas: []int32{2, 1, 3}, ISR: []int32{1, 2, 3}})
	_, errs := c.ElectPreferred(context.Background(), w.applier, []metadata.TopicPartition{tpA})
	if !isRefusal(errs[0], PreferredLeaderNotAvailable) {
		t.Errorf("an election of a shunned broker: %v", errs[0])
	}
	list, err := c.candidates(context.Background())
	must.OK(t, err)
	for range 20 {
		replicas, err := spread(list, 3, 3)
		must.OK(t, err)
		for _, r := range replicas {
			if r[0] == 2 || !slices.Contains(r, 2) {
				t.Fatalf("replicas %v", replicas)
			}
		}
	}
}
