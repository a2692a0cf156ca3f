package checks

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// findingsOf runs one check and returns its findings as "severity subject: problem", and its
// measurements.
func findingsOf(t *testing.T, check string, f Facts) (found []string, saw string) {
	t.Helper()
	all := Checks()
	i := slices.IndexFunc(all, func(c Check) bool { return c.Name == check })
	if i < 0 {
		t.Fatalf("there is no check %s", check)
	}
	findings, measured := examined(t, all[i:i+1], &f)
	for _, x := range findings {
		if x.Check != check || x.Remedy == "" || x.Problem == "" || x.Subject == "" {
			t.Errorf("%s: a finding must have a subject, a problem and a remedy: %+v", check, x)
		}
		if want := aboutOf(x.Subject); !covers(x.About, want) {
			t.Errorf("%s: %q is about %+v, want %+v", check, x.Subject, x.About, want)
		}
		if check == health.CheckBrokers && x.Holds == "" && !strings.HasPrefix(x.Subject, "processes of ") {
			t.Errorf("a broker is not in order, and no other one waits with a stop: %+v", x)
		}
		if x.Severity == health.Bad && strings.Contains(x.Works, "accepted and read") {
			t.Errorf("%s: it is bad, although all records can be written and read: %+v", check, x)
		}
		found = append(found, string(x.Severity)+" "+x.Subject+": "+x.Problem)
	}
	return found, strings.Join(measured[0].Saw, "\n")
}

// subjects are those that programs ask for.
var subjects = regexp.MustCompile(`^(broker|partition|partitions in|log directory|group) (.+)$`)

// aboutOf returns what a finding with a subject must be about, nil if no program asks.
func aboutOf(subject string) *health.About {
	m := subjects.FindStringSubmatch(subject)
	if m == nil {
		return nil
	}
	switch m[1] {
	case "broker":
		id, _ := strconv.Atoi(m[2])
		return &health.About{Brokers: []int32{int32(id)}}
	case "partition":
		return &health.About{Partitions: []string{m[2]}}
	case "group":
		return &health.About{Group: m[2]}
	}
	return &health.About{Dir: m[2]}
}

// covers reports whether a finding is about all that it must be about.
func covers(a, want *health.About) bool {
	if a == nil || want == nil {
		return want == nil
	}
	return (want.Brokers == nil || slices.Equal(a.Brokers, want.Brokers)) && (want.Partitions != nil || a.Dir == want.Dir) &&
		a.Group == want.Group &&
		(want.Partitions == nil || slices.Equal(a.Partitions, want.Partitions))
}

// patient is a machine with the text of each of its findings, in order; a healthy one has none.
type patient struct {
	name  string
	facts Facts
	finds []string
}

func examine(t *testing.T, check string, patients []patient) {
	t.Helper()
	for _, p := range patients {
		found, _ := findingsOf(t, check, p.facts)
		if len(found) != len(p.finds) {
			t.Errorf("%s, %s: found %d: %q, want %q", check, p.name, len(found), found, p.finds)
			continue
		}
		for i, text := range p.finds {
			if !strings.Contains(found[i], text) {
				t.Errorf("%s, %s: found %q, which does not say %q", check, p.name, found[i], text)
			}
		}
	}
}

func TestDirectoriesThatWereRemoved(t *testing.T) {
	lost := func(role string) Facts {
		return Facts{Lost: []Lost{{Role: role, Path: "/d/x", Why: "it was removed"}}, Settings: Settings{DataDir: "/d"}}
	}
	examine(t, "removed", []patient{
		{"none", Facts{}, nil},
		{"a journal", lost(RoleJournal), []string{"bad journal directory /d/x: it was removed while the broker uses it: the records"}},
		{"one that may not be mounted", Facts{Exchanged: []string{"/d/x"}},
			[]string{"note log directory /d/x: it was empty at this start, and"}},
		{"metadata", lost(RoleMetadata), []string{"bad metadata directory /d/x: it was removed while the broker uses it: topics, configs"}},
	})
}

// Of three brokers the others have what was lost, so nothing is repaired. A directory that was only
// moved still has the partitions without another replica, so the remedy looks for it first.
func TestTheRemedyOfARemovedDirectoryOfThreeBrokers(t *testing.T) {
	for role, want := range map[string]string{
		RoleJournal: "stop the broker; look for what was there before: if it was only moved or renamed, move it back to /d/journal, " +
			"after moving away what replaced it, and start it, which copies what is missing from the other brokers; only if it is gone: " +
			"if /d/logs is there then, run `mv /d/logs /d/logs.away2`; start the broker: it copies its replicas",
		RoleLogs: "stop the broker; look for what was there before: if it was only moved or renamed, move it back to /d/journal, " +
			"after moving away what replaced it, and start it, which copies what is missing from the other brokers; only if it is gone: " +
			"if /d/journal is there then, run `mv /d/journal /d/journal.away`; start the broker: it copies its replicas",
		RoleMetadata: "stop the broker, then start the broker",
	} {
		f := Facts{Lost: []Lost{{Role: role, Path: "/d/journal", Why: "it was removed"}},
			Settings: Settings{DataDir: "/d", WorkingDir: "/"},
			Free:     []Free{{Path: "d/logs", Away: "d/logs.away2"}},
			Dirs:     []view.Dir{{Path: "/d/logs", Journal: "/d/journal", JournalApart: true}},
			Cluster:  &view.Cluster{Brokers: make([]view.Broker, 3)}}
		var n notes
		checkLost(&f, &n)
		if got := n.findings; len(got) != 1 || !strings.HasPrefix(got[0].Remedy, want) || strings.Contains(got[0].Remedy, "repair") ||
			strings.Contains(got[0].Problem, "its copy of the metadata") != (role == RoleMetadata) {
			t.Errorf("%s: %+v", role, got)
		}
	}
}

// If only files of a journal were removed, an orderly stop writes all that they have elsewhere, so
// nothing is moved or repaired, of one broker and of several. With a lost directory it is no
// remedy.
func TestTheRemedyOfRemovedJournalFilesIsARestart(t *testing.T) {
	for _, cluster := range []*view.Cluster{nil, {Brokers: make([]view.Broker, 3)}} {
		f := Facts{Settings: Settings{DataDir: "/d"}, Cluster: cluster,
			Lost: []Lost{{Role: RoleJournal, Path: "/d/logs/journal", Why: "its file 7.journal was removed", Files: true}}}
		var n notes
		checkLost(&f, &n)
		if got := n.findings; len(got) != 1 || got[0].Severity != health.Bad || got[0].Subject != "journal directory /d/logs/journal" ||
			!strings.HasPrefix(got[0].Problem, "its file 7.journal was removed while the broker uses it: if the broker is killed") ||
			!strings.HasPrefix(got[0].Remedy, "restart the broker with an orderly stop") {
			t.Errorf("%+v", got)
		}
		if f.removed("/d/logs") {
			t.Error("other faults of the directory count as consequences")
		}
		f.Lost = append(f.Lost, Lost{Role: RoleLogs, Path: "/e/logs", Why: "it was removed"})
		n = notes{}
		checkLost(&f, &n)
		if got := n.findings; len(got) != 1 || strings.HasPrefix(got[0].Remedy, "restart") ||
			!strings.Contains(got[0].Problem, "/e/logs: it was removed") {
			t.Errorf("with a directory: %+v", got)
		}
	}
}

// A data directory that was removed is one finding, which names each directory; what cannot be
// written because of that follows from it, as do the other brokers' findings.
func TestARemovedDataDirectoryIsOneFinding(t *testing.T) {
	f := member(func(c *view.Cluster) { c.Self, c.Brokers[0].FailedDirs = 1, 1 })
	f.Settings.DataDir, f.Metadata = "/d", Metadata{Dir: "/d/metadata", Failed: "no such file or directory"}
	f.Dirs = []view.Dir{{Path: "/d/logs", Journal: "/d/logs/journal", Error: "no such file or directory"}}
	f.Lost = []Lost{{Role: RoleMetadata, Path: "/d/metadata", Why: "it was removed"},
		{Role: RoleLogs, Path: "/d/logs", Why: "it was removed"},
		{Role: RoleJournal, Path: "/d/logs/journal", Why: "it was removed"}}
	f.Partitions = []view.Log{{Topic: "t", Dir: "/d/logs", Offline: true, Error: "no such file or directory"}}
	left := func() (all []string) {
		findings, _ := examined(t, Checks(), &f)
		r := health.Report{Broker: 1, Findings: findings}
		for i := range r.Findings {
			if x := &r.Findings[i]; x.Broker != health.NoBroker {
				x.Broker = 1
			}
		}
		r.Add(nil, f.Now)
		for _, x := range r.Findings {
			if x.Severity != health.Note {
				all = append(all, x.Check+": "+x.Problem)
			}
		}
		return all
	}
	if got := left(); len(got) != 1 || !strings.HasPrefix(got[0], "removed: metadata directory /d/metadata: it was removed; "+
		"log directory /d/logs: it was removed; ") {
		t.Errorf("%q", got)
	}
	f.Partitions = append(f.Partitions, view.Log{Topic: "u", Offline: true, Error: "missing"}) // of a directory that is not known
	if got := left(); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// If the journal of a log directory is in another place, a repair needs it.
func TestTheRemedyOfADamagedDirectoryNamesItsJournal(t *testing.T) {
	f := Facts{
		Dirs:     []view.Dir{{Path: "/a", Journal: "/a/journal"}, {Path: "/b", Journal: "/fast/b", JournalApart: true}},
		Settings: Settings{DataDir: "/srv/d", WorkingDir: "/srv"},
	}
	for dir, want := range map[string]string{
		"d/logs":    "`chronikctl log repair --dir /srv/d/logs --backup /srv/d/logs.before-repair`",
		"/mnt/my d": "`chronikctl log verify --dir '/mnt/my d'`",
		"/a":        "`chronikctl log repair --dir /a --backup /srv/d/a.before-repair`",
		"/b":        "`chronikctl log repair --dir /b --journal /fast/b --backup /srv/d/b.before-repair`",
	} {
		if got := f.repair(&view.Log{Dir: dir}); !strings.Contains(got, want) {
			t.Errorf("%s, want %s in it", got, want)
		}
	}
}

// A remedy suits all damage that a finding reports, not only the first range.
func TestARemedyForSeveralDamages(t *testing.T) {
	p := view.Log{Topic: "t", Partition: 3, Dir: "/d", Damages: []view.Damage{{From: 5, Next: 7, Where: "/d/t-3/x.log"}}}
	found := func() health.Finding {
		findings, _ := examined(t, Checks(), &Facts{Partitions: []view.Log{p}})
		if len(findings) != 1 {
			t.Fatalf("%+v", findings)
		}
		return findings[0]
	}
	if x := found(); !strings.HasPrefix(x.Remedy, "`chronikctl consume t -p 3 --from 7` reads the records after the damage; ") ||
		!strings.Contains(x.Works, "from offset 7 on") {
		t.Errorf("%+v", x)
	}
	p.Damages = append(p.Damages, view.Damage{From: 9, Next: 10, Where: "/d/t-3/x.log"})
	if x := found(); !strings.HasPrefix(x.Remedy, "`chronikctl consume t -p 3 --skip-damaged` reads all other records; ") ||
		strings.Contains(x.Works, "7") {
		t.Errorf("%+v", x)
	}
}

// The name of a group may contain characters that a shell interprets.
func TestARemedyQuotesTheNameOfAGroup(t *testing.T) {
	findings, _ := examined(t, Checks(), &Facts{Slow: Slow{Rebalancing: []view.Group{{ID: "x; reboot", State: "PreparingRebalance"}}}})
	if len(findings) != 1 || !strings.HasPrefix(findings[0].Remedy, "`chronikctl group describe 'x; reboot'` shows") {
		t.Errorf("%+v", findings)
	}
}

// A name that a client chose adds no line to /readyz, and controls no terminal.
func TestANameStaysOnItsLine(t *testing.T) {
	findings, _ := examined(t, Checks(), &Facts{Serving: true, Slow: Slow{Rebalancing: []view.Group{{ID: "x\nready\x1b[2J\u009b"}},
		Undone: []view.Undone{{ID: "y\r\nbad: disk", Partition: "t-0", Error: "\x07"}}},
		Held: []view.Held{{Topic: "t", Open: true, Age: 1 << 60, TransactionalID: "z\n", Client: "\x1b", Host: "h"}}})
	report := health.Report{Broker: health.NoBroker, Findings: findings}
	for i := range findings {
		findings[i].Broker = health.NoBroker
		if x := findings[i].String() + findings[i].Remedy; strings.ContainsFunc(x, unicode.IsControl) {
			t.Errorf("%q", x)
		}
	}
	if n := strings.Count(report.Text(), "\n"); len(findings) != 3 || n != 1+3 {
		t.Errorf("%d findings, %d lines:\n%s", len(findings), n, report.Text())
	}
}

// However many partitions have a log that was replaced, the findings are few.
func TestFormerLogsAreCounted(t *testing.T) {
	f := &Facts{Serving: true}
	for i := range 10_000 {
		f.Partitions = append(f.Partitions, view.Log{Topic: "t", Partition: int32(i), Former: &view.Former{Path: "/d/t"}})
	}
	findings, _ := examined(t, Checks(), f)
	if n := len(findings); n != mostPartitions+1 || !strings.HasPrefix(findings[n-1].Problem, "9990 more") {
		t.Errorf("%d findings, the last is %+v", n, findings[n-1])
	}
}

func TestFilesThatRunOut(t *testing.T) {
	files := func(limit, open, most int, dirs ...view.Dir) Facts {
		return Facts{Files: Files{Limit: limit, Open: open, MaxConnections: most}, Dirs: dirs}
	}
	dir := view.Dir{Path: "/d", MaxOpenFiles: 512, Logs: 10}
	examine(t, "files", []patient{
		{"not known", files(0, 0, 0, dir), nil},
		{"plenty", files(1<<20, 40, math.MaxInt32, view.Dir{MaxOpenFiles: 16384, Logs: 50_000}), nil},
		{"just enough", files(512+8+64+2000, 40, math.MaxInt32, dir), nil},
		{
			"one too few",
			files(512+8+64+1999, 40, math.MaxInt32, dir),
			[]string{
				"warn limit of open files: the process may open 2583 files, which leaves 999 for connections in addition to segments (about 333 clients)",
			},
		},
		{"the usual 1024", files(1024, 40, math.MaxInt32, dir), []string{"leaves 220 for connections"}},
		{"few are wanted", files(1024, 40, 200, dir), nil},
		{"more are wanted", files(5000, 40, 5000, dir), []string{"max.connections is 5000"}},
		{"before the directories are known", files(1024, 40, 0), nil},
		{"nearly all", files(1000, 800, 0), []string{"warn limit of open files: 800 of 1000 files are open"}},
		{"all", files(1000, 990, 0, dir), []string{"bad limit of open files: 990 of 1000"}},
		{
			"more partitions than files",
			files(3000, 40, 700, view.Dir{Path: "/d", MaxOpenFiles: 1500, Logs: 1501}),
			[]string{"log directory /d: it has 1501 partitions and keeps 1500"},
		},
		{"as many partitions as files", files(3000, 40, 700, view.Dir{Path: "/d", MaxOpenFiles: 1500, Logs: 1500}), nil},
		{"more partitions than open files", files(1<<20, 40, math.MaxInt32, view.Dir{Path: "/d", MaxOpenFiles: 16384, Logs: 20_000}), nil},
	})
}

func TestMemoryThatRunsOut(t *testing.T) {
	const mb = 1 << 20
	examine(t, "memory", []patient{
		{"no limit", Facts{Memory: Memory{Resident: 500 * mb, GoLimit: math.MaxInt64, Budgets: 1 << 40}}, nil},
		{
			"fits",
			Facts{
				Memory: Memory{
					Limit:    1000 * mb,
					GoLimit:  800 * mb,
					Resident: 500 * mb,
					There:    1000 * mb,
					Budgets:  500 * mb,
					Wanted:   500 * mb,
				},
			},
			nil,
		},
		{"the runtime knows no limit", Facts{Memory: Memory{Limit: 1000 * mb, GoLimit: math.MaxInt64}}, nil},
		{
			"the runtime's is higher",
			Facts{Memory: Memory{Limit: 1000 * mb, GoLimit: 2000 * mb}},
			[]string{"warn memory: GOMEMLIMIT is 1.9 GiB and the container's limit 1000 MiB"},
		},
		{
			"nearly killed",
			Facts{Memory: Memory{Limit: 1000 * mb, Resident: 960 * mb}},
			[]string{"uses 960 MiB of its container's limit of 1000 MiB"},
		},
		{
			"hardly any",
			Facts{Memory: Memory{There: 8 * mb, Budgets: 6 * mb, Wanted: 288 * mb}},
			[]string{
				"warn memory: requests, responses, records that wait for segments and compaction may use 6 MiB of the available 8 MiB",
			},
		},
		{
			"little",
			Facts{Memory: Memory{There: 256 * mb, Budgets: 102 * mb, Wanted: 288 * mb}},
			[]string{
				"note memory: requests, responses, records that wait for segments and compaction may use 102 MiB of the available 256 MiB, and with more memory 288 MiB",
			},
		},
		{"swapped", Facts{Memory: Memory{Swapped: 64 * mb}}, []string{"64 MiB of the broker are swapped out"}},
		{"only unused memory is swapped", Facts{Memory: Memory{Swapped: 63 * mb}}, nil},
	})
}

func TestClocksThatAreWrong(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	examine(t, "clock", []patient{
		{"not known", Facts{Now: now}, nil},
		{"right", Facts{Now: now, Clock: Clock{Known: true, Synchronized: true}}, nil},
		{"not synchronized", Facts{Now: now, Clock: Clock{Known: true}}, []string{"note clock: this machine's clock is not synchronized"}},
		{
			"set back",
			Facts{Now: now, Clock: Clock{Stepped: -time.Minute, SteppedAt: now.Add(-time.Minute)}},
			[]string{"warn clock: the clock was set back by 1m0s at 2026-01-02T03:03:05Z"},
		},
		{"set long ago", Facts{Now: now, Clock: Clock{Stepped: time.Minute, SteppedAt: now.Add(-time.Hour)}}, nil},
	})
	for by, want := range map[time.Duration]time.Duration{0: 0, 4 * time.Second: 0, time.Minute: time.Minute, -time.Hour: -time.Hour} {
		if got := Stepped(now, now.Add(time.Minute+by), time.Minute); got != want {
			t.Errorf("set by %v: %v", by, got)
		}
	}
}

func TestLogDirectoriesThatFail(t *testing.T) {
	failed := view.Dir{Path: "/d", Error: "input/output error"}
	examine(t, "log_dir", []patient{
		{"none", Facts{}, nil},
		{"works", Facts{Dirs: []view.Dir{{Path: "/d"}}}, nil},
		{
			"failed",
			Facts{Dirs: []view.Dir{failed}},
			[]string{"bad log directory /d: it accepts no records, so none of its 0 partitions can be written: input/output error"},
		},
		{
			"not opened",
			Facts{
				Dirs:       []view.Dir{{Path: "/e"}},
				Unopened:   []view.Dir{{Path: "/d", Error: "no such device", Remedy: "mount it"}},
				Partitions: []view.Log{{Topic: "t", Offline: true, Error: "x", Dir: "/d"}},
			},
			[]string{
				"bad log directory /d: it could not be opened, and its partitions can be neither written nor read (t-0): no such device",
			},
		},
	})
	// One directory that accepts records is enough for the broker to be ready.
	for name, c := range map[string]struct {
		dirs     []view.Dir
		unopened []view.Dir
		notReady bool
	}{
		"the only one":      {[]view.Dir{failed}, nil, true},
		"one of two":        {[]view.Dir{failed, {Path: "/e"}}, nil, false},
		"both":              {[]view.Dir{failed, {Path: "/e", Error: "x"}}, nil, true},
		"one, one unopened": {[]view.Dir{failed}, []view.Dir{{Path: "/e", Error: "x", Remedy: "y"}}, true},
	} {
		findings, _ := examined(t, Checks(), &Facts{Dirs: c.dirs, Unopened: c.unopened})
		for _, f := range findings {
			if f.NotReady != c.notReady || (f.Works != "") == c.notReady {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// Without --last-copy, a repair refuses a directory of a cluster whose partitions it does not know.
// The metadata that show their replicas are in another directory.
func TestTheRemedyOfALastCopyIsCarriedOut(t *testing.T) {
	f := Facts{Settings: Settings{DataDir: "/srv/d"}}
	for _, cluster := range []*view.Cluster{nil, {}} {
		f.Cluster = cluster
		for _, replicated := range []bool{false, true} {
			got := f.repair(&view.Log{Dir: "/d", Replicated: replicated})
			if strings.Contains(got, "before-repair --last-copy`") != (cluster != nil) || strings.HasPrefix(got,
				"bring back") != replicated {
				t.Errorf("in a cluster %v, replicated %v: %s", cluster != nil, replicated, got)
			}
		}
	}
}

// A damaged log is replaced only if its leader's is whole.
func TestADamagedLogWaitsForAWholeLeader(t *testing.T) {
	for _, p := range []view.Log{{Topic: "t", Leader: -1, Renews: true, Replicated: true, Offline: true, Error: "short"},
		{Topic: "t", Leader: -1, Renews: true, Replicated: true, Damages: []view.Damage{{From: 1, Next: 2}}}} {
		for _, p.Elsewhere = range []bool{false, true} {
			findings, _ := examined(t, Checks(), &Facts{Partitions: []view.Log{p}})
			if len(findings) != 1 || strings.Contains(findings[0].Remedy, "wait") != p.Elsewhere ||
				strings.Contains(findings[0].Remedy, "`chronikctl topic describe t`") == p.Elsewhere {
				t.Errorf("%+v: %+v", p, findings)
			}
		}
	}
}

// Of a partition without a log nothing is left that a repair could put together.
func TestRemedyOfAPartitionWithoutALog(t *testing.T) {
	f := Facts{Settings: Settings{DataDir: "/var/lib/chronik"}}
	got := f.repair(&view.Log{Topic: "t"})
	if strings.Contains(got, "log repair") || !strings.Contains(got, "`chronikctl topic delete t`") {
		t.Error(got)
	}
	f.Cluster = &view.Cluster{Brokers: make([]view.Broker, 3)}
	got = f.repair(&view.Log{Topic: "t", Replicated: true})
	verify, repair, remove := strings.Index(got, "`chronikctl log verify --dir /var/lib/chronik`"),
		strings.Index(got, "`chronikctl log repair --dir /var/lib/chronik --backup "), strings.Index(got, "`chronikctl topic delete t`")
	if verify < 0 || repair < verify || remove < repair || !strings.Contains(got, " --last-copy`") {
		t.Errorf("quarantined records may be the last copy: %s", got)
	}
}

func TestPartitionsThatCannotBeUsed(t *testing.T) {
	dead := view.Log{Topic: "t", Partition: 1, Offline: true, Error: "offline", Dir: "/d"}
	examine(t, "partition", []patient{
		{"offline", Facts{Partitions: []view.Log{dead}}, []string{"bad partition t-1: it can be neither written nor read: offline"}},
		{"refuses records", Facts{Serving: true, Partitions: []view.Log{{Topic: "t", Partition: 1, Refuses: time.Second, Error: "EPERM"}}},
			[]string{"bad partition t-1: it accepts no records on this broker: EPERM"}},
		{"refuses, others serve it", Facts{Serving: true, Partitions: []view.Log{{Topic: "t", Partition: 1, Refuses: time.Second,
			Error: "EPERM", Elsewhere: true}}}, []string{"warn partition t-1: it accepts no records on this broker: EPERM"}},
		{"closed by a stop", Facts{Partitions: []view.Log{{Topic: "t", Refuses: time.Second, Error: "closed"}}}, nil},
		{"damaged", Facts{Partitions: []view.Log{{Topic: "t", Damages: []view.Damage{{From: 1, Next: 2}}}}}, nil},
		{"offline, others serve it", Facts{Partitions: []view.Log{{Topic: "t", Partition: 1, Offline: true, Error: "short",
			Replicated: true,
			Elsewhere:  true, Renews: true}}}, []string{"warn partition t-1: the replica on this broker is offline: short"}},
		{"copied again", Facts{Partitions: []view.Log{{Topic: "t", Partition: 1, Elsewhere: true, Copy: &view.Copy{
			Leader: 2, Why: "damaged", Have: 40, Want: 100,
			Bytes: 1 << 20}}}}, []string{"note partition t-1: it is copied again from broker 2; 40 %, 1 MiB, are here: damaged"}},
		{"that were copied again", Facts{Renewed: view.Renewed{N: 2, Last: "t-1", Why: "bytes 5 to 9 are damaged", At: time.Unix(9, 0)}},
			[]string{"note this broker: 2 replicas were copied again because stored bytes were damaged or missing; " +
				"the last one was t-1 at 1970"}},
		{"copied again from a damaged log", Facts{Partitions: []view.Log{{Topic: "t", Partition: 1,
			Copy: &view.Copy{Leader: 2, Why: "damaged",
				Want: -1, Still: true}}}}, []string{"bad partition t-1: it must be copied again from broker 2, whose log is damaged, too; 0 B are here"}},
		{"replaced, and a later leader lacked records", Facts{Partitions: []view.Log{{Topic: "t", Partition: 1, Dir: "/d",
			Former: &view.Former{
				Path: "/d/x-replaced", Bytes: 1 << 20}}}}, []string{
			"warn partition t-1: the damaged log that this broker replaced may have records that no replica has"}},
		{"copied again, and nothing arrives", Facts{Partitions: []view.Log{{Topic: "t", Partition: 1, Elsewhere: true, Copy: &view.Copy{
			Leader: 2, Why: "damaged", Want: -1, Still: true}}}},
			[]string{"warn partition t-1: it must be copied again from broker 2, and nothing arrives; 0 B are here"}},
		{"its directory was not opened", Facts{Partitions: []view.Log{dead}, Unopened: []view.Dir{{Path: "/d"}}}, nil},
		{"its directory is reported", Facts{Partitions: []view.Log{dead}, Dirs: []view.Dir{{Path: "/d", Error: "x"}}}, nil},
	})
	uncreated := func(partition int32, dir, cause string) view.Log {
		name := fmt.Sprintf("t-%d", partition)
		return view.Log{Topic: "t", Partition: partition, Planned: dir, Cause: cause, Offline: true, Retried: true,
			Error: "the log of " + name + " could not be created: " + cause}
	}
	var six []view.Log
	for i := range int32(6) {
		six = append(six, uncreated(i, "/d", "no inode"))
	}
	examine(t, "partition", []patient{
		{"one cause", Facts{Partitions: six}, []string{"bad partitions in /d: 6 partitions (t-0, t-1, t-2, t-3, t-4 and 1 more) can be " +
			"neither written nor read: the log of t-0 could not be created: no inode"}},
		{"several causes", Facts{Partitions: append(six[:2:2], uncreated(2, "/e", "no inode"), uncreated(3, "/d", "no file"),
			uncreated(4, "/e", "no inode"))}, []string{"bad partitions in /d: 2 partitions (t-0, t-1) can", "bad partitions in /e: 2 " +
			"partitions (t-2, t-4) can", "bad partition t-3: it can"}},
	})
	examine(t, "damage", []patient{
		{
			"damaged",
			Facts{Partitions: []view.Log{dead, {Topic: "t", Damages: []view.Damage{{From: 7, Next: 9, Where: "f"}}}}},
			[]string{"bad partition t-0: offsets 7 to 8 cannot be read: f holds no valid record batches there"},
		},
	})
	var many []view.Log
	for range mostPartitions + 3 {
		many = append(many, view.Log{Topic: "t", Partition: 1, Offline: true, Error: "offline", Damages: []view.Damage{{From: 1, Next: 2}}})
	}
	for check, last := range map[string]string{
		"partition": "bad partitions: 3 more cannot be written or read",
		"damage":    "bad partitions: 3 more have damaged records",
	} {
		if found, _ := findingsOf(t, check, Facts{Partitions: many}); len(found) != mostPartitions+1 || found[mostPartitions] != last {
			t.Errorf("%q", found)
		}
	}
}

// Disks and groups without progress are reported after some seconds, unless a failed disk explains
// it.
func TestDisksAndGroupsThatAreStuck(t *testing.T) {
	dir := func(waiting time.Duration, err string) Facts {
		return Facts{Dirs: []view.Dir{{Path: "/d", Journal: "/j", Waiting: waiting, Error: err}}}
	}
	examine(t, "stuck_disk", []patient{
		{"moves", dir(stuckAfter-1, ""), nil},
		{
			"hangs",
			dir(7*time.Second, ""),
			[]string{"bad disk of /j: records wait for the journal, and none has become durable for more than 3s"},
		},
		{"has failed", dir(time.Hour, "input/output error"), nil},
	})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	loading := func(age time.Duration, failed bool, broken ...view.Log) Facts {
		c := Coordinator{Topic: "__consumer_offsets", Index: 3, Since: now.Add(-age), Failed: failed}
		return Facts{Now: now, Coordinators: []Coordinator{c}, Partitions: broken}
	}
	begun := func(age time.Duration) Facts {
		return Facts{Now: now, Coordinators: []Coordinator{{Topic: "__transaction_state", Index: 4, Since: now.Add(-age)}}}
	}
	undone := view.Undone{ID: "payments", Commit: true, Since: now, Missing: 2, Partition: "a-1", Error: "NOT_ENOUGH_REPLICAS"}
	examine(t, "transaction", []patient{
		{"loads", begun(time.Second), nil},
		{
			"loads for long",
			begun(loadedAfter),
			[]string{
				"warn transactional ids of __transaction_state-4: they are not served: " +
					"their states have been loading since 2026-01-02T03:04:02Z",
			},
		},
		{"groups load", loading(loadedAfter, true), nil},
		{
			"does not end",
			Facts{Slow: Slow{Undone: []view.Undone{undone}}},
			[]string{
				"bad transaction of payments: it was committed at 2026-01-02T03:04:05Z, and 2 partitions lack the marker: " +
					"a-1 answers NOT_ENOUGH_REPLICAS",
			},
		},
		{
			"is unanswered",
			Facts{Slow: Slow{Undone: []view.Undone{{ID: "x", Since: now, Missing: 1, Partition: "b-0"}}}},
			[]string{"bad transaction of x: it was aborted at 2026-01-02T03:04:05Z, and 1 partition lacks the marker: b-0 has not answered"},
		},
		{
			"is not recorded",
			Facts{Slow: Slow{Undone: []view.Undone{{ID: "x", Commit: true, Since: now, Partition: "__transaction_state-7"}}}},
			[]string{"bad transaction of x: it was committed at 2026-01-02T03:04:05Z, and all partitions have the marker, but " +
				"__transaction_state-7 does not accept the record that ends it"},
		},
		{
			"many do not end",
			Facts{Slow: Slow{Undone: slices.Repeat([]view.Undone{undone}, mostGroups+3)}},
			append(slices.Repeat([]string{"bad transaction of payments: it was committed"}, mostGroups),
				"bad transactions: 3 more do not end"),
		},
	})
	examine(t, "group", []patient{
		{"loads", loading(time.Second, true), nil},
		{
			"loads for long",
			loading(loadedAfter, false),
			[]string{
				"warn groups of __consumer_offsets-3: they are not served: their offsets have been loading since 2026-01-02T03:04:02Z",
			},
		},
		{"share groups load for long", Facts{Now: now, Coordinators: []Coordinator{{Topic: "__share_group_state", Index: 5,
			Since: now.Add(-loadedAfter)}}}, []string{"warn share groups of __share_group_state-5: they are not served: " +
			"their states have been loading since 2026-01-02T03:04:02Z"}},
		{"fails to load", loading(loadedAfter, true), []string{"bad groups of __consumer_offsets-3: they are not served"}},
		{"many load, and many fail", func() Facts {
			f := loading(loadedAfter, true)
			for i := range int32(16) {
				f.Coordinators = append(f.Coordinators, Coordinator{Topic: "__consumer_offsets", Index: 4 + i,
					Since: now.Add(-loadedAfter - time.Duration(i)*time.Second), Failed: i%2 == 1})
			}
			return f
		}(), []string{
			"bad groups of __consumer_offsets: those of 9 partitions (__consumer_offsets-3, __consumer_offsets-5, ",
			"warn groups of __consumer_offsets: those of 8 partitions (__consumer_offsets-4, __consumer_offsets-6, "}},
		{"its partition is reported", loading(loadedAfter, true, view.Log{Topic: "__consumer_offsets", Partition: 3,
			Offline: true, Error: "x"}), nil},
		{"rebalances", Facts{Slow: Slow{Rebalancing: []view.Group{{ID: "g", State: "PreparingRebalance", Since: now}}}},
			[]string{"warn group g: it has been rebalancing (PreparingRebalance) at least since 2026-01-02T03:04:05Z"}},
	})
	if found, _ := findingsOf(t, "group", Facts{Slow: Slow{Rebalancing: make([]view.Group, mostGroups+2)}}); len(found) != mostGroups+1 ||
		found[mostGroups] != "warn groups: 2 more do not finish a rebalance" {
		t.Errorf("%q", found)
	}
}

func TestMetadataAndItsCopy(t *testing.T) {
	whole := Metadata{Dir: "/d/metadata", Copy: "/d/logs/metadata.copy"}
	failed, behind, lost := whole, whole, Metadata{Dir: "/d/metadata", LostVote: true}
	failed.Failed, behind.Behind = "no space left", "input/output error"
	three := func(noLeader time.Duration) Facts {
		return Facts{Metadata: failed, Cluster: &view.Cluster{Brokers: make([]view.Broker, 3),
			Quorum: view.Quorum{Voters: 3, NoLeader: noLeader, Failed: failed.Failed}}}
	}
	hanging, busy := whole, whole
	hanging.Hanging, busy.Hanging = stuckAfter, stuckAfter-1
	examine(t, "metadata", []patient{
		{"whole", Facts{Metadata: whole}, nil},
		{"not known", Facts{}, nil},
		{"busy", Facts{Metadata: busy}, nil},
		{"hanging", Facts{Metadata: hanging}, []string{"warn metadata in /d/metadata: topics and configs cannot be changed: a write or an fdatasync in it hangs"}},
		{"its vote is elsewhere", Facts{Metadata: lost}, []string{"warn metadata in /d/metadata: this broker does not vote yet"}},
		{"a part lacks a change", Facts{Metadata: Metadata{Dir: "/d/metadata", Lacking: []Lacking{
			{Part: "settings", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Error: "what"}}}},
			[]string{"bad metadata of this broker, settings: this part lacks the changes since 2026-01-02T03:04:05Z: what"}},
		{"failed", Facts{Metadata: failed}, []string{"warn metadata in /d/metadata: topics and configs cannot be changed: no space left"}},
		{"failed, of three brokers", three(0), []string{
			"warn metadata in /d/metadata: this broker applies no changes of topics and configs: no space left",
		}},
		{"failed, and the quorum's finding has it", three(noLeaderAfter), nil},
		{
			"behind",
			Facts{Metadata: behind},
			[]string{
				"warn copy of the metadata in /d/logs/metadata.copy: it lacks the latest changes of topics and configs: input/output error",
			},
		},
	})
}

// A broker of which a part lacks a change is not ready, and another process with its number has a
// remedy of its own.
func TestAPartThatLacksAChange(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		found, _ := examined(t, Checks(), &Facts{Serving: true, Cluster: &view.Cluster{Brokers: make([]view.Broker, 3)},
			Metadata: Metadata{Dir: "/d/metadata", Lacking: []Lacking{{Part: "replicas", Error: "what", Replaced: replaced}}}})
		i := slices.IndexFunc(found, func(x health.Finding) bool { return x.Check == "metadata" })
		if i < 0 {
			t.Fatalf("%+v", found)
		}
		x := found[i]
		if x.Severity != health.Bad || !x.NotReady || x.Broker == health.NoBroker || x.Works == "" ||
			strings.Contains(x.Remedy, "end the other process") != replaced {
			t.Errorf("%+v", x)
		}
	}
}

// Unknown facts are not faults.
func TestNothingKnownIsNothingWrong(t *testing.T) {
	if findings, _ := examined(t, Checks(), &Facts{}); len(findings) > 0 {
		t.Errorf("%+v", findings)
	}
}

func TestWorstComesFirst(t *testing.T) {
	findings, _ := examined(t, Checks(), &Facts{
		Settings:   Settings{Profile: builtin("os"), Warnings: []string{"w"}},
		Files:      Files{Limit: 100, Open: 85},
		Partitions: []view.Log{{Topic: "t", Offline: true, Error: "gone"}},
	})
	var got []string
	for _, f := range findings {
		got = append(got, string(f.Severity)+" "+f.Check)
	}
	if want := []string{"bad partition", "warn files", "note settings", "note profile"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The names of checks are metric labels and appear in the documentation.
func TestEveryCheckSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.Name] || c.Name == "" || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz_") != "" || !strings.HasSuffix(c.Doc, ".") {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
	}
}

// Connections get the descriptors that segments leave, and always some.
func TestConnectionsGetWhatSegmentsLeave(t *testing.T) {
	for _, c := range []struct {
		limit    int
		segments []int
		want     int
	}{
		{512, []int{256}, 92}, {1 << 20, []int{16384, 16384}, 507864}, {300, []int{256}, 37}, {1024, nil, 480}, {0, []int{256}, 0},
	} {
		if got := Connections(c.limit, c.segments); got != c.want {
			t.Errorf("%d files, %v segments: %d connections, want %d", c.limit, c.segments, got, c.want)
		}
	}
}

// A transaction is reported when it is open for longer than any timeout and a minute, with the
// commands that show and end it.
func TestTransactionsThatStayOpen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	open := func(age time.Duration) view.Held {
		return view.Held{Topic: "orders", Partition: 3, Open: true, Age: age, Limit: 15 * time.Minute, First: 120, ProducerID: 42, Epoch: 5}
	}
	known := open(16*time.Minute + 1)
	known.TransactionalID, known.Client, known.Host = "billing", "app", "10.0.0.7:1234"
	examine(t, "transaction", []patient{
		{"only its marker is missing", Facts{Now: now, Held: []view.Held{{Topic: "orders", Age: time.Hour}}}, nil},
		{"within its timeout and a minute", Facts{Now: now, Held: []view.Held{open(16 * time.Minute)}}, nil},
		{"too long", Facts{Now: now, Held: []view.Held{open(time.Minute), open(16*time.Minute + 1)}}, []string{
			"warn partition orders-3: a transaction of producer 42 (epoch 5) has been open since offset 120 for more than 16m0s"}},
		{"its client is known", Facts{Now: now, Held: []view.Held{known}}, []string{
			"warn partition orders-3: a transaction of producer 42 (epoch 5, transactional id billing, client app at 10.0.0.7:1234)"}},
	})
	many := Facts{Now: now}
	for range mostTransactions + 2 {
		many.Held = append(many.Held, open(time.Hour))
	}
	found, _ := findingsOf(t, "transaction", many)
	if len(found) != mostTransactions+1 ||
		found[mostTransactions] != "warn transactions: 2 more partitions with a transaction that is open for too long" {
		t.Errorf("%q", found)
	}
	findings, _ := examined(t, Checks(), &many)
	want := "`chronikctl txn abort --start-offset 120 --topic orders --partition 3` ends it"
	if !strings.Contains(findings[0].Remedy, want) {
		t.Errorf("no %s in %s", want, findings[0].Remedy)
	}
}

// builtin returns a durability profile that every broker has.
func builtin(name string) view.Profile {
	for _, p := range durability.Builtin() {
		if p.Name == name {
			return view.ProfileOf(p, name)
		}
	}
	panic("no profile " + name)
}
