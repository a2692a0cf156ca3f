package sharing

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

const (
	// adminTimeout bounds requests before and after a load.
	adminTimeout = time.Minute
	// joinTime is for how long a load waits until each member has had records. Some may get none
	// later, too: brokers need not be fair.
	joinTime = 20 * time.Second
	// backlog is how many records are ahead of the members, and polled how many a poll returns.
	backlog = 50_000
	polled  = 500
	// fetchWait is for how long a fetch waits, as that of Kafka's consumers.
	fetchWait = 500 * time.Millisecond
	// A batch of the backlog has as many records of one partition.
	batched = 100
	// stampSize is the size of the time in a record.
	stampSize = 8
)

// Run is the result of one load on one side.
type Run struct {
	Load Load `json:"load"`
	// Records are those that were acknowledged, and Active is how many members had some.
	Records  int64            `json:"records"`
	Active   int              `json:"active"`
	Elapsed  time.Duration    `json:"elapsed_ns"`
	Failures map[string]int64 `json:"failures,omitempty"`
	// Acknowledge is the time of the acknowledgement of what a poll has returned. Delivery is the
	// time from the send of a record until it was polled, of paced loads.
	Acknowledge results.Latency `json:"acknowledge"`
	Delivery    results.Latency `json:"delivery"`
	// ServerCPU and ClientCPU are the processor time of the broker and of all clients together,
	// in microseconds for each record. 0: not measured.
	ServerCPU float64 `json:"server_cpu_us,omitempty"`
	ClientCPU float64 `json:"client_cpu_us,omitempty"`
}

// runner is one load on one side.
type runner struct {
	load    Load
	brokers []string
	topic   string // and group
	config  Config
	begun   time.Time // origin of the times in records
	window  *meter.Window
	counts  atomic.Bool // the window has begun

	acks, delivery *meter.Meter
	done, lost     atomic.Int64          // records; lost were not produced
	waiting        atomic.Int64          // members that have had no record yet
	joined         chan struct{}         // closed by the last member that has its first record
	reason         atomic.Pointer[error] // why a record was not produced
}

// measure makes one run. Its topic and its group exist only meanwhile, unless keep is set.
func measure(ctx context.Context, s frame.Side, c Config, l Load) (_ *Run, err error) {
	brokers, err := bench.Reachable(ctx, s.Brokers, nil)
	if err != nil {
		return nil, err
	}
	r := &runner{load: l, brokers: brokers, topic: fmt.Sprintf("chronik-bench-share-%x", rand.Uint64()), config: c, begun: time.Now(),
		window: c.Window(), joined: make(chan struct{})}
	r.acks, r.delivery = meter.New(r.window), meter.New(r.window)
	r.waiting.Store(int64(l.Consumers))
	producer, err := r.client(kgo.DefaultProduceTopic(r.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(backlog))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	admin := kadm.NewClient(producer)
	if _, err := bench.CreateTopic(ctx, admin, bench.NewTopic{Name: r.topic, Partitions: l.Partitions, Replicas: -1}); err != nil {
		return nil, bench.Explain(s.Brokers, err)
	}
	if !c.Keep {
		defer func() { err = errors.Join(err, r.remove(ctx, admin)) }()
	}
	if err := r.fromStart(ctx, producer); err != nil {
		return nil, bench.Explain(s.Brokers, err)
	}
	return r.run(ctx, s, producer)
}

// run runs the members and the producer.
func (r *runner) run(ctx context.Context, s frame.Side, producer *kgo.Client) (*Run, error) {
	members := make([]*member, 0, r.load.Consumers)
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer func() {
		stop()
		all.Wait()
		for _, m := range members {
			all.Go(m.client.Close)
		}
		all.Wait()
	}()
	for range r.load.Consumers {
		m, err := r.member()
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	for _, m := range members {
		all.Go(func() { m.run(working) })
	}
	all.Go(func() { r.feed(working, producer) })
	select {
	case <-r.joined:
	case <-time.After(joinTime):
	case <-ctx.Done():
	}
	r.window.Begin()
	r.counts.Store(true)
	spans, err := r.window.Measure(ctx, s.PID, os.Getpid())
	stop()
	all.Wait()
	if r.lost.Load() > 0 {
		err = errors.Join(err, fmt.Errorf("%d records were not produced: %w", r.lost.Load(), *r.reason.Load()))
	}
	t := r.acks.Totals()
	of := func(m *meter.Meter) results.Latency { return results.LatencyOf(m.Totals().Latency, time.Microsecond) }
	result := &Run{Load: r.load, Records: t.Records, Elapsed: r.window.Elapsed(), Failures: t.Failures, Acknowledge: of(r.acks),
		Delivery: of(r.delivery)}
	for _, m := range members {
		if m.records > 0 {
			result.Active++
		}
	}
	each := func(s meter.Span) float64 {
		if s.CPUSeconds == nil {
			return 0
		}
		return 1e6 * *s.CPUSeconds / float64(max(result.Records, 1))
	}
	result.ServerCPU, result.ClientCPU = each(spans[0]), each(spans[1])
	return result, cmp.Or(ctx.Err(), err)
}

func (r *runner) client(opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.brokers...), kgo.ClientID(wire.ClientID)}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("create a client for %v: %w", r.brokers, err)
	}
	return cl, nil
}

// fromStart lets the group begin with the first record.
func (r *runner) fromStart(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	setting, earliest := kmsg.NewIncrementalAlterConfigsRequestResourceConfig(), "earliest"
	setting.Name, setting.Op, setting.Value = "share.auto.offset.reset", kmsg.IncrementalAlterConfigOpSet, &earliest
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, r.topic
	resource.Configs = append(resource.Configs, setting)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, client)
	if err == nil {
		for _, a := range answer.Resources {
			err = errors.Join(err, kerr.ErrorForCode(a.ErrorCode))
		}
	}
	if err != nil {
		return fmt.Errorf("set share.auto.offset.reset of the group %s: %w", r.topic, err)
	}
	return nil
}

// remove removes the group and the topic.
func (r *runner) remove(ctx context.Context, admin *kadm.Client) error {
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer cancel()
	_, err := admin.DeleteGroup(timed, r.topic)
	if errors.Is(err, kerr.GroupIDNotFound) { // no member has joined
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("delete the group %s: %w", r.topic, err)
	}
	return errors.Join(err, bench.DeleteTopic(ctx, admin, r.topic))
}

// feed produces records until ctx ends.
func (r *runner) feed(ctx context.Context, producer *kgo.Client) {
	started := time.Now()
	for i := int64(0); ctx.Err() == nil; i++ {
		for r.ahead(i, started) && pause.Wait(ctx.Done(), time.Millisecond) {
		}
		record := &kgo.Record{Partition: int32(i % int64(r.load.Partitions)), Value: make([]byte, r.config.Size)}
		if !r.load.Paced {
			record.Partition = int32(i / batched % int64(r.load.Partitions))
		}
		binary.BigEndian.PutUint64(record.Value, uint64(time.Since(r.begun)))
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil && ctx.Err() == nil {
				r.reason.Store(&err)
				r.lost.Add(1)
			}
		})
	}
	if err := producer.AbortBufferedRecords(context.WithoutCancel(ctx)); err != nil {
		r.reason.Store(&err)
		r.lost.Add(1)
	}
}

// ahead reports whether the next record, the n-th, has to wait.
func (r *runner) ahead(n int64, started time.Time) bool {
	if r.load.Paced {
		return float64(n) > time.Since(started).Seconds()*float64(r.config.Rate)
	}
	return n > r.done.Load()+backlog
}

// member is one member of the group.
type member struct {
	*runner
	client         *kgo.Client
	acks, delivery *meter.Recorder
	records        int64 // acknowledged in the window
	failed         atomic.Pointer[error]
}

func (r *runner) member() (m *member, err error) {
	m = &member{runner: r, acks: r.acks.NewRecorder(), delivery: r.delivery.NewRecorder()}
	// An acknowledgement follows the fetches of its session on one connection, so no fetch may wait
	// for the space in the window that only the acknowledgement makes.
	m.client, err = r.client(kgo.ShareGroup(r.topic), kgo.ConsumeTopics(r.topic), kgo.ShareMaxRecords(polled),
		kgo.MaxConcurrentFetches(0), kgo.FetchMaxWait(fetchWait),
		kgo.ShareAckCallback(func(_ *kgo.Client, got kgo.ShareAckResults) {
			if err := got.Error(); err != nil {
				m.failed.Store(&err)
			}
		}))
	return m, err
}

// run polls and acknowledges until ctx ends.
func (m *member) run(ctx context.Context) {
	for first := true; ctx.Err() == nil; {
		fetched := m.client.PollRecords(ctx, polled)
		n := int64(fetched.NumRecords())
		fetched.EachError(func(_ string, _ int32, err error) { m.fail(ctx, err) })
		if n == 0 {
			continue
		}
		if m.delivered(fetched); first {
			first = false
			if m.waiting.Add(-1) == 0 {
				close(m.joined)
			}
		}
		counts := m.counts.Load()
		var began time.Duration
		if counts {
			began = m.window.Now()
		}
		m.client.MarkAcks(kgo.AckAccept)
		err := m.client.FlushAcks(ctx)
		if failed := m.failed.Swap(nil); err == nil && failed != nil {
			err = *failed
		}
		switch {
		case err != nil:
			m.fail(ctx, err)
		case counts:
			now := m.window.Now()
			m.acks.Done(began, now, meter.Amount{Requests: 1, Records: n})
			if now >= m.window.From() && now < m.window.Until() {
				m.records += n
			}
		}
		m.done.Add(n)
	}
}

// delivered records when the records of a poll were sent.
func (m *member) delivered(fetched kgo.Fetches) {
	if !m.load.Paced || !m.counts.Load() {
		return
	}
	now, at := m.window.Now(), time.Since(m.begun)
	fetched.EachRecord(func(record *kgo.Record) {
		if len(record.Value) < stampSize {
			return // of another producer
		}
		took := at - time.Duration(binary.BigEndian.Uint64(record.Value))
		m.delivery.Done(now-took, now, meter.Amount{Requests: 1})
	})
}

func (m *member) fail(ctx context.Context, err error) {
	if ctx.Err() == nil && m.counts.Load() {
		now := m.window.Now()
		m.acks.Fail(now, now, load.FailureName(err), 1)
	}
}
