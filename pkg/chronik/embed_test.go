package chronik_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
	"github.com/chronik-io/chronik/pkg/durability"
)

// The program changes its working directory while the broker runs. What is written then is in the
// same directories as before.
func TestAProgramMayChangeItsWorkingDirectory(t *testing.T) {
	first, other := t.TempDir(), t.TempDir()
	for name, settings := range map[string]map[string]string{
		"relative":      nil,
		"relative logs": {"log.dirs": "one, two", "journal.dirs": "j1,j2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(first)
			o := chronik.Options{Settings: settings}
			b, err := chronik.Open(t.Context(), name, o)
			must.OK(t, err)
			write(t, b, "before", "x", 1)
			must.OK(t, os.Chdir(other))
			write(t, b, "before", "y", 1)
			write(t, b, "after", "z", 1)
			must.OK(t, b.Close())
			if entries, err := os.ReadDir(other); err != nil || len(entries) != 0 {
				t.Errorf("%v, %v", entries, err)
			}
			must.OK(t, os.Chdir(first))
			b, err = chronik.Open(t.Context(), name, o)
			must.OK(t, err)
			if got := read(t, b, "before", 2); got[1] != "y 0" {
				t.Errorf("%q", got)
			}
			if got := read(t, b, "after", 1); got[0] != "z 0" {
				t.Errorf("%q", got)
			}
			must.OK(t, b.Close())
		})
	}
}

// A list of directories is made of the directory's name, so it cannot have a comma.
func TestADirectoryWithACommaIsRefused(t *testing.T) {
	base := t.TempDir()
	b, err := chronik.Open(t.Context(), filepath.Join(base, "tenant,eu"), chronik.Options{})
	if !errors.Is(err, chronik.ErrOptions) || !strings.Contains(err.Error(), "comma") {
		t.Errorf("%v, %v", b, err)
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Directories that would contain one another's files are refused, whichever of them is relative.
func TestDirectoriesWithinEachOtherAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, settings := range []map[string]string{
		{"log.dirs": "d/metadata"}, {"log.dirs": "d"}, {"log.dirs": "l", "journal.dirs": "d"}, {"log.dirs": "l,l/two"},
		{"log.dirs": "none,l"}, {"log.dirs": "l, none"},
	} {
		if b, err := chronik.Open(t.Context(), "d", chronik.Options{Settings: settings}); !errors.Is(err, chronik.ErrOptions) {
			t.Errorf("%v: %v, %v", settings, b, err)
		}
	}
	must.OK(t, os.Mkdir("a,b", 0o700))
	must.OK(t, os.Chdir("a,b"))
	b, err := chronik.Open(t.Context(), t.TempDir(), chronik.Options{Settings: map[string]string{"log.dirs": "l"}})
	if !errors.Is(err, chronik.ErrOptions) || !strings.Contains(err.Error(), "comma") {
		t.Errorf("%v, %v", b, err)
	}
}

// A stop that its context ends says so with the error of the context.
func TestAStopThatIsEndedSaysSo(t *testing.T) {
	ended, end := context.WithTimeout(t.Context(), 0)
	defer end()
	for range 10 {
		b, err := chronik.OpenMemory(t.Context(), chronik.Options{})
		must.OK(t, err)
		if err := b.Shutdown(ended); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		_ = b.Close() // the same stop
	}
}

// A program that serves the default paths of net/http serves nothing of the broker, and one that
// serves the default metrics serves the broker's with them.
func TestTheProgramsDefaultsAreItsOwn(t *testing.T) {
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0"})
	r := httptest.NewRequest(http.MethodGet, "/debug/pprof/", http.NoBody)
	if _, pattern := http.DefaultServeMux.Handler(r); pattern != "" {
		t.Errorf("the default paths have %s", pattern)
	}
	both := prometheus.Gatherers{prometheus.DefaultGatherer, b.Metrics()}
	w := httptest.NewRecorder()
	_ = promhttp.Handler() // registers metrics of its own, as in a program that had only these
	promhttp.HandlerFor(both, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	text := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(text, "\nchronik_ready 1\n") || !strings.Contains(text, "\ngo_goroutines ") {
		t.Errorf("%d %.300s", w.Code, text)
	}
}

// Only the first listener has connections within the program.
func TestDialReachesTheListenerOfTheAddress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chronikd.yaml")
	text := "listeners:\n  - {name: a, listen: '127.0.0.1:0'}\n  - {name: b, listen: '127.0.0.1:0'}\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	b := chronik.StartTest(t, chronik.Options{ConfigFile: file})
	if len(b.Addrs()) != 2 {
		t.Fatal(b.Addrs())
	}
	for i, address := range b.Addrs() {
		c, err := b.Dial(t.Context(), "tcp", address)
		must.OK(t, err)
		if at := c.RemoteAddr().String(); at != address {
			t.Errorf("listener %d at %s: the connection is to %s", i, address, at)
		}
		must.OK(t, c.Close())
	}
}

// Settings and a file count where no field says anything, and what says two things is refused.
func TestSettingsCountWhereNoFieldDoes(t *testing.T) {
	free := chronik.StartTest(t)
	address := free.Addr()
	must.OK(t, free.Close())
	b := chronik.StartTest(t, chronik.Options{Settings: map[string]string{"listen": address, "admin.listen": "127.0.0.1:0"}})
	if b.Addr() != address || b.AdminAddr() == "" {
		t.Errorf("%s instead of %s, admin %q", b.Addr(), address, b.AdminAddr())
	}
	for name, o := range map[string]chronik.Options{
		"Listen":   {Listen: "127.0.0.1:0", Settings: map[string]string{"listen": "127.0.0.1:0"}},
		"Admin":    {Admin: "127.0.0.1:0", Settings: map[string]string{"admin.listen": "off"}},
		"Profile":  {Profile: "sync", Settings: map[string]string{"wal.profile": "os"}},
		"argument": {Settings: map[string]string{"data.dir": "elsewhere"}},
	} {
		b, err := chronik.OpenMemory(t.Context(), o)
		if !errors.Is(err, chronik.ErrOptions) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
}

// A file that says nothing of addresses leaves those of the package, so that two brokers can use
// it.
func TestAFileWithoutAddressesOpensNoFixedPort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chronikd.yaml")
	must.OK(t, os.WriteFile(file, []byte("num.partitions: 5\n"), 0o600))
	for range 2 {
		b := chronik.StartTest(t, chronik.Options{ConfigFile: file})
		_, port, ok := strings.Cut(b.Addr(), "127.0.0.1:")
		if len(b.Addrs()) != 1 || !ok || port == "9092" || b.AdminAddr() != "" {
			t.Errorf("%v, admin %q", b.Addrs(), b.AdminAddr())
		}
	}
}

// log.level of the settings reduces what the logger gets.
func TestTheLogLevelOfSettings(t *testing.T) {
	var got lines
	logger := slog.New(slog.NewTextHandler(&got, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := chronik.StartTest(t, chronik.Options{Logger: logger, Settings: map[string]string{"log.level": "error"}})
	must.OK(t, b.Close())
	if text := got.String(); strings.Contains(text, "level=INFO") || strings.Contains(text, "level=DEBUG") {
		t.Errorf("%s", text)
	}
}

// A start that ctx ends matches the error of ctx and no other, wherever it was.
func TestAStartThatIsEndedSaysSo(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	late, end := context.WithTimeoutCause(t.Context(), 0, errors.New("the cause"))
	defer end()
	for ctx, want := range map[context.Context]error{ended: context.Canceled, late: context.DeadlineExceeded} {
		for _, listen := range []string{"", "localhost:0"} {
			b, err := chronik.Open(ctx, t.TempDir(), chronik.Options{Listen: listen})
			if !errors.Is(err, want) || errors.Is(err, chronik.ErrAddress) || errors.Is(err, chronik.ErrDirectory) {
				t.Errorf("%q: %v, %v", listen, b, err)
			}
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				t.Errorf("%v lacks the cause %v", err, cause)
			}
		}
	}
}

// Without its metadata a directory counts as damaged: the text names the command that helps.
func TestADirectoryWithoutMetadataIsDamaged(t *testing.T) {
	dir := t.TempDir()
	b := chronik.StartTestIn(t, dir)
	write(t, b, "a", "x", 1)
	must.OK(t, b.Close())
	must.OK(t, os.RemoveAll(filepath.Join(dir, "metadata")))
	b, err := chronik.Open(t.Context(), dir, chronik.Options{})
	if !errors.Is(err, chronik.ErrDamaged) || !errors.Is(err, chronik.ErrDirectory) || !strings.Contains(err.Error(), "log repair") {
		t.Errorf("%v, %v", b, err)
	}
}

// A topic keeps the name of a profile that the program no longer has. It can be read, and Health
// says why nothing can be written.
func TestATopicWhoseProfileIsMissing(t *testing.T) {
	dir := t.TempDir()
	mine := durability.Builtin()[0]
	mine.Name = "mine"
	b := chronik.StartTestIn(t, dir, chronik.Options{Profile: "mine", Profiles: []durability.Profile{mine}})
	cl := client(t, b)
	_, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, map[string]*string{"chronik.durability.profile": &mine.Name}, "a")
	must.OK(t, err)
	write(t, b, "a", "x", 1)
	must.OK(t, b.Close())
	b = chronik.StartTestIn(t, dir)
	if got := read(t, b, "a", 1); got[0] != "x 0" {
		t.Errorf("%q", got)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		h := b.Health(t.Context())
		if i := slices.IndexFunc(h.Findings, func(f chronik.Finding) bool { return f.Subject == "configuration of topics" }); i >= 0 {
			if f := h.Findings[i]; f.Severity != chronik.Bad || !strings.Contains(f.Problem, `unknown durability profile "mine"`) {
				t.Errorf("%+v", f)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", h)
		}
	}
}
