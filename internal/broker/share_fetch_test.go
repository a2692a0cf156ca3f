package broker

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// shares makes a node that serves share groups, with a share coordinator of its own.
func shares(desk **sharetest.Desk) func(*nodeOptions) {
	return func(o *nodeOptions) {
		before := o.broker
		o.broker = func(opt *Options) {
			before(opt)
			*desk = sharetest.New(sharestate.Config{}, func(topic [16]byte, partition int32) int32 {
				p := opt.Metadata.Image().Partition(metadata.TopicPartition{Topic: topic, Partition: partition})
				if p == nil {
					return -1
				}
				return p.LeaderEpoch
			})
			opt.ShareStates = *desk
		}
	}
}

// sharer is a member of a share group on a connection of its own.
type sharer struct {
	t     testing.TB
	w     *wire
	group string
	id    string
	epoch int32
	topic [16]byte
	named bool
	// max is MaxRecords, and mode the acquire mode.
	max  int32
	mode int8
	wait int32
}

func (n *node) sharer(t testing.TB, id string, topic [16]byte) *sharer {
	t.Helper()
	return &sharer{t: t, w: n.dial(t), group: "g", id: id, topic: topic, max: 500}
}

// request returns the next fetch of the session. It names partition 0 in the first one.
func (m *sharer) request(acks ...ack) *kmsg.ShareFetchRequest {
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch = 2, &m.group, &m.id, m.epoch
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = m.wait, 1, 1<<20
	req.MaxRecords, req.BatchSize, req.ShareAcquireMode = m.max, m.max, m.mode
	if !m.named || len(acks) > 0 {
		p := kmsg.NewShareFetchRequestTopicPartition()
		for _, a := range acks {
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{
				FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: a.types})
			req.IsRenewAck = req.IsRenewAck || slices.Contains(a.types, 4)
		}
		req.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ShareFetchRequestTopicPartition{p}}}
		m.named = true
	}
	if req.IsRenewAck {
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.MaxRecords = 0, 0, 0, 0
	}
	m.epoch++
	return req
}

// ack are acknowledgements of a range of offsets.
type ack struct {
	first, last int64
	types       []int8
}

func (m *sharer) fetch(acks ...ack) *kmsg.ShareFetchResponse {
	m.t.Helper()
	return ask[*kmsg.ShareFetchResponse](m.t, m.w, 2, m.request(acks...))
}

// acknowledge sends a ShareAcknowledge and returns its errors: of the whole, and of the partition.
func (m *sharer) acknowledge(acks ...ack) (whole, part int16) {
	m.t.Helper()
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.group, &m.id, m.epoch
	p := kmsg.NewShareAcknowledgeRequestTopicPartition()
	for _, a := range acks {
		p.AcknowledgementBatches = append(p.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{
			FirstOffset: a.first, LastOffset: a.last, AcknowledgeTypes: a.types})
		req.IsRenewAck = req.IsRenewAck || slices.Contains(a.types, 4)
	}
	req.Topics = []kmsg.ShareAcknowledgeRequestTopic{{TopicID: m.topic, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{p}}}
	m.epoch++
	resp := ask[*kmsg.ShareAcknowledgeResponse](m.t, m.w, 2, req)
	if len(resp.Topics) == 0 {
		return resp.ErrorCode, 0
	}
	return resp.ErrorCode, resp.Topics[0].Partitions[0].ErrorCode
}

// shared shows an answer: the errors, the base offsets of the batches, and the acquired ranges with
// their delivery counts.
func shared(t testing.TB, resp *kmsg.ShareFetchResponse) string {
	t.Helper()
	var list []string
	if resp.ErrorCode != 0 {
		list = append(list, fmt.Sprint("error ", resp.ErrorCode))
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			one := fmt.Sprintf("%d[%d %d %v", p.Partition, p.ErrorCode, p.AcknowledgeErrorCode, offsets(t, p.Records))
			for _, a := range p.AcquiredRecords {
				one += fmt.Sprintf(" %d-%d:%d", a.FirstOffset, a.LastOffset, a.DeliveryCount)
			}
			list = append(list, one+"]")
		}
	}
	return strings.Join(list, " ")
}

func wantShared(t testing.TB, resp *kmsg.ShareFetchResponse, want string) {
	t.Helper()
	if got := shared(t, resp); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

// eventuallyFetched fetches until the answer has something.
func (m *sharer) eventuallyFetched(want string) {
	m.t.Helper()
	eventually(m.t, want, func() bool {
		got := shared(m.t, m.fetch())
		if got != "" && got != want {
			m.t.Fatalf("%s, want %s", got, want)
		}
		return got == want
	})
}

func TestAShareGroupGetsEachRecordUntilItIsAccepted(t *testing.T) {
	var desk *sharetest.Desk
	n := newNode(t, shares(&desk))
	id := n.topic(t, "t", 1)
	k := format.Key{Group: "g", Topic: id}
	if code := desk.Initialize(k, 1, 0); code != nil {
		t.Fatal(code)
	}
	n.put(t, "t", 4, "x")
	a, b := n.sharer(t, "a", id), n.sharer(t, "b", id)
	b.wait = 60_000
	a.eventuallyFetched("0[0 0 [0 1 2 3] 0-3:1]")
	if whole, part := a.acknowledge(ack{0, 0, []int8{1}}, ack{1, 3, []int8{2, 3, 2}}); whole != 0 || part != 0 {
		t.Fatal(whole, part)
	}
	wantShared(t, b.fetch(), "0[0 0 [1 2 3] 1-1:2 3-3:2]")
	if whole, part := a.acknowledge(ack{1, 1, []int8{1}}); whole != 0 || part != kerr.InvalidRecordState.Code {
		t.Fatal(whole, part)
	}
	if whole, part := b.acknowledge(ack{1, 1, []int8{1}}, ack{3, 3, []int8{1}}); whole != 0 || part != 0 {
		t.Fatal(whole, part)
	}
	if s := desk.Summary(k); s.Start != 4 {
		t.Fatalf("%+v", s)
	}
	// A fetch that waits gets the next record.
	must(t, b.w.send(b.request()))
	n.put(t, "t", 1, "x")
	resp, err := b.w.receive(&kmsg.ShareFetchRequest{Version: 2})
	must(t, err)
	wantShared(t, resp.(*kmsg.ShareFetchResponse), "0[0 0 [4] 4-4:1]")
	// The end of its connection releases it at once.
	a.wait = 60_000
	must(t, a.w.send(a.request()))
	_ = b.w.Close()
	resp, err = a.w.receive(&kmsg.ShareFetchRequest{Version: 2})
	must(t, err)
	wantShared(t, resp.(*kmsg.ShareFetchResponse), "0[0 0 [4] 4-4:2]")
}

// shareNode returns a node with a topic that a share group reads from the offset 0.
func shareNode(t *testing.T, change ...func(*nodeOptions)) (n *node, id [16]byte, desk *sharetest.Desk) {
	t.Helper()
	n = newNode(t, append(change, shares(&desk))...)
	id = n.topic(t, "t", 2)
	for i := range int32(2) {
		if code := desk.Initialize(format.Key{Group: "g", Topic: id, Partition: i}, 1, 0); code != nil {
			t.Fatal(code)
		}
	}
	return n, id, desk
}

func TestShareRequestsThatAreRefusedAsAWhole(t *testing.T) {
	n, id, _ := shareNode(t)
	n.put(t, "t", 1, "x")
	empty, long := "", strings.Repeat("m", 37)
	for _, c := range []struct {
		name   string
		change func(*kmsg.ShareFetchRequest)
		want   *kerr.Error
	}{
		{"no group", func(r *kmsg.ShareFetchRequest) { r.GroupID = nil }, kerr.InvalidRequest},
		{"empty group", func(r *kmsg.ShareFetchRequest) { r.GroupID = &empty }, kerr.InvalidRequest},
		{"no member", func(r *kmsg.ShareFetchRequest) { r.MemberID = nil }, kerr.InvalidRequest},
		{"long member", func(r *kmsg.ShareFetchRequest) { r.MemberID = &long }, kerr.InvalidRequest},
		{"epoch", func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = -2 }, kerr.InvalidRequest},
		{"acknowledgements in the first", func(r *kmsg.ShareFetchRequest) {
			r.Topics[0].Partitions[0].AcknowledgementBatches = []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{{
				AcknowledgeTypes: []int8{1}}}
		}, kerr.InvalidRequest},
		{"renewal with a fetch", func(r *kmsg.ShareFetchRequest) { r.IsRenewAck = true }, kerr.InvalidRequest},
		{"no session", func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = 1 }, kerr.ShareSessionNotFound},
		{"no session to close", func(r *kmsg.ShareFetchRequest) { r.ShareSessionEpoch = -1 }, kerr.ShareSessionNotFound},
	} {
		m := n.sharer(t, "m", id)
		req := m.request()
		c.change(req)
		if resp := ask[*kmsg.ShareFetchResponse](t, m.w, 2, req); resp.ErrorCode != c.want.Code || len(resp.Topics) != 0 {
			t.Errorf("%s: %+v, want %v", c.name, resp, c.want)
		}
	}
	m := n.sharer(t, "m", id)
	if whole, _ := m.acknowledge(ack{0, 0, []int8{1}}); whole != kerr.InvalidShareSessionEpoch.Code {
		t.Errorf("a ShareAcknowledge opens a session: %d", whole)
	}
	m.epoch = 0
	m.eventuallyFetched("0[0 0 [0] 0-0:1]")
	m.fetch()
	m.epoch++
	if resp := m.fetch(); resp.ErrorCode != kerr.InvalidShareSessionEpoch.Code {
		t.Errorf("an epoch too far: %+v", resp)
	}
	m.epoch -= 3 // of the last request that was answered
	if whole, _ := m.acknowledge(ack{0, 0, []int8{2}}); whole != kerr.InvalidShareSessionEpoch.Code {
		t.Errorf("a former epoch: %d", whole)
	}
}

func TestShareFetchErrorsOfPartitions(t *testing.T) {
	n, id, _ := shareNode(t)
	n.put(t, "t", 1, "x")
	m := n.sharer(t, "m", id)
	req := m.request()
	for _, index := range []int32{1, 7} {
		p := kmsg.NewShareFetchRequestTopicPartition()
		p.Partition = index
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	other := kmsg.ShareFetchRequestTopic{TopicID: [16]byte{9}, Partitions: make([]kmsg.ShareFetchRequestTopicPartition, 1)}
	req.Topics = append(req.Topics, other)
	req.MaxWaitMillis = 60_000
	wantShared(t, ask[*kmsg.ShareFetchResponse](t, m.w, 2, req), "0[0 0 [0] 0-0:1] 7[3 0 []] 0[100 0 []]")
	// A session remembers its partitions, and forgets those that a request names.
	forget := m.request()
	forget.ForgottenTopicsData = []kmsg.ShareFetchRequestForgottenTopicsData{{TopicID: id, Partitions: []int32{7}},
		{TopicID: [16]byte{9}, Partitions: []int32{0}}}
	wantShared(t, ask[*kmsg.ShareFetchResponse](t, m.w, 2, forget), "")
	// A group that has no position in the partition.
	m2 := n.sharer(t, "m", id)
	m2.group = "unknown"
	m2.eventuallyFetched("0[3 0 []]")
	if whole, part := m2.acknowledge(ack{0, 0, []int8{1}}); whole != 0 || part == 0 {
		t.Errorf("an acknowledgement for a group without a position: %d %d", whole, part)
	}
}

func TestAcknowledgementsOfAShareFetch(t *testing.T) {
	n, id, desk := shareNode(t)
	n.put(t, "t", 4, "x")
	m := n.sharer(t, "m", id)
	m.max = 1
	m.eventuallyFetched("0[0 0 [0] 0-0:1]")
	wantShared(t, m.fetch(ack{0, 0, []int8{1}}), "0[0 0 [1] 1-1:1]")
	wantShared(t, m.fetch(ack{0, 0, []int8{1}}), "0[0 0 [2] 2-2:1]") // below the start
	wantShared(t, m.fetch(ack{3, 3, []int8{1}}), "0[0 42 [3] 3-3:1]")
	wantShared(t, m.fetch(ack{1, 1, []int8{4}}), "0[0 0 []]") // renewed; nothing is fetched
	if whole, part := m.acknowledge(ack{1, 1, []int8{4}}, ack{2, 2, []int8{1}}); whole != 0 || part != 0 {
		t.Error(whole, part)
	}
	bad := m.request(ack{1, 1, []int8{5}})
	wantShared(t, ask[*kmsg.ShareFetchResponse](t, m.w, 2, bad), "0[0 42 []]")
	// The last request acknowledges, and releases the rest.
	m.epoch = -1
	wantShared(t, m.fetch(ack{1, 1, []int8{1}}), "0[0 0 []]")
	if s := desk.Summary(format.Key{Group: "g", Topic: id}); s.Start != 3 {
		t.Errorf("%+v", s)
	}
	m = n.sharer(t, "m", id)
	m.eventuallyFetched("0[0 0 [3] 3-3:2]")
}

// A partition may be named repeatedly in a request. An error of any part of it is answered.
func TestAcknowledgementsOfAPartitionThatIsNamedTwice(t *testing.T) {
	n, id, _ := shareNode(t)
	n.put(t, "t", 2, "x")
	m := n.sharer(t, "m", id)
	m.eventuallyFetched("0[0 0 [0 1] 0-1:1]")
	for _, order := range [][]ack{{{5, 5, []int8{1}}, {0, 0, []int8{1}}}, {{1, 1, []int8{1}}, {5, 5, []int8{1}}}} {
		req := m.request(order[:1]...)
		more := req.Topics[0].Partitions[0]
		more.AcknowledgementBatches = []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{
			{FirstOffset: order[1].first, LastOffset: order[1].last, AcknowledgeTypes: order[1].types}}
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, more)
		wantShared(t, ask[*kmsg.ShareFetchResponse](t, m.w, 2, req), "0[0 42 []]")
	}
}

// The record limit is kept within a batch; the batch is sent whole.
func TestTheModesOfAcquisition(t *testing.T) {
	n, id, _ := shareNode(t)
	w := n.dial(t)
	if p := produced(t, w, 9, produceRequest("t", [16]byte{}, -1, plain(t, "a", "b", "c", "d"))); p.ErrorCode != 0 {
		t.Fatal(p)
	}
	m := n.sharer(t, "m", id)
	m.max, m.mode = 3, 1
	m.eventuallyFetched("0[0 0 [0] 0-2:1]")
	wantShared(t, m.fetch(), "0[0 0 [0] 3-3:1]")
	m = n.sharer(t, "m2", id)
	m.max = 3
	m2 := n.sharer(t, "m", id) // another session of the first member, which releases its records
	wantShared(t, m2.fetch(ack{}), "error 42")
	m2.epoch, m2.named = 0, false
	m2.max = 1
	m2.eventuallyFetched("0[0 0 [0] 0-3:2]")
	wantShared(t, m.fetch(), "")
}

func TestAShareFetchIsAnsweredAfterItsTime(t *testing.T) {
	n, id, _ := shareNode(t)
	m := n.sharer(t, "m", id)
	m.wait = 20
	for range 3 {
		if resp := m.fetch(); shared(t, resp) != "" || resp.AcquisitionLockTimeoutMillis != 30_000 {
			t.Errorf("%+v", resp)
		}
	}
	req := m.request()
	req.MaxRecords, req.MaxWaitMillis = 0, 60_000 // a change of the session
	wantShared(t, ask[*kmsg.ShareFetchResponse](t, m.w, 2, req), "")
}

// Acknowledgements that come with a fetch have their answer when they are stored: it does not wait
// for records, of which there may be none for long.
func TestAcknowledgementsDoNotWaitForRecords(t *testing.T) {
	n, id, _ := shareNode(t)
	n.put(t, "t", 1, "x")
	m := n.sharer(t, "m", id)
	m.eventuallyFetched("0[0 0 [0] 0-0:1]")
	m.wait = 60_000
	began := time.Now()
	wantShared(t, m.fetch(ack{0, 0, []int8{1}}), "0[0 0 []]")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("answered after %v", took)
	}
}

func TestTheLimitOfShareSessions(t *testing.T) {
	n, id, _ := shareNode(t, func(o *nodeOptions) { o.static["group.share.max.share.sessions"] = "1" })
	a, b := n.sharer(t, "a", id), n.sharer(t, "b", id)
	wantShared(t, a.fetch(), "")
	b.wait = 20
	wantShared(t, b.fetch(), fmt.Sprint("error ", kerr.ShareSessionLimitReached.Code))
	_ = a.w.Close()
	eventually(t, "a session after the other one has ended", func() bool {
		b.epoch = 0
		return b.fetch().ErrorCode == 0
	})
}

func TestMembersShareWhatIsProduced(t *testing.T) {
	n, id, _ := shareNode(t)
	const members, records = 8, 200
	got := make(chan int64, records+members)
	for i := range members {
		m := n.sharer(t, fmt.Sprint("m", i), id)
		m.wait, m.max = 200, 3
		n.work.Go(func() {
			var acks []ack
			for {
				req := m.request(acks...)
				req.SetVersion(2)
				if m.w.send(req) != nil {
					return
				}
				answer, err := m.w.receive(req)
				if err != nil {
					return
				}
				acks = nil
				for _, topic := range answer.(*kmsg.ShareFetchResponse).Topics {
					for _, a := range topic.Partitions[0].AcquiredRecords {
						acks = append(acks, ack{a.FirstOffset, a.LastOffset, []int8{1}})
						for at := a.FirstOffset; at <= a.LastOffset; at++ {
							got <- at
						}
					}
				}
			}
		})
	}
	n.put(t, "t", records, "x")
	seen := map[int64]bool{}
	for range records {
		at := <-got
		if seen[at] {
			t.Fatalf("offset %d is delivered twice", at)
		}
		seen[at] = true
	}
}

// Control records are finished when they are met. Those of aborted transactions are delivered to a
// group that reads uncommitted records.
func TestAShareGroupGetsNoControlRecords(t *testing.T) {
	n, id, desk := shareNode(t)
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	h := handmade{p, t}
	h.in(7, 0)
	h.end(7, 1, record.Abort)
	h.in(8, 0)
	h.end(8, 1, record.Commit)
	m := n.sharer(t, "m", id)
	m.eventuallyFetched("0[0 0 [0 1 2] 0-0:1 2-2:1]")
	wantShared(t, m.fetch(ack{0, 0, []int8{1}}, ack{2, 2, []int8{1}}), "0[0 0 []]")
	eventually(t, "all offsets are finished", func() bool {
		return desk.Summary(format.Key{Group: "g", Topic: id}).Start == 4
	})
}

// The isolation level of a group applies to the fetches that wait, too.
func TestTheIsolationLevelChangesDuringAShareFetch(t *testing.T) {
	n, id, _ := shareNode(t)
	a, b := n.sharer(t, "a", id), n.sharer(t, "b", id)
	a.wait = 60_000
	must(t, a.w.send(a.request()))
	wantShared(t, b.fetch(), "")
	mustAlter(t, b.w, incremental(groupType, "g", "share.isolation.level", set, "read_committed"))
	eventually(t, "the setting applies", func() bool { return n.Handler.shareSettings("g").Committed })
	wantShared(t, b.fetch(), "")
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	h := handmade{p, t}
	h.in(7, 0)
	h.end(7, 1, record.Abort)
	h.in(8, 0)
	h.end(8, 1, record.Commit)
	resp, err := a.w.receive(&kmsg.ShareFetchRequest{Version: 2})
	must(t, err)
	if got := shared(t, resp.(*kmsg.ShareFetchResponse)); !strings.HasSuffix(got, " 2-2:1]") || strings.Contains(got, "0-0") {
		t.Errorf("%s, want offset 2", got)
	}
}

func TestBatchesOfARead(t *testing.T) {
	n, id, _ := shareNode(t)
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	h := handmade{p, t}
	h.in(7, 0)
	h.in(8, 0)
	h.end(7, 1, record.Abort)
	h.end(8, 1, record.Commit)
	h.in(7, 1)
	h.end(7, 2, record.Commit)
	eventually(t, "the high watermark", func() bool { return p.Ends().LastStable == 6 })
	res, err := p.Read(replica.ReadRequest{MaxBytes: 1 << 20, Committed: true, CurrentEpoch: -1, FetchedEpoch: -1})
	must(t, err)
	defer res.Release()
	got := ""
	for _, b := range batchesOf(&res) {
		got += fmt.Sprintf("%d-%d %t ", b.Base, b.Last, b.Gone)
	}
	if got != "0-0 true 1-1 false 2-2 true 3-3 true 4-4 false 5-5 true " {
		t.Error(got)
	}
}

// History 39: who is over its quota gets what it has acquired, and is not read for a while.
func TestHistory39AShareFetchOverItsQuotaKeepsItsRecords(t *testing.T) {
	clock := virtual()
	n, id, _ := shareNode(t, func(o *nodeOptions) {
		before := o.broker
		o.broker = func(b *Options) {
			before(b)
			b.Quotas = keeperOf(quota.Fetched, 100, clock)
		}
	})
	w := n.dial(t)
	if p := produced(t, w, 9, produceRequest("t", [16]byte{}, -1, plain(t, strings.Repeat("x", 10_000)))); p.ErrorCode != 0 {
		t.Fatal(p)
	}
	m := n.sharer(t, "m", id)
	m.wait = 60_000
	resp := m.fetch()
	wantShared(t, resp, "0[0 0 [0] 0-0:1]")
	if resp.ThrottleMillis <= 0 {
		t.Errorf("not throttled: %+v", resp)
	}
}

func TestShareRequestsNeedRights(t *testing.T) {
	g := &guarded{}
	var id [16]byte
	g.node, id, _ = shareNode(t, func(o *nodeOptions) {
		o.broker = func(b *Options) { b.Rules = g.rules.Load }
	})
	g.put(t, "t", 1, "x")
	m := g.sharer(t, "m", id)
	g.allow(topicRight(acl.Read, "t"))
	wantShared(t, m.fetch(), fmt.Sprint("error ", kerr.GroupAuthorizationFailed.Code))
	m.epoch = 1
	if whole, _ := m.acknowledge(ack{0, 0, []int8{1}}); whole != kerr.GroupAuthorizationFailed.Code {
		t.Error(whole)
	}
	g.allow(groupRight(acl.Read, "g"), topicRight(acl.Describe, "t"))
	m.epoch, m.named = 0, false
	wantShared(t, m.fetch(), fmt.Sprintf("0[%d 0 []]", kerr.TopicAuthorizationFailed.Code))
	if whole, part := m.acknowledge(ack{0, 0, []int8{1}}); whole != 0 || part != kerr.TopicAuthorizationFailed.Code {
		t.Error(whole, part)
	}
	g.allow(groupRight(acl.Read, "g"), topicRight(acl.Read, "t"))
	m.wait = 60_000
	wantShared(t, m.fetch(), "0[0 0 [0] 0-0:1]")
}

// Version 1 has neither modes of acquisition nor renewals.
func TestVersion1OfTheShareAPIs(t *testing.T) {
	n, id, _ := shareNode(t)
	n.put(t, "t", 2, "x")
	m := n.sharer(t, "m", id)
	m.wait = 60_000
	resp := ask[*kmsg.ShareFetchResponse](t, m.w, 1, m.request())
	wantShared(t, resp, "0[0 0 [0 1] 0-1:1]")
	if resp.AcquisitionLockTimeoutMillis != 30_000 {
		t.Errorf("%+v", resp)
	}
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &m.group, &m.id, m.epoch
	p := kmsg.NewShareAcknowledgeRequestTopicPartition()
	p.AcknowledgementBatches = []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{
		LastOffset: 1, AcknowledgeTypes: []int8{1, 4}}}
	req.Topics = []kmsg.ShareAcknowledgeRequestTopic{{TopicID: id, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{p}}}
	if resp := ask[*kmsg.ShareAcknowledgeResponse](t, m.w, 1, req); resp.Topics[0].Partitions[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a renewal: %+v", resp)
	}
	req.ShareSessionEpoch++
	p.AcknowledgementBatches[0].AcknowledgeTypes = []int8{1}
	if resp := ask[*kmsg.ShareAcknowledgeResponse](t, m.w, 1, req); resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
}

// Records are not held back for acknowledgements whose write takes long: their locks would end. The
// member repeats the acknowledgements.
func TestRecordsDoNotWaitForASlowWrite(t *testing.T) {
	t.Parallel()
	n, id, desk := shareNode(t, func(o *nodeOptions) {
		o.static["group.share.min.record.lock.duration.ms"] = "1000"
		o.static["group.share.record.lock.duration.ms"] = "8000"
	})
	n.put(t, "t", 2, "x")
	m := n.sharer(t, "m", id)
	m.max, m.wait = 1, 60_000
	wantShared(t, m.fetch(), "0[0 0 [0] 0-0:1]")
	held := make(chan func(), 1)
	desk.Deliver(func(_ sharetest.Kind, do, _, _ func()) { held <- do })
	wantShared(t, m.fetch(ack{0, 0, []int8{1}}), fmt.Sprintf("0[0 %d [1] 1-1:1]", kerr.CoordinatorNotAvailable.Code))
	desk.Deliver(nil)
	(<-held)()
	if whole, part := m.acknowledge(ack{0, 1, []int8{1}}); whole != 0 || part != 0 {
		t.Error(whole, part)
	}
}

// A fetch that waits for memory for its answer holds up no other member of its group. It keeps its
// place, and gets the next record when there is memory.
func TestMembersPassAShareFetchWithoutMemory(t *testing.T) {
	const limit = 1 << 20
	n, id, _ := shareNode(t, func(o *nodeOptions) {
		before := o.broker
		o.broker = func(b *Options) {
			before(b)
			b.AnswerBytes = limit
		}
	})
	n.put(t, "t", 1, "x")
	a, b := n.sharer(t, "a", id), n.sharer(t, "b", id)
	far := n.dialFrom(t, "127.0.0.2")
	b.w, a.wait, b.wait, a.max, b.max = far, 60_000, 60_000, 1, 1
	near := bufpool.Holder[netip.Prefix]{Origin: origin.Of(netip.MustParseAddr("127.0.0.1"))}
	held, ok := n.answers.Try(near, 1, limit/2)
	if !ok {
		t.Fatal("no memory")
	}
	must(t, a.w.send(a.request()))
	eventually(t, "a fetch waits for memory", func() bool { return n.Answers().Waiting == 1 })
	wantShared(t, b.fetch(), "0[0 0 [0] 0-0:1]")
	n.answers.Return(near, held)
	eventually(t, "no fetch waits for memory", func() bool { return n.Answers().Waiting == 0 })
	must(t, b.w.send(b.request()))
	n.put(t, "t", 2, "x")
	for _, m := range []*sharer{a, b} {
		resp, err := m.w.receive(&kmsg.ShareFetchRequest{Version: 2})
		must(t, err)
		if got := shared(t, resp.(*kmsg.ShareFetchResponse)); !strings.Contains(got, ":1]") {
			t.Errorf("%s got %q", m.id, got)
		}
	}
}

// dialFrom is dial from another address of this machine.
func (n *node) dialFrom(t *testing.T, ip string) *wire {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := from.DialContext(t.Context(), "tcp", n.addr)
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = c.Close() })
	return &wire{Conn: c, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))}
}
