package broker

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
)

// inSession sets a request's session id and epoch.
func inSession(req *kmsg.FetchRequest, id, epoch int32) *kmsg.FetchRequest {
	req.SessionID, req.SessionEpoch = id, epoch
	return req
}

func TestASessionAnswersWithWhatChanged(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"a", "b", "c"} {
		n.topic(t, name, 1)
	}
	n.put(t, "a", 1, "x")
	w := n.dial(t)
	none := [16]byte{}
	full := ask[*kmsg.FetchResponse](t, w, 12, inSession(fetchRequest(0, named("a", none), named("b", none), named("x", none)), 0, 0))
	id := full.SessionID
	if got := show(t, full); id == 0 || got != "a-0[0 1: [0]] b-0[0 0: []] x-0[3 -1: []]" {
		t.Fatalf("session %d: %s", id, got)
	}
	epoch := int32(0)
	step := func(req *kmsg.FetchRequest, want string) {
		t.Helper()
		epoch++
		resp := ask[*kmsg.FetchResponse](t, w, 12, inSession(req, id, epoch))
		if got := show(t, resp); resp.ErrorCode != 0 || resp.SessionID != id || got != want {
			t.Fatalf("epoch %d, session %d, code %d: %s, want %s", epoch, resp.SessionID, resp.ErrorCode, got, want)
		}
	}
	forget := func(req *kmsg.FetchRequest, name string) *kmsg.FetchRequest {
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Topic, f.Partitions = name, []int32{0}
		req.ForgottenTopics = append(req.ForgottenTopics, f)
		return req
	}
	step(fetchRequest(1, named("a", none)), "x-0[3 -1: []]")
	step(forget(fetchRequest(0), "x"), "")
	n.put(t, "b", 1, "x")
	step(fetchRequest(0), "b-0[0 1: [0]]") // sent again as long as its offset does not change
	step(fetchRequest(1, named("b", none)), "")
	n.put(t, "a", 1, "x")
	n.put(t, "b", 1, "x")
	step(fetchRequest(0), "a-0[0 2: [1]] b-0[0 2: [1]]")
	moved := fetchRequest(2, named("b", none), named("a", none))
	moved.Topics = append(moved.Topics, fetchRequest(0, named("c", none)).Topics...)
	step(moved, "c-0[0 0: []]")
	step(forget(fetchRequest(0), "c"), "")
	n.topic(t, "x", 1)
	step(fetchRequest(0, named("x", none)), "x-0[0 0: []]")
	step(fetchRequest(0), "")
	// A wait in a session is notified of partitions that the request does not name.
	epoch++
	req := inSession(waiting(0, 1), id, epoch)
	n.parked(t, w, 12, req)
	n.put(t, "x", 1, "x")
	if got := show(t, w.fetched(t, req)); got != "x-0[0 1: [0]]" {
		t.Fatal(got)
	}
}

func TestASessionsPartitionsTakeTurns(t *testing.T) {
	n := newNode(t)
	none := [16]byte{}
	var topics []kmsg.FetchRequestTopic
	for _, name := range []string{"a", "b", "c"} {
		n.topic(t, name, 1)
		n.put(t, name, 2, "x")
		topics = append(topics, named(name, none))
	}
	w := n.dial(t)
	first := fetchRequest(0, topics...)
	first.MaxBytes = 1 // space for one batch
	resp := ask[*kmsg.FetchResponse](t, w, 12, inSession(first, 0, 0))
	if got := show(t, resp); got != "a-0[0 2: [0]] b-0[0 2: []] c-0[0 2: []]" {
		t.Fatal(got)
	}
	for i, want := range []string{"a-0[0 2: [0]]", "b-0[0 2: [0]]", "c-0[0 2: [0]]", "a-0[0 2: [0]]"} {
		req := fetchRequest(0)
		req.MaxBytes = 1
		if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, inSession(req, resp.SessionID, int32(i+1)))); got != want {
			t.Errorf("turn %d: %s, want %s", i, got, want)
		}
	}
}

func TestSessionErrors(t *testing.T) {
	n := newNode(t)
	tid := n.topic(t, "t", 1)
	w := n.dial(t)
	begin := func(version int16) int32 {
		t.Helper()
		id := ask[*kmsg.FetchResponse](t, w, version, inSession(fetchRequest(0, named("t", tid)), 0, 0)).SessionID
		if id == 0 {
			t.Fatal("no session")
		}
		return id
	}
	expect := func(version int16, req *kmsg.FetchRequest, want *kerr.Error) {
		t.Helper()
		resp := ask[*kmsg.FetchResponse](t, w, version, req)
		if resp.ErrorCode != want.Code || len(resp.Topics) != 0 || resp.SessionID != 0 {
			t.Errorf("%+v, want %v", resp, want)
		}
	}
	id := begin(12)
	expect(12, inSession(fetchRequest(0), id+1, 1), kerr.FetchSessionIDNotFound)
	expect(12, inSession(fetchRequest(0), id, 2), kerr.InvalidFetchSessionEpoch)
	expect(13, inSession(fetchRequest(0), id, 1), kerr.FetchSessionTopicIDError)
	expect(12, inSession(fetchRequest(0), begin(13), 1), kerr.FetchSessionTopicIDError)
	if resp := ask[*kmsg.FetchResponse](t, w, 12, inSession(fetchRequest(0), id, 1)); resp.ErrorCode != 0 {
		t.Errorf("errors leave the session as it is: %+v", resp)
	}
	if resp := ask[*kmsg.FetchResponse](t, w, 12, inSession(fetchRequest(0, named("t", tid)), id, -1)); resp.ErrorCode != 0 ||
		resp.SessionID != 0 || len(resp.Topics) != 1 {
		t.Errorf("the last request: %+v", resp)
	}
	expect(12, inSession(fetchRequest(0), id, 2), kerr.FetchSessionIDNotFound)
	id = begin(12)
	next := ask[*kmsg.FetchResponse](t, w, 12, inSession(fetchRequest(0, named("t", tid)), id, 0)).SessionID
	if next == 0 || next == id {
		t.Errorf("a full request in session %d makes a new one: %d", id, next)
	}
	expect(12, inSession(fetchRequest(0), id, 1), kerr.FetchSessionIDNotFound)
	// A session without partitions ends.
	req := inSession(fetchRequest(0), next, 1)
	f := kmsg.NewFetchRequestForgottenTopic()
	f.Topic, f.Partitions = "t", []int32{0}
	req.ForgottenTopics = append(req.ForgottenTopics, f)
	if resp := ask[*kmsg.FetchResponse](t, w, 12, req); resp.ErrorCode != 0 || resp.SessionID != 0 {
		t.Errorf("everything forgotten: %+v", resp)
	}
	expect(12, inSession(fetchRequest(0), next, 2), kerr.FetchSessionIDNotFound)
	if resp := ask[*kmsg.FetchResponse](t, w, 6, fetchRequest(0, named("t", tid))); resp.SessionID != 0 {
		t.Errorf("version 6 knows no sessions: %+v", resp)
	}
}

// asked makes the parts of a request for n partitions.
func asked(partitions int) []fetchPartition {
	parts := make([]fetchPartition, partitions)
	for i := range parts {
		parts[i].index = int32(i)
	}
	return parts
}

func TestAFullCacheKeepsWhatIsWorthMost(t *testing.T) {
	now := time.Now()
	c := newSessions(2, defaultSessionBytes)
	small, large := c.create(owner{}, true, asked(2), now), c.create(owner{}, true, asked(10), now)
	if small == nil || large == nil || c.create(owner{}, true, asked(100), now.Add(time.Minute)) != nil {
		t.Fatal("young sessions stay")
	}
	now = now.Add(evictAfter + time.Second)
	c.touch(small, now)
	c.touch(large, now)
	if c.create(owner{}, true, asked(2), now) != nil {
		t.Fatal("a session is not replaced by one of its size")
	}
	if c.create(owner{}, true, asked(3), now) == nil || small.elem != nil || large.elem == nil {
		t.Fatal("a larger one takes the smallest old one's place")
	}
	if c.create(owner{}, true, asked(1), now.Add(evictAfter+time.Second)) == nil || large.elem != nil {
		t.Fatal("one that was not used for long goes whatever its size")
	}
	if len(c.byID) != 2 || c.used.Len() != 2 || c.parts != 4 {
		t.Fatalf("%d sessions, %d in order, %d partitions", len(c.byID), c.used.Len(), c.parts)
	}
	if newSessions(0, defaultSessionBytes).create(owner{}, true, asked(1), now) != nil {
		t.Fatal("no slots, no sessions")
	}
}

// Small sessions go for a larger one, the smallest ones first and no more than must; none goes if
// all of them would not be enough.
func TestSmallSessionsGoOnlyIfTheyMakeSpace(t *testing.T) {
	now := time.Now()
	c := newSessions(10, defaultSessionBytes)
	large := c.create(owner{}, true, asked(c.limit/2), now)
	var small []*session
	for i := range 5 {
		small = append(small, c.create(owner{}, true, asked(10+i), now))
	}
	now = now.Add(evictAfter + time.Second)
	for _, s := range append(small, large) {
		c.touch(s, now)
	}
	if c.create(owner{}, true, asked(c.limit/2-30), now) == nil || small[2].elem != nil || small[3].elem == nil {
		t.Errorf("%d sessions with %d of %d partitions", len(c.byID), c.parts, c.limit)
	}
	if c.create(owner{}, true, asked(c.limit/2), now) != nil || small[3].elem == nil {
		t.Errorf("%d sessions with %d partitions: small ones went in vain", len(c.byID), c.parts)
	}
}

func TestSessionsPartitionsAreBounded(t *testing.T) {
	now := time.Now()
	c := newSessions(10, defaultSessionBytes)
	if c.create(owner{}, true, asked(c.limit+1), now) != nil {
		t.Fatal("larger than the cache")
	}
	s := c.create(owner{}, true, asked(c.limit-5), now)
	if s == nil || c.create(owner{}, true, asked(6), now) != nil {
		t.Fatal("no more than the limit")
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch = 13, s.id, 1
	rt := kmsg.NewFetchRequestTopic()
	rt.TopicID = [16]byte{1}
	for i := range int32(6) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = i
		rt.Partitions = append(rt.Partitions, p)
	}
	req.Topics = append(req.Topics, rt)
	var got fetchRead
	use := c.begin(req, owner{}, &got, now)
	c.fill(&use, &got)
	if use.err != nil || len(got.parts) != c.limit+1 || s.elem != nil || c.parts != 0 {
		t.Fatalf("a session that outgrows the cache is served once more and goes: %v, %d parts, %d counted", use.err, len(got.parts),
			c.parts)
	}
}

// A broker with little memory has fewer partitions in sessions, however many slots are configured.
func TestSessionsHaveTheMemoryThatIsGiven(t *testing.T) {
	now := time.Now()
	c := newSessions(1000, 1<<20)
	before := live()
	var made int
	for range 1000 {
		parts := asked(100)
		for i := range parts {
			parts[i].partitionRequest.topic.name = fmt.Sprintf("%0*d-%d", controller.MaxNameLength-10, i, made)
		}
		if c.create(owner{}, false, parts, now) != nil {
			made++
		}
	}
	if held := live() - before; made == 0 || held > 1<<20 {
		t.Errorf("%d sessions of 100 partitions take %d bytes", made, held)
	}
	runtime.KeepAlive(c)
}

// live returns how many bytes a garbage collection leaves.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestSessionEpochsWrapAroundZero(t *testing.T) {
	if nextEpoch(1) != 2 || nextEpoch(math.MaxInt32) != 1 {
		t.Fatal(nextEpoch(1), nextEpoch(math.MaxInt32))
	}
	now := time.Now()
	c := newSessions(1, defaultSessionBytes)
	s := c.create(owner{}, false, asked(1), now)
	use := sessionUse{session: s, epoch: s.epoch}
	s.epoch++
	if id, err := c.finish(&use, asked(1), now); id != s.id || code(err) != kerr.InvalidFetchSessionEpoch.Code {
		t.Errorf("a request that was overtaken: session %d, %v", id, err)
	}
}
