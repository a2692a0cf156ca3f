package topic

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The state of a partition names the brokers that are the reason.
func TestTheStateNamesItsReason(t *testing.T) {
	three := []int32{1, 2, 3}
	for want, c := range map[string]struct {
		p  partition
		at eligible
	}{
		"":                            {partition{Leader: 1, Replicas: three, ISR: three}, eligible{}},
		"replica offline on broker 3": {partition{Leader: 1, Replicas: three, ISR: []int32{1, 2}, Offline: []int32{3}}, eligible{}},
		"copying to broker 3, moving away from broker 1": {partition{Leader: 1, Replicas: three, ISR: []int32{1, 2}},
			eligible{adding: []int32{3}, removing: []int32{1}}},
		"copying to broker 3, replica offline on broker 3": {partition{Leader: 1, Replicas: three, ISR: []int32{1, 2}, Offline: []int32{3}},
			eligible{adding: []int32{3}}},
		"replica not in sync on broker 2": {partition{Leader: 1, Replicas: three, ISR: []int32{1, 3}}, eligible{}},
		"replica offline on broker 3, replica not in sync on broker 2, fewer in sync than min.insync.replicas": {
			partition{Leader: 1, Replicas: three, ISR: []int32{1}, Offline: []int32{3}}, eligible{elr: []int32{3}}},
		"replica not in sync on broker 2, fewer in sync than min.insync.replicas": {
			partition{Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1}}, eligible{least: 2}},
		"copying to broker 3": {partition{Leader: 1, Replicas: three, ISR: []int32{1, 2}},
			eligible{adding: []int32{3}, least: 3}},
		"offline: it waits for brokers 1,2": {partition{Leader: -1, Replicas: three, ISR: []int32{1}}, eligible{elr: []int32{2}}},
		"offline: no replica has all acknowledged records; the last one in sync was on broker 2": {
			partition{Leader: -1, Replicas: three}, eligible{last: []int32{2}}},
		"offline: it has no replica in sync": {partition{Leader: -1, Replicas: three}, eligible{}},
	} {
		if got := state(&c.p, c.at, nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// After chronikd recover no partition with several replicas has members, and an election in which
// all replicas take part may lose nothing.
func TestAnElectionThatMayLoseNothingDoesNotSayThatItLoses(t *testing.T) {
	p := kadm.PartitionDetail{Replicas: []int32{1, 2, 3}}
	got := uncleanLoss(p, eligible{})
	if strings.Contains(got, "is lost, because") || !strings.Contains(got, "`chronikctl cluster health` reports whether") {
		t.Error(got)
	}
	p.OfflineReplicas = []int32{2}
	if got = uncleanLoss(p, eligible{}); !strings.Contains(got, "what only broker 2 may have is lost") {
		t.Error(got)
	}
}

// min.insync.replicas comes with the configs of a topic.
func TestTheStateKnowsMinISR(t *testing.T) {
	two := "2"
	f := facts{configs: kadm.ResourceConfigs{{Name: "t", Configs: []kadm.Config{{Key: "min.insync.replicas", Value: &two}}}}}
	got := f.partition(kadm.PartitionDetail{Topic: "t", Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1}})
	if want := "replica not in sync on broker 2, fewer in sync than min.insync.replicas"; got.State != want {
		t.Errorf("%q, want %q", got.State, want)
	}
}

// A leader that the client cannot use is not awaited: its broker runs.
func TestALeaderWithoutTheListenerIsNotAwaited(t *testing.T) {
	got := state(&partition{Leader: -1, Replicas: []int32{1, 2}, ISR: []int32{1, 2}}, eligible{}, kerr.ListenerNotFound)
	if want := "its leader has no listener of the name of the one that was dialed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Replicas that are not in sync show what they lack. A broker that does not answer is unknown.
func TestReplicasThatAreBehindShowWhatTheyLack(t *testing.T) {
	logs := func(lag int64) kadm.DescribedLogDirs {
		return kadm.DescribedLogDirs{"/d": {Topics: kadm.DescribedLogDirTopics{"t": {0: {Topic: "t", OffsetLag: lag}}}}}
	}
	f := facts{dirs: kadm.DescribedAllLogDirs{1: logs(0), 2: logs(7), 3: logs(120), 5: logs(0)}}
	got := f.partition(kadm.PartitionDetail{Topic: "t", Leader: 1, Replicas: []int32{1, 2, 3, 4, 5}, ISR: []int32{1, 2}})
	if text := behindText(got.Behind); text != "3: 120, 4: ?" {
		t.Errorf("behind: %q", text)
	}
	d := described{Partitions: []partition{got}}
	if table := d.table(); !slices.Contains(table.Columns, "BEHIND") {
		t.Errorf("columns %q", table.Columns)
	}
}
