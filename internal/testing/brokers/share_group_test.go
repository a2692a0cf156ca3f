package brokers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// workers are members of a share group that accept what they get.
type workers struct {
	*world
	mu sync.Mutex
	// got counts the deliveries of each value. done has those whose acceptance was answered.
	got  map[string]int
	done map[string]bool
}

func newWorkers(t *testing.T, seed uint64, k kind) *workers {
	return &workers{world: newWorld(t, seed, k), got: map[string]int{}, done: map[string]bool{}}
}

// worker is a member.
type worker struct {
	*workers
	cl     *kgo.Client
	failed map[int32]bool // partitions with an acknowledgement that failed; under workers.mu
}

func (w *workers) member() *worker {
	m := &worker{workers: w, failed: map[int32]bool{}}
	m.cl = w.client(w.direct(), kgo.ShareGroup("workers"), kgo.ConsumeTopics("jobs"),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range results {
				m.failed[r.Partition] = m.failed[r.Partition] || r.Err != nil
			}
		}))
	return m
}

// run accepts what the member gets until ctx ends, and notes what was answered.
func (m *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		list := m.cl.PollRecords(ctx, 20).Records()
		m.mu.Lock()
		m.failed = map[int32]bool{}
		for _, r := range list {
			m.got[string(r.Value)]++
			if m.done[string(r.Value)] {
				m.problem("%s: delivered again after its acceptance was answered", r.Value)
			}
		}
		m.mu.Unlock()
		m.cl.MarkAcks(kgo.AckAccept, list...)
		if len(list) == 0 || m.cl.FlushAcks(ctx) != nil {
			continue
		}
		m.mu.Lock()
		for _, r := range list {
			m.done[string(r.Value)] = !m.failed[r.Partition]
		}
		m.mu.Unlock()
	}
}

func (w *workers) missing(all []string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range all {
		if w.got[v] == 0 {
			n++
		}
	}
	return n
}

// A share group of unchanged clients works through a topic, while brokers are killed, stopped and
// lose their power. Each record is delivered; at the end nothing is left, and none comes again.
func TestAShareGroupFinishesItsTopic(t *testing.T) {
	for seed, fault := range map[uint64]func(w *world, id int32){
		1: func(*world, int32) {},
		2: func(w *world, id int32) { w.kill(id) },
		3: func(w *world, id int32) { w.stop(id) },
		4: func(w *world, id int32) { w.powerLoss(id, crashfs.Modes()[0]) },
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) {
				w := newWorkers(t, seed, kind{})
				if until(patience, w.allRun) != nil {
					t.Fatal("not all brokers serve")
				}
				w.finish(fault)
				for _, p := range w.wrong() {
					t.Error(p)
				}
			})
		})
	}
}

// configure sets configs of the group: names and values.
func (w *workers) configure(ctx context.Context, by *kgo.Client, pairs ...string) {
	change := kmsg.NewPtrIncrementalAlterConfigsRequest()
	group := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "workers"}
	for i := 0; i < len(pairs); i += 2 {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = pairs[i], &pairs[i+1]
		group.Configs = append(group.Configs, config)
	}
	change.Resources = append(change.Resources, group)
	if resp, err := change.RequestWith(ctx, by); err != nil || resp.Resources[0].ErrorCode != 0 {
		w.Fatal(resp, err)
	}
}

// A broker that stops as planned stores how often records were delivered. One that is killed
// cannot.
func TestAPlannedStopCountsDeliveries(t *testing.T) {
	for seed, c := range map[uint64]struct {
		end      func(w *world, id int32)
		brokers  int32
		replicas int16
		count    int32
	}{
		1: {(*world).stop, 3, 3, 2},
		2: {(*world).kill, 3, 3, 1},
		3: {(*world).stop, 3, 1, 2}, // no leadership moves before the broker stops
		4: {(*world).stop, 1, 1, 2}, // and its own share coordinator stops before it
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) {
				w := newWorkers(t, seed, kind{brokers: c.brokers})
				if until(patience, w.allRun) != nil {
					t.Fatal("not all brokers serve")
				}
				w.deliveredAfter(c.end, c.replicas, c.count)
				for _, p := range w.wrong() {
					t.Error(p)
				}
			})
		})
	}
}

// deliveredAfter ends the leader of records that a member holds, and checks their next counts.
func (w *workers) deliveredAfter(end func(w *world, id int32), replicas int16, count int32) {
	cl := w.client(w.direct())
	admin := kadm.NewClient(cl)
	defer admin.Close()
	ctx := context.Background()
	if until(patience, func() bool { _, err := admin.CreateTopic(ctx, 1, replicas, nil, "jobs"); return err == nil }) != nil {
		w.Fatal("no topic")
	}
	w.configure(ctx, cl, "share.auto.offset.reset", "earliest")
	for range 5 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "jobs", Value: []byte("job")}).FirstErr(); err != nil {
			w.Fatal(err)
		}
	}
	poll := func(m *worker) (list []*kgo.Record) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for len(list) < 5 && ctx.Err() == nil {
			list = append(list, m.cl.PollRecords(ctx, 5-len(list)).Records()...)
		}
		return list
	}
	first := w.member()
	if got := poll(first); len(got) != 5 || got[0].DeliveryCount() != 1 {
		w.Fatal(got)
	}
	first.cl.PauseFetchTopics("jobs") // it would get them first
	topics, err := admin.ListTopics(ctx, "jobs")
	if err != nil {
		w.Fatal(err)
	}
	leader := topics["jobs"].Partitions[0].Leader
	end(w.world, leader)
	if replicas == 1 {
		w.start(leader)
	}
	second := w.member()
	for _, r := range poll(second) {
		if r.DeliveryCount() != count {
			w.problem("offset %d is delivered with count %d, want %d", r.Offset, r.DeliveryCount(), count)
		}
		r.Ack(kgo.AckAccept)
	}
	second.cl.Close()
	if replicas > 1 {
		w.start(leader)
	}
	if until(patience, w.allRun) != nil {
		w.problem("not all brokers serve")
	}
	first.cl.Close()
}

func (w *workers) finish(fault func(w *world, id int32)) {
	admin := kadm.NewClient(w.client(w.direct()))
	defer admin.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if until(patience, func() bool { _, err := admin.CreateTopic(ctx, 3, 3, nil, "jobs"); return err == nil }) != nil {
		w.Fatal("no topic")
	}
	producer := w.client(w.direct())
	defer producer.Close()
	w.configure(ctx, producer, "share.auto.offset.reset", "earliest")
	var all []string
	produce := func(n int) {
		for range n {
			v := fmt.Sprint("job-", len(all))
			all = append(all, v)
			if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "jobs", Value: []byte(v)}).FirstErr(); err != nil {
				w.problem("%s: %v", v, err)
			}
		}
	}
	produce(100)
	var work sync.WaitGroup
	for range 4 {
		m := w.member()
		work.Go(func() {
			defer m.cl.Close()
			m.run(ctx)
		})
	}
	for id := int32(1); id <= 3; id++ {
		fault(w.world, id)
		produce(50)
		if w.process(id) == nil {
			w.start(id)
		}
		if until(time.Minute, func() bool { return w.missing(all) == 0 && w.allRun() }) != nil {
			w.problem("%d of %d records were not delivered", w.missing(all), len(all))
			return
		}
	}
	time.Sleep(time.Minute) // all locks are over
	w.mu.Lock()
	before := maps.Clone(w.got)
	w.mu.Unlock()
	time.Sleep(time.Minute)
	w.mu.Lock()
	if !maps.Equal(before, w.got) {
		w.problem("records come again")
	}
	again, accepted := 0, 0
	for v, n := range w.got {
		again += n - 1
		if w.done[v] {
			accepted++
		}
	}
	w.mu.Unlock()
	if w.Logf("%d records, %d accepted, %d deliveries again", len(all), accepted, again); accepted < len(all)*9/10 {
		w.problem("the acceptance of %d of %d records was answered", accepted, len(all))
	}
	w.position(admin, len(all), 0)
	stop()
	work.Wait()
	back := kadm.Offsets{}
	for p := range int32(3) {
		back.AddOffset("jobs", p, 0, -1)
	}
	if until(patience, func() bool { // the members have left
		got, err := admin.AlterShareGroupOffsets(context.Background(), "workers", back)
		return err == nil && got.Ok() && len(got["jobs"]) == 3
	}) != nil {
		w.problem("the offsets cannot be altered")
	}
	w.position(admin, 0, len(all))
}

// position checks the sums of the group's start offsets and of its lag, which share coordinators
// and leaders on all brokers have.
func (w *workers) position(admin *kadm.Client, start, lag int) {
	var seen string
	want := fmt.Sprint("partitions 3, start ", start, ", lag ", lag)
	if until(patience, func() bool {
		got, err := admin.DescribeShareGroupOffsets(context.Background(), "workers")
		var starts, lags int64
		for _, o := range got["workers"].Offsets["jobs"] {
			starts, lags = starts+o.StartOffset, lags+o.Lag
		}
		seen = fmt.Sprint("partitions ", len(got["workers"].Offsets["jobs"]), ", start ", starts, ", lag ", lags)
		return err == nil && seen == want
	}) != nil {
		w.problem("the position is %s, want %s", seen, want)
	}
}
