package controller

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// stopped returns a cluster of which no broker runs. Each reports a log that ends at 10 times its
// number.
func stopped(t *testing.T) *world {
	t.Helper()
	w := three(t)
	w.level(metadata.CompareLevel)
	w.reports = map[int32]election.LogState{}
	for id := range int32(3) {
		w.procs[id+1].up = false
		w.reports[id+1] = election.LogState{LastEpoch: 0, End: int64(id+1) * 10}
	}
	w.pass(4 * time.Second)
	w.want("all are down", "-1@1 isr [] elr [1 2 3]")
	return w
}

// crashed starts a process whose log is not compared.
func (w *world) crashed(id int32, edit ...func(*RegisterRequest)) *process {
	p := w.start(id, edit...)
	p.uncompared = []metadata.ID{p.Dirs[0].ID}
	return p
}

func clean(q *RegisterRequest) { q.Dirs[0].Clean = true }

// What returns after an unclean stop leads when its log was compared with another one.
func TestReplicasAreComparedBeforeOneLeads(t *testing.T) {
	w := stopped(t)
	w.crashed(1)
	w.pass(5 * time.Second)
	w.want("one is there", "-1@1 isr [] elr [1 2 3]")
	w.crashed(2)
	w.pass(time.Second)
	w.want("two are there", "2@2 isr [2] elr [1 3]")
}

// One that is compared leads without a comparison: its last stop was clean, or a leader has
// compared its log.
func TestAComparedReplicaLeadsAtOnce(t *testing.T) {
	w := stopped(t)
	w.start(1, clean)
	w.pass(time.Second)
	w.want("its last stop was clean", "1@2 isr [1] elr [2 3]")

	w = stopped(t)
	w.crashed(1)
	w.crashed(1, clean)
	w.pass(2 * time.Second)
	w.want("a clean stop compares nothing", "-1@1 isr [] elr [1 2 3]")
	w.procs[1].uncompared = nil
	w.pass(time.Second)
	w.want("its heartbeats say so", "1@2 isr [1] elr [2 3]")
}

// The others have some time to return.
func TestAReplicaThatIsAloneLeadsInTheEnd(t *testing.T) {
	w := stopped(t)
	w.pass(time.Minute)
	w.crashed(1)
	w.pass(lossyPatience - time.Second)
	w.want("it waits", "-1@1 isr [] elr [1 2 3]")
	w.pass(2 * time.Second)
	w.want("nobody came", "1@2 isr [1] elr [2 3]")
	if p := w.applier.Image().Partition(tpA); p.Lost() {
		t.Error("it counts as a loss")
	}
}

// The only member of ISR and ELR, a replica below the feature level, and one of a process that
// registers again wait for nothing.
func TestWhatIsNotCompared(t *testing.T) {
	w := stopped(t)
	w.topic(metadata.Partition{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1}})
	w.crashed(1)
	w.pass(time.Second)
	w.want("the only member", "1@2 isr [1] elr []")

	w = stopped(t)
	w.level(metadata.CompareLevel - 1)
	w.crashed(1)
	w.pass(time.Second)
	w.want("an older level", "1@2 isr [1] elr [2 3]")

	w = three(t)
	w.level(metadata.CompareLevel)
	q := w.procs[1].RegisterRequest
	q.Features.Max = metadata.CompareLevel
	b, _ := w.applier.Image().Broker(1)
	q.Seen = b.Epoch
	if _, err := w.loop.Register(t.Context(), &q); err != nil {
		t.Fatal(err)
	}
	if state, _ := w.applier.Image().State(1); len(state.Uncompared) > 0 {
		t.Errorf("the same process again: %v", state.Uncompared)
	}
}
