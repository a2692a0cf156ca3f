package group

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// askKafka is a variable with the address of a single-node Kafka 4.3, started with
// group.initial.rebalance.delay.ms=0. If it is set, the scripts of kafka_scripts_test.go run
// against Kafka and against a shard, and the test compares the responses.
const askKafka = "CHRONIK_ASK_KAFKA"

// peer answers requests: Kafka, or a shard.
type peer interface {
	ask(kmsg.Request) (kmsg.Response, error)
}

// kafka is a connection to Kafka.
type kafka struct {
	conn net.Conn
	n    int32
}

func (k *kafka) ask(req kmsg.Request) (kmsg.Response, error) {
	k.n++
	_ = k.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := k.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, req, k.n)); err != nil {
		return nil, err
	}
	head := make([]byte, 8) // length and correlation id
	if _, err := io.ReadFull(k.conn, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(k.conn, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() {
		body = body[1:] // no tags in the header
	}
	return resp, resp.ReadFrom(body)
}

// ask does what the broker does with a request for a shard.
func (w *world) ask(req kmsg.Request) (kmsg.Response, error) {
	switch r := req.(type) {
	case *kmsg.DescribeGroupsRequest:
		resp := r.ResponseKind().(*kmsg.DescribeGroupsResponse)
		resp.Groups = ask[[]kmsg.DescribeGroupsResponseGroup](w, Describe{Groups: r.Groups, Version: r.Version})
		return resp, nil
	case *kmsg.ConsumerGroupDescribeRequest:
		resp := r.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
		resp.Groups = ask[[]kmsg.ConsumerGroupDescribeResponseGroup](w, DescribeConsumers{Groups: r.Groups})
		return resp, nil
	case *kmsg.DeleteGroupsRequest:
		resp := r.ResponseKind().(*kmsg.DeleteGroupsResponse)
		resp.Groups = ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{Groups: r.Groups})
		for i := range resp.Groups {
			resp.Groups[i].ErrorMessage = nil // from version 3 on
		}
		return resp, nil
	case *kmsg.OffsetFetchRequest:
		resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range r.Groups {
			e := FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{g}, RequireStable: r.RequireStable}
			resp.Groups = append(resp.Groups, ask[[]kmsg.OffsetFetchResponseGroup](w, e)[0])
		}
		return resp, nil
	}
	if resp := w.askTxn(req); resp != nil {
		return resp, nil
	}
	ticket := w.send(Request{ClientID: "c", ClientHost: "/127.0.0.1", Body: req})
	w.advance(0)
	return answer[kmsg.Response](w, ticket), nil
}

// play is one run of a script with one peer.
type play struct {
	t     *testing.T
	peer  peer
	group string
	topic [16]byte // of the topic "script", which has 4 partitions
	epoch map[string]int32
	prev  map[string]int32 // the previous epoch
	ids   []string         // ids that the peer generated, in order
	out   []string
}

func newPlay(t *testing.T, p peer, topic [16]byte) *play {
	return &play{t: t, peer: p, topic: topic, group: fmt.Sprint("script-", time.Now().UnixNano()), epoch: map[string]int32{},
		prev: map[string]int32{}}
}

// do sends a request and records the response under a name.
func (p *play) do(name string, req kmsg.Request) kmsg.Response {
	p.t.Helper()
	resp, err := p.peer.ask(req)
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	switch r := resp.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if id := deref(r.MemberID); r.ErrorCode == 0 && r.MemberEpoch != p.epoch[id] {
			p.prev[id], p.epoch[id] = p.epoch[id], r.MemberEpoch
		}
	case *kmsg.JoinGroupResponse:
		if id := r.MemberID; strings.Contains(id, "-") || len(id) == 22 {
			if !slices.Contains(p.ids, id) {
				p.ids = append(p.ids, id)
			}
		}
	}
	sortAnswer(resp, p.ids)
	text, err := json.Marshal(resp)
	if err != nil {
		p.t.Fatal(err)
	}
	p.out = append(p.out, name+": "+p.normal(string(text)))
	return resp
}

// sortAnswer sorts lists whose order is not defined.
func sortAnswer(resp kmsg.Response, ids []string) {
	byID := func(a, b string) int {
		if c := slices.Index(ids, a) - slices.Index(ids, b); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	}
	switch r := resp.(type) {
	case *kmsg.DescribeGroupsResponse:
		slices.SortFunc(r.Groups, func(a, b kmsg.DescribeGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	case *kmsg.DeleteGroupsResponse:
		slices.SortFunc(r.Groups, func(a, b kmsg.DeleteGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	case *kmsg.ConsumerGroupDescribeResponse:
		slices.SortFunc(r.Groups, func(a, b kmsg.ConsumerGroupDescribeResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
		for _, g := range r.Groups {
			slices.SortFunc(g.Members, func(a, b kmsg.ConsumerGroupDescribeResponseGroupMember) int { return byID(a.MemberID, b.MemberID) })
		}
	}
}

var (
	epochWords = regexp.MustCompile(`epoch \(\d+\)|coordinator \(\d+\)`)
)

// normal returns a response without the values that always differ: ids, and epochs in messages.
func (p *play) normal(s string) string {
	topic, _ := json.Marshal(p.topic)
	zero, _ := json.Marshal([16]byte{})
	pairs := []string{string(topic), `"topic"`, string(zero), `"topic"`, `"UnknownTags":{}`, "", p.group, "GROUP", `"Topics":[]`,
		`"Topics":null`, `"TopicPartitions":[]`, `"TopicPartitions":null`}
	for i, id := range p.ids {
		pairs = append(pairs, `"`+id+`"`, fmt.Sprintf(`"member %d"`, i))
	}
	s = strings.NewReplacer(pairs...).Replace(s)
	return epochWords.ReplaceAllString(s, "(n)")
}

func TestResponsesMatchKafka(t *testing.T) {
	addr := os.Getenv(askKafka)
	if addr == "" {
		t.Skip("set " + askKafka + " to the address of a Kafka")
	}
	conn, err := net.Dial("tcp", addr)
	must.OK(t, err)
	defer conn.Close()
	k := &kafka{conn: conn}
	id := makeTopic(t, k)
	for name, script := range scripts() {
		t.Run(name, func(t *testing.T) {
			theirs := newPlay(t, k, id)
			script(theirs)
			w := newWorld(t)
			w.topic("script", 4)
			ours := newPlay(t, w, idOf("script"))
			script(ours)
			for i, line := range theirs.out {
				if line != ours.out[i] {
					t.Errorf("Kafka\n%s\nchronik\n%s", line, ours.out[i])
				}
			}
		})
	}
}

// makeTopic creates the topic of the scripts and waits for the coordinator.
func makeTopic(t *testing.T, k *kafka) (id [16]byte) {
	t.Helper()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 5000
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "script", NumPartitions: 4, ReplicationFactor: 1}}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, "x"
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version, meta.Topics = 12, []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("script")}}
	for range 50 {
		for _, req := range []kmsg.Request{create, find, meta} {
			resp, err := k.ask(req)
			must.OK(t, err)
			switch r := resp.(type) {
			case *kmsg.FindCoordinatorResponse:
				if r.ErrorCode != 0 {
					time.Sleep(300 * time.Millisecond)
				}
			case *kmsg.MetadataResponse:
				if len(r.Topics) == 1 && r.Topics[0].ErrorCode == 0 {
					time.Sleep(time.Second) // the coordinator loads and is notified of the topic
					return r.Topics[0].TopicID
				}
			}
		}
	}
	t.Fatal("no topic, or no coordinator")
	return id
}
