package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
)

// A fetch session is the session of one principal on one listener. For others its id does not
// exist, and they can't end it.
func TestAFetchSessionBelongsToItsClient(t *testing.T) {
	now := time.Now()
	c := newSessions(10, defaultSessionBytes)
	alice := owner{"User:alice", "clients"}
	s := c.create(alice, true, asked(1), now)
	req := &kmsg.FetchRequest{Version: 13, SessionID: s.id, SessionEpoch: 1}
	for _, other := range []owner{{"User:bob", "clients"}, {"User:alice", "peers"}} {
		if use := c.begin(req, other, &fetchRead{}, now); !errors.Is(use.err, kerr.FetchSessionIDNotFound) {
			t.Errorf("%v: %v", other, use.err)
		}
		for _, epoch := range []int32{0, -1} { // a new session instead of the old one, and none
			c.begin(&kmsg.FetchRequest{Version: 13, SessionID: s.id, SessionEpoch: epoch}, other, &fetchRead{}, now)
		}
	}
	var rd fetchRead
	if use := c.begin(req, alice, &rd, now); use.err != nil || use.session != s || use.members != 1 {
		t.Errorf("%v, %d partitions", use.err, len(rd.parts))
	}
}

// A right that is taken from a client while its fetch waits is missing when the fetch is answered.
func TestAWaitingFetchAsksAgain(t *testing.T) {
	g := newGuarded(t)
	id, other := g.topic(t, "t", 1), g.topic(t, "u", 1)
	w := g.dial(t)
	of := []right{topicRight(acl.Read, "u"), topicRight(acl.Write, "u")}
	at := int64(0)
	for _, c := range []struct {
		version int16
		after   []right
		want    *kerr.Error
	}{
		{12, nil, kerr.TopicAuthorizationFailed},
		{12, []right{topicRight(acl.Describe, "t")}, kerr.TopicAuthorizationFailed},
		{12, []right{topicRight(acl.Read, "t")}, nil},
		{18, nil, kerr.UnknownTopicID},
		{18, []right{topicRight(acl.Describe, "t")}, kerr.TopicAuthorizationFailed},
		{18, []right{topicRight(acl.Read, "t")}, nil},
	} {
		g.allow(append(of, topicRight(acl.Read, "t"), topicRight(acl.Write, "t"))...)
		size := g.put(t, "t", 1, "a")
		req := waiting(at, int32(2*size), named("t", id), named("u", other))
		at++
		g.parked(t, w, c.version, req)
		g.allow(append(of, c.after...)...)
		g.put(t, "u", 1, "a")
		resp := w.fetched(t, req)
		got, also := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]
		if kerr.TypedErrorForCode(got.ErrorCode) != c.want || (c.want == nil) != (len(got.RecordBatches) > 0) ||
			c.want != nil && (got.HighWatermark != -1 || got.LastStableOffset != -1 || got.LogStartOffset != -1) {
			t.Errorf("version %d with %v: %+v", c.version, c.after, got)
		}
		if also.ErrorCode != 0 || len(also.RecordBatches) == 0 {
			t.Errorf("version %d with %v: %+v", c.version, c.after, also)
		}
	}
}

// Rights are asked for every fetch of a session, which names its partitions only once.
func TestASessionAsksForEveryFetch(t *testing.T) {
	g := newGuarded(t)
	id := g.topic(t, "t", 1)
	w := g.dial(t)
	g.allow(topicRight(acl.Read, "t"))
	req := fetchRequest(0, named("t", id))
	req.SessionEpoch = 0
	first := ask[*kmsg.FetchResponse](t, w, 12, req)
	if first.SessionID == 0 {
		t.Fatalf("%+v", first)
	}
	next := kmsg.NewPtrFetchRequest()
	next.SessionID, next.MaxBytes = first.SessionID, 1000
	for epoch, want := range []*kerr.Error{nil, kerr.TopicAuthorizationFailed, kerr.TopicAuthorizationFailed, nil} {
		g.allow()
		if want == nil {
			g.allow(topicRight(acl.Read, "t"))
		}
		next.SessionEpoch = int32(epoch) + 1
		resp := ask[*kmsg.FetchResponse](t, w, 12, next)
		var got *kerr.Error
		if len(resp.Topics) > 0 {
			got = kerr.TypedErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if got != want || resp.ErrorCode != 0 {
			t.Errorf("fetch %d: %+v", epoch, resp)
		}
	}
}

// A Fetch that claims to come from a broker gets no records: brokers do not replicate by it. The
// error depends on the right to act for the cluster.
func TestAClaimToBeAReplicaNeedsARight(t *testing.T) {
	g := newGuarded(t)
	id := g.topic(t, "t", 1)
	g.put(t, "t", 1, "a")
	w := g.dial(t)
	for _, version := range []int16{12, 18} {
		req := fetchRequest(0, named("t", id))
		req.ReplicaID, req.ReplicaState.ID = 2, 2
		g.allow(topicRight(acl.Read, "t"))
		got := ask[*kmsg.FetchResponse](t, w, version, req).Topics[0].Partitions[0]
		if got.ErrorCode != kerr.TopicAuthorizationFailed.Code || len(got.RecordBatches) > 0 {
			t.Errorf("%+v", got)
		}
		g.allow(topicRight(acl.Read, "t"), clusterRight(acl.ClusterAction))
		got = ask[*kmsg.FetchResponse](t, w, version, req).Topics[0].Partitions[0]
		if got.ErrorCode != kerr.NotLeaderForPartition.Code || len(got.RecordBatches) > 0 {
			t.Errorf("%+v", got)
		}
	}
}
