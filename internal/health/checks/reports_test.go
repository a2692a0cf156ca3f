package checks

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// hearing returns the facts of broker 1 with a report of broker 3 of an age.
func hearing(f Facts, age time.Duration, active time.Duration, r *health.Report) Facts {
	f.Now = time.Now()
	o := Other{Heard: health.Heard{Broker: 3, Report: r}}
	if r != nil {
		o.At = f.Now.Add(-age)
	}
	if active > 0 {
		o.Active = f.Now.Add(-active)
	}
	f.Others = append(f.Others, Other{Heard: health.Heard{Broker: 2, At: f.Now, Report: &health.Report{}}, Active: o.Active}, o)
	return f
}

func TestReportsThatDoNotArrive(t *testing.T) {
	full := &health.Report{Findings: []health.Finding{{Check: "space", Severity: health.Bad, Subject: "disk of /a", Problem: "it is full"}}}
	mute := hearing(member(), 0, time.Hour, full)
	mute.Others[1].Mute = true
	starting := hearing(member(), time.Minute, time.Hour, full)
	starting.Serving = false
	cut := func(follows bool) Facts {
		f := hearing(member(), 0, time.Hour, nil)
		f.Cluster.Unreached = []view.Unreached{{Broker: 3, Follows: follows, Address: "c:1", Since: f.Now.Add(-time.Minute),
			Err: "refused"}}
		return f
	}
	examine(t, "reports", []patient{
		{"no connection can be made, which is a finding", cut(true), nil},
		{"no connection can be made, and no replica needs one", cut(false),
			[]string{"its findings are not known here; a connection to c:1 fails: refused"}},
		{"no cluster", Facts{Serving: true}, nil},
		{"they arrive", hearing(member(), 4*time.Second, time.Hour, full), nil},
		{"not for a while", hearing(member(), 40*time.Second, time.Hour, full),
			[]string{"warn report of broker 3: it is active, but its own report does not arrive, so that its findings are not known here; " +
				"its own report is 40s old and has: disk of /a: it is full"}},
		{"never", hearing(member(), 0, time.Hour, nil),
			[]string{"warn report of broker 3: it is active, but its own report does not arrive"}},
		{"it is active since a moment ago", hearing(member(), time.Minute, 2*time.Second, full), nil},
		{"it is not active, for which it has another finding", hearing(member(), time.Minute, 0, full), nil},
		{"an older version", mute, nil},
		{"this broker starts", starting, nil},
	})
}

// What the metadata show of a broker is completed by what it reports itself.
func TestBrokersInTheirOwnWords(t *testing.T) {
	fenced := func(c *view.Cluster) { c.Brokers[2].State = "fenced" }
	begins := func(c *view.Cluster) { c.Brokers[2].State = "starting" }
	behind := func(c *view.Cluster) { c.Brokers[2].OutOfSync = some(2, "orders-0", "orders-1") }
	own := func(x health.Finding, check string, severity health.Severity, problem string) health.Finding {
		x.Check, x.Severity, x.Problem = check, severity, problem
		return x
	}
	offline := &health.Report{Findings: []health.Finding{
		own(health.OfLog("orders-1"), checkOfLogs, health.Warn, "the replica on this broker is offline"),
		own(health.OfLog("orders-0"), checkOfLogs, health.Note, "it is copied again"),
		own(health.OfLog("orders-0"), "transaction", health.Warn, "a transaction has been open"),
	}}
	away := &health.Report{Findings: []health.Finding{
		own(health.Finding{Subject: "metadata quorum"}, health.CheckQuorum, health.Bad, "no leader"),
		own(health.Finding{Subject: "report of broker 2"}, health.CheckReports, health.Warn, "it does not arrive"),
		own(health.Finding{Subject: "requests for broker 2"}, checkOfForwarding, health.Bad, "no connection"),
		own(health.OfDir("/d"), "log_dir", health.Warn, "it is slow"),
	}}
	examine(t, health.CheckBrokers, []patient{
		{"fenced, and silent", hearing(member(fenced), 40*time.Second, 0, &health.Report{}),
			[]string{"warn broker 3: it is fenced: it sends no heartbeats, or its metadata stand still; its own report is 40s old"}},
		{"fenced, and heard", hearing(member(fenced), 0, 0, &health.Report{}),
			[]string{"warn broker 3: it is fenced: it sends no heartbeats, or its metadata stand still"}},
		{"starting", hearing(member(begins), 0, 0, &health.Report{Phase: "recovering logs", Progress: []string{"logs: 3 of 9"}}),
			[]string{"warn broker 3: it is starting; it reports: recovering logs, logs: 3 of 9"}},
		{"not in sync", hearing(member(behind), 0, time.Hour, &health.Report{}),
			[]string{"warn broker 3: it is active, and not all of its replicas are in sync; it is not in sync in 2 partitions"}},
		{"not in sync, and without a log there, with others", hearing(member(behind), 0, time.Hour, &health.Report{
			Findings: []health.Finding{own(health.OfLogs("/d", []string{"orders-1", "x-0"}), checkOfLogs, health.Bad, "in other words")}}),
			[]string{"; it reports faults of its own logs of 1 partition (orders-1), to which it may copy nothing"}},
		{"not in sync, and offline there", hearing(member(behind), 0, time.Hour, offline),
			[]string{"; it reports faults of its own logs of 1 partition (orders-1), to which it may copy nothing"}},
		{"not in sync, and an old report", hearing(member(behind), time.Minute, time.Hour, offline),
			[]string{"; its own report is 1m0s old and has: partition orders-1: the replica on this broker is offline"}},
		{"fenced, and its last report has others that were away", hearing(member(fenced), time.Minute, 0, away),
			[]string{"; its own report is 1m0s old and has: log directory /d: it is slow"}},
	})
	for silent, want := range map[time.Duration]string{
		0: "its own report is 0s old: follow the findings of broker 3", time.Minute: "start it, ",
	} {
		f := hearing(member(fenced), silent, 0, &health.Report{})
		findings, _ := examined(t, Checks(), &f)
		if !slices.ContainsFunc(findings, func(x health.Finding) bool {
			return x.Check == health.CheckBrokers && strings.HasPrefix(x.Remedy, want)
		}) {
			t.Errorf("a report %v old: %+v, want the remedy %q", silent, findings, want)
		}
	}
	ended := hearing(member(fenced, func(c *view.Cluster) {
		c.Unreached = []view.Unreached{{Broker: 3, Address: "c:1", Err: "dial tcp: connect: connection refused", Refused: true}}
	}), 3*time.Second, 0, &health.Report{})
	found, _ := examined(t, Checks(), &ended)
	if !slices.ContainsFunc(found, func(x health.Finding) bool {
		return strings.HasPrefix(x.Remedy, "start it: nothing listens at its address")
	}) {
		t.Errorf("a broker that has just ended: %+v", found)
	}
	f := hearing(member(behind), 0, time.Hour, offline)
	findings, _ := examined(t, Checks(), &f)
	for _, x := range findings {
		if x.Check == health.CheckBrokers &&
			(strings.Contains(x.Remedy, "wait") || !strings.Contains(x.Remedy, "own findings about these partitions")) {
			t.Errorf("the remedy of a replica that is offline: %s", x.Remedy)
		}
	}
}

// A Monitor shows what other brokers report, as long as that is current, without checks of its own.
// Its own findings, and whether it is ready, stay its own.
func TestAMonitorShowsAllBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, logged := monitored(t)
		var heard atomic.Pointer[health.Report]
		var at atomic.Pointer[time.Time]
		m.Join(func() []health.Heard {
			if heard.Load() == nil {
				return nil
			}
			return []health.Heard{{Broker: 3, At: *at.Load(), Report: heard.Load()}, {Broker: 9, At: *at.Load(), Report: heard.Load()}}
		})
		hear := func(r *health.Report) { now := time.Now(); at.Store(&now); heard.Store(r) }
		set(member(func(c *view.Cluster) { c.Self = 7; c.Brokers[0].ID, c.Brokers[1].ID = 7, 3; c.Brokers = c.Brokers[:2] }))
		must.OK(t, m.Speak(t.Context()))
		shows := func(when string, want ...string) {
			t.Helper()
			r := m.Last()
			var got []string
			for i := range r.Findings {
				got = append(got, r.Findings[i].Where())
			}
			if !slices.Equal(got, want) || !r.Ready || len(r.Brokers) != 1 || r.Brokers[0].Broker != 3 {
				t.Errorf("%s: %q, want %q; ready %v, other brokers %+v", when, got, want, r.Ready, r.Brokers)
			}
		}
		shows("never heard")
		hear(&health.Report{Broker: 3, Ready: true, Findings: []health.Finding{
			{Broker: 3, Check: "space", Severity: health.Bad, Subject: "disk of /a", NotReady: true},
			{Broker: 3, Check: "files", Severity: health.Warn, Subject: "files"}}})
		shows("heard", "broker 3, disk of /a", "broker 3, files")
		if own := m.Own(); len(own.Findings) != 0 || len(own.Brokers) != 0 {
			t.Errorf("its own report has %+v", own)
		}
		time.Sleep(4 * time.Second)
		shows("4 s later", "broker 3, disk of /a", "broker 3, files")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		shows("8 s later", "broker 7, report of broker 3")
		if got := logged(); strings.Contains(got, "full") || !strings.Contains(got, "its own report does not arrive") {
			t.Errorf("the log has %q", got)
		}
	})
}

// A broker that starts has other brokers in its metadata long before they are connected. It waits
// for their reports from when it serves clients.
func TestAStartWaitsForReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, _ := monitored(t)
		f := member(func(c *view.Cluster) { c.Self = 7; c.Brokers[0].ID, c.Brokers[1].ID = 7, 3; c.Brokers = c.Brokers[:2] })
		f.Serving = false
		set(f)
		must.OK(t, m.Speak(t.Context()))
		time.Sleep(time.Minute)
		f.Serving = true
		set(f)
		for _, x := range []struct {
			wait time.Duration
			want int
		}{{health.FreshFor / 2, 0}, {2 * health.FreshFor, 1}} {
			time.Sleep(x.wait)
			synctest.Wait()
			if r := m.Last(); len(r.Findings) != x.want {
				t.Errorf("%v later: %+v, want %d findings", x.wait, r.Findings, x.want)
			}
		}
	})
}

// What other brokers get has findings of the last second; asking for it more often runs no checks.
func TestARecentReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, set, _ := monitored(t)
		has := func(when string, want int) {
			t.Helper()
			if got := len(m.Recent(t.Context()).Findings); got != want {
				t.Errorf("%s: %d findings, want %d", when, got, want)
			}
		}
		m.Report(t.Context())
		set(Facts{Files: Files{Limit: 100, Open: 85}})
		time.Sleep(recent / 2)
		has("half a second later", 0)
		time.Sleep(recent / 2)
		has("a second later", 1)
	})
}
