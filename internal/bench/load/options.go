package load

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/bench/meter"
)

// Options say what a generator does.
type Options struct {
	Cluster     *Cluster
	Concurrency int
	// Pipeline is the number of requests in flight on a raw connection.
	Pipeline    int
	MessageSize int
	Acks        int16 // 0, 1 or -1
	Compression string
	// Rate is the records a second of all workers together; 0 is as many as
	// answers allow.
	Rate float64
	// Run is in the stamp of every value when Stamped is set.
	Run     uint64
	Stamped bool
	// Ledger notes what was acknowledged; nil for none. It needs Stamped.
	Ledger *Ledger
	// Consumers is how many consumers a Fanout has.
	Consumers int
	// FetchMaxBytes is what a raw fetch asks for.
	FetchMaxBytes int
	// Idle lets consumers start on an empty topic.
	Idle bool
}

// Generator is a load that is ready to start.
type Generator interface {
	// Run generates load from now, which must be right after the window's Begin,
	// until the window ends and what is in flight is answered, or ctx ends, which
	// closes connections. An error says that the load is not what was asked for;
	// failures of requests are in the meter.
	Run(ctx context.Context) error
	// Close ends connections and clients. It is called once, after Run or instead
	// of it.
	Close()
}

// answerTimeout is how long an answer may take before its connection is given up;
// brokers are asked for less.
const answerTimeout = 30 * time.Second

// produceTimeout is what a Produce request gives the broker.
const produceTimeout = 20 * time.Second

// retryPause is how long a worker waits after a failure, so that a broker that is
// down is asked some times a second and not some million times.
const retryPause = 10 * time.Millisecond

// schedule is the open loop of one worker: its k-th record is due at
// first + k × every nanoseconds.
type schedule struct{ first, every float64 }

// scheduleOf spreads rate records a second evenly over workers.
func scheduleOf(rate float64, worker, workers int) schedule {
	return schedule{first: float64(time.Second) * float64(worker) / rate, every: float64(time.Second) * float64(workers) / rate}
}

func (s schedule) due(k int64) time.Duration { return time.Duration(s.first + float64(k)*s.every) }

// unsent tells the lane how many records from the k-th on were due before the
// interval ended.
func (s schedule) unsent(lane *meter.Lane, until time.Duration, k int64) {
	if due := s.due(k); due < until {
		lane.Unsent(due, int64(float64(until-due-1)/s.every)+1)
	}
}

// pause waits for d, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
