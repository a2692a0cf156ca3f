package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/config"
	"github.com/chronik-io/chronik/internal/tools/ctl/group"
)

// patient returns an examination without a broker, and a function that returns its findings.
func patient(t *testing.T, flags ...string) (*examination, func() string) {
	t.Helper()
	var out bytes.Buffer
	a := app.New("v", app.Streams{Out: &out})
	root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	a.Prepare(root)
	root.SetArgs(flags)
	must.OK(t, root.Execute())
	x := &examination{Checkup: &Checkup{}, a: a}
	x.groups = time.Second
	return x, func() string {
		out.Reset()
		_ = x.PrintFindings(a)                                 // the code is cluster's to test
		return strings.Join(strings.Fields(out.String()), " ") // texts are broken into lines
	}
}

// finds checks that the findings contain all these texts, or that there are none.
func finds(t *testing.T, name, got string, texts ...string) {
	t.Helper()
	if len(texts) == 0 && !strings.HasPrefix(got, "healthy") {
		t.Errorf("%s: found\n%s", name, got)
	}
	for _, text := range texts {
		if !strings.Contains(got, text) {
			t.Errorf("%s: did not find %q in\n%s", name, text, got)
		}
	}
}

// A note is listed under "healthy", because it does not change the exit code.
func TestANoteIsNoIllness(t *testing.T) {
	x, found := patient(t)
	x.Add("clock", health.Note, "clock", "a note", "a remedy")
	finds(t, "note", found(), "healthy", "a note")
	x.Add("clock", health.Warn, "clock", "a warning", "a remedy")
	if got := found(); strings.Contains(got, "healthy") {
		t.Errorf("with a warning: %s", got)
	}
}

func TestConfigsThatContradictEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, brokers int
		v, broker         config.Values
		finds             []string
	}{
		"all is well": {1, 1, config.Values{"min.insync.replicas": "1", "retention.bytes": "-1", "segment.bytes": "1000000",
			"max.message.bytes": "10"}, config.Values{"socket.request.max.bytes": "100"}, nil},
		"too many in isr": {1, 1, config.Values{"min.insync.replicas": "2"}, nil,
			[]string{"min.insync.replicas is 2 and it has 1 replica:", "set topic a min.insync.replicas=1"}},
		"no slack": {3, 3, config.Values{"min.insync.replicas": "3"}, nil,
			[]string{"the number of its replicas", "chronikctl config set topic a min.insync.replicas=2"}},
		"no slack, and another broker": {2, 3, config.Values{"min.insync.replicas": "2"}, nil,
			[]string{"the number of its replicas", "chronikctl topic alter a --replication-factor 3"}},
		"one replica": {1, 3, config.Values{}, nil, []string{"one replica in a cluster of 3 brokers"}},
		"small retention": {1, 1, config.Values{"retention.bytes": "10485760", "segment.bytes": "1073741824"}, nil,
			[]string{"segment.bytes=2621440"}},
		"large messages": {1, 1, config.Values{"max.message.bytes": "200"}, config.Values{"socket.request.max.bytes": "100"},
			[]string{"closes the connection"}},
		"not told": {3, 3, config.Values{}, config.Values{}, nil},
	} {
		x, found := patient(t)
		x.Meta.Brokers = nil
		for id := range int32(c.brokers) {
			x.Meta.Brokers = append(x.Meta.Brokers, kadm.BrokerDetail{NodeID: id})
		}
		x.judgeConfigs("a", c.replicas, &config.Configs{Values: c.v}, c.broker, &inherited{})
		finds(t, name, found(), c.finds...)
	}
}

func TestGroupsThatAreStuck(t *testing.T) {
	for name, c := range map[string]struct {
		before, now group.Progress
		finds       []string
	}{
		"reads": {group.Progress{State: "Stable", Members: 1, Lag: 9, Committed: 1},
			group.Progress{State: "Stable", Members: 1, Lag: 8, Committed: 2}, nil},
		"is done":        {group.Progress{State: "Stable", Members: 1}, group.Progress{State: "Stable", Members: 1}, nil},
		"has just begun": {group.Progress{State: "Empty", Lag: 9}, group.Progress{State: "Stable", Members: 1, Lag: 9}, nil},
		"hangs": {group.Progress{State: "Stable", Members: 2, Lag: 9, Committed: 1},
			group.Progress{State: "Stable", Members: 2, Lag: 9, Committed: 1}, []string{"2 members and is 9 records behind"}},
		"never gets done": {group.Progress{State: "PreparingRebalance", Members: 1},
			group.Progress{State: "PreparingRebalance", Members: 1}, []string{"it was rebalancing"}},
		"is left": {group.Progress{State: "Empty", Lag: 5}, group.Progress{State: "Empty", Lag: 5},
			[]string{"it has no member, and it is 5 records behind", "group delete g"}},
	} {
		x, found := patient(t)
		x.judgeGroup("g", c.before, c.now)
		finds(t, name, found(), c.finds...)
	}
}

func TestClocks(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		there time.Time
		finds []string
	}{
		"the same":        {now, nil},
		"within a second": {now.Add(-time.Second), nil},
		"a little ahead":  {now.Add(4 * time.Second), nil},
		"ahead":           {now.Add(time.Minute), []string{"1m0s ahead of"}},
		"behind":          {now.Add(-time.Hour), []string{"1h0m0s behind"}},
	} {
		x, found := patient(t)
		x.judgeClock(c.there, now, now.Add(10*time.Millisecond))
		finds(t, name, found(), c.finds...)
	}
}

// The broker's findings are included; notes do not make it unhealthy.
func TestWhatTheBrokerFindsIsTakenOver(t *testing.T) {
	for name, c := range map[string]struct {
		answer  string
		code    int
		findsIn []string
	}{
		"a warning": {`{"broker":3,"findings":[{"check":"files","severity":"warn","subject":"limit of open files","problem":"few","remedy":"raise it"}],
			"checks":[{"name":"files","doc":"d","saw":["9 of 10 files are open"]}]}`, app.ExitUnhealthy,
			[]string{"warn limit of open files few > raise it"}},
		"what was examined": {`{"broker":3,"findings":[],"checks":[{"name":"files","doc":"d","saw":["9 of 10 files are open"]}]}`, app.ExitOK,
			[]string{"EXAMINED broker 3, files: 9 of 10 files are open"}},
		"a note": {`{"broker":3,"findings":[{"severity":"note","subject":"s","problem":"w","remedy":"r"}],"checks":[]}`, app.ExitOK,
			[]string{"note s w > r"}},
		"nothing":   {`{"broker":3,"findings":[],"checks":[]}`, app.ExitOK, nil},
		"no answer": {`<html>`, app.ExitUnhealthy, []string{"the answer is not chronik's"}},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/health" {
				t.Errorf("%s is asked", r.URL)
			}
			_, _ = w.Write([]byte(c.answer))
		}))
		args := []string{"--admin", s.URL}
		if name == "what was examined" {
			args = append(args, "-o", "wide")
		}
		x, found := patient(t, args...)
		x.port = app.AdminPortOf(x.a)
		x.OwnReport(t.Context(), x.port, x.broker, func(context.Context) (*health.Report, error) { return nil, app.ErrNoReport })
		s.Close()
		finds(t, name, found(), c.findsIn...)
		if code := app.ExitCode(x.PrintFindings(x.a)); code != c.code {
			t.Errorf("%s: ends with %d, want %d", name, code, c.code)
		}
	}
}

// If no broker answers clients, the admin port's report is shown nevertheless.
func TestHealthWithoutAnAnswerToClients(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"broker":3,"findings":[{"severity":"bad","subject":"disk","problem":"slow","remedy":"r"}],"checks":[]}`))
	}))
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer hangs.Close()
	for admin, want := range map[string]struct {
		code  int
		texts []string
	}{
		s.URL:                 {app.ExitUnhealthy, []string{"bad clients no answer from " + hangs.Addr().String(), "bad disk slow > r"}},
		hangs.Addr().String(): {app.ExitUnreachable, []string{"connected, but nothing answers there", "admin port"}},
		"off":                 {app.ExitUnreachable, []string{"connected, but nothing answers there"}},
	} {
		var out bytes.Buffer
		a := app.New("v", app.Streams{Out: &out})
		root := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
		a.Prepare(root)
		root.AddCommand(healthCommand(a))
		root.SetArgs([]string{"health", "--brokers", hangs.Addr().String(), "--admin", admin, "--timeout", "200ms"})
		err := root.ExecuteContext(t.Context())
		got := strings.Join(strings.Fields(fmt.Sprint(out.String(), err)), " ")
		if app.ExitCode(err) != want.code {
			t.Errorf("%s: code %d, want %d", admin, app.ExitCode(err), want.code)
		}
		for _, text := range want.texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s: no %q in %s", admin, text, got)
			}
		}
	}
	s.Close()
}

// Only --probe-disk requests a probe.
func TestAProbeIsAskedFor(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		_, _ = w.Write([]byte(`{"broker":3,"findings":[],"checks":[]}`))
	}))
	defer s.Close()
	for _, probe := range []bool{false, true} {
		x, _ := patient(t, "--admin", s.URL)
		x.port, x.probe = app.AdminPortOf(x.a), probe
		if _, err := x.broker(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"GET /v1/health", "POST /v1/health"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func TestAddressesThatClientsCannotDial(t *testing.T) {
	x, found := patient(t, "--brokers", "broker.example.com:9092")
	x.Meta.Brokers = kadm.BrokerDetails{{NodeID: 1, Host: "127.0.0.1", Port: 9092}}
	x.addresses(t.Context())
	finds(t, "loopback", found(), "a loopback address", "--advertise")
	x, found = patient(t, "--brokers", "localhost:1")
	x.Meta.Brokers = kadm.BrokerDetails{{NodeID: 1, Host: "127.0.0.1", Port: 1}}
	x.addresses(t.Context())
	finds(t, "closed", found(), "cannot be dialed from here", "start the broker if it is down")
	x, found = patient(t, "--brokers", "localhost:1")
	x.member, x.Meta.Brokers = true, kadm.BrokerDetails{{NodeID: 3, Host: "127.0.0.1", Port: 1}}
	x.add("brokers", health.Bad, health.OfBroker(3), "it is fenced", "start it")
	if x.addresses(t.Context()); strings.Contains(found(), "--advertise") {
		t.Errorf("a broker that is down advertises a wrong address:\n%s", found())
	}
}

// An error of a request ends the checks, but the findings that were read are printed, next to one
// about what was not examined.
func TestAnErrorOfALaterRequestDropsNoFinding(t *testing.T) {
	var held app.Throttle
	held.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Hour, true)
	loading := app.RefusedFor("list groups", kerr.CoordinatorLoadInProgress, "", "follow the findings")
	for name, c := range map[string]struct {
		severity health.Severity // of a finding that was read
		err      error
		finds    []string
	}{
		"a note":    {health.Note, loading, []string{"warn examination it could not be completed: list groups: COORDINATOR_LOAD_IN_PROGRESS"}},
		"a warning": {health.Warn, loading, []string{"warn examination it could not be completed: list groups: COORDINATOR_LOAD_IN_PROGRESS"}},
		"bad":       {health.Bad, loading, []string{"bad examination it could not be completed"}},
		"a quota": {health.Note, held.Explain(fmt.Errorf("describe: %w", os.ErrDeadlineExceeded)),
			[]string{"a quota lets this client wait, an answer before asked for a pause of 1h0m0s: describe", "chronikctl quota explain"}},
	} {
		x, found := patient(t)
		x.Add("clock", c.severity, "clock", "what was read", "a remedy")
		must.OK(t, x.Ended(t.Context(), c.err))
		finds(t, name, found(), append(c.finds, "what was read")...)
		if code := app.ExitCode(x.PrintFindings(x.a)); code != app.ExitUnhealthy {
			t.Errorf("%s: ends with %d", name, code)
		}
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	x, _ := patient(t)
	if err := x.Ended(interrupted, loading); err == nil {
		t.Error("a command that was interrupted has a result")
	}
}

// A quota that holds this client up is not a broker that has to be started.
func TestABrokerWhoseQuotaHoldsThisClientUp(t *testing.T) {
	x, found := patient(t)
	x.Meta.Brokers = kadm.BrokerDetails{{NodeID: 1, Host: "a", Port: 9092}}
	x.a.Throttle.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Hour, true)
	x.brokers(map[int32]error{1: x.a.Throttle.Explain(silentFor(dialTime))})
	finds(t, "a quota", found(), "warn broker 1 it does not answer in time", "a pause of 1h0m0s: no answer within 3s",
		"chronikctl quota explain")
	if got := found(); strings.Contains(got, "start it") {
		t.Errorf("the remedy is a start: %s", got)
	}
}
