package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func drain(c *Controller, broker string) error {
	_, err := c.AlterConfigs(context.Background(), Resource{BrokerResource, broker},
		[]ConfigOp{{Name: "broker.takes.replicas", Value: ptr("false")}}, false)
	return err
}

// A default factor does not count drained brokers. An explicit one is refused, with their names.
func TestDrainedBrokersDoNotCountForFactors(t *testing.T) {
	ctx := context.Background()
	_, s := cluster(t, 1, 2, 3)
	o := over(s).opts
	o.ReplicationFactor, o.Seeds = 3, 3
	c := New(o)
	if made := mustCreate(t, c, "before", 1); made.ReplicationFactor != 3 {
		t.Errorf("%d replicas on three brokers", made.ReplicationFactor)
	}
	must.OK(t, drain(c, "3"))
	if made := mustCreate(t, c, "after", 1); made.ReplicationFactor != 2 {
		t.Errorf("%d replicas by default", made.ReplicationFactor)
	}
	if n := DefaultReplicas(image(t, s), 3, 3); n != 2 {
		t.Errorf("%d replicas of internal topics", n)
	}
	const named = "broker(s) 3, which are drained; chronikctl broker drain 3 --end"
	_, err := c.CreateTopic(ctx, TopicSpec{Name: "explicit", Partitions: 1, ReplicationFactor: 3})
	if !isRefusal(err, InvalidReplicationFactor) || !strings.Contains(err.Error(), named) {
		t.Errorf("three replicas are wanted: %v", err)
	}
	_, err = c.CreatePartitions(ctx, PartitionsSpec{Topic: "before", Count: 2})
	if !isRefusal(err, InvalidReplicationFactor) || !strings.Contains(err.Error(), named) {
		t.Errorf("one more partition of three replicas: %v", err)
	}
	_, err = c.AlterConfigs(ctx, Resource{BrokerResource, "3"}, []ConfigOp{{Name: "broker.takes.replicas", Op: Delete}}, false)
	must.OK(t, err)
	if made := mustCreate(t, c, "again", 1); made.ReplicationFactor != 3 {
		t.Errorf("%d replicas when it is given back", made.ReplicationFactor)
	}
}

// Some broker takes replicas, whatever is asked for, and by whom.
func TestTheLastBrokerThatTakesReplicasIsNotDrained(t *testing.T) {
	ctx := context.Background()
	one, _ := cluster(t, 1)
	refused := func(c *Controller, broker string) {
		t.Helper()
		err := drain(c, broker)
		if !isRefusal(err, InvalidRequest) || !strings.Contains(err.Error(), "no broker would remain that takes replicas") {
			t.Errorf("broker %s: %v", broker, err)
		}
	}
	refused(one, "1")
	refused(one, "01")
	c, s := cluster(t, 1, 2, 3)
	must.OK(t, drain(c, "3"))
	must.OK(t, drain(c, "3"))
	// Broker 2 is drained between the reads and the transaction.
	refused(over(&rival{Store: s, times: 1, act: func() { must.OK(t, drain(c, "2")) }}), "1")
	_, err := c.ReplaceConfigs(ctx, Resource{BrokerResource, "1"}, map[string]*string{"broker.takes.replicas": ptr("FALSE")}, true)
	const named = "broker(s) 2,3, which are drained; chronikctl broker drain 2 3 --end"
	if !isRefusal(err, InvalidRequest) || !strings.Contains(err.Error(), named) {
		t.Errorf("the remedy: %v", err)
	}
	img := image(t, s)
	for id, takes := range map[int32]bool{1: true, 2: false, 3: false, 4: false} {
		if TakesReplicas(img, id) != takes {
			t.Errorf("broker %d takes replicas: %v", id, !takes)
		}
	}
}

// What only votes does not count.
func TestABrokerThatOnlyVotesDoesNotRemain(t *testing.T) {
	w := three(t)
	w.start(4, func(q *RegisterRequest) { q.Dirs = nil })
	c := over(w.store)
	must.OK(t, drain(c, "1"))
	must.OK(t, drain(c, "2"))
	if err := drain(c, "3"); !isRefusal(err, InvalidRequest) || !strings.Contains(err.Error(), "broker(s) 4, which only vote") {
		t.Errorf("the last one: %v", err)
	}
	img := w.applier.Image()
	if b, _ := img.Broker(4); !b.Votes() || TakesReplicas(img, 4) {
		t.Error("it takes replicas")
	}
}

// A broker that is drained while a reassignment to it begins gets no replica: drain has already
// read what it has to move, and would report that the broker has no replicas.
func TestNoReplicaMovesToABrokerThatIsDrainedMeanwhile(t *testing.T) {
	w := three(t)
	w.start(4)
	w.step()
	h := &hook{Store: w.store, before: func() {
		res := Resource{BrokerResource, "4"}
		drained := []ConfigOp{{Name: "broker.takes.replicas", Value: ptr("false")}}
		revision, err := over(w.store).AlterConfigs(context.Background(), res, drained, false)
		w.must(err)
		w.must(w.applier.WaitShown(context.Background(), revision))
	}}
	_, errs := New(Options{Store: h}).Reassign(context.Background(), w.applier, []Reassignment{{tpA, []int32{4, 1}, false}})
	if got := w.reassigned(); !isRefusal(errs[0], InvalidReplicaAssignment) || got != "[1 2 3] adding [] removing []" {
		t.Errorf("%v: %s", errs[0], got)
	}
}
