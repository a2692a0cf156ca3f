package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchCounter counts the fetches of a client, and those after which it is throttled.
type fetchCounter struct{ sent, throttled atomic.Int64 }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (c *fetchCounter) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.Fetch) && err == nil {
		c.sent.Add(1)
	}
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (c *fetchCounter) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) { c.throttled.Add(1) }

var (
	_ kgo.HookBrokerWrite    = (*fetchCounter)(nil)
	_ kgo.HookBrokerThrottle = (*fetchCounter)(nil)
)

// A consumer of more partitions than the memory for parked fetches holds gets their records, and
// does not fetch in a loop while there are none.
func TestAConsumerOfMorePartitionsThanCanBeParkedGetsRecords(t *testing.T) {
	const partitions, records, parked = 4000, 20, 1 << 20
	if partitions*partCost <= parked {
		t.Fatalf("%d partitions can be parked", partitions)
	}
	n := newNode(t, func(o *nodeOptions) {
		o.broker = func(b *Options) { b.ParkedBytes, b.SessionBytes = parked, parked }
	})
	n.topic(t, "wide", partitions)
	counter := new(fetchCounter)
	c := n.client(t, kgo.ConsumeTopics("wide"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(counter),
		kgo.FetchMaxWait(100*time.Millisecond))
	producer := n.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	withRecords := 0
	for i := range records {
		p := rand.Int32N(partitions)
		value := fmt.Sprint(i)
		must(t, producer.ProduceSync(deadline(t), &kgo.Record{Topic: "wide", Partition: p, Value: []byte(value)}).FirstErr())
		fetches := c.PollFetches(deadline(t))
		must(t, fetches.Err())
		for _, r := range fetches.Records() {
			withRecords++
			if r.Partition != p || string(r.Value) != value {
				t.Errorf("record %s of partition %d, want %s of partition %d", r.Value, r.Partition, value, p)
			}
		}
	}
	if withRecords != records {
		t.Errorf("%d records came, want %d", withRecords, records)
	}
	// One fetch may be in flight, and the throttle time of another one not reported to the hook
	// yet.
	if sent, throttled := counter.sent.Load(), counter.throttled.Load(); sent > throttled+records+2 {
		t.Errorf("%d fetches, of which %d had records and %d were throttled", sent, records, throttled)
	}
	c.Close()
	eventually(t, "no request holds memory", func() bool { return n.Parked().Used == 0 && n.wide.Used() == 0 })
	if peak := n.wide.Stats().Peak; peak < partitions*partCost || n.Parked().Peak > parked {
		t.Errorf("at most %d bytes were taken for the fetch, and %d for parked requests", peak, n.Parked().Peak)
	}
}

// A fetch whose answer has no parts holds no memory for them while its client does not read.
func TestUnreadErrorHoldsNoWideMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 10
		n := newNode(t, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.ParkedBytes = limit } })
		id := n.topic(t, "t", 1)
		req := fetchRequest(0)
		req.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), 400, make([]int64, 400)...)}
		req.SessionID, req.SessionEpoch = 1, 1
		req.SetVersion(12)
		w := n.dial(t)
		defer w.Close()
		must(t, w.send(req))
		synctest.Wait()
		if stats := n.wide.Stats(); stats.Used != 0 || stats.Peak < 400*partCost {
			t.Errorf("%+v while the client does not read", stats)
		}
		if got := w.fetched(t, req); got.ErrorCode != kerr.FetchSessionIDNotFound.Code {
			t.Errorf("error %d", got.ErrorCode)
		}
	})
}

// A fetch that needs the memory of large requests while another one holds it, or that needs more
// than there ever is, does not wait: it gets an empty answer, and its connection is throttled.
func TestFetchWithoutWideMemoryIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 10
		n := newNode(t, quick, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.ParkedBytes = limit } })
		id := n.topic(t, "t", 1)
		fetch := func(parts int32) *kmsg.FetchResponse {
			req := fetchRequest(0)
			req.SessionEpoch = -1
			req.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), parts, make([]int64, parts)...)}
			req.SetVersion(12)
			w := n.dial(t)
			defer w.Close()
			must(t, w.send(req))
			return w.fetched(t, req)
		}
		const fits = int32(wideMost * limit / partCost)
		if !n.wide.TryAcquire(1) {
			t.Fatal("the budget is used")
		}
		began := time.Now()
		if got := fetch(fits); len(got.Topics) != 0 || got.ThrottleMillis == 0 {
			t.Errorf("beside another: %d topics, throttled for %d ms", len(got.Topics), got.ThrottleMillis)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the fetch waited %v", took)
		}
		n.wide.Release(1)
		if got := fetch(fits); len(got.Topics) != 1 {
			t.Errorf("alone: %d topics", len(got.Topics))
		}
		if got := fetch(fits + 1); len(got.Topics) != 0 || got.ThrottleMillis == 0 {
			t.Errorf("too large: %d topics, throttled for %d ms", len(got.Topics), got.ThrottleMillis)
		}
		synctest.Wait()
		if n.large.Held() > 0 || n.wide.Used() > 0 {
			t.Errorf("%d places and %d bytes are held", n.large.Held(), n.wide.Used())
		}
	})
}

// A fetch is charged for the partitions of its session, however few it names. Without memory for
// them it gets an empty answer and is throttled, and its session stays.
func TestFetchIsChargedForThePartitionsOfItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, parts = 64 << 10, 400
		n := newNode(t, quick, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.ParkedBytes = limit } })
		id := n.topic(t, "t", 1)
		w := n.dial(t)
		defer w.Close()
		fetch := func(req *kmsg.FetchRequest) *kmsg.FetchResponse {
			t.Helper()
			req.SetVersion(12)
			must(t, w.send(req))
			return w.fetched(t, req)
		}
		req := fetchRequest(0)
		req.Topics = []kmsg.FetchRequestTopic{repeated(named("t", id), parts, make([]int64, parts)...)}
		session := fetch(inSession(req, 0, 0)).SessionID
		if session == 0 {
			t.Fatal("no session")
		}
		if !n.wide.TryAcquire(1) {
			t.Fatal("the budget is used")
		}
		got := fetch(inSession(fetchRequest(0), session, 1))
		if len(got.Topics) != 0 || got.ThrottleMillis == 0 || got.ErrorCode != 0 || got.SessionID != session {
			t.Errorf("without memory: %d topics, throttled for %d ms, error %d, session %d", len(got.Topics), got.ThrottleMillis,
				got.ErrorCode, got.SessionID)
		}
		n.wide.Release(1)
		before := n.wide.Stats().Acquired
		got = fetch(inSession(fetchRequest(0), session, 2))
		if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != parts-1 || got.ThrottleMillis != 0 {
			t.Errorf("with memory: %d topics, throttled for %d ms", len(got.Topics), got.ThrottleMillis)
		}
		if now := n.wide.Stats(); now.Acquired != before+1 {
			t.Errorf("%+v: the fetch was charged %d times", now, now.Acquired-before)
		}
		synctest.Wait()
		if n.large.Held() > 0 || n.wide.Used() > 0 || n.Parked().Used > 0 {
			t.Errorf("%d places, %d and %d bytes are held", n.large.Held(), n.wide.Used(), n.Parked().Used)
		}
	})
}

// Two requests of a session come at the same time: the first one finds that its session has moved
// on when its partitions were charged, and makes no parts of them.
func TestASlowerRequestOfASessionMakesNoParts(t *testing.T) {
	now := time.Now()
	c := newSessions(10, defaultSessionBytes)
	s := c.create(owner{}, true, asked(2), now)
	var slow, fast fetchRead
	begin := func(epoch int32, rd *fetchRead) sessionUse {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.SessionID, req.SessionEpoch = 13, s.id, epoch
		return c.begin(req, owner{}, rd, now)
	}
	first, second := begin(1, &slow), begin(2, &fast)
	c.fill(&first, &slow)
	c.fill(&second, &fast)
	if len(slow.parts) != 0 || len(fast.parts) != 2 {
		t.Errorf("%d and %d parts", len(slow.parts), len(fast.parts))
	}
	if _, err := c.finish(&first, slow.parts, now); !errors.Is(err, kerr.InvalidFetchSessionEpoch) {
		t.Errorf("the first one: %v", err)
	}
}

// A commit of more offsets than can be charged to the memory for parked requests succeeds.
func TestLargeCommitSucceedsWithLittleMemory(t *testing.T) {
	const partitions, parked = 1000, 64 << 10
	n := newNode(t, quick, func(o *nodeOptions) { o.broker = func(b *Options) { b.ParkedBytes = parked } })
	id := n.topic(t, "t", partitions)
	n.coordinates(t)
	list := make([]int32, partitions)
	for i := range list {
		list[i] = int32(i)
	}
	for i, code := range commit(t, n.dial(t), 9, "g", id, "t", list...) {
		if code != 0 {
			t.Fatalf("partition %d: error %d", i, code)
		}
	}
	if peak := n.wide.Stats().Peak; peak <= parked/wideShare {
		t.Errorf("at most %d bytes were taken for large requests", peak)
	}
	eventually(t, "no request holds memory", func() bool { return n.wide.Used() == 0 })
}
