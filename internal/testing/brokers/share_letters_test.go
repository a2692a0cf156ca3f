package brokers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// Members of a share group reject some of the records, while brokers are killed, stopped and lose
// their power. The topic of dead letters has each of these once, and no other.
func TestDeadLettersAreCopiedOnce(t *testing.T) {
	for seed, fault := range map[uint64]func(w *world, id int32){
		1: func(*world, int32) {},
		2: (*world).kill,
		3: (*world).stop,
		4: func(w *world, id int32) { w.powerLoss(id, crashfs.Modes()[0]) },
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) {
				w := newWorkers(t, seed, kind{})
				if until(patience, w.allRun) != nil {
					t.Fatal("not all brokers serve")
				}
				w.reject(fault)
				for _, p := range w.wrong() {
					t.Error(p)
				}
			})
		})
	}
}

// rejects accepts what the member gets, but rejects bad records, until ctx ends.
func (m *worker) rejects(ctx context.Context) {
	for ctx.Err() == nil {
		list := m.cl.PollRecords(ctx, 20).Records()
		m.mu.Lock()
		for _, r := range list {
			m.got[string(r.Value)]++
		}
		m.mu.Unlock()
		for _, r := range list {
			how := kgo.AckAccept
			if strings.HasPrefix(string(r.Value), "bad") {
				how = kgo.AckReject
			}
			m.cl.MarkAcks(how, r)
		}
		_ = m.cl.FlushAcks(ctx) // what fails is delivered again
	}
}

// letters are the records of the topic of dead letters that a read_committed reader gets.
func (w *workers) letters(cl *kgo.Client, most int) (list []*kgo.Record) {
	cl.AddConsumeTopics("dlq.jobs")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil && len(list) < most {
		list = append(list, cl.PollFetches(ctx).Records()...)
	}
	return list
}

func (w *workers) reject(fault func(w *world, id int32)) {
	cl := w.client(w.direct(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	admin := kadm.NewClient(cl)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	enabled, codec := "true", "gzip"
	for topic, configs := range map[string]map[string]*string{"jobs": nil,
		"dlq.jobs": {"errors.deadletterqueue.group.enable": &enabled, "compression.type": &codec}} {
		if until(patience, func() bool { _, err := admin.CreateTopic(ctx, 3, 3, configs, topic); return err == nil }) != nil {
			w.Fatal("no topic")
		}
	}
	w.configure(ctx, cl, "share.auto.offset.reset", "earliest", "errors.deadletterqueue.topic.name", "dlq.jobs",
		"errors.deadletterqueue.copy.record.enable", "true")
	var all []string
	bad := 0
	produce := func(n int) {
		for range n {
			v := fmt.Sprint("job-", len(all))
			if len(all)%3 == 0 {
				v, bad = fmt.Sprint("bad-", len(all)), bad+1
			}
			all = append(all, v)
			r := &kgo.Record{Topic: "jobs", Key: []byte("key"), Value: []byte(v)}
			r.Headers = []kgo.RecordHeader{{Key: "own", Value: []byte(v)}}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				w.problem("%s: %v", v, err)
			}
		}
	}
	produce(60)
	var work sync.WaitGroup
	for range 3 {
		m := w.member()
		work.Go(func() {
			defer m.cl.Close()
			m.rejects(ctx)
		})
	}
	for id := int32(1); id <= 3; id++ {
		for range 3 { // while records are rejected and copied
			produced := make(chan struct{})
			go func() {
				defer close(produced)
				produce(40)
			}()
			time.Sleep(time.Duration(w.random.IntN(200)) * time.Millisecond)
			fault(w.world, id)
			<-produced
			if w.process(id) == nil {
				w.start(id)
			}
			if until(time.Minute, func() bool { return w.missing(all) == 0 && w.allRun() }) != nil {
				w.problem("%d of %d records were not delivered", w.missing(all), len(all))
				return
			}
		}
	}
	time.Sleep(time.Minute) // the last copies are made
	copies := map[string]int{}
	for _, r := range w.letters(cl, 10*len(all)) {
		v := string(r.Value)
		if copies[v]++; copies[v] > 1 {
			w.problem("%s has %d copies", v, copies[v])
		}
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		if !strings.HasPrefix(v, "bad") || string(r.Key) != "key" || headers["own"] != v || headers["__dlq.errors.topic"] != "jobs" ||
			headers["__dlq.errors.group"] != "workers" || headers["__dlq.errors.offset"] == "" {
			w.problem("a copy of %s has the key %q and the headers %v", v, r.Key, headers)
		}
	}
	if len(copies) != bad {
		w.problem("%d of %d records have copies", len(copies), bad)
	}
	w.Logf("%d records, %d copies", len(all), len(copies))
	stop()
	work.Wait()
}

// Dead letters wait for a topic that does not exist yet, takes none, or was deleted, and 10,000 at
// once are copied once each.
func TestDeadLettersWaitForTheirTopic(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t, 1, kind{brokers: 1})
		if until(patience, w.allRun) != nil {
			t.Fatal("the broker does not serve")
		}
		w.waitForTopic()
		for _, p := range w.wrong() {
			t.Error(p)
		}
	})
}

func (w *workers) waitForTopic() {
	cl := w.client(w.direct())
	defer cl.Close()
	admin := kadm.NewClient(cl)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	created := func(topic string, configs map[string]*string) {
		if until(patience, func() bool { _, err := admin.CreateTopic(ctx, 1, 1, configs, topic); return err == nil }) != nil {
			w.Fatal("no topic")
		}
	}
	created("jobs", nil)
	w.configure(ctx, cl, "share.auto.offset.reset", "earliest", "errors.deadletterqueue.topic.name", "dlq.jobs",
		"share.partition.max.record.locks", "4000")
	produced := 0
	rejected := func(n int) {
		var list []*kgo.Record
		for range n {
			list = append(list, &kgo.Record{Topic: "jobs", Value: []byte(fmt.Sprint("bad-", produced))})
			produced++
		}
		if err := cl.ProduceSync(ctx, list...).FirstErr(); err != nil {
			w.Fatal(err)
		}
	}
	// ends returns how many copies the present topic has. As the config says, they have no values.
	ends := func() int64 {
		list, err := admin.ListEndOffsets(ctx, "dlq.jobs")
		if o, ok := list.Lookup("dlq.jobs", 0); err == nil && ok {
			return o.Offset
		}
		return -1
	}
	m := w.member()
	var work sync.WaitGroup
	work.Go(func() {
		defer m.cl.Close()
		m.rejects(ctx)
	})
	rejected(3)
	time.Sleep(time.Minute)
	created("dlq.jobs", nil)
	time.Sleep(time.Minute)
	if n := ends(); n != 0 {
		w.problem("a topic that takes no dead letters has %d", n)
	}
	enabled := "true"
	enable := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "errors.deadletterqueue.group.enable", Value: &enabled}}
	if _, err := admin.AlterTopicConfigs(ctx, enable, "dlq.jobs"); err != nil {
		w.Fatal(err)
	}
	has := func(n int64) {
		w.within(patience, fmt.Sprint(n, " copies"), func() bool { return ends() == n })
		time.Sleep(time.Minute)
		if got := ends(); got != n {
			w.problem("%d copies, want %d", got, n)
		}
	}
	has(3)
	if _, err := admin.DeleteTopic(ctx, "dlq.jobs"); err != nil {
		w.Fatal(err)
	}
	rejected(2)
	time.Sleep(time.Minute)
	created("dlq.jobs", map[string]*string{enable[0].Name: &enabled})
	has(2)
	rejected(10_000)
	has(10_002)
	stop()
	work.Wait()
}
