package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// cutAfter responds with each of replies in order and then with success, and cuts the window when
// total requests have arrived: the response to the last one is late.
func cutAfter(w *meter.Window, total int, replies ...reply) func(int, kmsg.Request) reply {
	return func(n int, _ kmsg.Request) reply {
		if n == total {
			w.Cut()
		}
		if n <= len(replies) {
			return replies[n-1]
		}
		return reply{offset: int64(n)}
	}
}

func TestASuccessIsErrorZeroAndAValidOffset(t *testing.T) {
	for name, c := range map[string]struct {
		reply reply
		want  string
	}{
		"an error code":               {reply{code: 19, offset: 5}, "NOT_ENOUGH_REPLICAS"},
		"an error without an offset":  {reply{code: 87, offset: -1}, "INVALID_RECORD"},
		"not the leader":              {reply{code: 6, offset: -1}, "NOT_LEADER_FOR_PARTITION"},
		"error 0 and no valid offset": {reply{offset: -1}, "answer: no valid offset"},
		"an unknown code":             {reply{code: 12345, offset: 5}, "UNKNOWN_SERVER_ERROR"},
		"another request's answer":    {reply{offset: 5, other: true}, "answer: for another request"},
		"half an answer":              {reply{raw: []byte{0, 0, 0, 60, 0, 0, 0, 1, 0, 2}}, "connection: closed by the broker"},
		"no answer at all":            {reply{quit: true}, "connection: closed by the broker"},
		"an impossible length":        {reply{raw: []byte{0xff, 0, 0, 0}}, "answer: malformed"},
		"an answer cut short inside":  {reply{offset: 1, cut: 12}, "answer: malformed"},
	} {
		for _, rate := range []float64{0, 1000} {
			t.Run(fmt.Sprintf("%s, rate %g", name, rate), func(t *testing.T) {
				w := window()
				f := startFake(t, 1, cutAfter(w, 6, reply{offset: 1}, c.reply, reply{offset: 3}, c.reply))
				o := f.options()
				o.Rate = rate
				got := runOwn(t, o, w)
				if got.Records != 3 || got.Requests != 3 || got.Latency.TotalCount() != 3 || got.Payload != 300 {
					t.Errorf("%+v and %d samples, want 3 successes", got.Amount, got.Latency.TotalCount())
				}
				if len(got.Failures) != 1 || got.Failures[c.want] != 2 {
					t.Errorf("failures %v, want %q twice", got.Failures, c.want)
				}
			})
		}
	}
}

func TestWhatIsInFlightAtTheEndIsNoSuccess(t *testing.T) {
	w := window()
	f := startFake(t, 1, cutAfter(w, 5))
	got := runOwn(t, f.options(), w)
	if got.Records != 4 || got.Unanswered != 1 {
		t.Errorf("%d records, %d in flight, want 4 and 1", got.Records, got.Unanswered)
	}
}

func TestAcksZeroCountsWhatWasSent(t *testing.T) {
	for _, rate := range []float64{0, 2000} {
		w := window()
		f := startFake(t, 1, func(n int, _ kmsg.Request) reply {
			if n == 10 {
				w.Cut()
			}
			return reply{}
		})
		o := f.options()
		o.Acks, o.Rate = 0, rate
		o.Stamped, o.Ledger = true, NewLedger(1, 1)
		got := runOwn(t, o, w)
		if got.Records < 9 || len(got.Failures) != 0 {
			t.Errorf("rate %g: %d records, failures %v", rate, got.Records, got.Failures)
		}
		if c := o.Ledger.Count(); c.Acknowledged != 0 || c.Sent < 10 {
			t.Errorf("rate %g: acks=0 acknowledged %d of %d", rate, c.Acknowledged, c.Sent)
		}
	}
}

func TestThePipelineIsAsDeepAsItSays(t *testing.T) {
	for _, rate := range []float64{0, 100_000} {
		for _, depth := range []int{1, 3, 8} {
			t.Run(fmt.Sprintf("rate %g, %d deep", rate, depth), func(t *testing.T) {
				w := window()
				held := make(chan struct{})
				f := startFake(t, 1, func(n int, _ kmsg.Request) reply {
					if n == depth {
						close(held)
					}
					return reply{silent: true}
				})
				o := f.options()
				o.Pipeline, o.Rate = depth, rate
				m := meter.New(w)
				g, err := NewOwn(context.Background(), o, m)
				must.OK(t, err)
				w.Begin()
				ctx, stop := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- g.Run(ctx) }()
				<-held
				w.Cut()
				stop()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				g.Close()
				f.mu.Lock()
				sent := f.n
				f.mu.Unlock()
				if got := m.Totals(); sent != depth || got.Records != 0 || got.Unanswered < int64(depth) {
					t.Errorf("%d sent without an answer, %d counted in flight, want %d", sent, got.Unanswered, depth)
				}
			})
		}
	}
}

func TestRecordsGoRoundThePartitions(t *testing.T) {
	w := window()
	seen := make(map[int32]int)
	f := startFake(t, 5, func(n int, req kmsg.Request) reply {
		seen[req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Partition]++
		if n == 50 {
			w.Cut()
		}
		return reply{offset: 1}
	})
	runOwn(t, f.options(), w)
	for p := range int32(5) {
		if seen[p] != 10 {
			t.Errorf("partition %d had %d of 50 records: %v", p, seen[p], seen)
		}
	}
}

// TestAStallIsCharged checks that with a rate a stalled broker is charged for every record that was
// due during the stall, not only for the one that it held.
func TestAStallIsCharged(t *testing.T) {
	w := window()
	const rate, stall = 1000.0, 200 * time.Millisecond
	f := startFake(t, 1, func(n int, _ kmsg.Request) reply {
		switch n {
		case 10:
			time.Sleep(stall) // the broker's stall, not a wait of the test
		case 400:
			w.Cut()
		}
		return reply{offset: int64(n)}
	})
	o := f.options()
	o.Rate = rate
	got := runOwn(t, o, w)
	// Records due in the first half of the stall waited at least half of it: about 100 of 400.
	if p := got.Latency.ValueAtQuantile(82); p < int64(stall/2/time.Microsecond) {
		t.Errorf("p82 is %d µs: the stall is charged to too few", p)
	}
}

func TestAWorkerComesBackToABrokerThatWasAway(t *testing.T) {
	w := window()
	f := startFake(t, 1, cutAfter(w, 8, reply{offset: 1}, reply{quit: true}, reply{quit: true}, reply{code: 6, offset: -1}))
	got := runOwn(t, f.options(), w)
	if got.Records != 4 || got.Failures["connection: closed by the broker"] != 2 || got.Failures["NOT_LEADER_FOR_PARTITION"] != 1 {
		t.Errorf("%+v, failures %v", got.Amount, got.Failures)
	}
}

// TestWorkersSendToLeaders checks that each of two brokers gets the partitions that it leads, and
// that a worker follows a partition to its new leader.
func TestWorkersSendToLeaders(t *testing.T) {
	w := window()
	var moved atomic.Bool
	partition := func(req kmsg.Request) int32 { return req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Partition }
	b := startFake(t, 4, func(n int, req kmsg.Request) reply {
		p := partition(req)
		if p%2 == 0 && !moved.Load() {
			t.Errorf("partition %d sent to the second broker", p)
		}
		if p%2 == 0 && n >= 30 { // not before the worker that has to move has arrived
			w.Cut()
		}
		return reply{offset: 1}
	})
	a := startFake(t, 4, nil)
	a.on = func(n int, req kmsg.Request) reply {
		if p := partition(req); p%2 != 0 {
			t.Errorf("partition %d sent to the first broker", p)
		}
		if n > 3 {
			moved.Store(true)
			return reply{code: 6, offset: -1}
		}
		return reply{offset: 1}
	}
	a.peer, a.leads = b, func(p int32) bool { return p%2 == 1 || moved.Load() }
	o := a.options()
	o.Concurrency = 2
	m := meter.New(w)
	g, err := NewOwn(context.Background(), o, m)
	must.OK(t, err)
	defer g.Close()
	w.Begin()
	must.OK(t, g.Run(context.Background()))
	got := m.Totals()
	if got.Failures["NOT_LEADER_FOR_PARTITION"] == 0 || got.Records < 29 {
		t.Errorf("%d records, failures %v", got.Records, got.Failures)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n < 30 {
		t.Errorf("%d requests at the new leader", b.n)
	}
}

func TestOldBrokersAreRefused(t *testing.T) {
	f := startFake(t, 1, nil)
	f.produceMax = 8
	if _, err := NewOwn(context.Background(), f.options(), meter.New(window())); err == nil {
		t.Error("no error for a broker that speaks Produce 8")
	}
}

func TestAFullLedgerEndsTheRun(t *testing.T) {
	w := window()
	f := startFake(t, 1, cutAfter(w, 1000))
	o := f.options()
	o.Stamped, o.Ledger = true, NewLedger(1, 1)
	o.Ledger.workers[0].bound = 5
	for _, rate := range []float64{0, 5000} {
		o.Rate = rate
		g, err := NewOwn(context.Background(), o, meter.New(w))
		must.OK(t, err)
		w.Begin()
		if err := g.Run(context.Background()); !errors.Is(err, ErrLedger) {
			t.Errorf("rate %g: %v", rate, err)
		}
		g.Close()
	}
}
