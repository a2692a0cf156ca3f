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
	p.uncompared = true
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
	w.procs[1].uncompared = false
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
	w.want("no other one came", "1@2 isr [1] elr [2 3]")
	if p := w.applier.Image().Partition(tpA); p.Lost() {
		t.Error("it counts as a loss")
	}
}

// A process that has not applied its registration does not know what that recorded.
func TestAHeartbeatBeforeTheRegistrationComparesNothing(t *testing.T) {
	w := stopped(t)
	p := w.start(1)
	p.stuck = true
	w.pass(2 * time.Second)
	if state, _ := w.applier.Image().State(1); !state.Uncompared {
		t.Error("it counts as compared")
	}
	p.stuck = false
	w.pass(2 * time.Second)
	w.want("it has applied it", "1@2 isr [1] elr [2 3]")
}

// Only those count that could lead: another replica that runs does not shorten the wait.
func TestAReplicaThatIsNoMemberShortensNoWait(t *testing.T) {
	w := stopped(t)
	w.topic(metadata.Partition{Leader: 1, LeaderEpoch: 2, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}})
	w.procs[3].up = true
	w.start(3, clean)
	w.pass(time.Minute)
	w.want("the members are down", "-1@3 isr [] elr [1 2]")
	w.crashed(1)
	w.pass(3 * time.Second)
	w.want("the first one waits", "-1@3 isr [] elr [1 2]")
	w.crashed(2)
	w.pass(2 * time.Second)
	w.want("two are there", "2@4 isr [2] elr [1]")
}

// An active member that does not answer may have more than the one that is alone.
func TestAComparisonWaitsForReports(t *testing.T) {
	w := stopped(t)
	w.crashed(1)
	w.pass(lossyPatience - 2*time.Second)
	all := w.reports
	w.reports = map[int32]election.LogState{1: all[1]}
	w.crashed(2)
	w.pass(5 * time.Second)
	w.want("one is silent", "-1@1 isr [] elr [1 2 3]")
	w.reports = all
	w.pass(2 * time.Second)
	w.want("both have reported", "2@2 isr [2] elr [1 3]")

	w = stopped(t)
	w.reports = nil
	w.crashed(1)
	w.crashed(2)
	w.pass(2*lossyPatience + 5*time.Second)
	w.want("none ever reports", "1@2 isr [1] elr [2 3]")
}

// A replica that a reassignment adds is compared if it is in sync.
func TestMembersThatAreAddedAreCompared(t *testing.T) {
	w := stopped(t)
	w.topic(metadata.Partition{Leader: 1, LeaderEpoch: 1, Replicas: []int32{2, 3, 1}, Adding: []int32{2, 3}, Removing: []int32{1},
		ISR: []int32{1, 2}})
	w.pass(4 * time.Second)
	w.crashed(1)
	w.crashed(2)
	w.pass(2 * time.Second)
	w.want("both are there", "2@3 isr [2] elr [1]")
}

// A log that has moved to another directory is as little compared as before.
func TestAMoveComparesNothing(t *testing.T) {
	w := stopped(t)
	other := [16]byte{91}
	w.crashed(1, func(q *RegisterRequest) {
		q.Dirs = append(q.Dirs, RegisterDir{ID: other, Clean: true, Finding: metadata.NewID(), Found: 5, Sequence: 5})
	})
	var none metadata.Placement
	w.put(metadata.PlacementKey(1, topicA), none.With(map[int32][16]byte{0: other}).Encode())
	w.pass(3 * time.Second)
	w.want("it waits", "-1@1 isr [] elr [1 2 3]")
	w.procs[1].uncompared, w.procs[1].suspects = false, []metadata.TopicPartition{tpA}
	w.pass(2 * time.Second)
	w.want("it is named", "-1@1 isr [] elr [1 2 3]")
	w.procs[1].suspects = nil
	w.pass(time.Second)
	w.want("a leader has compared it", "1@2 isr [1] elr [2 3]")
}

// A running leader whose log lacks records gives way also to what is not compared: that one may
// have found it, and does not follow.
func TestADamagedLeaderGivesWayToAnUncomparedMember(t *testing.T) {
	w := three(t)
	w.level(metadata.CompareLevel)
	w.procs[3].up = false
	w.pass(4 * time.Second)
	w.crashed(2)
	w.pass(time.Second)
	w.procs[1].damaged = []metadata.TopicPartition{tpA}
	w.pass(2 * time.Second)
	w.want("it gives way", "2@1 isr [2] elr []")
}

// A member that was silent once has used up no patience for another one.
func TestAReportEndsASilence(t *testing.T) {
	w := stopped(t)
	all := w.reports
	w.reports = nil
	w.crashed(1)
	w.pass(2 * time.Second)
	w.reports = map[int32]election.LogState{1: all[1]}
	w.pass(lossyPatience - 3*time.Second)
	w.crashed(2) // and does not answer
	w.pass(5 * time.Second)
	w.want("the second one has its time", "-1@1 isr [] elr [1 2 3]")
	w.reports = all
	w.pass(2 * time.Second)
	w.want("both have reported", "2@2 isr [2] elr [1 3]")
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
	if state, _ := w.applier.Image().State(1); state.Uncompared {
		t.Errorf("the same process again: %v", state.Uncompared)
	}
}
