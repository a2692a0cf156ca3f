package broker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/replicatest"
)

// fetchRequest requests partition 0 of topics from an offset on; it does not wait.
func fetchRequest(offset int64, topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes, req.MaxBytes = 1, 1<<20
	for _, rt := range topics {
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func named(name string, id [16]byte) kmsg.FetchRequestTopic {
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = name, id
	return rt
}

// put stores batches of one record each, "0", "1", …, and returns their size.
func (n *node) put(t testing.TB, topic string, records int, value string) (size int) {
	t.Helper()
	w := n.dial(t)
	for range records {
		b := plain(t, value)
		if p := produced(t, w, 9, produceRequest(topic, [16]byte{}, -1, b)); p.ErrorCode != 0 {
			t.Fatalf("put into %s: %+v", topic, p)
		}
		size = len(b)
	}
	return size
}

// offsets returns the base offsets of the batches in an answer's partition, and checks that they
// are whole.
func offsets(t testing.TB, p []byte) (list []int64) {
	t.Helper()
	for len(p) > 0 {
		b, rest, err := record.Next(p)
		must(t, err)
		must(t, b.CheckCRC())
		list = append(list, b.BaseOffset())
		p = rest
	}
	return list
}

// show returns an answer in short: topic-partition[code high: offsets].
func show(t testing.TB, resp *kmsg.FetchResponse) string {
	t.Helper()
	var parts []string
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			parts = append(parts, fmt.Sprintf("%s-%d[%d %d: %v]", topic.Topic, p.Partition, p.ErrorCode, p.HighWatermark,
				offsets(t, p.RecordBatches)))
		}
	}
	return strings.Join(parts, " ")
}

func TestEveryVersionFetchesByNameOrID(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.put(t, "t", 3, "a")
	w := n.dial(t)
	for version := int16(4); version <= 18; version++ {
		for _, level := range []int8{0, 1} {
			req := fetchRequest(1, named("t", id))
			req.IsolationLevel = level
			resp := ask[*kmsg.FetchResponse](t, w, version, req)
			if resp.ErrorCode != 0 || resp.SessionID != 0 || resp.ThrottleMillis != 0 || len(resp.Topics) != 1 {
				t.Fatalf("version %d: %+v", version, resp)
			}
			if rt := resp.Topics[0]; version < 13 && rt.Topic != "t" || version >= 13 && rt.TopicID != id {
				t.Fatalf("version %d: topic %q %x", version, rt.Topic, rt.TopicID)
			}
			p := resp.Topics[0].Partitions[0]
			if got := offsets(t, p.RecordBatches); p.ErrorCode != 0 || len(got) != 2 || got[0] != 1 || p.HighWatermark != 3 ||
				p.LastStableOffset != 3 || version >= 5 && p.LogStartOffset != 0 || p.PreferredReadReplica != -1 {
				t.Fatalf("version %d: %v %+v", version, got, p)
			}
			if aborted := p.AbortedTransactions; (aborted != nil) != (level == 1) || len(aborted) != 0 {
				t.Errorf("version %d level %d: aborted transactions %v", version, level, aborted)
			}
		}
	}
}

func TestFetchErrorsAreKafkasAndPerPartition(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	other := n.topic(t, "u", 1)
	n.put(t, "t", 3, "a")
	w := n.dial(t)
	type part = kmsg.FetchRequestTopicPartition
	for _, c := range []struct {
		name    string
		version int16
		topic   kmsg.FetchRequestTopic
		change  func(*kmsg.FetchRequest, *part)
		want    *kerr.Error
	}{
		{"unknown topic", 12, named("x", id), nil, kerr.UnknownTopicOrPartition},
		{"unknown id", 13, named("t", [16]byte{1}), nil, kerr.UnknownTopicID},
		{"unknown partition", 12, named("t", id), func(_ *kmsg.FetchRequest, p *part) { p.Partition = 1 }, kerr.UnknownTopicOrPartition},
		{"below the log", 12, named("t", id), func(_ *kmsg.FetchRequest, p *part) { p.FetchOffset = -1 }, kerr.OffsetOutOfRange},
		{"beyond the log", 12, named("t", id), func(_ *kmsg.FetchRequest, p *part) { p.FetchOffset = 4 }, kerr.OffsetOutOfRange},
		{"newer epoch", 12, named("t", id), func(_ *kmsg.FetchRequest, p *part) { p.CurrentLeaderEpoch = 9 }, kerr.UnknownLeaderEpoch},
		{"unknown fetched epoch", 12, named("t", id), func(_ *kmsg.FetchRequest, p *part) { p.LastFetchedEpoch = 9 },
			kerr.OffsetOutOfRange},
		{"a replica", 12, named("t", id), func(r *kmsg.FetchRequest, _ *part) { r.ReplicaID = 5 }, kerr.NotLeaderForPartition},
		{"a replica with an epoch", 12, named("t", id), func(r *kmsg.FetchRequest, p *part) { r.ReplicaID, p.CurrentLeaderEpoch = 5, 0 },
			kerr.UnknownLeaderEpoch},
		{"a replica of version 15", 15, named("t", id), func(r *kmsg.FetchRequest, _ *part) { r.ReplicaState.ID = 1 },
			kerr.NotLeaderForPartition},
		{"a replica of version 16", 16, named("t", id), func(r *kmsg.FetchRequest, _ *part) { r.ReplicaState.ID = 1 },
			kerr.NotLeaderForPartition},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := fetchRequest(0, c.topic, named("u", other))
			if c.change != nil {
				c.change(req, &req.Topics[0].Partitions[0])
			}
			resp := ask[*kmsg.FetchResponse](t, w, c.version, req)
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != c.want.Code || p.HighWatermark != -1 || p.LogStartOffset != -1 || len(p.RecordBatches) != 0 {
				t.Errorf("%+v, want %v", p, c.want)
			}
			// As in Kafka, whatever the isolation level.
			if unknown := c.want == kerr.UnknownTopicID ||
				c.want == kerr.UnknownTopicOrPartition; (p.AbortedTransactions != nil) != unknown {
				t.Errorf("aborted transactions %v, null only where a partition is known", p.AbortedTransactions)
			}
			if len(resp.Brokers) > 0 || p.CurrentLeader.LeaderID >= 0 {
				t.Errorf("a hint to %+v at %v", p.CurrentLeader, resp.Brokers)
			}
			last := resp.Topics[len(resp.Topics)-1]
			if other := last.Partitions[len(last.Partitions)-1]; resp.ErrorCode != 0 || req.ReplicaID < 0 && req.ReplicaState.ID < 0 &&
				other.ErrorCode != 0 {
				t.Errorf("the other partition: %+v", other)
			}
		})
	}
}

func TestAReplicaIDNeverReadsAboveTheHighWatermark(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	f := n.follow(t, id)
	w := n.dial(t)
	for range 2 {
		produced(t, w, 13, produceRequest("", id, 1, plain(t, "a")))
	}
	f.acknowledge(1)
	for replica := int32(-3); replica <= 3; replica++ {
		req := fetchRequest(0, named("t", id))
		req.ReplicaID = replica
		p := ask[*kmsg.FetchResponse](t, w, 12, req).Topics[0].Partitions[0]
		if got := offsets(t, p.RecordBatches); len(got) > 1 || replica < 0 && (len(got) != 1 || p.HighWatermark != 1) {
			t.Errorf("replica %d reads %v, high watermark %d", replica, got, p.HighWatermark)
		}
	}
}

func TestSizeLimitsNeverStopAClient(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["fetch.max.bytes"] = "4096" })
	for _, name := range []string{"a", "b", "c"} {
		n.topic(t, name, 1)
	}
	n.put(t, "b", 4, strings.Repeat("x", 1000))
	size := n.put(t, "c", 4, strings.Repeat("x", 1000))
	w := n.dial(t)
	for _, c := range []struct {
		name           string
		max, partition int
		want           string
	}{
		{"partition's bytes", 1 << 20, 2*size + 10, "a-0[0 0: []] b-0[0 4: [0 1]] c-0[0 4: [0]]"},
		{"request's bytes", 3 * size, 2 * size, "a-0[0 0: []] b-0[0 4: [0 1]] c-0[0 4: [0]]"},
		{"the first batch comes in any case", 1, 1, "a-0[0 0: []] b-0[0 4: [0]] c-0[0 4: []]"},
		{"no bytes at all", 0, 0, "a-0[0 0: []] b-0[0 4: [0]] c-0[0 4: []]"},
		{"fetch.max.bytes", 1 << 30, 1 << 30, "a-0[0 0: []] b-0[0 4: [0 1 2]] c-0[0 4: []]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := fetchRequest(0, named("a", [16]byte{}), named("b", [16]byte{}), named("c", [16]byte{}))
			req.MaxBytes = int32(c.max)
			for i := range req.Topics {
				req.Topics[i].Partitions[0].PartitionMaxBytes = int32(c.partition)
			}
			if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, req)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Clients that request much and read slowly must not fill the memory: the answers get shorter, down
// to a batch, and beyond that they wait until others have read theirs.
func TestUnreadAnswersStayWithinTheirBudget(t *testing.T) {
	const limit, clients = 1 << 20, 40
	n := newNode(t, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.AnswerBytes = limit } })
	n.topic(t, "t", 2)
	size := n.put(t, "t", 20, strings.Repeat("x", 50_000))
	req := fetchRequest(0, named("t", [16]byte{}))
	req.SetVersion(12)
	var all []*wire
	for range clients {
		w := n.dial(t)
		must(t, w.send(req))
		all = append(all, w)
	}
	eventually(t, "all answers have memory or wait for it", func() bool {
		s := n.Answers()
		return s.Waiting > 0 && s.Used > limit/2*7/8-int64(size)-minAnswer && int(s.Acquired)+s.Waiting >= clients
	})
	if peak := n.Answers().Peak; peak > limit/2+int64(size) {
		t.Errorf("%d bytes of answers in memory, for clients of one address", peak)
	}
	var reading sync.WaitGroup
	for i, w := range all {
		reading.Go(func() {
			got := w.fetched(t, req).Topics[0].Partitions[0]
			if got.ErrorCode != 0 || len(got.RecordBatches) < size {
				t.Errorf("client %d has %d bytes and error %d", i, len(got.RecordBatches), got.ErrorCode)
			}
			if most := limit / 8; len(got.RecordBatches) > most {
				t.Errorf("client %d has %d bytes of the %d that were free", i, len(got.RecordBatches), limit)
			}
		})
	}
	reading.Wait()
	eventually(t, "what was read is given back", func() bool { return n.Answers().Used == 0 })
}

// Clients that read nothing hold no more memory than the budget, whatever the size of their first
// batch; they lose their connections, so that one that reads gets its batch.
func TestAClientThatReadsIsServedAmongThoseThatDoNot(t *testing.T) {
	t.Parallel()
	const limit, clients = 1 << 20, 3 // more than it has room for at once
	n := newNode(t, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.AnswerBytes = limit } })
	n.topic(t, "t", 1)
	size := n.put(t, "t", 4, strings.Repeat("x", 300_000))
	req := fetchRequest(0, named("t", [16]byte{}))
	req.SetVersion(12)
	for range clients {
		must(t, n.dial(t).send(req))
	}
	eventually(t, "the memory is used up", func() bool { return n.Answers().Waiting > 0 })
	w := n.dial(t)
	must(t, w.send(req))
	if got := w.fetched(t, req).Topics[0].Partitions[0]; len(got.RecordBatches) < size {
		t.Errorf("%d bytes, want %d", len(got.RecordBatches), size)
	}
	if peak := n.Answers().Peak; peak > limit {
		t.Errorf("%d bytes of answers in memory", peak)
	}
}

// A connection that has read answers does not wait for others of its address that read nothing.
func TestAConnectionThatHasReadWaitsForNone(t *testing.T) {
	const limit, clients = 1 << 20, 30
	n := newNode(t, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.AnswerBytes = limit } })
	n.topic(t, "t", 1)
	size := n.put(t, "t", 4, strings.Repeat("x", 300_000))
	req := fetchRequest(0, named("t", [16]byte{}))
	req.SetVersion(12)
	w := n.dial(t)
	read := func() {
		must(t, w.send(req))
		if got := w.fetched(t, req).Topics[0].Partitions[0]; len(got.RecordBatches) < size {
			t.Errorf("%d bytes, want %d", len(got.RecordBatches), size)
		}
	}
	read()
	for range clients {
		must(t, n.dial(t).send(req))
	}
	eventually(t, "the memory for new connections is used up", func() bool { return n.Answers().Waiting > clients/2 })
	open := n.server.Load().Stats().Connections
	for range 10 {
		read()
	}
	if closed := open - n.server.Load().Stats().Connections; closed > 0 {
		t.Errorf("it was served after %d connections had been closed", closed)
	}
}

// A batch larger than all the memory for answers is still sent, and counted.
func TestBatchLargerThanTheAnswerBudgetIsSent(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.pipe, o.broker = true, func(b *Options) { b.AnswerBytes = 1000 } })
	n.topic(t, "t", 1)
	size := n.put(t, "t", 1, strings.Repeat("x", 300_000))
	w := n.dial(t)
	req := fetchRequest(0, named("t", [16]byte{}))
	if got := ask[*kmsg.FetchResponse](t, w, 12, req).Topics[0].Partitions[0]; len(got.RecordBatches) != size {
		t.Errorf("%d bytes, want %d", len(got.RecordBatches), size)
	}
	if peak := n.Answers().Peak; peak != int64(size) {
		t.Errorf("%d bytes were counted, not %d", peak, size)
	}
}

func TestDivergingEpochIsReported(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.put(t, "t", 2, "a")
	f := n.follow(t, id) // epoch 1 begins at 2
	f.p.SetRole(replicatest.Role(f.p, 1, 3, []int32{1}, []int32{1}))
	n.put(t, "t", 1, "b") // at 2, epoch 3
	w := n.dial(t)
	for _, c := range []struct {
		offset  int64
		fetched int32
		epoch   int32
		end     int64
		batches int
	}{
		{2, 0, -1, -1, 1}, {3, 0, 0, 2, 0}, {3, 3, -1, -1, 0}, {1, 0, -1, -1, 2}, {3, 2, 0, 2, 0},
	} {
		req := fetchRequest(c.offset, named("t", id))
		req.Topics[0].Partitions[0].LastFetchedEpoch = c.fetched
		p := ask[*kmsg.FetchResponse](t, w, 12, req).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.DivergingEpoch.Epoch != c.epoch || p.DivergingEpoch.EndOffset != c.end ||
			len(offsets(t, p.RecordBatches)) != c.batches {
			t.Errorf("offset %d after epoch %d: %+v", c.offset, c.fetched, p)
		}
	}
	req := fetchRequest(0, named("t", id))
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = 1
	resp := ask[*kmsg.FetchResponse](t, w, 16, req)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != kerr.FencedLeaderEpoch.Code || p.CurrentLeader.LeaderID != 1 || p.CurrentLeader.LeaderEpoch != 3 ||
		len(resp.Brokers) != 1 {
		t.Errorf("an old epoch: %+v, brokers %+v", p, resp.Brokers)
	}
	if p = ask[*kmsg.FetchResponse](t, w, 15, req).Topics[0].Partitions[0]; p.CurrentLeader.LeaderID != -1 {
		t.Errorf("version 15 knows no hints: %+v", p)
	}
}

// parked sends a fetch and returns when it, and nothing else, waits.
func (n *node) parked(t testing.TB, w *wire, version int16, req *kmsg.FetchRequest) {
	t.Helper()
	req.SetVersion(version)
	n.waits(t, 0) // an answered operation is removed a moment after its answer
	must(t, w.send(req))
	n.waits(t, 1)
}

// waits returns when that many operations wait.
func (n *node) waits(t testing.TB, want int) {
	t.Helper()
	for begin := time.Now(); n.park.Waiting() != want; time.Sleep(100 * time.Microsecond) {
		if time.Since(begin) > patience {
			t.Fatalf("%d operations wait, want %d", n.park.Waiting(), want)
		}
	}
}

func (w *wire) fetched(t testing.TB, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	t.Helper()
	resp, err := w.receive(req)
	must(t, err)
	return resp.(*kmsg.FetchResponse)
}

func waiting(offset int64, minBytes int32, topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	req := fetchRequest(offset, topics...)
	req.MaxWaitMillis, req.MinBytes = 1<<30, minBytes
	return req
}

func TestAFetchWaitsForItsBytes(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	n.topic(t, "u", 1)
	w := n.dial(t)
	req := waiting(0, 1, named("u", [16]byte{}), named("t", id))
	n.parked(t, w, 12, req)
	size := n.put(t, "t", 1, "a")
	if got := show(t, w.fetched(t, req)); got != "u-0[0 0: []] t-0[0 1: [0]]" {
		t.Fatal(got)
	}
	req = waiting(1, int32(3*size), named("t", id))
	n.parked(t, w, 12, req)
	n.put(t, "t", 2, "a")
	if n.park.Waiting() != 1 {
		t.Fatal("two batches are not three")
	}
	n.put(t, "t", 1, "a")
	if got := show(t, w.fetched(t, req)); got != "t-0[0 4: [1 2 3]]" {
		t.Fatal(got)
	}
}

func TestAParkedFetchHoldsNoMemoryAndEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.pipe = true })
		id := n.topic(t, "t", 1)
		w := n.dial(t)
		defer w.Close()
		if p := produced(t, w, 9, produceRequest("t", id, -1, plain(t, "a"))); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
		req := waiting(0, 1<<20, named("t", id))
		req.MaxWaitMillis = 50
		// Large enough to be charged to a budget.
		req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: make([]int32, 5000)}}
		began := time.Now()
		n.parked(t, w, 12, req)
		synctest.Wait()
		if used := n.server.Load().Stats().Other.Used; used != 0 {
			t.Errorf("%d bytes of the request are still charged", used)
		}
		if got := show(t, w.fetched(t, req)); got != "t-0[0 1: [0]]" {
			t.Fatal(got)
		}
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("it was answered after %v", took)
		}
		synctest.Wait()
		if n.park.Waiting() != 0 {
			t.Fatalf("%d still wait", n.park.Waiting())
		}
	})
}

func TestPartitionChangesCompleteFetches(t *testing.T) {
	n := newNode(t)
	ids := map[string][16]byte{}
	for _, name := range []string{"moved", "deleted", "closed"} {
		ids[name] = n.topic(t, name, 1)
		n.put(t, name, 1, "a")
	}
	p, err := n.opt.Replicas.Partition(ids["moved"], 0)
	must(t, err)
	for _, c := range []struct {
		name string
		do   func()
		want *kerr.Error
	}{
		{"moved", func() { p.SetRole(replicatest.Role(p, 2, 9, []int32{1, 2}, []int32{1, 2})) }, kerr.NotLeaderForPartition},
		{"deleted", func() {
			revision, err := n.control.DeleteTopic(t.Context(), ids["deleted"])
			must(t, err)
			must(t, n.applier.WaitFor(t.Context(), revision))
		}, kerr.UnknownTopicID},
		{"closed", func() { n.park.Close() }, nil},
	} {
		w := n.dial(t)
		req := waiting(1, 1, named("", ids[c.name]))
		n.parked(t, w, 16, req)
		c.do()
		got := w.fetched(t, req).Topics[0].Partitions[0]
		if !errors.Is(kerr.ErrorForCode(got.ErrorCode), orNil(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, kerr.ErrorForCode(got.ErrorCode), c.want)
		}
	}
}

func TestAnUnknownTopicDoesNotCutTheWaitOfOthers(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	req := waiting(0, 1, named("", [16]byte{1}), named("", id))
	n.parked(t, w, 13, req)
	n.put(t, "t", 1, "a")
	resp := w.fetched(t, req)
	if c := resp.Topics[0].Partitions[0].ErrorCode; c != kerr.UnknownTopicID.Code || len(resp.Topics[1].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("%+v", resp.Topics)
	}
	if got := ask[*kmsg.FetchResponse](t, w, 13, waiting(0, 1,
		named("", [16]byte{1}))); got.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicID.Code {
		t.Fatal("with nothing to wait for the answer comes at once")
	}
}
