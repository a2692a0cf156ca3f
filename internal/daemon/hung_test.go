package daemon

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// startHung starts a broker with two log directories. It returns the broker from its begin on, and
// a channel that is closed when it serves.
func startHung(t *testing.T, fsys vfs.FS) (*Broker, <-chan struct{}) {
	t.Helper()
	cfg, err := resolve.Load(config.Input{Set: []string{"log.dirs=/one,/two"}, Flags: map[string]string{
		config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "127.0.0.1:0"}})
	must.OK(t, err)
	begun, serves := make(chan *Broker, 1), make(chan struct{})
	go func() {
		defer close(serves)
		b, err := Start(t.Context(), Options{Config: cfg, FS: fsys, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20,
			JournalBytes: 16 << 20, diskPatience: 50 * time.Millisecond, Begun: func(b *Broker) { begun <- b }})
		if err != nil {
			t.Errorf("start: %v", err)
			return
		}
		t.Cleanup(func() { _ = b.Close() })
	}()
	return <-begun, serves
}

// hold makes every call on /two wait.
func hold(errs *errfs.FS, free <-chan struct{}) {
	errs.Add(errfs.Rule{
		When:   func(c errfs.Call) bool { return c.Path == "/two" || strings.HasPrefix(c.Path, "/two/") },
		Before: func(errfs.Call) { <-free },
	})
}

// A broker starts although the disk of a log directory hangs. It serves the partitions in the
// others and reports the directory; the next start uses it again.
func TestABrokerServesBesideAHungLogDirectory(t *testing.T) {
	mem := vfs.Memory()
	b, _ := startHere(t, mem, "log.dirs=/one,/two")
	fill(t, b, "t", 2, 3)
	must.OK(t, b.Close())
	errs := errfs.New(mem)
	free := make(chan struct{})
	hold(errs, free)
	b, serves := startHung(t, errs)
	<-serves
	report := b.health.Report(t.Context())
	if text := report.Text(); !report.Ready || !strings.Contains(text, "bad: log directory /two: ") ||
		!strings.Contains(text, "has not answered") {
		t.Errorf("%s", text)
	}
	fill(t, b, "new", 4, 1)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	close(free)
	b, _ = startHere(t, mem, "log.dirs=/one,/two")
	if text := b.health.Report(t.Context()).Text(); text != "ready\n" {
		t.Errorf("the next start: %s", text)
	}
}

// Without metadata, the broker does not begin while a log directory hangs: its logs may have been
// made with metadata that are lost.
func TestABrokerWithoutMetadataWaitsForAHungLogDirectory(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	free := make(chan struct{})
	hold(errs, free)
	b, serves := startHung(t, errs)
	eventually(t, "the start says what it waits for", func() bool { return strings.Contains(b.health.Phase(), "the disk of /two") })
	select {
	case <-serves:
		t.Error("the broker serves")
	default:
	}
	close(free)
	<-serves
}
