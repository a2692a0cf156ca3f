package bench

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// topics returns the names of a broker's topics.
func topics(t *testing.T, broker string) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	must.OK(t, err)
	defer cl.Close()
	found, err := kadm.NewClient(cl).ListTopics(t.Context())
	must.OK(t, err)
	return found.Names()
}

// If a run fails after it created its topic, its error reports that the topic remains, unless the
// run deletes it.
func TestAFailedRunReportsTheTopicThatItMade(t *testing.T) {
	c := short(t)
	c.Admin = c.Brokers[0] // rejected after the topic was created
	_, err := Run(context.Background(), c, nil)
	if err == nil || !strings.Contains(err.Error(), "Topic "+c.Topic+" was created and remains") {
		t.Errorf("the error is %v", err)
	}
	c.DeleteTopic = true
	_, err = Run(context.Background(), c, nil)
	if err == nil || strings.Contains(err.Error(), "stays") {
		t.Errorf("the error is %v", err)
	}
	if left := topics(t, c.Brokers[0]); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// A run without flags about a topic creates its own, reports that it remains, and deletes it if the
// run should. It uses an existing topic as it is.
func TestTheDefaultTopicIsCreated(t *testing.T) {
	c := short(t)
	c.CreateTopic, c.Mode = false, ModeConsume
	if _, err := Run(context.Background(), c, nil); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("there is nothing to consume: %v", err)
	}
	c.Mode = ModeProduce
	for _, want := range []string{"Topic chronik-bench was created and remains, with ", "Topic chronik-bench remains, with "} {
		if notes := run(t, c, nil).Notes; !slices.ContainsFunc(notes, func(n string) bool {
			return strings.HasPrefix(n, want) &&
				strings.HasSuffix(n, " MB: chronikctl topic delete "+c.Topic+" deletes it, and so does a run with --delete-topic.")
		}) {
			t.Errorf("%q not in %q", want, notes)
		}
		c.Partitions = 7 // of a created topic
	}
	c.DeleteTopic = true
	if notes := run(t, c, nil).Notes; len(notes) != 0 {
		t.Errorf("%q", notes)
	}
	if left := topics(t, c.Brokers[0]); len(left) != 0 {
		t.Errorf("%q stay", left)
	}
	c.Topic = "another"
	if _, err := Run(context.Background(), c, nil); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic of that name was not asked for: %v", err)
	}
}

// A report describes the broker of the run. An admin port without the topic belongs to another
// broker.
func TestAgainst(t *testing.T) {
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0"})
	other := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0"})
	c := short(t)
	c.Brokers, c.Admin = []string{b.Addr()}, b.AdminAddr()
	a := run(t, c, func(r *Result) bool { return r.Against.Syncs != nil }).Against
	if a.Profile != "sync" || a.Broker == "" || a.Admin != b.AdminAddr() || !a.Local || a.CPUs < 1 || a.System == "" {
		t.Errorf("%+v", a)
	}
	if s := a.Syncs; s.PerSecond <= 0 || s.Records <= 0 || s.Mean < 0 {
		t.Errorf("%+v", s)
	}
	c.Admin = other.AdminAddr()
	if _, err := Run(context.Background(), c, nil); err == nil ||
		!strings.Contains(err.Error(), "the broker there has no topic chronik-bench") {
		t.Errorf("the admin port of another broker: %v", err)
	}
	c.Admin = adminOff
	if a := run(t, c, nil).Against; a.Admin != "" || a.Syncs != nil || a.Profile != "sync" {
		t.Errorf("without an admin port: %+v", a)
	}
}

func TestCounters(t *testing.T) {
	const text = `# HELP chronik_build_info Always 1; the labels say what is running.
chronik_build_info{go="go1.26",version="v1.2"} 1
chronik_commit_group_sync_seconds_bucket{dir="a",le="1"} 7
chronik_commit_group_sync_seconds_sum{dir="a"} 0.5
chronik_commit_group_sync_seconds_sum{dir="b"} 1.5e+00
chronik_commit_group_sync_seconds_count{dir="a"} 100
chronik_commit_group_sync_seconds_count{dir="b"} 300
chronik_commit_group_records_sum{dir="a"} 4000
`
	c, err := readCounters(strings.NewReader(text))
	if want := (counters{version: "v1.2", syncs: 400, seconds: 2, records: 4000}); err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := readCounters(strings.NewReader("chronik_commit_group_records_sum{dir=\"a\"} many\n")); err == nil {
		t.Error("what is no number is read")
	}
	s := syncsBetween(counters{syncs: 200, seconds: 1, records: 1000}, c, 2*time.Second)
	if want := (Syncs{PerSecond: 100, Mean: 5 * time.Millisecond, Records: 15}); s == nil || *s != want {
		t.Errorf("%+v", s)
	}
	if syncsBetween(c, c, time.Second) != nil {
		t.Error("nothing happened")
	}
}

// An address without a broker is explained: an admin port, or no listener at all.
func TestExplainNamesAnAdminPort(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for at, want := range map[string]string{
		s.Listener.Addr().String(): "an HTTP server listens there, perhaps the admin port",
		"127.0.0.1:71":             "check that a broker is running there",
	} {
		for _, err := range []error{io.EOF, context.DeadlineExceeded, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}} {
			if got := Explain([]string{at}, err); cli.ExitCode(got) != cli.ExitUnreachable || !strings.Contains(got.Error(), want) {
				t.Errorf("%s, %v: %v", at, err, got)
			}
		}
	}
}

// The first broker may accept connections and never answer.
func TestCipherOfABrokerThatAnswers(t *testing.T) {
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer hangs.Close()
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	secure := s.Client().Transport.(*http.Transport).TLSClientConfig
	if got := cipher(t.Context(), []string{hangs.Addr().String(), s.Listener.Addr().String()}, secure); !strings.Contains(got, "TLS_") {
		t.Errorf("%q", got)
	}
	if got := cipher(t.Context(), []string{hangs.Addr().String()}, secure); got != "" {
		t.Errorf("%q of a broker that does not answer", got)
	}
}
