package chronik_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"

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
		b, err := chronik.Start(t.Context(), chronik.Options{Dir: dir})
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
	first := chronik.StartTest(t, chronik.Options{Dir: dir})
	second, err := chronik.Start(t.Context(), chronik.Options{Dir: dir})
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
	core, logged := logtest.New(zap.InfoLevel)
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0", Settings: map[string]string{"num.partitions": "3"}, Log: zap.New(core)})
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
	if logged.FilterMessage("ready").Len() != 1 {
		t.Errorf("the broker logged %v", logged.All())
	}
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+b.AdminAddr()+"/loglevel",
		strings.NewReader(`{"level":"error"}`))
	must.OK(t, err)
	if resp, err = http.DefaultClient.Do(put); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%+v %v", resp, err)
	}
	must.OK(t, b.Close())
	http.DefaultClient.CloseIdleConnections()
	if logged.FilterMessage("stopped").Len() != 0 {
		t.Errorf("at level error the broker logged %v", logged.All())
	}
}

func TestWhatIsWrongIsToldAndNothingIsLeft(t *testing.T) {
	taken := chronik.StartTest(t)
	for want, o := range map[string]chronik.Options{
		"unknown durability profile": {Profile: "fsync"},
		"unknown key":                {Settings: map[string]string{"num.partition": "1"}},
		"address already in use":     {Listen: taken.Addr()},
		"cannot listen":              {Admin: "192.0.2.1:1"},
		"directory /proc/none":       {Dir: "/proc/none"},
	} {
		if b, err := chronik.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, %v; want %s", o, b, err, want)
		}
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
	b, err := chronik.Start(t.Context(), chronik.Options{Dir: dir})
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
	again := chronik.StartTest(t, chronik.Options{Dir: dir})
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
		broker, err := chronik.Start(b.Context(), chronik.Options{})
		must.OK(b, err)
		must.OK(b, broker.Close())
	}
}
