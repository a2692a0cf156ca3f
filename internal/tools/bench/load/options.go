package load

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// Options configure a generator.
type Options struct {
	Cluster     *Cluster
	Concurrency int
	// Pipeline is the number of requests in flight on a raw connection.
	Pipeline    int
	MessageSize int
	Acks        int16 // 0, 1 or -1
	Compression string
	// Rate is the number of records per second of all workers together; 0 means as many as
	// responses allow.
	Rate float64
	// Run is in the stamp of every value if Stamped is set.
	Run     uint64
	Stamped bool
	// Ledger records acknowledged records; nil for none. It needs Stamped.
	Ledger *Ledger
	// Consumers is the number of consumers of a Fanout.
	Consumers int
	// ClientID is the client id of the requests; empty: wire.ClientID.
	ClientID string
	// FetchMaxBytes is the size limit of a raw fetch.
	FetchMaxBytes int
	// Idle lets consumers start on an empty topic.
	Idle bool
}

// Generator is a load that is ready to start.
type Generator interface {
	// Run generates load. The caller must call it right after the window's Begin. It returns when
	// the window has ended and in-flight requests have their responses, or when ctx ends, which
	// closes connections. An error means that the load differs from the configured one; failures of
	// requests are in the meter.
	Run(ctx context.Context) error
	// Close closes connections and clients. The caller must call it once, after Run or instead of
	// it.
	Close()
}

// answerTimeout is how long a response may take before the connection is closed; the timeouts sent
// to brokers are shorter.
const answerTimeout = 30 * time.Second

// produceTimeout is the timeout in a Produce request.
const produceTimeout = 20 * time.Second

// retryPause is the pause of a worker after a failure, so that a broker that is down receives a few
// requests per second instead of millions.
const retryPause = 10 * time.Millisecond

// schedule is the open loop of one worker: its k-th record is due at first + k × every nanoseconds.
type schedule struct{ first, every float64 }

// scheduleOf distributes rate records per second evenly over workers.
func scheduleOf(rate float64, worker, workers int) schedule {
	return schedule{first: float64(time.Second) * float64(worker) / rate, every: float64(time.Second) * float64(workers) / rate}
}

func (s schedule) due(k int64) time.Duration { return time.Duration(s.first + float64(k)*s.every) }

// unsent records how many records from the k-th on were due before the interval ended.
func (s schedule) unsent(recorder *meter.Recorder, until time.Duration, k int64) {
	if due := s.due(k); due < until {
		recorder.Unsent(due, int64(float64(until-due-1)/s.every)+1)
	}
}
