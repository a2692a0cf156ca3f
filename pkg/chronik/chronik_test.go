package chronik_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
	"github.com/chronik-io/chronik/pkg/durability"
)

// goleak checks that Close leaves no goroutine behind, after every test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, b *chronik.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(),
		kgo.RecordDeliveryTimeout(time.Minute)}, opts...)...)
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// write writes n records, "NAME 0" and so on, and waits for all of them.
func write(t *testing.T, b *chronik.Broker, topic, name string, n int) {
	t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%s %d", name, i)})
	}
	cl := client(t, b)
	must.OK(t, cl.ProduceSync(t.Context(), records...).FirstErr())
}

// read returns the values of the first n records of partition 0.
func read(t *testing.T, b *chronik.Broker, topic string, n int) []string {
	t.Helper()
	cl := client(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var values []string
	for len(values) < n {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(values), n, err)
		}
		f.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func TestInMemoryInOneLine(t *testing.T) {
	b := chronik.StartTest(t)
	write(t, b, "a", "x", 100)
	if got := read(t, b, "a", 100); len(got) != 100 || got[0] != "x 0" || got[99] != "x 99" {
		t.Errorf("%d records, %v", len(got), got)
	}
	if b.AdminAddr() != "" {
		t.Errorf("an admin port that was not requested is at %s", b.AdminAddr())
	}
}

// There is no global state: several brokers know nothing about each other.
func TestManyBrokersSideBySide(t *testing.T) {
	const brokers = 5
	var all sync.WaitGroup
	for i := range brokers {
		all.Go(func() {
			b := chronik.StartTest(t)
			write(t, b, "same-name", fmt.Sprint(i), 1)
			if got := read(t, b, "same-name", 1); got[0] != fmt.Sprintf("%d 0", i) {
				t.Errorf("broker %d has %q", i, got)
			}
		})
	}
	all.Wait()
}

func TestADirectoryKeepsRecordsAndIdentity(t *testing.T) {
	dir := t.TempDir()
	var cluster string
	for round := range 3 {
		b, err := chronik.Open(t.Context(), dir, chronik.Options{})
		must.OK(t, err)
		write(t, b, "kept", fmt.Sprint("round ", round), 1)
		got := read(t, b, "kept", round+1)
		for i, v := range got {
			if want := fmt.Sprintf("round %d 0", i); v != want {
				t.Errorf("round %d: record %d is %q", round, i, v)
			}
		}
		m, err := kadm.NewClient(client(t, b)).BrokerMetadata(t.Context())
		if err != nil || cluster != "" && m.Cluster != cluster {
			t.Errorf("cluster %q after %q, %v", m.Cluster, cluster, err)
		}
		cluster = m.Cluster
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Two programs must not write to one directory; the error of the second names the first.
func TestADirectoryInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := chronik.StartTestIn(t, dir, chronik.Options{})
	second, err := chronik.Open(t.Context(), dir, chronik.Options{})
	if err == nil || !strings.Contains(err.Error(), "locked by another") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, %v", second, err)
	}
	write(t, first, "a", "x", 1)
}

// counting is a policy that closes every group at once.
type counting struct{ asked atomic.Int64 }

func (c *counting) Close(durability.Group) (bool, time.Duration) {
	c.asked.Add(1)
	return true, 0
}

// A program's own profile works for topics, and clients can name it.
func TestAProfileOfThePrograms(t *testing.T) {
	policy := &counting{}
	mine := durability.Profile{Name: "mine", Doc: "counts", Ack: durability.Synced, Sync: durability.SyncGroup,
		MaxWait: time.Millisecond, MaxRecords: 10, MaxBytes: 1 << 20,
		Policy: policy}
	b := chronik.StartTest(t, chronik.Options{Profile: "mine", Profiles: []durability.Profile{mine}})
	write(t, b, "a", "x", 1)
	if policy.asked.Load() == 0 {
		t.Error("the program's policy was never asked")
	}
	adm := kadm.NewClient(client(t, b))
	name := "mine"
	if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"chronik.durability.profile": &name}, "named"); err != nil {
		t.Error(err)
	}
	name = "nobodys"
	if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"chronik.durability.profile": &name}, "wrong"); err == nil {
		t.Error("a profile that does not exist was taken")
	}
}

func TestSettingsAndAdminPort(t *testing.T) {
	var logged lines
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0", Settings: map[string]string{"num.partitions": "3"},
		Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	write(t, b, "three", "x", 1)
	topics, err := kadm.NewClient(client(t, b)).ListTopics(t.Context(), "three")
	if err != nil || len(topics["three"].Partitions) != 3 {
		t.Errorf("%d partitions, %v", len(topics["three"].Partitions), err)
	}
	resp, err := http.Get("http://" + b.AdminAddr() + "/readyz")
	must.OK(t, err)
	body, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err != nil || closed != nil || string(body) != "ready\n" {
		t.Errorf("%q %v %v", body, err, closed)
	}
	http.DefaultClient.CloseIdleConnections()
	if n := strings.Count(logged.String(), "level=INFO msg=ready "); n != 1 {
		t.Errorf("%d lines say that it is ready:\n%s", n, &logged)
	}
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+b.AdminAddr()+"/loglevel",
		strings.NewReader(`{"level":"error"}`))
	must.OK(t, err)
	if resp, err = http.DefaultClient.Do(put); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%+v %v", resp, err)
	}
	must.OK(t, b.Close())
	http.DefaultClient.CloseIdleConnections()
	if strings.Contains(logged.String(), "msg=stopped") {
		t.Errorf("at level error the broker logged\n%s", &logged)
	}
}

// lines is what a handler of slog has written.
type lines struct {
	mu  sync.Mutex
	buf strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String implements fmt.Stringer.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestWhatIsWrongIsToldAndNothingIsLeft(t *testing.T) {
	taken := chronik.StartTest(t)
	used := t.TempDir()
	chronik.StartTestIn(t, used)
	for want, c := range map[string]struct {
		dir  string // empty: in memory
		o    chronik.Options
		kind error
	}{
		"unknown durability profile": {o: chronik.Options{Profile: "fsync"}, kind: chronik.ErrOptions},
		"unknown key":                {o: chronik.Options{Settings: map[string]string{"num.partition": "1"}}, kind: chronik.ErrOptions},
		"no such file":               {o: chronik.Options{ConfigFile: "/none.yaml"}, kind: chronik.ErrOptions},
		"address already in use":     {o: chronik.Options{Listen: taken.Addr()}, kind: chronik.ErrAddress},
		"cannot listen":              {o: chronik.Options{Admin: "192.0.2.1:1"}, kind: chronik.ErrAddress},
		"directory /proc/none":       {dir: "/proc/none", kind: chronik.ErrDirectory},
		"locked by another":          {dir: used, kind: chronik.ErrInUse},
	} {
		var b *chronik.Broker
		var err error
		if c.dir == "" {
			b, err = chronik.OpenMemory(t.Context(), c.o)
		} else {
			b, err = chronik.Open(t.Context(), c.dir, c.o)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "chronik: ") {
			t.Errorf("%+v: got %v, %v; want %s", c, b, err, want)
		}
		for _, kind := range []error{chronik.ErrOptions, chronik.ErrAddress, chronik.ErrDirectory, chronik.ErrInUse, chronik.ErrNewer,
			chronik.ErrDamaged, chronik.ErrClosed} {
			is := errors.Is(c.kind, kind) || errors.Is(c.kind, chronik.ErrInUse) && errors.Is(kind, chronik.ErrDirectory)
			if errors.Is(err, kind) != is {
				t.Errorf("%v: %v: %v, want %v", err, kind, !is, is)
			}
		}
	}
}

// An empty name must not become a broker in memory, nor one in the working directory.
func TestADirectoryHasAName(t *testing.T) {
	b, err := chronik.Open(t.Context(), "", chronik.Options{})
	if !errors.Is(err, chronik.ErrOptions) || !strings.Contains(err.Error(), "OpenMemory") {
		t.Errorf("%v, %v", b, err)
	}
}

// What a newer version wrote, and what is damaged, is refused and stays as it is.
func TestAForeignFormatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		kind     error
	}{
		"newer":   {"chronik-directory 1 ", "chronik-directory 2 ", chronik.ErrNewer},
		"damaged": {"\ndirectory ", "\ndirectorx ", chronik.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := chronik.StartTestIn(t, dir)
			write(t, b, "a", "x", 1)
			must.OK(t, b.Close())
			file := filepath.Join(dir, "logs", "chronik.dir")
			was, err := os.ReadFile(file)
			must.OK(t, err)
			must.OK(t, os.WriteFile(file, bytes.Replace(was, []byte(c.from), []byte(c.to), 1), 0o600))
			b, err = chronik.Open(t.Context(), dir, chronik.Options{})
			if !errors.Is(err, c.kind) || !errors.Is(err, chronik.ErrDirectory) {
				t.Fatalf("%v, %v", b, err)
			}
			must.OK(t, os.WriteFile(file, was, 0o600))
			if got := read(t, chronik.StartTestIn(t, dir), "a", 1); got[0] != "x 0" {
				t.Errorf("%q", got)
			}
		})
	}
}

// Clients in the program need no network. Dial reaches other addresses as net.Dialer does.
func TestClientsConnectWithinTheProgram(t *testing.T) {
	b, other := chronik.StartTest(t), chronik.StartTest(t)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := b.Dial(ctx, network, address)
		if _, tcp := nc.(*net.TCPConn); tcp || err != nil {
			t.Errorf("%s: %T, %v", address, nc, err)
		}
		return nc, err
	}
	cl := client(t, b, kgo.Dialer(dial), kgo.ConsumeTopics("a"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit())
	large := bytes.Repeat([]byte("x"), 900<<10)
	var records []*kgo.Record
	for range 20 {
		records = append(records, &kgo.Record{Topic: "a", Value: large})
	}
	must.OK(t, cl.ProduceSync(t.Context(), records...).FirstErr())
	for got := 0; got < len(records); {
		f := cl.PollFetches(t.Context())
		must.OK(t, f.Err())
		f.EachRecord(func(r *kgo.Record) {
			if got++; !bytes.Equal(r.Value, large) {
				t.Errorf("a record of %d bytes", len(r.Value))
			}
		})
	}
	must.OK(t, cl.CommitUncommittedOffsets(t.Context()))
	nc, err := b.Dial(t.Context(), "tcp", other.Addr())
	must.OK(t, err)
	if _, tcp := nc.(*net.TCPConn); !tcp {
		t.Errorf("another broker was reached by %T", nc)
	}
	must.OK(t, nc.Close())
	cl.Close()
	must.OK(t, b.Close())
	if nc, err := b.Dial(t.Context(), "tcp", b.Addr()); !errors.Is(err, chronik.ErrClosed) {
		t.Errorf("%v, %v after Close", nc, err)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	b := chronik.StartTest(t)
	h := b.Health(t.Context())
	if !h.Ready {
		t.Errorf("%+v", h)
	}
	for _, f := range h.Findings {
		if f.Check == "" || f.Subject == "" || f.Problem == "" || f.Remedy == "" || f.Since.IsZero() || f.NotReady {
			t.Errorf("%+v", f)
		}
	}
	families, err := b.Metrics().Gather()
	must.OK(t, err)
	if !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "chronik_ready" }) {
		t.Errorf("%d metrics", len(families))
	}
	must.OK(t, b.Err())
	must.OK(t, b.Close())
	<-b.Done()
	if err := b.Err(); !errors.Is(err, chronik.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if h := b.Health(t.Context()); h.Ready {
		t.Errorf("after Close: %+v", h)
	}
}

// A stop that may take no time abandons what it has not ended, and the next start recovers it.
func TestShutdownWithoutTime(t *testing.T) {
	dir := t.TempDir()
	b, err := chronik.Open(t.Context(), dir, chronik.Options{})
	must.OK(t, err)
	write(t, b, "a", "x", 10)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first := b.Shutdown(ended)
	if !errors.Is(first, context.Canceled) {
		t.Errorf("got %v", first)
	}
	if again := b.Close(); again.Error() != first.Error() {
		t.Errorf("%v, then %v", first, again)
	}
	b, err = chronik.Open(t.Context(), dir, chronik.Options{})
	for errors.Is(err, chronik.ErrInUse) { // what was abandoned has not ended yet
		b, err = chronik.Open(t.Context(), dir, chronik.Options{})
	}
	must.OK(t, err)
	if got := read(t, b, "a", 10); got[9] != "x 9" {
		t.Errorf("%q", got)
	}
	must.OK(t, b.Close())
}

// The settings that only a file can have apply, and options override it.
func TestAConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chronik.yaml")
	const text = "listeners:\n- name: a\n  listen: 127.0.0.1:0\n- name: b\n  listen: 127.0.0.1:0\nnum.partitions: 5\n"
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	b := chronik.StartTest(t, chronik.Options{ConfigFile: file, Admin: "off"})
	if n := len(b.Addrs()); n != 2 || b.Addrs()[0] != b.Addr() {
		t.Errorf("%v", b.Addrs())
	}
	write(t, b, "five", "x", 1)
	topics, err := kadm.NewClient(client(t, b)).ListTopics(t.Context(), "five")
	if err != nil || len(topics["five"].Partitions) != 5 {
		t.Errorf("%d partitions, %v", len(topics["five"].Partitions), err)
	}
}

// A broker that a test has closed is closed again by StartTest.
func TestCloseTwice(t *testing.T) {
	b := chronik.StartTest(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
}

// Close answers accepted requests: a record that a producer waits for is acknowledged and on the
// disk, or its producer receives an error.
func TestCloseUnderLoad(t *testing.T) {
	dir := t.TempDir()
	b, err := chronik.Open(t.Context(), dir, chronik.Options{})
	must.OK(t, err)
	var mu sync.Mutex
	acked, enough := map[int64]string{}, make(chan struct{})
	cl := client(t, b, kgo.DefaultProduceTopic("a"), kgo.RecordDeliveryTimeout(time.Second), kgo.MaxBufferedRecords(64))
	ctx, stop := context.WithCancel(t.Context())
	var producer sync.WaitGroup
	producer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			cl.Produce(ctx, kgo.StringRecord(fmt.Sprint(i)), func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					return
				}
				if acked[r.Offset] = string(r.Value); len(acked) == 500 {
					close(enough)
				}
			})
		}
	})
	<-enough
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	stop()
	producer.Wait()
	cl.Close()
	again := chronik.StartTestIn(t, dir, chronik.Options{})
	got := read(t, again, "a", len(acked))
	for offset, v := range acked {
		if offset >= int64(len(got)) || got[offset] != v {
			t.Errorf("record %s was acknowledged at %d", v, offset)
		}
	}
}

// fake is a test that fails without ending the test that checks it.
type fake struct {
	testing.TB
	ctx     context.Context
	fatal   string
	cleanup []func()
}

func (f *fake) Helper()                        {}
func (f *fake) Cleanup(fn func())              { f.cleanup = append(f.cleanup, fn) }
func (f *fake) Context() context.Context       { return f.ctx }
func (f *fake) Errorf(format string, a ...any) { f.fatal = fmt.Sprintf(format, a...) }
func (f *fake) Fatalf(format string, a ...any) { f.fatal = fmt.Sprintf(format, a...) }

func TestATestWhoseBrokerDoesNotStartFails(t *testing.T) {
	f := &fake{ctx: t.Context()}
	if b := chronik.StartTest(f, chronik.Options{Profile: "fsync"}); b != nil || !strings.Contains(f.fatal, "fsync") ||
		len(f.cleanup) != 0 {
		t.Errorf("%v, %q, %d cleanups", b, f.fatal, len(f.cleanup))
	}
}

// A test suite starts hundreds of brokers in memory, so one start and stop must stay cheap.
// docs/performance.md has the figure.
func BenchmarkInMemory(b *testing.B) {
	for b.Loop() {
		broker, err := chronik.OpenMemory(b.Context(), chronik.Options{})
		must.OK(b, err)
		must.OK(b, broker.Close())
	}
}
