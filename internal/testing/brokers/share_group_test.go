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

// worker is a member.
type worker struct {
	*workers
	cl     *kgo.Client
	failed map[int32]bool // partitions with an acknowledgement that failed; under workers.mu
}

func (w *workers) member() *worker {
	m := &worker{workers: w}
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
				w := &workers{world: newWorld(t, seed, kind{}), got: map[string]int{}, done: map[string]bool{}}
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
	change := kmsg.NewPtrIncrementalAlterConfigsRequest()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	change.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeGroupConfig,
		ResourceName: "workers", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{config}}}
	if resp, err := change.RequestWith(ctx, producer); err != nil || resp.Resources[0].ErrorCode != 0 {
		w.Fatal(resp, err)
	}
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
