package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// here asks a broker itself as the leader. It implements ShareOperators.
type here struct{ n **node }

func (h here) InspectRecords(_ context.Context, items []sharestate.Operating, done func([]sharestate.Operated)) {
	(*h.n).OperateShare(items[0], false, func(o sharestate.Operated) { done([]sharestate.Operated{o}) })
}

func (h here) Operate(_ context.Context, items []sharestate.Operating, done func([]sharestate.Operated)) {
	(*h.n).OperateShare(items[0], true, func(o sharestate.Operated) { done([]sharestate.Operated{o}) })
}

func operators(n **node) func(*nodeOptions) {
	return func(o *nodeOptions) {
		before := o.broker
		o.broker = func(opt *Options) {
			if before != nil {
				before(opt)
			}
			opt.Operators = here{n}
		}
	}
}

// peek sends a body, and returns the error, its text, and what is shown.
func peek(t testing.TB, w *wire, body string) string {
	t.Helper()
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID = kmsg.StringPtr("g")
	req.UnknownTags.Set(view.ShareTag, []byte(body))
	resp := ask[*kmsg.ShareFetchResponse](t, w, 2, req)
	return operatorAnswer(t, resp.ErrorCode, resp.ErrorMessage, &resp.UnknownTags)
}

func operate(t testing.TB, w *wire, body string) string {
	t.Helper()
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID = kmsg.StringPtr("g")
	req.UnknownTags.Set(view.ShareTag, []byte(body))
	resp := ask[*kmsg.ShareAcknowledgeResponse](t, w, 2, req)
	return operatorAnswer(t, resp.ErrorCode, resp.ErrorMessage, &resp.UnknownTags)
}

func operatorAnswer(t testing.TB, code int16, message *string, tags *kmsg.Tags) (s string) {
	t.Helper()
	if code != 0 {
		return kerr.TypedErrorForCode(code).Message + ": " + *message
	}
	tags.Each(func(_ uint32, p []byte) { s = string(p) })
	return s
}

// TestOperatorSeesRecords: what an operator sees has the beginning of each record, and what it asks
// for is checked.
func TestOperatorSeesRecords(t *testing.T) {
	var self *node
	n, id, _ := shareNode(t, func(o *nodeOptions) { o.broker = func(*Options) {} }, operators(&self))
	self = n
	n.put(t, "t", 3, strings.Repeat("v", 1000))
	w := n.dial(t)
	m := n.sharer(t, "m", id)
	m.max, m.mode = 1, 1
	m.eventuallyFetched("0[0 0 [0] 0-0:1]")
	var seen view.ShareRecords
	if err := json.Unmarshal([]byte(peek(t, w, `{"topic":"t","partition":0,"first":0,"limit":2}`)), &seen); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"0 acquired 1 m", "1 available 0 "} {
		r := seen.Records[i]
		if got := fmt.Sprint(r.Offset, " ", r.State, " ", r.Deliveries, " ", r.Member); got != want || len(r.Value) != 256 ||
			r.ValueBytes != 1000 || r.Missing || r.Member != "" && r.LeftMs < 1 {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	if len(seen.Records) != 2 || seen.Next != 2 || seen.HighWatermark != 3 {
		t.Errorf("%+v", seen)
	}
	for body, want := range map[string]string{
		`{`:                                             "INVALID_REQUEST: the request is no JSON of this version",
		`{"topic":"t","limit":501}`:                     "INVALID_REQUEST: the limit is 501: it must be 1 to 500",
		`{"topic":"t","limit":1,"first":-1}`:            "INVALID_REQUEST: offsets -1 to 0 are no range",
		`{"topic":"none","limit":1}`:                    "UNKNOWN_TOPIC_OR_PARTITION: there is no partition 0 of a topic \"none\"",
		`{"topic":"t","partition":2,"limit":1}`:         "UNKNOWN_TOPIC_OR_PARTITION: there is no partition 2 of a topic \"t\"",
		`{"topic":"t","limit":1,"more":1}`:              "INVALID_REQUEST: the request is no JSON of this version",
		`{"topic":"` + strings.Repeat("t", 5000) + `"}`: "INVALID_REQUEST: the request has 5012 bytes, more than 4096",
	} {
		if got := peek(t, w, body); !strings.HasPrefix(got, want) {
			t.Errorf("%.60s: %s\nwant %s", body, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"topic":"t","first":0,"last":0,"action":"accept"}`:  `INVALID_REQUEST: unknown action "accept": it is release or reject`,
		`{"topic":"t","first":1,"last":0,"action":"reject"}`:  "INVALID_REQUEST: offsets 1 to 0 are no range",
		`{"topic":"t","first":0,"last":0,"action":"release"}`: `{"changed":1,"available":0,"finished":0,"below":0,"beyond":0}`,
	} {
		if got := operate(t, w, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s\nwant %s", body, got, want)
		}
	}
}

// TestOperatorAnswersAreBounded: many large records take several requests.
func TestOperatorAnswersAreBounded(t *testing.T) {
	var self *node
	n, _, _ := shareNode(t, func(o *nodeOptions) { o.broker = func(*Options) {} }, operators(&self))
	self = n
	n.put(t, "t", 500, strings.Repeat("v", 300))
	w := n.dial(t)
	var got []int64
	for next := int64(0); next >= 0; {
		body := peek(t, w, fmt.Sprintf(`{"topic":"t","first":%d,"limit":500}`, next))
		var seen view.ShareRecords
		if err := json.Unmarshal([]byte(body), &seen); err != nil || len(body) > view.MaxShareAnswer || seen.Note != "" {
			t.Fatal(len(body), seen.Note, err)
		}
		for _, r := range seen.Records {
			if got = append(got, r.Offset); r.Offset != int64(len(got)-1) || len(r.Value) != 256 {
				t.Fatalf("%+v after %d", r, len(got))
			}
		}
		next = seen.Next
	}
	if len(got) != 500 {
		t.Error(len(got))
	}
}

// TestOperatorsNeedRights: those of a member, for the group and for the topic.
func TestOperatorsNeedRights(t *testing.T) {
	g := &guarded{}
	g.node, _, _ = shareNode(t, func(o *nodeOptions) {
		o.broker = func(b *Options) { b.Rules = g.rules.Load }
	}, operators(&g.node))
	g.put(t, "t", 1, "x")
	w := g.dial(t)
	const inspect, reject = `{"topic":"t","first":0,"limit":1}`, `{"topic":"t","first":0,"last":0,"action":"reject"}`
	both := func(want string) {
		t.Helper()
		for _, got := range []string{peek(t, w, inspect), operate(t, w, reject)} {
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
	g.allow(topicRight(acl.Read, "t"), groupRight(acl.Describe, "g"))
	both("GROUP_AUTHORIZATION_FAILED")
	g.allow(groupRight(acl.Read, "g"), topicRight(acl.Describe, "t"))
	both("TOPIC_AUTHORIZATION_FAILED")
	g.allow(groupRight(acl.Read, "g"), topicRight(acl.Read, "t"))
	both("{")
}

// TestOperatorsReadsHaveNoAction: what a request says it does is what the audit log has.
func TestOperatorsReadsHaveNoAction(t *testing.T) {
	var self *node
	n, _, _ := shareNode(t, func(o *nodeOptions) { o.broker = func(*Options) {} }, operators(&self))
	self = n
	n.put(t, "t", 1, "secret")
	w := n.dial(t)
	got := peek(t, w, `{"topic":"t","first":0,"last":0,"limit":1,"action":"release"}`)
	if want := `INVALID_REQUEST: a request that shows records has no action, and this one has "release"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestOperatorSeesWholeRecords: records that are shown were read, and the next request has the
// others. Those without a key or a value look the same otherwise.
func TestOperatorSeesWholeRecords(t *testing.T) {
	var self *node
	n, _, _ := shareNode(t, func(o *nodeOptions) { o.broker = func(*Options) {} }, operators(&self))
	self = n
	const records = 9
	for range records {
		n.put(t, "t", 1, strings.Repeat("v", 900<<10))
	}
	w := n.dial(t)
	got := int64(0)
	for next := int64(0); next >= 0; {
		var seen view.ShareRecords
		if err := json.Unmarshal([]byte(peek(t, w, fmt.Sprintf(`{"topic":"t","first":%d,"limit":500}`, next))), &seen); err != nil {
			t.Fatal(err)
		}
		for _, r := range seen.Records {
			if r.Offset != got || r.ValueBytes != 900<<10 {
				t.Errorf("after %d: offset %d, %d bytes, missing %t, note %q", got, r.Offset, r.ValueBytes, r.Missing, seen.Note)
			}
			got++
		}
		next = seen.Next
	}
	if got != records {
		t.Errorf("%d records", got)
	}
}
