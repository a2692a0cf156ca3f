package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

func lines(c *Checkup) string {
	var all []string
	for _, f := range c.findings {
		all = append(all, fmt.Sprintf("%s|%s|%s|%s", f.Severity, f.Subject, f.Problem, f.Remedy))
	}
	return strings.Join(all, "\n")
}

func TestPartitionsWithoutLeaderOrReplicasAreFound(t *testing.T) {
	p := func(n, leader int32, isr, offline []int32, err error) kadm.PartitionDetail {
		return kadm.PartitionDetail{Topic: "a", Partition: n, Leader: leader, Replicas: []int32{1, 2}, ISR: isr, OfflineReplicas: offline,
			Err: err}
	}
	c := &Checkup{Meta: kadm.Metadata{Topics: kadm.TopicDetails{
		"a": {Topic: "a", Partitions: kadm.PartitionDetails{
			0: p(0, 1, []int32{1, 2}, nil, nil),
			1: p(1, -1, nil, nil, kerr.LeaderNotAvailable),
			2: p(2, 1, []int32{1, 2}, []int32{2}, nil),
			3: p(3, -1, nil, nil, kerr.LeaderNotAvailable),
		}},
		"b": {Topic: "b", Err: kerr.TopicAuthorizationFailed},
	}}}
	must.OK(t, c.partitions(t.Context()))
	want := `warn|partition a-2|replicas are offline on brokers 2|start these brokers, or replace their log directories
bad|topic b|` + kerr.TopicAuthorizationFailed.Error() + `|see the brokers' logs
bad|2 partitions of topic a|no leader: neither writes nor reads are possible (` + kerr.LeaderNotAvailable.Error() + `)|bring back a replica of each; they are on brokers 1,2`
	if got := lines(c); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMinInsyncReplicasDecidesHowBadItIs(t *testing.T) {
	for _, x := range []struct {
		isr, need int
		want      string
	}{
		{1, 2,
			"bad|partition a-0|1 of 3 replicas are in sync (brokers 1 of 1,2,3): acks=all is refused, min.insync.replicas is 2|check brokers 2,3"},
		{2, 2,
			"warn|partition a-0|2 of 3 replicas are in sync (brokers 1,2 of 1,2,3): if one more fails, acks=all is refused|check brokers 3"},
		{2, 1, "warn|partition a-0|2 of 3 replicas are in sync (brokers 1,2 of 1,2,3)|check brokers 3"},
		{1, 1, "warn|partition a-0|1 of 3 replicas are in sync (brokers 1 of 1,2,3)|check brokers 2,3"},
	} {
		c := &Checkup{}
		all := []int32{1, 2, 3}
		c.judge([]kadm.PartitionDetail{{Topic: "a", Replicas: all, ISR: all[:x.isr]}}, x.need)
		if got := lines(c); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
	}
}

// Partitions that miss the same replicas are one finding, whatever their topics.
func TestABrokerThatIsMissingIsOneFinding(t *testing.T) {
	behind := func(topic string, n int32, isr ...int32) kadm.PartitionDetail {
		return kadm.PartitionDetail{Topic: topic, Partition: n, Leader: 1, Replicas: []int32{1, 2, 3}, ISR: isr}
	}
	c := &Checkup{}
	for _, alike := range together([]kadm.PartitionDetail{behind("a", 0, 1, 2), behind("a", 1, 1), behind("b", 0, 2, 1)},
		func(p kadm.PartitionDetail) string { return fmt.Sprint(missing(p)) }) {
		c.judge(alike, 1)
	}
	want := `warn|2 partitions of 2 topics|2 of 3 replicas are in sync|check brokers 3
warn|partition a-1|1 of 3 replicas are in sync (brokers 1 of 1,2,3)|check brokers 2,3`
	if got := lines(c); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A log directory in its broker's own report is not reported again.
func TestLogDirectoriesThatFail(t *testing.T) {
	all := kadm.DescribedAllLogDirs{
		1: {"/a": {Broker: 1, Dir: "/a", TotalBytes: 1000, UsableBytes: 50},
			"/b": {Broker: 1, Dir: "/b", TotalBytes: 1000, UsableBytes: 49}},
		2: {"/c": {Broker: 2, Dir: "/c", Err: kerr.KafkaStorageError}, "/d": {Broker: 2, Dir: "/d", TotalBytes: -1, UsableBytes: -1}},
	}
	full := "warn|broker 1, /b|49 B of 1000 B are free|delete topics, shorten retention, or enlarge the disk"
	failed := "bad|broker 2, /c|the log directory accepts no records: " + kerr.KafkaStorageError.Error() +
		"|see the broker's log and its disk; the broker uses the directory again when its disk works, or after a restart if the directory could not be opened"
	for reported, want := range map[int32]string{-1: full + "\n" + failed, 1: failed, 2: full} {
		c := &Checkup{reported: []int32{reported}}
		c.judgeDirs(all)
		if got := lines(c); got != want {
			t.Errorf("broker %d has reported\ngot  %s\nwant %s", reported, got, want)
		}
	}
}

// portAt returns the admin port that --admin names.
func portAt(t *testing.T, at string) *app.AdminPort {
	t.Helper()
	a := app.New("v", app.Streams{})
	root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	a.Prepare(root)
	root.SetArgs([]string{"--admin", at})
	must.OK(t, root.Execute())
	return app.AdminPortOf(a)
}

// The report of a chronik broker is included unchanged.
func TestABrokersReportIsTakenOver(t *testing.T) {
	want := health.Report{Broker: 7, Brokers: []health.Other{{Broker: 8, Current: true}, {Broker: 9}}, Findings: []health.Finding{
		{Broker: 8, Check: "log_dir",
			Severity: health.Bad, Subject: "x", Problem: "m", Works: "w", Remedy: "r", Since: time.Unix(1, 0).UTC(),
			NotReady: true},
		{Check: "files", Severity: health.Warn, Subject: "y", Problem: "n", Remedy: "s"},
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(want) }))
	defer s.Close()
	c, port := &Checkup{}, portAt(t, s.URL)
	c.OwnReport(t.Context(), port, port.Health, nil)
	if !slices.Equal(c.findings, want.Findings) || !slices.Equal(c.reported, []int32{7, 8}) {
		t.Errorf("%+v", c)
	}
}

// A fault is reported once: faults in the broker's own report are not reported again.
func TestNoFaultIsReportedTwice(t *testing.T) {
	offline := kadm.PartitionDetail{Topic: "a", Leader: 7, Replicas: []int32{7}, ISR: []int32{7}, OfflineReplicas: []int32{7}}
	for reported, want := range map[int32]string{
		7: "", -1: "bad|partition a-0|it can be neither written nor read: the log of its leader, broker 7, is offline|" +
			"the log of broker 7 shows the cause; chronikctl log verify on its machine reports damage while it is stopped",
	} {
		c := &Checkup{reported: []int32{reported},
			Meta: kadm.Metadata{Topics: kadm.TopicDetails{"a": {Topic: "a", Partitions: kadm.PartitionDetails{0: offline}}}}}
		must.OK(t, c.partitions(t.Context()))
		if got := lines(c); got != want {
			t.Errorf("broker %d has reported\ngot  %s\nwant %s", reported, got, want)
		}
	}
}

// The report is requested after the wait for brokers that do not answer, because it then says what
// became of them. What it says of a broker is not repeated, and nothing asks the brokers of a
// member again: each request would wait for the silent one.
func TestTheReportIsYoungerThanTheWaitForSilentBrokers(t *testing.T) {
	fenced, voter := health.OfBroker(2), health.OfBroker(2)
	fenced.Broker, fenced.Check, fenced.Severity = health.NoBroker, health.CheckBrokers, health.Warn
	voter.Broker, voter.Check, voter.Severity, voter.Subject = 1, health.CheckQuorum, health.Bad, "broker 1, a quorum"
	other := health.OfBroker(3)
	other.Broker, other.Check, other.Severity, other.Problem = 1, health.CheckQuorum, health.Bad, "not broker 2 (b:9092)"
	for name, found := range map[string][]health.Finding{"fenced": {fenced}, "a voter": {voter}, "not yet": nil, "of another": {other}} {
		waited := false
		c := newCheckup() // without a client
		c.Meta.Brokers = kadm.BrokerDetails{{NodeID: 1, Host: "a", Port: 9092}, {NodeID: 2, Host: "b", Port: 9092}}
		must.OK(t, c.Health(t.Context(), nil, nil, func(context.Context) (*health.Report, error) {
			if !waited {
				t.Errorf("%s: the report is requested before", name)
			}
			return &health.Report{Broker: 1, Findings: found,
				Checks: []health.Examined{{Name: health.CheckMembership, Saw: []string{"x"}}}}, nil
		}, func(context.Context) map[int32]error {
			waited = true
			return map[int32]error{1: nil, 2: errors.New("silent")}
		}))
		about := slices.DeleteFunc(slices.Clone(c.findings), func(f health.Finding) bool { return !f.IsAbout(2) })
		if !slices.Equal(c.silent, []int32{2}) || len(about) != 1 {
			t.Errorf("%s: silent %d, findings %+v", name, c.silent, c.findings)
		}
		// Nor does a request that waited for it in vain end the command without these findings.
		if err := c.Ended(t.Context(), errors.New("no answer")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Without an admin port, a broker's listener for clients answers with its report. If the port is
// named and does not answer, that is a finding, and the report is there all the same.
func TestAListenerAnswersInPlaceOfTheAdminPort(t *testing.T) {
	report := &health.Report{Broker: 2, Omitted: 3, Brokers: []health.Other{{Broker: 1, Current: true}}, Findings: []health.Finding{
		{Broker: 1, Check: "space", Severity: health.Bad, Subject: "disk of /a"}}}
	refused := func(context.Context) (*health.Report, error) { return nil, errors.New("connection refused") }
	down := &health.Report{Broker: 2, Brokers: []health.Other{{Broker: 1}}, Findings: []health.Finding{
		{Broker: health.NoBroker, Check: health.CheckBrokers, Severity: health.Warn, Subject: "broker 1"}}}
	dead, two := portAt(t, "127.0.0.1:1"), portAt(t, "127.0.0.1:1,127.0.0.1:2")
	for name, x := range map[string]struct {
		port     *app.AdminPort
		listener ask
		want     []string
		examined string
	}{
		"off": {nil, func(context.Context) (*health.Report, error) { return report, nil }, []string{"broker 1, disk of /a", "findings"},
			"broker 2, by its listener for clients"},
		"named": {&app.AdminPort{Named: true}, func(context.Context) (*health.Report, error) { return report, nil },
			[]string{"admin port", "broker 1, disk of /a", "findings"}, "broker 1, by its report to broker 2"},
		"of a broker that is down": {dead, func(context.Context) (*health.Report, error) { return down, nil }, []string{"broker 1"},
			"no admin port at http://127.0.0.1:1, which may be that of a broker that is down"},
		"two, and one is down": {two, func(context.Context) (*health.Report, error) { return down, nil },
			[]string{"admin port", "broker 1"}, "broker 2, by its listener for clients"},
		"wrong, and none is down": {dead, func(context.Context) (*health.Report, error) { return report, nil },
			[]string{"admin port", "broker 1, disk of /a", "findings"}, "broker 2, by its listener for clients"},
		"another kind of broker": {nil, func(context.Context) (*health.Report, error) { return nil, app.ErrNoReport }, nil,
			"no admin port (--admin): only what Kafka's protocol shows"},
		"without the right": {nil, func(context.Context) (*health.Report, error) { return nil, errors.New("authorization failed") }, nil,
			"no report of a broker: authorization failed: only what Kafka's protocol shows"},
	} {
		c, port := &Checkup{}, ask(refused)
		if x.port == dead || x.port == two {
			port = x.port.Health
		}
		c.OwnReport(t.Context(), x.port, port, x.listener)
		var got []string
		for i := range c.findings {
			got = append(got, c.findings[i].Where())
		}
		if !slices.Equal(got, x.want) || !strings.Contains(strings.Join(c.examined, "\n"), x.examined) ||
			(len(c.reported) > 0) != (len(got) > 0) {
			t.Errorf("%s: findings %q, want %q; examined %q; reports of %d", name, got, x.want, c.examined, c.reported)
		}
	}
}
