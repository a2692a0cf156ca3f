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
// damaged offsets is saved first, and restored by the repair.
func TestARepairLosesNothingThatAnotherReplicaHas(t *testing.T) {
	f, p := twice()
	inOrder(t, damageOf(t, f, p).Remedy, "`chronikctl log dump --dir DIRECTORY --topic t --partition 3 --from 5 --to 7 "+
		"--for-repair >> t-3.broker-2.json`", "machine of broker 3", "stop the broker",
		" --last-copy --restore t-3.broker-2.json --dry-run`", " --last-copy --restore t-3.broker-2.json`", "start the broker")
	f.Others = []Other{{Heard: health.Heard{Broker: 2, Report: &health.Report{Places: []string{"--dir", "/d2", "--dir", "/e2"}}}}}
	inOrder(t, damageOf(t, f, p).Remedy,
		"on the machine of broker 2, in a new directory, run `chronikctl log dump --dir /d2 --dir /e2 --topic t", " --last-copy ")
	for range 4 {
		p.Damages = append(p.Damages, view.Damage{From: 9, Next: 10})
	}
	p.Replicas = []int32{1, 2, 3}
	inOrder(t, damageOf(t, f, p).Remedy, "broker 1, in a new directory, run", "broker 2, in a new directory, run",
		"2 more ranges follow", "--restore t-3.broker-1.json --restore t-3.broker-2.json --dry-run`")
	p.Topic = strings.Repeat("n", 200)
	inOrder(t, damageOf(t, f, p).Remedy, ">> "+strings.Repeat("n", 100)+"-3.broker-1.json`", "--last-copy")
	p.Topic = "t"
	p.Damages, p.Offline, p.Error = nil, true, "short"
	f.Partitions, f.Serving = []view.Log{*p}, true
	findings, _ := examined(t, Checks(), f)
	inOrder(t, findings[0].Remedy, "--partition 3 --for-repair >> t-3.broker-2.json`", " --last-copy ")
	p.Replicated, p.Replicas = false, []int32{3}
	if got := f.repair(p); strings.Contains(got, "log dump") || strings.Contains(got, "--restore") || !strings.Contains(got, "log verify") {
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

// The other replica does not send the operator back to a finding that waits for it.
func TestADamagedReplicaSendsToItsLeader(t *testing.T) {
	f, p := twice()
	p.Renews, p.Leader, f.Cluster.Self = true, 2, 3
	if x := damageOf(t, f, p); !strings.Contains(x.Remedy, "follow the finding of broker 2, its leader") || x.Stops {
		t.Errorf("%+v", x)
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

func TestTheRemedyOfARemovedDirectoryNamesAllDirectories(t *testing.T) {
	const alone = "log repair --dir /srv/d --backup /srv/d/before-repair`"
	for _, c := range []struct {
		logs  string
		apart bool
		want  string
	}{
		{"/srv/d/logs", false, alone},
		{"d/logs", false, alone},
		{"/srv/d/logs", true, "log repair --dir /srv/d --journal /ssd/j --backup /srv/d/before-repair`"},
		{"/disk", false, "log repair --dir /srv/d --dir /disk --backup /srv/d/before-repair`"},
		{"/disk", true, "log repair --dir /srv/d --dir /disk --journal /ssd/j --backup /srv/d/before-repair`"},
		{"/srv/d", false, "log repair --dir /srv/d --backup /srv/d.before-repair`"},
	} {
		f := Facts{
			Dirs:     []view.Dir{{Path: c.logs, Journal: "/ssd/j", JournalApart: c.apart}},
			Lost:     []Lost{{Role: RoleMetadata, Path: "/srv/d/metadata", Why: "it was removed"}},
			Settings: Settings{DataDir: "/srv/d", WorkingDir: "/srv"},
		}
		findings, _ := examined(t, Checks(), &f)
		if len(findings) != 1 || !strings.Contains(findings[0].Remedy, c.want) {
			t.Errorf("%+v: %+v, want a remedy with %s", c, findings, c.want)
		}
	}
	// One journal stands for each log directory, in the same order; the data directory names its
	// own.
	f := Facts{Settings: Settings{DataDir: "/srv/d"}, Unopened: []view.Dir{{Path: "/b", Journal: "/b/journal"}}, Dirs: []view.Dir{
		{Path: "/a", Journal: "/ssd/a", JournalApart: true}, {Path: "/srv/d/logs", Journal: "/srv/d/logs/journal"}}}
	const all = "--dir /srv/d --dir /a --dir /b --journal /srv/d/logs/journal --journal /ssd/a --journal /b/journal"
	if got := strings.Join(f.whole(), " "); got != all {
		t.Errorf("all directories are %s", got)
	}
	const opened = "--dir /a --dir /srv/d/logs --journal /ssd/a --journal /srv/d/logs/journal"
	if got := strings.Join(f.places(), " "); got != opened {
		t.Errorf("the places are %s", got)
	}
	f.Dirs, f.Cluster, f.Lost = nil, &view.Cluster{Self: 4, Brokers: make([]view.Broker, 1)}, []Lost{{Path: "/srv/d/metadata"}}
	if remedy := f.restore(f.Lost); !strings.Contains(remedy, " --node-id 4 ") || f.places() != nil {
		t.Errorf("the remedy is %s", remedy)
	}
}
