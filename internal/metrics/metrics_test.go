package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// everything gives every vector one series, so that Gather returns all of them.
func everything(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewRegistry()
	s, n, r := NewStorage(reg), NewNetwork(reg), NewRequests(reg)
	NewProcess(reg, "test").Ready.Set(1)
	for _, h := range []*prometheus.HistogramVec{s.GroupRecords, s.GroupBytes, s.SyncSeconds, s.WaitSeconds, r.Seconds, r.Send} {
		h.WithLabelValues("x").Observe(1)
	}
	for _, c := range []*prometheus.CounterVec{s.JournalErrors, s.SegmentErrors, s.Sweeps, s.Rolls, s.TruncatedBytes,
		s.RecoveryFrames, s.RecoveryBytes, s.Reads, n.Accepted, n.BytesIn, n.BytesOut, n.BudgetWaits, r.Throttle, s.LowSpaceRefused,
		s.Cleaner.Passes, s.Cleaner.Failures, s.Cleaner.Read, s.Cleaner.Written, s.Cleaner.Records, s.ScrubBytes} {
		c.WithLabelValues("x").Inc()
	}
	for _, g := range []*prometheus.GaugeVec{s.RecoverySeconds, s.Offline, n.Connections, s.Retention.Waiting, s.ScrubOldest,
		s.Cleaner.LastRun, s.Cleaner.LastSeconds, s.Cleaner.MaxDirty, s.Cleaner.Stopped, s.Cleaner.MapBytes} {
		g.WithLabelValues("x").Set(1)
	}
	for _, c := range []*prometheus.CounterVec{n.Refused, n.Closed, n.Handshakes, r.Count, s.Retention.Segments, s.Retention.Bytes} {
		c.WithLabelValues("x", "y").Inc()
	}
	n.Logins.WithLabelValues("x", "y", "z").Inc()
	must.OK(t, RegisterLogs(reg, true, twoLogs))
	must.OK(t, RegisterDirs(reg, func() []view.Dir {
		return []view.Dir{{Path: "/a", JournalBytes: 7, Free: 9, Space: view.SpaceOK}, {Path: "/b"},
			{Path: "/c", Error: "x", Unopened: true}}
	}))
	must.OK(t, RegisterGroups(reg, true, func() view.Groups {
		return view.Groups{Shards: map[string]int{"active": 3},
			List: []view.Group{{ID: "g", Kind: "classic", State: "Stable", Offsets: []view.GroupOffset{{Topic: "t", Lag: 5}}}}}
	}))
	must.OK(t, RegisterShares(reg, func() view.Shares {
		return view.Shares{Sessions: 2, Partitions: map[string]int{"ready": 3}, Loads: 4, Refused: 5,
			Slow: []view.SlowShare{{Writing: time.Second, Full: time.Minute}},
			Groups: []view.ShareGroup{{ID: "g", Sessions: 1, Records: map[string]int64{"acquired": 6}, Delivered: 7, Redelivered: 8,
				TimedOut: 9, Archived: 10, Acknowledged: map[string]int64{"accept": 11}, Copied: 12, Uncopied: 13,
				Failing: map[string]float64{"no_topic": 14}}}}
	}))
	must.OK(t, RegisterClients(reg, twoSeries))
	must.OK(t, RegisterTransactions(reg, someTransactions))
	open := func() []view.Held { return []view.Held{{Topic: "t", Count: 2, Lag: 7, Age: 8500 * time.Millisecond}} }
	must.OK(t, RegisterOpenTransactions(reg, true, open))
	ends := NewTransactionEnds(reg)
	ends.Ended.WithLabelValues("commit", "client").Inc()
	ends.Duration.WithLabelValues("commit").Observe(1)
	ends.Marker.WithLabelValues("commit").Observe(1)
	ends.Refused.WithLabelValues("KAFKA_STORAGE_ERROR").Inc()
	ends.Crowded.WithLabelValues("removed").Inc()
	must.OK(t, RegisterFindings(reg, func() []Findings { return []Findings{{"files", "warn", 1}} }))
	must.OK(t, RegisterReports(reg, func() []Reported {
		return []Reported{{Broker: 3, Age: 1500 * time.Millisecond, N: []Findings{{Severity: "bad", N: 2}}}, {Broker: 4, Age: time.Minute}}
	}))
	must.OK(t, RegisterSnapshots(reg, 5*time.Minute, func() (int, int, view.Snapshot) {
		return 2, 1, view.Snapshot{Number: 2, TimeMs: 1000, EndedMs: 2000, Bytes: 3, UploadedBytes: 4}
	}))
	must.OK(t, RegisterTier(reg, func() view.Tiering {
		return view.Tiering{Partitions: 1, Failing: 1, Bytes: 2, Pending: 3, PendingBytes: 4, Objects: 5, Copied: 6, Failures: 7,
			Reads: view.TierReads{Bytes: 8, Failures: 9, Hits: 10, Misses: 11, Running: 12, Waiting: 13, Cached: 14}}
	}))
	must.OK(t, RegisterForward(reg, func() []view.Forwarding {
		return []view.Forwarding{{Broker: 3, Tunnels: 2, Passed: 9, Lost: 1, Refused: 4}}
	}))
	must.OK(t, RegisterCertificates(reg, func() []view.Certificate { return []view.Certificate{{Listener: "clients", Kind: "server"}} }))
	must.OK(t, RegisterTokenKeys(reg, func() (time.Time, bool) { return time.Now().Add(-time.Hour), true }))
	must.OK(t, RegisterCluster(reg, func() *view.Cluster {
		return &view.Cluster{Quorum: view.Quorum{Term: 2, Commit: 3, Leads: true, Voters: 5}, Revision: 4,
			LeaseAge: 500 * time.Millisecond, Skew: 1500 * time.Millisecond,
			Leaderless: []view.Leaderless{{Partitions: view.Partitions{Count: 1}}},
			Self:       1, Brokers: []view.Broker{{ID: 1, State: "active", Leads: 4, UnderReplicated: 3, UnderMinISR: 2},
				{ID: 2, State: "active", Follows: true,
					Lag: view.Lag{Records: 9, Ms: 2500}}, {ID: 3, State: "active"}},
			ISR: map[int]int{2: 7}, Eligible: 6, Moving: 8,
			Stopped: []view.Stopped{{Partitions: view.Partitions{Count: 10}, Ahead: true}},
			Streams: view.Streams{Connections: 11, SentFrames: 12, SentBytes: 13, ReceivedFrames: 14, ReceivedBytes: 15, Waits: 16,
				Truncated: 17, Refused: 18}}
	}))
	NewElections(reg).WithLabelValues("isr").Inc()
	NewISRChanges(reg).WithLabelValues("shrink").Inc()
	must.OK(t, RegisterAudit(reg, func() view.Audit { return view.Audit{Written: 3, Dropped: 2, Counted: 1} }))
	must.OK(t, RegisterPlaces(reg, func() ([]Places, int) { return []Places{{"requests", 2, 1.5}}, 4 }))
	must.OK(t, RegisterLogins(reg, func() Logins { return Logins{3, 1} }))
	must.OK(t, RegisterQuotas(reg, func(int) []Quota { return []Quota{{"user=a\xff", "producer_byte_rate", 3, 1}} }))
	must.OK(t, RegisterBudgets(reg, func() []view.Budget {
		return []view.Budget{{Name: "produce", Used: 3, Limit: 10}, {Name: "other", Limit: 5}}
	}))
	return reg
}

func twoSeries() view.ClientMetrics {
	return view.ClientMetrics{Clients: 1, Series: []view.ClientSeries{{Metric: "a", Value: 1}, {Metric: "b", Value: 2, Total: true}}}
}

func someTransactions() view.Transactions {
	return view.Transactions{IDs: map[string]int{"Ongoing": 2}, Shards: map[string]int{"active": 3}, Waiting: map[int32]int{2: 7},
		Parked: 4, Undone: []view.Undone{{Since: time.Now()}}, Gate: 6, Raised: 8, MaxTimeout: time.Minute}
}

func twoLogs(yield func(*view.Log)) {
	yield(&view.Log{Exists: true, Topic: "a", Bytes: 100, LogStart: 3, LogEnd: 9})
	yield(&view.Log{Exists: true, Topic: "a", Partition: 1, Bytes: 50, LogEnd: 1})
	yield(&view.Log{Topic: "b", Offline: true, Retried: true})
	yield(&view.Log{Topic: "b", Partition: 1, Offline: true, Damaged: "x"})
	yield(&view.Log{Topic: "b", Partition: 2, Creating: true})
}

func gather(t *testing.T, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := reg.Gather()
	must.OK(t, err)
	m := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		m[f.GetName()] = f
	}
	return m
}

// A scrape returns every name in names.go, with a help text, and no other chronik name.
func TestNamesAreTheOnesThatAreCollected(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	must.OK(t, err)
	named := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok {
			name, _ := strconv.Unquote(lit.Value)
			named[name] = true
		}
		return true
	})
	got := gather(t, everything(t))
	for name := range named {
		if got[name] == nil {
			t.Errorf("%s is in names.go and not collected", name)
		}
	}
	for name, f := range got {
		if strings.HasPrefix(name, "chronik_") && !named[name] {
			t.Errorf("%s is collected and not in names.go", name)
		}
		if f.GetHelp() == "" {
			t.Errorf("%s has no help text", name)
		}
	}
	for name := range got {
		if !strings.HasPrefix(name, "chronik_") {
			t.Errorf("%s may be that of a program which embeds the broker", name)
		}
	}
}

// A counter ends in _total, durations are in seconds, sizes in bytes.
func TestNamesFollowPrometheusUnits(t *testing.T) {
	for name, f := range gather(t, everything(t)) {
		if !strings.HasPrefix(name, "chronik_") {
			continue
		}
		if counter := f.GetType() == dto.MetricType_COUNTER; counter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		if strings.Contains(name, "_ms") || strings.Contains(name, "millis") {
			t.Errorf("%s is not in seconds", name)
		}
	}
}

func TestLogsAreReadOnScrape(t *testing.T) {
	got := gather(t, everything(t))
	if n := got[namePartitions].GetMetric()[0].GetGauge().GetValue(); n != 2 {
		t.Errorf("partitions = %v, want 2", n)
	}
	if n := got[nameTopics].GetMetric()[0].GetGauge().GetValue(); n != 1 {
		t.Errorf("topics = %v, want 1", n)
	}
	for name, want := range map[string]float64{nameUnavailable: 2, nameDamaged: 1, nameFailed: 1} {
		if n := got[name].GetMetric()[0].GetGauge().GetValue(); n != want {
			t.Errorf("%s = %v, want %v", name, n, want)
		}
	}
	var size float64
	for _, m := range got[nameLogSize].GetMetric() {
		size += m.GetGauge().GetValue()
	}
	if size != 150 {
		t.Errorf("sizes add up to %v, want 150", size)
	}
}

func TestTheClusterIsReadOnScrape(t *testing.T) {
	got := gather(t, everything(t))
	for name, want := range map[string]float64{nameMetaTerm: 2, nameMetaCommit: 3, nameMetaApplied: 4, nameMetaLeader: 1, nameLeaseAge: 0.5,
		nameBrokers: 3, nameLeaderless: 1, nameISRSize: 7, nameEligible: 6, nameHasLeader: 1, nameVoters: 5, nameSkew: 1.5, nameMoving: 8,
		nameLagRecords: 9, nameLagSeconds: 2.5, nameStopped: 10, nameLed: 4, nameUnderReplicated: 3, nameUnderMinISR: 2} {
		if n := got[name].GetMetric()[0].GetGauge().GetValue(); n != want {
			t.Errorf("%s = %v, want %v", name, n, want)
		}
	}
	for name, want := range map[string][]float64{nameStreamConns: {11}, nameStreamFrame: {12, 14}, nameStreamBytes: {13, 15},
		nameStreamWaits: {16},
		nameTruncated:   {17}, nameRefusedCuts: {18}} {
		var values []float64
		for _, m := range got[name].GetMetric() {
			values = append(values, m.GetCounter().GetValue())
		}
		if slices.Sort(values); !slices.Equal(values, want) {
			t.Errorf("%s = %v, want %v", name, values, want)
		}
	}
}

func TestDirsAreReadOnScrape(t *testing.T) {
	got := gather(t, everything(t))
	if n := len(got[nameJournalBytes].GetMetric()); n != 2 {
		t.Errorf("%d directories, want 2", n)
	}
	// An unknown value is not reported as 0, which could trigger an alert.
	if free := got[nameDirFree].GetMetric(); len(free) != 1 || free[0].GetGauge().GetValue() != 9 {
		t.Errorf("free: %v", free)
	}
}

func TestBudgetsAreReadOnScrape(t *testing.T) {
	got := gather(t, everything(t))
	used := make(map[string]float64)
	for _, m := range got[nameBudgetUsed].GetMetric() {
		used[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	if len(used) != 2 || used["produce"] != 3 || used["other"] != 0 {
		t.Errorf("used: %v", used)
	}
}

// Components create their metrics in tests without a registry.
func TestConstructorsTakeNil(t *testing.T) {
	NewStorage(nil).GroupBytes.WithLabelValues("d").Observe(1)
	NewNetwork(nil).Connections.WithLabelValues("l").Inc()
	NewRequests(nil).Count.WithLabelValues("Produce", "NONE").Inc()
	NewProcess(nil, "v").Ready.Set(1)
}

// Keys that were never read have no age; it would be that of the epoch.
func TestKeysThatWereNeverRead(t *testing.T) {
	for _, c := range []struct {
		read   time.Time
		failed bool
		want   int
	}{{time.Time{}, true, 1}, {time.Now().Add(-time.Hour), false, 2}} {
		reg := prometheus.NewRegistry()
		must.OK(t, RegisterTokenKeys(reg, func() (time.Time, bool) { return c.read, c.failed }))
		got := gather(t, reg)
		if len(got) != c.want || (got[nameKeysFailed].GetMetric()[0].GetGauge().GetValue() == 1) != c.failed ||
			c.want == 2 && got[nameKeysAge].GetMetric()[0].GetGauge().GetValue() < 3600 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
