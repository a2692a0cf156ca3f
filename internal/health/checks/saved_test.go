package checks

import (
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// twice is a partition whose leader, this broker, and its other replica are damaged.
func twice() (*Facts, *view.Log) {
	p := view.Log{Topic: "t", Partition: 3, Dir: "/d3", Leader: 3, Replicated: true, Replicas: []int32{2, 3}, ISR: []int32{3}, MinISR: 2,
		Damages: []view.Damage{{From: 5, Next: 7, Where: "/d3/t-3/x.log"}}}
	return &Facts{Cluster: &view.Cluster{Self: 3, Brokers: make([]view.Broker, 3)}}, &p
}

func damageOf(t *testing.T, f *Facts, p *view.Log) health.Finding {
	t.Helper()
	f.Partitions = []view.Log{*p}
	findings, _ := examined(t, Checks(), f)
	for _, x := range findings {
		if x.Check == checkOfDamage {
			return x
		}
	}
	t.Fatalf("no finding about damage: %+v", findings)
	return health.Finding{}
}

// A repair as the last copy makes the other replicas copy what it leaves. What they have of the
// damaged offsets is saved first, and written again afterwards.
func TestARepairLosesNothingThatAnotherReplicaHas(t *testing.T) {
	f, p := twice()
	const produce = "`chronikctl produce t --input json --same-partition --file t-3.from-5.broker-2.json`"
	inOrder(t, damageOf(t, f, p).Remedy, "`chronikctl log dump --config /etc/chronik/chronikd.yaml --topic t --partition 3 --from 5 --to 7 "+
		"--for-produce --and-replaced > t-3.from-5.broker-2.json`", "stop the broker", " --last-copy`", "start the broker",
		"`chronikctl consume t -p 3 --from 5 --until 7`", produce)
	other := health.OfLog("t-3")
	other.Check, other.About.Dir = checkOfDamage, "/d2"
	f.Others = []Other{{Heard: health.Heard{Broker: 2, Report: &health.Report{Findings: []health.Finding{other}}}}}
	inOrder(t, damageOf(t, f, p).Remedy,
		"on the machine of broker 2, in a new directory, run `chronikctl log dump --dir /d2 --topic t", " --last-copy`")
	for range 4 {
		p.Damages = append(p.Damages, view.Damage{From: 9, Next: 10})
	}
	p.Replicas, p.CleanupPolicy = []int32{1, 2, 3}, "compact"
	inOrder(t, damageOf(t, f, p).Remedy, "broker 1, in a new directory, run", "broker 2, in a new directory, run",
		"likewise for 2 more ranges", "--last-copy", "likewise from the other files", "newer records")
	p.Topic, p.Internal = "__"+strings.Repeat("n", 200), true
	remedy := damageOf(t, f, p).Remedy
	inOrder(t, remedy, "> __"+strings.Repeat("n", mostName-2)+"-3.from-5.broker-1.json`", "the repair removes all that", "--last-copy",
		"`chronikctl group reset`")
	if strings.Contains(remedy, "chronikctl produce") {
		t.Errorf("no client writes to an internal topic: %s", remedy)
	}
	p.Topic, p.Internal = "t", false
	p.Damages, p.Offline, p.Error = nil, true, "short"
	f.Partitions, f.Serving = []view.Log{*p}, true
	findings, _ := examined(t, Checks(), f)
	inOrder(t, findings[0].Remedy, "--for-produce --and-replaced > t-3.broker-2.json`", " --last-copy`", "whose offsets the repair lost")
	p.Replicated, p.Replicas = false, []int32{3}
	if got := f.repair(p); strings.Contains(got, "log dump") {
		t.Errorf("no other broker has it: %s", got)
	}
}

func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	at := text
	for _, part := range parts {
		_, after, found := strings.Cut(at, part)
		if !found {
			t.Errorf("%q does not say %q, or not in this place", text, part)
			return
		}
		at = after
	}
}

// The other replica does not send the operator back to a finding that waits for it, and names its
// directory to the leader, unless its journal is elsewhere.
func TestADamagedReplicaSendsToItsLeader(t *testing.T) {
	f, p := twice()
	p.Renews, p.Leader, f.Cluster.Self = true, 2, 3
	x := damageOf(t, f, p)
	if !strings.Contains(x.Remedy, "follow the finding of broker 2, its leader") || x.About.Dir != "/d3" || x.Stops {
		t.Errorf("%+v", x)
	}
	f.Dirs = []view.Dir{{Path: "/d3", JournalApart: true}}
	if x = damageOf(t, f, p); x.About.Dir != "" {
		t.Errorf("%+v", x.About)
	}
}

// What the metadata show of such a broker sends to the leader, too.
func TestABrokerThatWaitsForALeaderSendsToIt(t *testing.T) {
	for awaits, others := range map[bool][]int32{true: {2}, false: nil} {
		one := view.Partitions{Count: 1, Names: []string{"t-3"}}
		f := Facts{Serving: true, Cluster: &view.Cluster{Self: 1, State: "active", Brokers: []view.Broker{{ID: 3, State: "active",
			Damaged: one, OutOfSync: one, Awaits: others}}}}
		findings, _ := examined(t, clusterChecks(), &f)
		i := slices.IndexFunc(findings, func(x health.Finding) bool { return x.Check == health.CheckBrokers })
		if i < 0 || strings.Contains(findings[i].Remedy, "the findings of broker 2, ") != awaits ||
			!slices.Equal(findings[i].About.Awaits, others) {
			t.Errorf("%+v", findings)
		}
	}
}

// What a finding says can still be written is written by clients with acks=all.
func TestADamagedLogThatTakesNoRecordsSaysSo(t *testing.T) {
	f, p := twice()
	if x := damageOf(t, f, p); !strings.Contains(x.Works, "new ones are refused with acks=all, because 1 replica is in sync and "+
		"min.insync.replicas is 2") {
		t.Errorf("too few replicas: %+v", x)
	}
	p.MinISR = 1
	if x := damageOf(t, f, p); !strings.HasSuffix(x.Works, "new ones can be written") {
		t.Errorf("enough replicas: %+v", x)
	}
	p.Leader = -1
	if x := damageOf(t, f, p); strings.Contains(x.Works, "new ones") || !strings.Contains(x.Problem, "no leader") ||
		!strings.HasPrefix(x.Remedy, "to repair, ") {
		t.Errorf("no leader: %+v", x)
	}
}

// Files that someone removes are often those of all replicas, which find it one after the other.
func TestRemovedFilesMayBeThoseOfAllReplicas(t *testing.T) {
	findings, _ := examined(t, Checks(), &Facts{Partitions: []view.Log{{Topic: "t", Missing: "x was removed", Elsewhere: true}}})
	if len(findings) != 1 || !strings.Contains(findings[0].Works, "unless their files were removed, too") {
		t.Errorf("%+v", findings)
	}
}
