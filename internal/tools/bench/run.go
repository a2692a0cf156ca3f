package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// lastAnswers is how long a run waits after its interval for in-flight operations.
const lastAnswers = 10 * time.Second

// ErrInterrupted is returned if a run ended before its measured interval began.
var ErrInterrupted = errors.New("interrupted before anything was measured")

// ErrNothing is returned if a direction had no success at all.
var ErrNothing = errors.New("nothing succeeded")

// Run makes one run: it prepares the topic, warms up, measures, and verifies the acknowledged
// records if c.Verify is set. After an error there is no result; failures of single requests are in
// the Result. If ctx ends early, the Result is of the shorter interval.
func Run(ctx context.Context, c Config, progress Progress) (_ *Result, err error) {
	c, err = c.Complete()
	if err != nil {
		return nil, err
	}
	if c.ServerPID > 0 {
		if _, err := meter.ProcessCPU(c.ServerPID); err != nil {
			return nil, cli.WithCode(cli.ExitUsage, err) // now, and not after the run
		}
	}
	secure, err := Secure(c.Authorities)
	if err != nil {
		return nil, err
	}
	brokers, err := Reachable(ctx, c.Brokers, secure)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(load.Reach(brokers, secure), load.Fresh())...)
	if err != nil {
		return nil, cli.Usage("--bootstrap-servers: create a client for %v: %w", c.Brokers, err)
	}
	defer client.Close()
	t := topic{config: c, client: client, secure: secure}
	defer func() { err = t.end(ctx, err) }()
	if err := t.prepare(ctx); err != nil {
		return nil, Explain(c.Brokers, err)
	}
	against, port, err := t.against(ctx)
	if err != nil {
		return nil, cli.WithCode(cli.ExitUsage, err)
	}
	r := &runner{config: c, cluster: load.NewCluster(brokers, c.Topic, secure, client), window: meter.NewWindow(c.Warmup, c.Duration),
		against: against, admin: port}
	if err := r.cluster.Load(ctx); err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.plan(ctx); err != nil {
		return nil, err
	}
	if err := r.measure(ctx, progress); err != nil {
		return nil, err
	}
	result := r.result()
	if c.Verify {
		if result.Verify, err = verify(ctx, r.cluster, r.ledger); err != nil {
			return nil, err
		}
	}
	if left := t.leaves(ctx); left != "" && c.Mode != ModeConsume {
		result.Notes = append(result.Notes, left)
	}
	return result, nil
}

// runner is one run.
type runner struct {
	config   Config
	cluster  *load.Cluster
	window   *meter.Window
	ledger   *load.Ledger
	flows    []*flow
	receiver load.Receiver // of an end-to-end run
	against  *Against
	admin    *admin // nil for none
	unasked  error  // error of the admin port during the run
	// cpu is the server's CPU time in the interval.
	cpu time.Duration
	// received is what the broker appended, nil if every response reports it; growthMu guards
	// growth, from which it is computed.
	received *Flow
	growthMu sync.Mutex
	growth   growth
}

// flow is one direction of the run.
type flow struct {
	name  string
	meter *meter.Meter
	// generator is the generator that the flow measures.
	generator load.Generator
}

// plan creates the generators of the mode.
func (r *runner) plan(ctx context.Context) error {
	o := r.options()
	switch r.config.Mode {
	case ModeConsume:
		return r.addConsume(ctx, o)
	case ModeProduce:
		return r.addProduce(ctx, o)
	case ModeMixed:
		o.Idle = true
		if err := r.addProduce(ctx, o); err != nil {
			return err
		}
		o.Rate = 0
		o.Concurrency = min(o.Concurrency, len(r.cluster.Partitions()))
		return r.addConsume(ctx, o)
	case ModeE2E:
		m := meter.New(r.window)
		// Before the producers, so that it starts before their first record.
		var err error
		if r.receiver, err = newReceiver(ctx, o, m); err != nil {
			return err
		}
		receiving := &flow{name: FlowEndToEnd, meter: m, generator: r.receiver}
		if err := r.addProduce(ctx, o); err != nil {
			r.receiver.Close()
			return err
		}
		r.flows = append(r.flows, receiving)
		return nil
	}
	return fmt.Errorf("--mode: %q", r.config.Mode)
}

func newReceiver(ctx context.Context, o load.Options, m *meter.Meter) (load.Receiver, error) {
	if o.Consumers > 0 {
		return load.NewFanout(ctx, o, m)
	}
	return load.NewFollow(ctx, o, m)
}

func (r *runner) options() load.Options {
	c := r.config
	o := load.Options{
		Cluster: r.cluster, Concurrency: c.Concurrency, Pipeline: c.Pipeline, MessageSize: c.MessageSize, Acks: c.Acks.code(),
		Compression: c.Compression, Rate: c.Rate, FetchMaxBytes: c.FetchMaxBytes, Consumers: c.Consumers,
		ClientID: c.ClientID,
	}
	if c.Verify || c.Mode == ModeE2E {
		o.Run, o.Stamped = rand.Uint64(), true
		r.ledger = load.NewLedger(o.Run, c.Concurrency)
		o.Ledger = r.ledger
	}
	return o
}

// code returns the value of acks in a Produce request.
func (a Acks) code() int16 {
	switch a {
	case AcksNone:
		return 0
	case AcksLeader:
		return 1
	default:
		return -1
	}
}

func (r *runner) addProduce(ctx context.Context, o load.Options) error {
	m := meter.New(r.window)
	var g load.Generator
	var err error
	switch r.config.Clients {
	case ClientsShared:
		g, err = load.NewShared(o, m)
	case ClientsBatched:
		g, err = load.NewBatched(o, m)
	default:
		g, err = load.NewOwn(ctx, o, m)
	}
	if err != nil {
		return err
	}
	r.flows = append(r.flows, &flow{name: FlowProduce, meter: m, generator: g})
	return nil
}

func (r *runner) addConsume(ctx context.Context, o load.Options) error {
	m := meter.New(r.window)
	var g load.Generator
	var err error
	switch r.config.Clients {
	case ClientsOwn:
		g, err = load.NewRawFetch(ctx, o, m)
	case ClientsShared:
		o.Concurrency = 1 // tasks share one client
		g, err = load.NewConsume(ctx, o, m)
	default:
		g, err = load.NewConsume(ctx, o, m)
	}
	if err != nil {
		return err
	}
	r.flows = append(r.flows, &flow{name: FlowConsume, meter: m, generator: g})
	return nil
}

func (r *runner) close() {
	for _, f := range r.flows {
		f.generator.Close()
	}
}

// measure runs the generators through the window and waits until all have ended.
func (r *runner) measure(ctx context.Context, progress Progress) error {
	// The generators outlive ctx by the time of their last responses.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.window.Begin()
	last := time.AfterFunc(r.config.Warmup+r.config.Duration+lastAnswers, stop)
	defer last.Stop()
	defer context.AfterFunc(ctx, func() {
		r.window.Cut()
		last.Reset(lastAnswers)
	})()
	var senders, receivers, watch sync.WaitGroup
	receiving, received := context.WithCancel(inner)
	defer received()
	errs := make([]error, len(r.flows)+2)
	for i, f := range r.flows {
		if f.generator == load.Generator(r.receiver) {
			receivers.Go(func() { errs[i] = f.generator.Run(receiving) })
			continue
		}
		senders.Go(func() { errs[i] = f.generator.Run(inner) })
	}
	watch.Go(func() { errs[len(r.flows)] = r.watch(ctx, progress) })
	watch.Go(func() { errs[len(r.flows)+1] = r.measureGrowth(inner) })
	senders.Wait()
	if r.receiver != nil {
		r.await(inner)
	}
	received()
	receivers.Wait()
	watch.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if r.window.Elapsed() == 0 {
		return ErrInterrupted
	}
	r.receive(int((r.window.Elapsed()+r.window.Step()-1)/r.window.Step()), nil)
	return nil
}

// await waits a limited time until the receiver has all acknowledged records, and counts the
// missing ones.
func (r *runner) await(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, lastAnswers)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	expected := r.ledger.Acknowledged() * r.receiver.Copies()
	for r.receiver.Received() < expected {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.receiver.Missing(expected - r.receiver.Received())
			return
		}
	}
}
