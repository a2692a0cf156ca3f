package hostile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
)

const (
	// Bystanders is the topic and the group of the bystanders.
	Bystanders = "bystanders"
	// largeValue is too large for a poller; a request with manyNames names counts against the
	// budget for other requests.
	largeValue = 64 << 10
	manyNames  = 1500
)

// Probe is one kind of request that a bystander sends.
type Probe struct {
	Name  string
	every time.Duration
	req   kmsg.Request
	// check returns an error unless the response is that of an undisturbed broker.
	check func(kmsg.Response) error
}

// Probes returns the requests of bystanders: the usual requests of ordinary clients, which take
// different paths through the broker.
func Probes() ([]Probe, error) {
	small, err := produceRequest(-1, 256)
	if err != nil {
		return nil, err
	}
	large, err := produceRequest(-1, largeValue)
	if err != nil {
		return nil, err
	}
	stable := fetchRequest(Bystanders, 0, 64<<10)
	stable.IsolationLevel = 1
	return []Probe{
		{"produce", 20 * time.Millisecond, small, produced},
		{"produce 64 KiB", 100 * time.Millisecond, large, produced},
		{"fetch", 20 * time.Millisecond, fetchRequest(Bystanders, 0, 64<<10), fetched},
		{"fetch committed", 20 * time.Millisecond, stable, readsCommitted},
		{"metadata 20 KB", 100 * time.Millisecond, metadataRequest(manyNames), nil},
		{"commit", 50 * time.Millisecond, commitRequest(Bystanders, ""), committed},
	}, nil
}

// Prepare creates what the bystanders need, and returns when each probe has been answered.
func Prepare(ctx context.Context, addr string) error {
	c, err := Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all requests have been answered
	if err := c.makeTopic(Bystanders, 1); err != nil {
		return err
	}
	for {
		if err := c.coordinator(Bystanders); err != nil {
			return err
		}
		err := Answered(ctx, addr)
		if !kerr.IsRetriable(err) {
			return err
		}
		pause.Wait(ctx.Done(), 10*time.Millisecond)
	}
}

// Answered sends every probe once, in order, and returns the first error.
func Answered(ctx context.Context, addr string) error {
	probes, err := Probes()
	if err != nil {
		return err
	}
	for _, p := range probes {
		c, err := Dial(ctx, addr)
		if err == nil {
			err = p.once(c)
			_ = c.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

func (p Probe) once(c *Conn) error {
	resp, err := c.Ask(p.req)
	if err == nil && p.check != nil {
		err = p.check(resp)
	}
	return err
}

// Latency summarizes one kind of probe. Times count from when a request was due, whether or not the
// previous one was answered.
type Latency struct {
	N, Failed int
	P50, P99  time.Duration
	// Failure is the first error, nil if there was none.
	Failure error
}

// series are the results of one client of one probe.
type series struct {
	times   []time.Duration
	failed  int
	failure error
}

// Watch sends all probes for d and returns the results by name. Each probe is sent by so many
// clients, which share its rate. Watch waits up to a minute for requests in flight at the end.
func Watch(ctx context.Context, addr string, d time.Duration, clients int) (map[string]Latency, error) {
	probes, err := Probes()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	seen := make([]series, len(probes)*clients)
	var wg sync.WaitGroup
	for i, p := range probes {
		for j := range clients {
			wg.Go(func() { seen[i*clients+j] = p.watch(ctx, addr, d, j, clients) })
		}
	}
	wg.Wait()
	byName := make(map[string]Latency)
	for i, p := range probes {
		byName[p.Name] = latencyOf(seen[i*clients:][:clients])
	}
	return byName, nil
}

// watch sends a probe for d as client i of n. Requests that became due during another one are sent
// late.
func (p Probe) watch(ctx context.Context, addr string, d time.Duration, i, n int) series {
	var s series
	begin := time.Now()
	var c *Conn
	for due := time.Duration(i) * p.every; due < d && ctx.Err() == nil; due += time.Duration(n) * p.every {
		pause.Wait(ctx.Done(), due-time.Since(begin))
		var err error
		if c == nil {
			c, err = Dial(ctx, addr)
		}
		if err == nil {
			err = p.once(c)
		}
		s.times = append(s.times, time.Since(begin)-due)
		if err == nil {
			continue
		}
		if s.failed++; s.failure == nil {
			s.failure = err
		}
		if c != nil && lost(err) {
			_ = c.Close()
			c = nil
		}
	}
	if c != nil {
		_ = c.Close()
	}
	return s
}

func latencyOf(all []series) Latency {
	var l Latency
	var times []time.Duration
	for _, s := range all {
		times = append(times, s.times...)
		l.Failed += s.failed
		if l.Failure == nil {
			l.Failure = s.failure
		}
	}
	slices.Sort(times)
	if l.N = len(times); l.N > 0 {
		l.P50, l.P99 = times[l.N/2], times[min(l.N*99/100, l.N-1)]
	}
	return l
}

// floor is a p99 that is always acceptable.
const floor = 50 * time.Millisecond

// Bound returns the p99 that a bystander may have during an attack: twice its p99 without it,
// before or at the same time at a broker that is not attacked, or 50 ms.
func Bound(alone, control Latency) time.Duration {
	return max(2*alone.P99, 2*control.P99, floor)
}

func produced(r kmsg.Response) error {
	return kerr.ErrorForCode(r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

func fetched(r kmsg.Response) error {
	f := r.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(f.ErrorCode); err != nil {
		return err
	}
	p := f.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return err
	}
	if len(p.RecordBatches) == 0 {
		return errors.New("a fetch from the start of a topic with records brought none")
	}
	return nil
}

func committed(r kmsg.Response) error {
	return kerr.ErrorForCode(r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
}

// Produce returns a bystander's small Produce.
func Produce(acks int16) (*kmsg.ProduceRequest, error) { return produceRequest(acks, 256) }

// Commit returns a bystander's commit: offset 1 of partition 0.
func Commit() *kmsg.OffsetCommitRequest { return commitRequest(Bystanders, "") }

func produceRequest(acks int16, size int) (*kmsg.ProduceRequest, error) {
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(time.Now().UnixMilli(), nil, make([]byte, size), nil)
	batch, err := b.Build()
	if err != nil {
		return nil, err
	}
	return produceOf(Bystanders, acks, batch), nil
}

// produceOf returns a Produce of version 9 with the given batches.
func produceOf(topic string, acks int16, batches []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 30_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batches}}}}
	return req
}

// fetchRequest returns a Fetch of version 12 from the start of a topic, without a session, which
// waits up to wait milliseconds.
func fetchRequest(topic string, wait, most int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.SessionEpoch = 12, -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = wait, 1, most
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = most
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

// metadataRequest requests n unknown topics.
func metadataRequest(n int) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	for i := range n {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(fmt.Sprintf("absent-from-here-%06d", i))
		req.Topics = append(req.Topics, t)
	}
	return req
}

// commitRequest commits an offset of the bystanders' topic for a group without members.
func commitRequest(group, metadata string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = 8, group
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = 1, &metadata
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: Bystanders, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return req
}

// makeTopic creates a topic and returns when the broker leads all its partitions.
func (c *Conn) makeTopic(name string, partitions int) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 60_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), 1
	req.Topics = append(req.Topics, t)
	resp, err := c.Ask(req)
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// coordinator returns when the coordinator of the group is ready.
func (c *Conn) coordinator(group string) error {
	for {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey = 2, group
		resp, err := c.Ask(req)
		if err != nil {
			return err
		}
		if err = kerr.ErrorForCode(resp.(*kmsg.FindCoordinatorResponse).ErrorCode); !kerr.IsRetriable(err) {
			return err
		}
		time.Sleep(10 * time.Millisecond) // ends with the connection's deadline
	}
}
