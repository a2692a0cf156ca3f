package app

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/durability"
)

// port returns the admin port that these flags name.
func port(t *testing.T, flags ...string) *AdminPort {
	t.Helper()
	a := New("v", Streams{Getenv: func(name string) string { return map[string]string{"HOME": t.TempDir()}[name] }})
	root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	a.Prepare(root)
	root.SetArgs(flags)
	must.OK(t, root.Execute())
	return AdminPortOf(a)
}

// answering is an admin port that gives one answer to every request.
func answering(t *testing.T, status int, body string) *AdminPort {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return port(t, "--admin", s.URL)
}

func TestTheDefaultIsAskedOnlyForABrokerWithDefaults(t *testing.T) {
	for line, want := range map[string]string{
		"": "http://127.0.0.1:9644", "--brokers localhost": "http://127.0.0.1:9644", "--brokers [::1]:9092": "http://127.0.0.1:9644",
		"--brokers 127.0.0.1:9093": "", "--brokers broker.example.com:9092": "", "--admin off": "", "--brokers localhost,b:9092": "",
		"--brokers b:1 --admin b:9644": "http://b:9644", "--admin https://b:9644/": "https://b:9644",
	} {
		got := ""
		if p := port(t, strings.Fields(line)...); p != nil {
			got = p.String()
		}
		if got != want {
			t.Errorf("%q: %q is asked, want %q", line, got, want)
		}
	}
}

func TestProfilesAreReadAsDocumented(t *testing.T) {
	got, err := answering(t, 200, `{"default":"sync","new":1,"profiles":[{"name":"medium","ack":"written","sync":"interval","maxWaitMs":2.5,"maxRecords":4,"maxBytes":5,
		"intervalMs":50,"doc":"d","waits":{"count":7,"meanMs":3.5}}],"groups":[{"dir":"/d","count":2,"meanRecords":3}]}`).Profiles(t.Context())
	if err != nil || got.Default != "sync" || got.Groups[0].MeanRecords != 3 || got.List[0].Waits.Count != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	p := got.List[0].Durability()
	if p.Ack != durability.Written || p.Sync != durability.SyncInterval || p.Interval.String() != "50ms" || p.MaxWait.String() != "2.5ms" {
		t.Errorf("%+v", p)
	}
}

func TestAbsentIsToldApartFromWrong(t *testing.T) {
	for name, c := range map[string]struct {
		p      *AdminPort
		absent bool
		says   string
	}{
		"not found":    {answering(t, 404, "404 page not found"), true, "no admin port"},
		"another page": {answering(t, 200, "<html>"), true, "the answer is not chronik's"},
		"refused":      {port(t, "--admin", "127.0.0.1:1"), true, "--admin"},
		"starting":     {answering(t, 503, `{"error":"recovering"}`), false, "recovering"},
		"broken":       {answering(t, 500, "oops"), false, "status 500"},
		"HTTPS":        {answering(t, 400, "This port speaks HTTPS.\n"), false, "This port speaks HTTPS."},
	} {
		_, err := c.p.Health(t.Context())
		if err == nil || errors.Is(err, ErrNoAdminPort) != c.absent || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Logs requests further logs while there are more.
func TestLogsArePaged(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"more": true, "logs": [{"topic": "a", "partition": 0, "retained": "active segment"}]}`
		switch q := r.URL.Query(); {
		case r.URL.Path != "/v1/logs" || strings.Join(q["topic"], ",") != "a,b":
			answer = `{}`
		case q.Get("after") == "a/0":
			answer = `{"more": false, "logs": [{"topic": "b", "partition": 3}]}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	logs, err := port(t, "--admin", s.URL).Logs(t.Context(), "a", "b")
	if err != nil || len(logs) != 2 || logs[0].Retained != "active segment" || logs[1].Topic != "b" || logs[1].Partition != 3 {
		t.Errorf("%+v, %v", logs, err)
	}
}

// Of several admin ports, the first that answers is used, and from then on: two samples are of one
// broker. If it ends, another one answers.
func TestTheFirstAdminPortThatAnswers(t *testing.T) {
	serve := func(version string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"version": "` + version + `"}`))
		}))
		t.Cleanup(s.Close)
		return s
	}
	two, three := serve("two"), serve("three")
	p := port(t, "--admin", "127.0.0.1:1, "+two.URL+","+three.URL)
	version := func() string {
		r, err := p.Health(t.Context())
		must.OK(t, err)
		return r.Version
	}
	if all := p.String(); all != "http://127.0.0.1:1, "+two.URL+", "+three.URL {
		t.Error(all)
	}
	if v := version() + " " + version(); v != "two two" || p.String() != two.URL {
		t.Errorf("%s, at %v", v, p)
	}
	two.Close()
	if v := version() + " " + version(); v != "three three" || p.String() != three.URL {
		t.Errorf("%s, at %v", v, p)
	}
	three.Close()
	_, err := p.Health(t.Context())
	if !Unreached(err) || !errors.Is(err, ErrNoAdminPort) || ExitCode(err) != ExitUnreachable ||
		!strings.Contains(err.Error(), "http://127.0.0.1:1: connect: connection refused, ") || strings.Count(err.Error(), "--admin off") != 1 {
		t.Errorf("%v", err)
	}
}

// A port that hangs is left for one that answers.
func TestAnAdminPortThatHangsIsNotTheOnlyOne(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	must.OK(t, err)
	defer l.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer s.Close()
	p := port(t, "--admin", l.Addr().String()+","+s.URL, "--timeout", "100ms")
	if _, err := p.Health(t.Context()); err != nil || p.String() != s.URL {
		t.Errorf("%v, at %v", err, p)
	}
}
