package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

func TestStampsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Stamp{
			Run: rapid.Uint64().Draw(t, "run"), Worker: rapid.Uint32().Draw(t, "worker"),
			Sequence: rapid.Uint64().Draw(t, "sequence"), Sent: time.Duration(rapid.Int64Min(0).Draw(t, "sent")),
		}
		value := make([]byte, StampSize+rapid.IntRange(0, 9).Draw(t, "more"))
		s.Put(value)
		if got, ok := ReadStamp(value); !ok || got != s {
			t.Fatalf("%+v became %+v", s, got)
		}
		if _, ok := ReadStamp(value[:StampSize-1]); ok {
			t.Fatal("a short value has a stamp")
		}
	})
}

// TestLedger compares a ledger with sets.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const run, workers = 7, 3
		l := NewLedger(run, workers)
		type key struct{ worker, sequence int }
		acked, found := make(map[key]bool), make(map[key]int)
		var sent, foreign, total int64
		for w := range workers {
			for range rapid.IntRange(0, 150).Draw(t, "sent") {
				s, err := l.Worker(w).Send()
				must.OK(t, err)
				sent++
				k := key{w, int(s)}
				if rapid.Bool().Draw(t, "acked") {
					l.Worker(w).Acked(s)
					acked[k] = true
				}
				found[k] = rapid.IntRange(0, 2).Draw(t, "copies")
			}
		}
		value := make([]byte, StampSize)
		for k, n := range found {
			for range n {
				Stamp{Run: run, Worker: uint32(k.worker), Sequence: uint64(k.sequence)}.Put(value)
				l.Found(value)
				total++
			}
		}
		for _, s := range []Stamp{{Run: 8}, {Run: run, Worker: workers}, {Run: run, Sequence: 1 << 40}} {
			s.Put(value)
			l.Found(value)
			foreign++
		}
		l.Found([]byte("short"))
		foreign++
		want := Count{Sent: sent, Acknowledged: int64(len(acked)), Found: total, Foreign: foreign}
		for k, n := range found {
			if acked[k] && n == 0 {
				want.Lost++
			}
			want.Duplicated += int64(max(n-1, 0))
		}
		if got := l.Count(); got != want {
			t.Fatalf("counted %+v, want %+v", got, want)
		}
	})
}

func TestSchedulesOfAllWorkersAreTheRate(t *testing.T) {
	const rate, workers = 3000.0, 7
	var dues []time.Duration
	for w := range workers {
		s := scheduleOf(rate, w, workers)
		for k := int64(0); s.due(k) < time.Second; k++ {
			dues = append(dues, s.due(k))
		}
	}
	slices.Sort(dues)
	if len(dues) != rate {
		t.Errorf("%d records in a second, want %g", len(dues), rate)
	}
	for i := 1; i < len(dues); i++ {
		if gap := dues[i] - dues[i-1]; gap < 333*time.Microsecond || gap > 334*time.Microsecond {
			t.Fatalf("gap %v between two records", gap)
		}
	}
}

func TestUnsentIsWhatWasDue(t *testing.T) {
	w := meter.NewWindow(0, time.Second)
	w.Begin()
	for _, c := range []struct{ k, want int64 }{{0, 100}, {40, 60}, {99, 1}, {100, 0}} {
		m := meter.New(w)
		scheduleOf(100, 0, 1).unsent(m.NewRecorder(), w.Until(), c.k)
		if got := m.Totals().Unanswered; got != c.want {
			t.Errorf("from record %d of 100: %d unsent, want %d", c.k, got, c.want)
		}
	}
}

// TestPlacesCoverThePartitions checks that workers connect to leaders of their partitions, and that
// with enough workers every partition has one.
func TestPlacesCoverThePartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Cluster{}
		of := make(map[int32]string)
		var next int32
		for i := range rapid.IntRange(1, 4).Draw(t, "leaders") {
			l := leader{addr: fmt.Sprint("broker", i)}
			for range rapid.IntRange(1, 5).Draw(t, "partitions") {
				l.partitions = append(l.partitions, next)
				of[next] = l.addr
				next++
			}
			c.leaders = append(c.leaders, l)
		}
		n := rapid.IntRange(1, 20).Draw(t, "workers")
		seen := make(map[int32]bool)
		for i := range n {
			addr, partitions := c.place(i, n)
			if len(partitions) == 0 {
				t.Fatalf("worker %d of %d has no partition", i, n)
			}
			for _, p := range partitions {
				if of[p] != addr {
					t.Fatalf("worker %d sends partition %d to %s, led by %s", i, p, addr, of[p])
				}
				seen[p] = true
			}
		}
		if n >= len(c.leaders) && len(seen) != len(of) {
			t.Fatalf("%d workers reach %d of %d partitions", n, len(seen), len(of))
		}
		if len(c.Partitions()) != len(of) {
			t.Fatal("partitions are missing")
		}
	})
}

func TestShare(t *testing.T) {
	all := []int32{4, 5, 6, 7, 8}
	for n := 1; n < 9; n++ {
		seen := make(map[int32]bool)
		for i := range n {
			mine := share(all, i, n)
			if len(mine) == 0 {
				t.Errorf("consumer %d of %d has nothing", i, n)
			}
			for _, p := range mine {
				seen[p] = true
			}
		}
		if len(seen) != len(all) {
			t.Errorf("%d consumers read %d partitions", n, len(seen))
		}
	}
}

func TestFailureNames(t *testing.T) {
	for want, err := range map[string]error{
		"NOT_ENOUGH_REPLICAS":              fmt.Errorf("wrapped: %w", kerr.NotEnoughReplicas),
		"UNKNOWN_SERVER_ERROR":             kerr.ErrorForCode(9999),
		"connection: refused":              &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"connection: reset":                fmt.Errorf("read: %w", syscall.ECONNRESET),
		"connection: closed by the broker": fmt.Errorf("read: %w", io.EOF),
		"connection: no answer in time":    &net.OpError{Op: "read", Err: context.DeadlineExceeded},
		"connection: other":                errors.New("anything"),
		"client: gave up after retries":    kgo.ErrRecordTimeout,
	} {
		if got := FailureName(err); got != want {
			t.Errorf("%v is named %q, want %q", err, got, want)
		}
	}
}

func TestValuesDoNotRepeatSoon(t *testing.T) {
	v := newValues(1, 1000)
	first := bytes.Clone(v.next())
	for range poolSize/1000 - 2 {
		if got := v.next(); len(got) != 1000 || bytes.Equal(got, first) {
			t.Fatal("a value repeats within the pool")
		}
	}
	for i := range 2000 {
		if got := v.startingAt(i).next(); len(got) != 1000 {
			t.Fatalf("worker %d starts with %d bytes", i, len(got))
		}
	}
	if got := newValues(1, 0).next(); len(got) != 0 {
		t.Error("an empty value has bytes")
	}
}

func TestSleeperWakes(t *testing.T) {
	s, err := newSleeper()
	must.OK(t, err)
	defer s.close()
	ctx, stop := context.WithCancel(context.Background())
	must.OK(t, s.sleep(ctx, time.Millisecond))
	must.OK(t, s.sleep(ctx, -1))
	done := make(chan error, 1)
	go func() { done <- s.sleep(ctx, time.Hour) }()
	stop()
	s.wake()
	if err := <-done; err != nil {
		t.Errorf("woken: %v", err)
	}
}

func TestADeliveryWithoutAnOffsetIsNone(t *testing.T) {
	w := meter.NewWindow(0, time.Hour)
	w.Begin()
	for _, c := range []struct {
		acks   int16
		offset int64
		err    error
		want   int64
	}{
		{-1, 0, nil, 1}, {1, -1, nil, 0}, {-1, -1, nil, 0}, {-1, 5, kerr.NotEnoughReplicas, 0}, {0, -1, nil, 1}, {0, 5,
			errors.New("lost"), 0},
	} {
		m := meter.New(w)
		o := &Options{Acks: c.acks, Ledger: NewLedger(1, 1), Stamped: true, MessageSize: StampSize}
		k := newMaker(o, m, 0, newValues(1, StampSize))
		var msg message
		must.OK(t, k.fill(&msg, 0))
		k.delivered(&msg, time.Millisecond, c.offset, c.err)
		got := m.Totals()
		if got.Records != c.want || len(got.Failures) != int(1-c.want) {
			t.Errorf("acks %d, offset %d, %v: %d records, failures %v", c.acks, c.offset, c.err, got.Records, got.Failures)
		}
		if acked := o.Ledger.Acknowledged(); acked != c.want*int64(c.acks*c.acks) {
			t.Errorf("acks %d, offset %d, %v: %d acknowledged", c.acks, c.offset, c.err, acked)
		}
	}
}
