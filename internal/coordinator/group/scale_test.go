package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

func TestAThousandMembers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.InitialDelay = 3 * time.Second })
	w.topic("t", 1000)
	olds := make([]*oldClient, 1000)
	for i := range olds {
		olds[i] = &oldClient{w: w, topics: []string{"t"}, generation: -1}
	}
	for range 20 {
		done := true
		for _, o := range olds {
			o.step()
			done = done && o.has.Count() == 1
		}
		if done {
			if w.replays(); w.shard.groups["g"].classic().generation != 1 {
				t.Errorf("it took %d generations", w.shard.groups["g"].classic().generation)
			}
			return
		}
		w.advance(time.Second)
	}
	t.Error("the group does not become stable")
}

func TestHundredsOfConsumers(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 200)
	all := make([]*client, 200)
	for i := range all {
		all[i] = w.newClient(fmt.Sprint("m", i), "t")
	}
	for rounds := 1; ; rounds++ {
		done := true
		for _, c := range all {
			is(t, c.beat(), nil)
			done = done && c.has.Count() == 1
		}
		if done {
			break
		}
		if rounds == 5 { // of heartbeats, whatever the size
			t.Fatal("the group does not become stable")
		}
	}
	w.replays()
}

func TestHundredsOfStreamsMembers(t *testing.T) {
	w, all := manyStreams(t, 200, 300)
	running, following := 0, 0
	for _, c := range all {
		running, following = running+len(c.has.Active), following+len(c.has.Standby)
		if len(c.has.Active) != 3 {
			t.Errorf("%s", c.shown())
		}
	}
	if running != 600 || following != 300 {
		t.Errorf("%d tasks run, %d are followed", running, following)
	}
	w.replays()
}

// In a large group, members that join together share one target, computed after a short delay. All
// of them get their partitions.
func TestLargeGroupSharesTargets(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1000)
	all := make([]*client, 300)
	for i := range all {
		all[i] = w.newClient(fmt.Sprint("m", i), "t")
		w.advance(100 * time.Microsecond)
	}
	targets := func() (n int) {
		for _, r := range w.log {
			if k, err := format.DecodeKey(r.Key); err == nil && k.Type == format.TypeTargetEpoch {
				n++
			}
		}
		return n
	}
	if n := targets(); n > 5 { // 30 ms
		t.Errorf("%d targets", n)
	}
	w.advance(time.Second)
	if g := w.described(); g.AssignmentEpoch != g.Epoch {
		t.Errorf("the group is in epoch %d, the target is of %d", g.Epoch, g.AssignmentEpoch)
	}
	for range 3 {
		for _, c := range all {
			is(t, c.beat(), nil)
		}
	}
	for _, c := range all {
		if n := c.has.Count(); n < 3 || n > 4 {
			t.Fatalf("%s has %d partitions", c.id, n)
		}
	}
	w.replays()
}

// A classic member is not asked to rejoin for a target that is not computed yet, or it would rejoin
// again and again.
func TestClassicMemberWaitsForTheTarget(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1000)
	w.newClient("new", "t")
	o := &oldClient{w: w, topics: []string{"t"}, generation: -1}
	for range 5 {
		o.step()
		w.advance(100 * time.Millisecond)
	}
	w.newClient("newer", "t")
	for range 3 { // notices the change, rejoins, and fetches
		o.step()
	}
	w.newClient("newest", "t") // gets its target later
	if g := w.described(); g.AssignmentEpoch >= g.Epoch {
		t.Fatalf("the target of epoch %d is of epoch %d", g.Epoch, g.AssignmentEpoch)
	}
	before := len(w.log)
	is(t, w.beat(o.id, o.generation), nil)
	if len(w.log) != before {
		t.Error("a heartbeat has changed the group")
	}
	w.advance(time.Second)
	is(t, w.beat(o.id, o.generation), kerr.RebalanceInProgress)
}
