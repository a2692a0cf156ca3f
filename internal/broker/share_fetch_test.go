package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
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
			opt.Preview, opt.ShareStates = true, *desk
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
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize, req.ShareAcquireMode = m.wait, 1, 1<<20, m.max, m.max, m.mode
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
