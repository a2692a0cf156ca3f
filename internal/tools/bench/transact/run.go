package transact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// adminTimeout bounds requests before and after a load, and the wait for its last answers.
const adminTimeout = time.Minute

// Run is the result of one load on one side.
type Run struct {
	Load Load `json:"load"`
	// Transactions counts acknowledged commits, or for plain loads acknowledged groups of records.
	Transactions int64            `json:"transactions"`
	Records      int64            `json:"records"`
	Elapsed      time.Duration    `json:"elapsed_ns"`
	Failures     map[string]int64 `json:"failures,omitempty"`
	// First is the time until the first record of a transaction is acknowledged, End that of
	// EndTxn, Whole that of the transaction. A load that follows adds the time from its begin until
	// the consumer has its records.
	First    results.Latency `json:"first_produce"`
	End      results.Latency `json:"end_txn"`
	Whole    results.Latency `json:"whole"`
	EndToEnd results.Latency `json:"end_to_end"`
	// ServerCPU and ClientCPU are the processor time of the broker and of all producers together,
	// in microseconds for each transaction. 0: not measured.
	ServerCPU float64 `json:"server_cpu_us,omitempty"`
	ClientCPU float64 `json:"client_cpu_us,omitempty"`
}

// runner is one load on one side.
type runner struct {
	load    Load
	brokers []string
	topic   string
	value   []byte
	window  *meter.Window

	first, end, whole, received *meter.Meter
}

// measure makes one run. Its topic exists only meanwhile, unless keep is set.
func measure(ctx context.Context, s frame.Side, c Config, l Load) (_ *Run, err error) {
	brokers, err := bench.Reachable(ctx, s.Brokers, nil)
	if err != nil {
		return nil, err
	}
	r := &runner{load: l, brokers: brokers, topic: fmt.Sprintf("chronik-bench-txn-%x", rand.Uint64()), value: make([]byte, c.Size),
		window: c.Window()}
	r.first, r.end, r.whole, r.received = meter.New(r.window), meter.New(r.window), meter.New(r.window), meter.New(r.window)
	admin, err := r.client()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	topic := bench.NewTopic{Name: r.topic, Partitions: l.Producers * l.Partitions, Replicas: -1}
	if _, err := bench.CreateTopic(ctx, kadm.NewClient(admin), topic); err != nil {
		return nil, bench.Explain(s.Brokers, err)
	}
	if !c.Keep {
		defer func() { err = errors.Join(err, bench.DeleteTopic(ctx, kadm.NewClient(admin), r.topic)) }()
	}
	workers := make([]*worker, l.Producers)
	defer func() {
		for _, w := range workers {
			w.close()
		}
	}()
	for i := range workers {
		if workers[i], err = r.worker(ctx, i); err != nil {
			return nil, err
		}
	}
	r.window.Begin()
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { w.run(ctx) })
	}
	spans, err := r.window.Measure(ctx, s.PID, os.Getpid())
	all.Wait()
	result := r.result()
	result.ServerCPU, result.ClientCPU = perTransaction(spans[0], result), perTransaction(spans[1], result)
	return result, cmp.Or(ctx.Err(), err)
}

// perTransaction returns the processor time of a span in microseconds for each transaction, 0 if it
// is not known.
func perTransaction(s meter.Span, r *Run) float64 {
	if s.CPUSeconds == nil {
		return 0
	}
	return 1e6 * *s.CPUSeconds / float64(max(r.Transactions, 1))
}

func (r *runner) result() *Run {
	t := r.whole.Totals()
	of := func(m *meter.Meter) results.Latency { return results.LatencyOf(m.Totals().Latency, time.Microsecond) }
	return &Run{Load: r.load, Transactions: t.Requests, Records: t.Records, Elapsed: r.window.Elapsed(), Failures: t.Failures,
		First: of(r.first), End: of(r.end), Whole: of(r.whole), EndToEnd: of(r.received)}
}

// client returns a client without kgo's waits between repetitions: a broker that asks it to come
// back is asked soon, and costs no more than it must.
func (r *runner) client(opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.brokers...), kgo.ClientID(wire.ClientID), kgo.DefaultProduceTopic(r.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond })}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("create a client for %v: %w", r.brokers, err)
	}
	return cl, nil
}

// worker is one producer.
type worker struct {
	*runner
	client           *kgo.Client
	reader           *kgo.Client // nil unless the load follows
	partition        int32       // the first of its partitions
	first, end       *meter.Recorder
	whole, delivered *meter.Recorder
}

// worker returns the i-th producer, after its first transaction: its producer id and connections
// exist.
func (r *runner) worker(ctx context.Context, i int) (*worker, error) {
	w := &worker{runner: r, partition: int32(i * r.load.Partitions), first: r.first.NewRecorder(), end: r.end.NewRecorder(),
		whole: r.whole.NewRecorder(), delivered: r.received.NewRecorder()}
	var opts []kgo.Opt
	if !r.load.Plain {
		opts = append(opts, kgo.TransactionalID(fmt.Sprintf("%s-%d", r.topic, i)))
	}
	var err error
	if w.client, err = r.client(opts...); err != nil {
		return nil, err
	}
	if r.load.Follow {
		w.reader, err = r.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: {w.partition: kgo.NewOffset().AtStart()}}))
		if err != nil {
			return w, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if _, err := w.transaction(ctx); err != nil {
		return w, bench.Explain(r.brokers, fmt.Errorf("the first transaction: %w", err))
	}
	return w, nil
}

func (w *worker) close() {
	if w == nil {
		return
	}
	for _, cl := range []*kgo.Client{w.client, w.reader} {
		if cl != nil {
			cl.Close()
		}
	}
}

// run makes transactions until the interval is over.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil && w.window.Now() < w.window.Until() {
		began := w.window.Now()
		answers, stop := context.WithTimeout(ctx, adminTimeout)
		t, err := w.transaction(answers)
		stop()
		if err != nil {
			if ctx.Err() == nil {
				w.whole.Fail(began, w.window.Now(), load.FailureName(err), 1)
			}
			continue
		}
		w.whole.Done(began, t.ended, meter.Amount{Requests: 1, Records: int64(w.load.Records)})
		w.first.Done(began, t.first, meter.Amount{Requests: 1})
		if !w.load.Plain {
			w.end.Done(t.produced, t.ended, meter.Amount{Requests: 1})
		}
		if w.load.Follow {
			w.delivered.Done(began, t.received, meter.Amount{Requests: 1})
		}
	}
}

// times are the moments of a transaction.
type times struct{ first, produced, ended, received time.Duration }

// transaction makes one transaction, and waits for the consumer if there is one.
func (w *worker) transaction(ctx context.Context) (t times, err error) {
	if !w.load.Plain {
		if err := w.client.BeginTransaction(); err != nil {
			return t, fmt.Errorf("begin: %w", err)
		}
	}
	err = w.produce(ctx, &t)
	if t.produced = w.window.Now(); !w.load.Plain {
		if err != nil {
			return t, errors.Join(err, w.client.EndTransaction(ctx, kgo.TryAbort))
		}
		err = w.client.EndTransaction(ctx, kgo.TryCommit)
	}
	t.ended = w.window.Now()
	for n := 0; err == nil && w.reader != nil && n < w.load.Records; {
		fetched := w.reader.PollFetches(ctx)
		n += fetched.NumRecords()
		err = fetched.Err()
		t.received = w.window.Now()
	}
	return t, err
}

// produce sends the records of a transaction and waits for all of them.
func (w *worker) produce(ctx context.Context, t *times) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	all.Add(w.load.Records)
	for i := range w.load.Records {
		r := &kgo.Record{Partition: w.partition + int32(i%w.load.Partitions), Value: w.value}
		w.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			defer all.Done()
			mu.Lock()
			defer mu.Unlock()
			if t.first == 0 {
				t.first = w.window.Now()
			}
			if failed == nil {
				failed = err
			}
		})
	}
	all.Wait()
	return failed
}
