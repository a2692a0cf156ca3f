package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/chronik"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bomb that is not a valid batch would be rejected before it has any effect.
func TestABombIsABatchThatInflates(t *testing.T) {
	const inflated = 1 << 20
	for _, b := range [][]byte{bomb(0x38, 128<<10, inflated), bomb(0x38, 16000, inflated)} {
		batch, rest, err := record.Next(b)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%d bytes are not a batch: %v, %d more", len(b), err, len(rest))
		}
		records := 0
		err = batch.Each(record.Limits{Bytes: inflated + 1<<10}, func(r record.Record) error {
			records++
			if len(r.Value) != inflated {
				return fmt.Errorf("a value of %d bytes", len(r.Value))
			}
			return nil
		})
		if err != nil || records != 1 || len(b) > 1000 {
			t.Errorf("%d bytes: %d records, %v", len(b), records, err)
		}
	}
}

// Bystanders without an attack get responses; if the broker is stopped, each of them reports a
// failure.
func TestBystandersAreAnswered(t *testing.T) {
	b := chronik.StartTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.OK(t, Prepare(ctx, b.Addr()))
	seen, err := Watch(ctx, b.Addr(), 200*time.Millisecond, 2)
	if err != nil || len(seen) != 6 {
		t.Fatalf("%v, %v", seen, err)
	}
	for name, l := range seen {
		if l.N < 2 || l.Failed > 0 || l.P50 <= 0 || l.P99 < l.P50 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	addr := nowhere.Addr().String()
	_ = nowhere.Close()
	if seen, err = Watch(ctx, addr, 50*time.Millisecond, 1); err != nil || seen["commit"].Failed != seen["commit"].N {
		t.Errorf("no broker: %+v, %v", seen, err)
	}
}

// A request that waits delays those that become due in the meantime: each counts from its due time.
func TestAStallCountsForAllThatWereDue(t *testing.T) {
	const stall = 500 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	go func() { // accepts connections, and closes them after the stall
		c, err := l.Accept()
		if err == nil {
			time.Sleep(stall) // the measured time
			_ = c.Close()
			_ = l.Close()
		}
	}()
	probes, err := Probes()
	must.OK(t, err)
	got := latencyOf([]series{probes[0].watch(t.Context(), l.Addr().String(), stall, 0, 1)})
	if want := int(stall / probes[0].every); got.N != want || got.P50 < stall/4 || got.P99 < stall*3/4 {
		t.Errorf("%+v, want %d requests, half of which waited for %v", got, want, stall/2)
	}
}

// An attack returns its own errors; a connection that the broker closes is an outcome.
func TestALostConnectionIsAnOutcome(t *testing.T) {
	b := chronik.StartTest(t)
	m := &Attacker{Addr: b.Addr(), Part: 50, Most: 3}
	defer m.Close()
	if m.some(10) != 5 || m.connections(10) != 3 || m.some(1) != 1 {
		t.Errorf("of 10: %d things, %d connections; of 1: %d", m.some(10), m.connections(10), m.some(1))
	}
	if err := m.once(t.Context(), 2, func(*Conn, int) error { return io.EOF }); err != nil || m.Outcomes() != "2 connection closed" {
		t.Errorf("%v, %q", err, m.Outcomes())
	}
	wrong := errors.New("the attack is wrong")
	if err := m.once(t.Context(), 1, func(*Conn, int) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	m.Turns = 3
	turns := 0
	if err := m.again(t.Context(), 1, func(*Conn, int, int) error { turns++; return nil }); err != nil || turns != 3 {
		t.Errorf("%d turns, %v", turns, err)
	}
}

// Transactions of strangers, however they are treated, keep no reader of committed records from its
// own topic, and each offence has its answer.
func TestReadersContinueDuringTransactionsOfStrangers(t *testing.T) {
	b := chronik.StartTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.OK(t, Prepare(ctx, b.Addr()))
	m := &Attacker{Addr: b.Addr(), Part: 100}
	defer m.Close()
	a := transactionAttacks()[0]
	must.OK(t, a.Prepare(ctx, m))
	during, end := context.WithCancel(ctx)
	defer end()
	attacked := make(chan error, 1)
	go func() { attacked <- a.Run(during, m) }()
	offences := []string{"NONE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_REQUEST",
		"UNKNOWN_TOPIC_OR_PARTITION"}
	for {
		must.OK(t, Answered(ctx, b.Addr()))
		m.mu.Lock()
		missing := slices.DeleteFunc(slices.Clone(offences), func(name string) bool { return m.outcomes[name] > 0 })
		m.mu.Unlock()
		if len(missing) == 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("no answer was %v: %s", missing, m.Outcomes())
		}
	}
	end()
	if err := <-attacked; err != nil {
		t.Error(err)
	}
	if err := Answered(ctx, b.Addr()); err != nil {
		t.Error(err)
	}
}

func TestFaultsNameTheBound(t *testing.T) {
	ms := time.Millisecond
	r := Result{
		Attack: Attack{Name: "a", Holds: 1 << 20, Keeps: 1 << 20, Grows: 60 << 20},
		Held:   1 << 20, Kept: 1 << 20, Before: 40 << 20, Peak: 100 << 20,
		Alone: map[string]Latency{
			"p": {N: 100, P99: 30 * ms},
			"q": {N: 100, P99: ms},
		}, During: map[string]Latency{"p": {N: 100, P99: 60 * ms}, "q": {N: 100, P99: 50 * ms}},
	}
	if faults := r.Faults(100 << 20); len(faults) != 0 {
		t.Errorf("within all bounds: %q", faults)
	}
	r.Held++
	r.Kept++
	r.Before--
	r.During = map[string]Latency{"p": {N: 100, P99: 61 * ms}, "q": {N: 100, P99: 51 * ms, Failed: 1, Failure: io.EOF}}
	faults := strings.Join(r.Faults(99<<20), "\n")
	for _, want := range []string{"100 MiB resident", "more resident at the peak", "held during",
		"kept 0s after", "p took 61ms (p99, limit 60ms",
		"q took 51ms (p99, limit 50ms", "q failed 1 of 100 times, first with: EOF"} {
		if !strings.Contains(faults, want) {
			t.Errorf("no %q in:\n%s", want, faults)
		}
	}
	var table strings.Builder
	if err := Table(&table, []Result{r}, 99<<20); err != nil || !strings.Contains(table.String(), "61ms") {
		t.Errorf("%v:\n%s", err, &table)
	}
}

// docs/operations.md lists every attack with its limits.
func TestDocsListTheAttacks(t *testing.T) {
	var b strings.Builder
	b.WriteString("| attack | what it does | may hold | keeps after 20 s |\n|---|---|---|---|\n")
	for _, a := range Attacks() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.Name, a.Aim, mib(a.Holds), mib(a.Keeps))
	}
	golden.Part(t, "../../../docs/operations.md", "attacks", b.String(), "go test ./internal/testing/hostile -run Docs")
}

// A difference that is small against the spread of the times is found in many of them, and none in
// two series of one kind. The slowest do not hide it.
func TestDifferencesOfTimesAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	series := func(mean float64) (x []float64) {
		for i := range 10_000 {
			x = append(x, mean+10*r.NormFloat64())
			if i%100 == 0 {
				x[i] += 100_000 * r.Float64()
			}
		}
		return x
	}
	if got := leak(series(100), series(100)); math.Abs(got) > TooDifferent {
		t.Errorf("equal series: t = %.1f", got)
	}
	slower := leak(series(101), series(100))
	if math.Abs(slower) < TooDifferent {
		t.Errorf("one is slower by a tenth of the spread: t = %.1f", slower)
	}
	if got := welch([]float64{1, 2, 3}, []float64{4, 5, 6}); math.Abs(got+3.674) > 0.001 {
		t.Errorf("t = %.3f", got)
	}
}
