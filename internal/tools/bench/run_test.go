package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// short returns a short run against a broker in memory.
func short(t *testing.T) Config {
	t.Helper()
	c := Default()
	c.Brokers = []string{chronik.StartTest(t).Addr()}
	c.Concurrency, c.Partitions, c.CreateTopic = 4, 2, true
	c.Warmup, c.Duration = 20*time.Millisecond, 200*time.Millisecond
	return c
}

// run runs until at least one request succeeded and enough, unless nil, accepts the result, each
// time for longer: on a busy machine a short interval may be too short. It checks what all results
// have in common.
func run(t *testing.T, c Config, enough func(*Result) bool) *Result {
	t.Helper()
	for ; ; c.Duration *= 4 {
		r, err := Run(context.Background(), c, nil)
		must.OK(t, err)
		check(t, c, r)
		if r.Succeeded() && (enough == nil || enough(r)) {
			return r
		}
		if c.Duration > 10*time.Second {
			t.Fatalf("not enough in %v: %+v", c.Duration, r)
		}
	}
}

func check(t *testing.T, c Config, r *Result) {
	t.Helper()
	if r.Elapsed != c.Duration {
		t.Errorf("measured %v, asked for %v", r.Elapsed, c.Duration)
	}
	for _, f := range r.Flows() {
		if len(f.Failures) > 0 {
			t.Errorf("%s failed: %v", f.Name, f.Failures)
		}
		if f.Name != FlowReceived && (f.Latency.TotalCount() == 0 != (f.Records == 0) || f.Quantile(50) > f.Max()) {
			t.Errorf("%s: %d samples, p50 %v, max %v", f.Name, f.Latency.TotalCount(), f.Quantile(50), f.Max())
		}
		var sum int64
		var width time.Duration
		for _, p := range f.Series {
			sum += p.Records
			width += p.Width
		}
		if sum != f.Records || width != r.Elapsed {
			t.Errorf("%s: points hold %d of %d records in %v of %v", f.Name, sum, f.Records, width, r.Elapsed)
		}
	}
}

func TestProduceVerified(t *testing.T) {
	base := short(t)
	for _, clients := range []Clients{ClientsOwn, ClientsShared, ClientsBatched} {
		for acks, rate := range map[Acks]float64{AcksLeader: 0, AcksAll: 400} {
			t.Run(fmt.Sprintf("%s acks %s rate %g", clients, acks, rate), func(t *testing.T) {
				c := base
				c.Clients, c.Acks, c.Rate, c.Verify, c.DeleteTopic = clients, acks, rate, true, true
				c.Topic = fmt.Sprintf("%s-%s-%g", clients, acks, rate)
				if clients == ClientsBatched {
					c.Concurrency = 1
				}
				checkProduced(t, run(t, c, nil))
			})
		}
	}
}

// checkProduced checks a verified run with a topic of its own.
func checkProduced(t *testing.T, r *Result) {
	t.Helper()
	p, v, c := r.Produce, r.Verify, r.Config
	if v == nil || v.Bad() || v.Acknowledged < p.Records || v.Found < v.Acknowledged || v.Foreign != 0 {
		t.Errorf("%+v of %d records", v, p.Records)
	}
	if p.PayloadBytes != p.Records*256 || p.WireBytes <= 0 || !p.WireKnown || p.SentOnly {
		t.Errorf("bytes of %d records: %d payload, %d on the wire", p.Records, p.PayloadBytes, p.WireBytes)
	}
	// The rate can only be exceeded by the backlog of the warm-up.
	if limit := int64(c.Rate * (c.Duration + c.Warmup).Seconds()); c.Rate > 0 && p.Records > limit+1 {
		t.Errorf("%d records at %g a second", p.Records, c.Rate)
	}
}

func TestOwnClientsPipelineAndCompress(t *testing.T) {
	base := short(t)
	for _, codec := range []string{"none", "lz4", "zstd"} {
		c := base
		c.Topic, c.Compression, c.Pipeline, c.Verify = "own-"+codec, codec, 5, true
		if r := run(t, c, nil); r.Verify.Bad() || r.Verify.Found == 0 {
			t.Errorf("%s: %+v", codec, r.Verify)
		}
		c.Verify, c.Topic = false, "plain-"+codec
		if r := run(t, c, nil); r.Produce.Requests != r.Produce.Records {
			t.Errorf("%s: %d records in %d requests", codec, r.Produce.Records, r.Produce.Requests)
		}
	}
}

func TestAcksZeroSaysWhatTheBrokerTook(t *testing.T) {
	c := short(t)
	for _, clients := range []Clients{ClientsOwn, ClientsShared} {
		c.Acks, c.Clients, c.Verify = AcksNone, clients, true
		r := run(t, c, func(r *Result) bool { return r.Received.Records > 0 })
		if !r.Produce.SentOnly {
			t.Errorf("%s: written records pass for acknowledged ones", clients)
		}
		if r.Verify.Acknowledged != 0 || r.Verify.Bad() {
			t.Errorf("%s: %+v", clients, r.Verify)
		}
		if !strings.Contains(strings.Join(r.Notes, " "), "The received records are the growth of the topic") {
			t.Errorf("%s: notes %q", clients, r.Notes)
		}
	}
}

func TestConsume(t *testing.T) {
	c := short(t)
	c.Mode = ModeConsume
	if _, err := Run(context.Background(), c, nil); !errors.Is(err, load.ErrEmpty) {
		t.Fatalf("an empty topic: %v", err)
	}
	c.Mode, c.Rate = ModeProduce, 1000
	written := run(t, c, nil).Produce.Records
	c.Mode, c.Rate = ModeConsume, 0
	for _, clients := range []Clients{ClientsOwn, ClientsShared, ClientsBatched} {
		c.Clients = clients
		// It starts again at the end, so it reads more records than there are.
		r := run(t, c, func(r *Result) bool { return r.Consume.Records > 2*written })
		if r.Produce != nil {
			t.Errorf("%s: a produce flow", clients)
		}
		if r.Consume.PayloadIsBatches != (clients == ClientsOwn) || r.Consume.WireBytes < r.Consume.PayloadBytes {
			t.Errorf("%s: %d payload bytes, %d on the wire", clients, r.Consume.PayloadBytes, r.Consume.WireBytes)
		}
	}
}

func TestEndToEnd(t *testing.T) {
	c := short(t)
	c.Mode, c.Rate, c.Verify = ModeE2E, 500, true
	for _, clients := range []Clients{ClientsOwn, ClientsShared, ClientsBatched} {
		c.Clients = clients
		r := run(t, c, nil)
		if r.EndToEnd.Records == 0 || r.EndToEnd.Records > r.Verify.Found || r.Verify.Bad() {
			t.Errorf("%s: received %d of %+v", clients, r.EndToEnd.Records, r.Verify)
		}
	}
}

// Every consumer of a fan-out receives every record once, and none is missing at the end.
func TestFanOutReachesEveryConsumer(t *testing.T) {
	c := short(t)
	c.Mode, c.Rate, c.Verify, c.Partitions, c.Concurrency, c.Consumers, c.Topic = ModeE2E, 200, true, 1, 1, 20, "fanout"
	enough := func(r *Result) bool { return r.EndToEnd.Records >= int64(c.Consumers) }
	r := run(t, c, enough)
	if r.EndToEnd.Records > r.Verify.Found*int64(c.Consumers) || r.EndToEnd.Requests == 0 || r.EndToEnd.WireBytes == 0 || r.Verify.Bad() {
		t.Errorf("%d consumers received %d of %+v, in %d fetches", c.Consumers, r.EndToEnd.Records, r.Verify, r.EndToEnd.Requests)
	}
	c.CreateTopic, c.Topic = false, "several"
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	must.OK(t, err)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 1, nil, c.Topic); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), c, nil); !errors.Is(err, load.ErrPartitions) {
		t.Errorf("a fan-out of two partitions: %v", err)
	}
}

func TestMixed(t *testing.T) {
	c := short(t)
	c.Mode, c.Concurrency = ModeMixed, 3
	for _, clients := range []Clients{ClientsOwn, ClientsShared, ClientsBatched} {
		c.Clients, c.Topic = clients, "mixed-"+string(clients)
		if clients == ClientsBatched {
			c.Concurrency = 1
		}
		if r := run(t, c, nil); r.Produce == nil || r.Consume == nil || r.EndToEnd != nil {
			t.Errorf("%s: %+v", clients, r)
		}
	}
}

func TestVerifyFindsLostAndDuplicatedRecords(t *testing.T) {
	c := short(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.DefaultProduceTopic(c.Topic))
	must.OK(t, err)
	defer cl.Close()
	must.OK(t, (&topic{config: c, client: cl}).prepare(context.Background()))
	ledger := load.NewLedger(9, 1)
	write := func(s load.Stamp) {
		value := make([]byte, load.StampSize)
		s.Put(value)
		must.OK(t, cl.ProduceSync(context.Background(), &kgo.Record{Value: value}).FirstErr())
	}
	for range 5 {
		if _, err := ledger.Worker(0).Send(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []uint64{0, 1, 2} {
		ledger.Worker(0).Acked(s)
	}
	write(load.Stamp{Run: 9, Sequence: 0})
	write(load.Stamp{Run: 9, Sequence: 1})
	write(load.Stamp{Run: 9, Sequence: 1})
	write(load.Stamp{Run: 9, Sequence: 3})
	write(load.Stamp{Run: 1, Sequence: 1})
	got, err := verify(context.Background(), load.NewCluster(c.Brokers, c.Topic, nil, cl), ledger)
	must.OK(t, err)
	if want := (Verification{Acknowledged: 3, Found: 4, Lost: 1, Duplicated: 1, Unacknowledged: 2, Foreign: 1}); *got != want ||
		!got.Bad() {
		t.Errorf("%+v, want %+v", *got, want)
	}
}

func TestTopics(t *testing.T) {
	c := short(t)
	missing := c
	missing.CreateTopic, missing.Topic = false, "missing"
	if _, err := Run(context.Background(), missing, nil); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a missing topic: %v", err)
	}
	c.Topic, c.DeleteTopic, c.TopicConfig = "short-lived", true, map[string]string{"max.message.bytes": "2000000"}
	run(t, c, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...))
	must.OK(t, err)
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(context.Background())
	if err != nil || topics.Has("short-lived") {
		t.Errorf("the topic is still there (%v)", err)
	}
	c.DeleteTopic, c.Topic = false, "stays"
	run(t, c, nil)
	c.Partitions = 3
	if _, err := Run(context.Background(), c, nil); err == nil {
		t.Error("a topic with other partitions is taken for the one asked for")
	}
	c.Topic, c.TopicConfig = "refused", map[string]string{"no.such.setting": "1"}
	if _, err := Run(context.Background(), c, nil); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("an unknown setting: %v", err)
	}
}

func TestProgressReportsEveryPoint(t *testing.T) {
	c := short(t)
	c.Mode, c.Duration = ModeMixed, 2150*time.Millisecond
	told := make(map[string][]Point)
	r, err := Run(context.Background(), c, func(flow string, p Point) { told[flow] = append(told[flow], p) })
	must.OK(t, err)
	const step = 100 * time.Millisecond // of such a short run
	for _, f := range r.Flows() {
		if len(told[f.Name]) != 21 || len(f.Series) != 22 {
			t.Fatalf("%s: %d points reported, has %d", f.Name, len(told[f.Name]), len(f.Series))
		}
		for i, p := range told[f.Name] {
			if p.At != time.Duration(i+1)*step || p.Width != step || (p.Records == 0) != (p.Max == 0) || p.P50 > p.Max {
				t.Errorf("%s: reported %+v", f.Name, p)
			}
		}
	}
}

func TestAnInterruptedRunHasTheResultOfItsTime(t *testing.T) {
	c := short(t)
	c.Duration, c.ServerPID = time.Hour, os.Getpid()
	if runtime.GOOS != "linux" {
		c.ServerPID = 0
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r, err := Run(ctx, c, func(_ string, p Point) {
		if p.At >= time.Second {
			stop()
		}
	})
	must.OK(t, err)
	if r.Elapsed < time.Second || r.Elapsed > time.Minute || !strings.Contains(strings.Join(r.Notes, " "), "interrupted") {
		t.Errorf("elapsed %v, %d records, notes %q", r.Elapsed, r.Produce.Records, r.Notes)
	}
	if limit := r.Elapsed.Seconds() * float64(runtime.NumCPU()) * 1.1; r.CPU != nil && r.CPU.Seconds > limit {
		t.Errorf("%v s of CPU in %v", r.CPU.Seconds, r.Elapsed)
	}
	c.Warmup = time.Hour
	for after := 300 * time.Millisecond; ; after *= 4 {
		ctx, stop := context.WithTimeout(context.Background(), after)
		_, err := Run(ctx, c, nil)
		stop()
		if errors.Is(err, ErrInterrupted) {
			break
		}
		// On a busy machine the warm-up may not have begun yet.
		if err == nil || after > time.Minute {
			t.Fatalf("interrupted in the warm-up: %v", err)
		}
	}
}

func TestServerCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells the CPU time of a process")
	}
	c := short(t)
	c.ServerPID = os.Getpid()
	// The system counts CPU time in hundredths of a second.
	r := run(t, c, func(r *Result) bool { return r.CPU != nil && r.CPU.Seconds > 0 })
	if r.CPU.PerRequest <= 0 {
		t.Errorf("CPU %+v", r.CPU)
	}
	c.ServerPID = 1 << 27
	if _, err := Run(context.Background(), c, nil); err == nil {
		t.Error("no error for a process that is not there")
	}
}

func TestNobodyListens(t *testing.T) {
	c := Default()
	c.Brokers, c.CreateTopic = []string{"127.0.0.1:1"}, true
	ctx, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	if r, err := Run(ctx, c, nil); err == nil {
		t.Errorf("a result without a broker: %+v", r)
	}
}
