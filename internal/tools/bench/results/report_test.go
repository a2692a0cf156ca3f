package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flow returns a flow with n records of 100 bytes per second for two seconds, with latencies of 1
// to 2000 µs.
func flow(t *testing.T, n int64) *bench.Flow {
	t.Helper()
	h := hdrhistogram.New(1, 3_600_000_000, 3)
	for i := range int64(2000) {
		must.OK(t, h.RecordValue(i+1))
	}
	f := &bench.Flow{Requests: 2 * n, Records: 2 * n, PayloadBytes: 200 * n, WireBytes: 800 * n, WireKnown: true, Latency: h}
	for i := range 2 {
		f.Series = append(
			f.Series,
			bench.Point{At: time.Duration(i+1) * time.Second, Width: time.Second, Requests: n, Records: n, PayloadBytes: 100 * n,
				P50: time.Millisecond, P99: 1980 * time.Microsecond, Max: 2 * time.Millisecond},
		)
	}
	return f
}

// full returns a result with all fields.
func full(t *testing.T) *bench.Result {
	t.Helper()
	c := bench.Default()
	c.Topic, c.Mode, c.Clients, c.Concurrency = `<script>"t" & co`, bench.ModeE2E, bench.ClientsShared, 16
	end := flow(t, 900)
	end.WireKnown = false
	p := flow(t, 1000)
	p.Failures = map[string]int64{"NOT_ENOUGH_REPLICAS": 3, "connection: reset": 40}
	p.SentOnly, p.Unanswered, p.Oldest = true, 5, 7*time.Millisecond
	return &bench.Result{
		Config:   c,
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Elapsed:  2 * time.Second,
		Produce:  p,
		EndToEnd: end,
		CPU: &bench.CPU{
			Seconds:    0.5,
			PerRequest: 250 * time.Microsecond,
		},
		Verify: &bench.Verification{Acknowledged: 2000, Found: 1999, Lost: 1},
		Notes:  []string{"a note & more"},
	}
}

// Every form names the kind of clients.
func TestEveryFormNamesTheClients(t *testing.T) {
	for _, kind := range []bench.Clients{bench.ClientsOwn, bench.ClientsShared, bench.ClientsBatched} {
		r := full(t)
		r.Config.Clients = kind
		for name, write := range map[string]func(*bytes.Buffer) error{
			"table": func(b *bytes.Buffer) error { return Table(b, r) },
			"JSON":  func(b *bytes.Buffer) error { return JSON(b, r) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !strings.Contains(b.String(), string(kind)) {
				t.Errorf("the %s of clients %q does not say so:\n%s", name, kind, b.String())
			}
		}
	}
}

func TestTableSaysEverything(t *testing.T) {
	var b bytes.Buffer
	must.OK(t, Table(&b, full(t)))
	for _, want := range []string{
		"2.000 s measured", "closed loop", "shared: 16 tasks",
		"produce 1000 1000 0.10 0.40 43", // rates over the interval; wire apart from payload
		"end-to-end 900 900 0.09 unknown 0",
		"0.001 1.000 1.800", // min, p50 and p90
		"produce failed 40 times: connection: reset produce failed 3 times: NOT_ENOUGH_REPLICAS",
		"5 without a response at the end, the oldest for 7.000 ms",
		"server CPU 0.50 s, 250.00 us", "VERIFICATION FAILED (2000 acknowledged, 1999 found, 1 lost", "a note & more",
	} {
		if !strings.Contains(words(b.String()), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// words replaces all whitespace in s with single spaces.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// A run without a success says so in every form and divides by nothing.
func TestNothingSucceeded(t *testing.T) {
	r := &bench.Result{
		Config:  bench.Default(),
		Elapsed: time.Second,
		Produce: &bench.Flow{Failures: map[string]int64{"connection: refused": 9}},
	}
	var table, doc bytes.Buffer
	must.OK(t, errors.Join(Table(&table, r), JSON(&doc, r)))
	for _, want := range []string{"produce - - - - - - - - 0", "failed 9 times: connection: refused"} {
		if !strings.Contains(words(table.String()), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
}

func TestJSONIsReadBack(t *testing.T) {
	var b bytes.Buffer
	must.OK(t, JSON(&b, full(t)))
	var d Document
	must.OK(t, json.Unmarshal(b.Bytes(), &d))
	p, e := d.Flow("produce"), d.Flow("end-to-end")
	if p == nil || e == nil || d.Flow("consume") != nil {
		t.Fatalf("flows %+v", d.Flows)
	}
	if p.RecordsPerSecond != 1000 || p.PayloadPerSecond != 100_000 || p.WirePerSecond == nil || *p.WirePerSecond != 400_000 ||
		e.Wire != nil ||
		e.WirePerSecond != nil {
		t.Errorf("rates %+v, %+v", p, e)
	}
	if l := p.Latency; l.Count != 2000 || l.P50 != 1000 || l.P99 < 1979 || l.P99 > 1982 || l.Max < 1999 || l.Max > 2001 {
		t.Errorf("latency in microseconds %+v", l)
	}
	if len(p.Series) != 2 || p.Series[1].At != 2 || p.Series[1].P50 != 1000 {
		t.Errorf("series %+v", p.Series)
	}
	if d.Verify.Lost != 1 || d.CPU.PerRequest != 250 || d.Config.Concurrency != 16 {
		t.Errorf("%+v", d)
	}
}

// There is no remark about the requests that a closed loop always has in flight at the end; there
// is one about more, or about one that waits longer than any response took.
func TestAStallAtTheEndIsReported(t *testing.T) {
	for _, tc := range []struct {
		unanswered int64
		oldest     time.Duration
		want       bool
	}{{0, 0, false}, {16, 2 * time.Millisecond, false}, {17, 0, true}, {1, 3 * time.Millisecond, true}} {
		r := full(t)
		r.Produce.Unanswered, r.Produce.Oldest = tc.unanswered, tc.oldest
		var b bytes.Buffer
		must.OK(t, Table(&b, r))
		if got := strings.Contains(b.String(), "without a response at the end"); got != tc.want {
			t.Errorf("%d unanswered of 16 connections, the oldest for %v, answers within 2 ms: said %v", tc.unanswered, tc.oldest, got)
		}
	}
}

// The line shows the last second of each flow, and is removed at the end.
func TestLive(t *testing.T) {
	var b bytes.Buffer
	l := NewLive(&b, bench.Default(), true)
	p := bench.Point{
		At:           3 * time.Second,
		Width:        500 * time.Millisecond,
		Records:      100,
		PayloadBytes: 1e6,
		P50:          time.Millisecond,
		P99:          2 * time.Millisecond,
	}
	l.Progress("produce", p)
	p.Failures = 7
	l.Progress("consume", p)
	const one = "3 of 30 s  produce 200/s 2.0 MB/s p50 1.000 p99 2.000 ms"
	want := backToStart + one + backToStart + one + " | consume 200/s 2.0 MB/s p50 1.000 p99 2.000 ms 7 FAILED"
	if b.String() != want {
		t.Errorf("%q, not\n%q", b.String(), want)
	}
	b.Reset()
	l.Done()
	l.Done()
	if b.String() != backToStart {
		t.Errorf("the end %q", b.String())
	}
}

// Without a terminal there is a line every ten seconds with every flow.
func TestLiveWithoutATerminal(t *testing.T) {
	var b bytes.Buffer
	l := NewLive(&b, bench.Default(), false)
	for at := time.Second; at <= 30*time.Second; at += time.Second {
		for _, flow := range []string{"produce", "consume"} {
			l.Progress(flow, bench.Point{At: at, Width: time.Second, Records: int64(at / time.Second)})
		}
	}
	l.Done()
	const want = "10 of 30 s  produce 10/s 0.0 MB/s p50 0.000 p99 0.000 ms | consume 10/s 0.0 MB/s p50 0.000 p99 0.000 ms\n" +
		"20 of 30 s  produce 20/s 0.0 MB/s p50 0.000 p99 0.000 ms | consume 20/s 0.0 MB/s p50 0.000 p99 0.000 ms\n"
	if b.String() != want {
		t.Errorf("%q, not\n%q", b.String(), want)
	}
}

// A report describes the broker of the run and explains its numbers, in every form for readers;
// with acks=0 the received records come first.
func TestWhatItWasMeasuredAgainst(t *testing.T) {
	load := 1.5
	r := full(t)
	r.Config.Mode, r.Config.Acks, r.EndToEnd = bench.ModeProduce, bench.AcksNone, nil
	r.Program = "v9"
	r.Received = &bench.Flow{Records: 500, PayloadBytes: 50_000, Series: []bench.Point{
		{
			At:           time.Second,
			Width:        time.Second,
			Records:      300,
			PayloadBytes: 30_000,
		}, {At: 2 * time.Second, Width: time.Second, Records: 200, PayloadBytes: 20_000}}}
	r.Against = &bench.Against{
		Broker:  "v1.2",
		Profile: "sync",
		Syncs:   &bench.Syncs{PerSecond: 1200, Mean: 700 * time.Microsecond, Records: 45},
		Local:   true,
		System:  "linux/amd64",
		CPUs:    2,
		Load:    &load,
	}
	var table, doc bytes.Buffer
	must.OK(t, errors.Join(Table(&table, r), JSON(&doc, r)))
	const against = "against chronik v1.2, durability profile sync, 1200 fdatasyncs/s of 0.700 ms, each for 45.0 records"
	const from = "from chronik-bench v9 on linux/amd64, 2 CPUs, load average 1.50 before, shared with the broker"
	for _, want := range []string{against, from, "received - 250 0.03 - 0 produce 1000", "payload MB/s values of these records",
		"received records appended to the topic, by any producer"} {
		if !strings.Contains(words(table.String()), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	var d Document
	if err := json.Unmarshal(doc.Bytes(), &d); err != nil || d.Flow("received") == nil || d.Flow("received").RecordsPerSecond != 250 ||
		d.Against.Syncs.PerSecond != 1200 ||
		len(d.Legend) < 6 {
		t.Errorf("%+v, %v", d, err)
	}
}

// The report mentions a broker that reports nothing about itself.
func TestAgainstText(t *testing.T) {
	for want, a := range map[string]*bench.Against{
		"against a broker that reports neither version nor durability profile": {},
		"against durability profile os, version and fdatasyncs unknown":        {Profile: "os"},
		"against chronik v1, durability profile os, no fdatasync":              {Broker: "v1", Profile: "os", Admin: "x:1"},
	} {
		if got := AgainstText(a, ""); len(got) != 2 || !strings.HasPrefix(got[0], want) || !strings.HasPrefix(got[1], "from ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := AgainstText(nil, "v1"); got != nil {
		t.Errorf("%q", got)
	}
}

// A consume run sends no values and requests no acknowledgement.
func TestTheLoadOfAConsumeRun(t *testing.T) {
	c := bench.Default()
	c.Mode, c.Compression = bench.ModeConsume, "zstd"
	if got := LoadText(c); got != "consume, closed loop, topic chronik-bench at 127.0.0.1:9092" {
		t.Error(got)
	}
}
