package broker

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// shareStates are share coordinators that store at once.
type shareStates struct {
	mu  sync.Mutex
	all map[format.Key]int64 // start
	led sharestate.Led       // of all partitions
}

func (s *shareStates) Initialize(_ context.Context, items []sharestate.Initializing, done func([]*kerr.Error)) {
	s.mu.Lock()
	for _, x := range items {
		s.all[x.Key] = x.Start
	}
	s.mu.Unlock()
	done(make([]*kerr.Error, len(items)))
}

func (s *shareStates) Delete(_ context.Context, items []sharestate.Deleting, done func([]*kerr.Error)) {
	s.mu.Lock()
	for _, x := range items {
		delete(s.all, x.Key)
	}
	s.mu.Unlock()
	done(make([]*kerr.Error, len(items)))
}

func (s *shareStates) Summarize(_ context.Context, keys []format.Key, done func([]sharestate.Summary)) {
	s.mu.Lock()
	list := make([]sharestate.Summary, len(keys))
	for i, k := range keys {
		start, exists := s.all[k]
		if list[i] = (sharestate.Summary{Leader: 3, Start: start, Complete: 2}); !exists {
			list[i] = sharestate.Summary{Err: kerr.InvalidRequest, Leader: -1, Start: -1}
		}
	}
	s.mu.Unlock()
	done(list)
}

func (s *shareStates) Inspect(_ context.Context, keys []format.Key, done func([]sharestate.Led)) {
	s.mu.Lock()
	led := s.led
	s.mu.Unlock()
	done(slices.Repeat([]sharestate.Led{led}, len(keys)))
}

func (s *shareStates) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// withShares offers share groups, with these share coordinators.
func withShares(s *shareStates) func(*nodeOptions) {
	return func(o *nodeOptions) {
		o.static["group.share.assignment.interval.ms"] = "0"
		o.states = s
	}
}

func shareBeat(member string, epoch int32, topics ...string) *kmsg.ShareGroupHeartbeatRequest {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = "g", member, epoch, topics
	return req
}

func describeShare(t *testing.T, w *wire) kmsg.ShareGroupDescribeResponseGroup {
	t.Helper()
	req := kmsg.NewPtrShareGroupDescribeRequest()
	req.GroupIDs, req.IncludeAuthorizedOperations = []string{"g"}, true
	return ask[*kmsg.ShareGroupDescribeResponse](t, w, 1, req).Groups[0]
}

// A member joins, gets the partitions when their states exist, and leaves. Then the group is
// deleted with its states.
func TestShareGroupFromJoinToDeletion(t *testing.T) {
	states := &shareStates{all: map[format.Key]int64{}}
	n := newNode(t, quick, withShares(states))
	id := n.topic(t, "in", 2)
	n.coordinates(t)
	w := n.dial(t)
	resp := ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, shareBeat("m", 0, "in"))
	if resp.ErrorCode != 0 || *resp.MemberID != "m" || resp.HeartbeatIntervalMillis != 500 {
		t.Fatalf("%+v", resp)
	}
	for resp.Assignment == nil || len(resp.Assignment.TopicPartitions) == 0 {
		resp = ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, shareBeat("m", resp.MemberEpoch))
		if resp.ErrorCode != 0 || t.Context().Err() != nil {
			t.Fatalf("%+v", resp)
		}
	}
	if p := resp.Assignment.TopicPartitions[0]; p.TopicID != id || !slices.Equal(p.Partitions, []int32{0, 1}) || states.count() != 2 {
		t.Errorf("%+v, %d states", p, states.count())
	}
	if d := describeShare(t, w); d.GroupState != "Stable" || d.Assignor != "simple" || len(d.Members) != 1 ||
		d.Members[0].Assignment.TopicPartitions[0].Topic != "in" || d.AuthorizedOperations == opsNotAsked {
		t.Errorf("%+v", d)
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.TypesFilter = []string{"share"}
	if l := ask[*kmsg.ListGroupsResponse](t, w, 5, list).Groups; len(l) != 1 || l[0].GroupType != "share" || l[0].GroupState != "Stable" {
		t.Errorf("%+v", l)
	}
	if d, found, err := n.groups.Describe(t.Context(), "g"); err != nil || !found || d.Kind != "share" || d.State != "Stable" ||
		d.Assignor != "simple" || len(d.Members) != 1 || !slices.Equal(d.Members[0].Assigned["in"], []int32{0, 1}) {
		t.Errorf("%+v, %t, %v", d, found, err)
	}
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g"}
	if code := ask[*kmsg.DeleteGroupsResponse](t, w, 2, del).Groups[0].ErrorCode; code != kerr.NonEmptyGroup.Code {
		t.Errorf("a group with a member is deleted: %d", code)
	}
	ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, shareBeat("m", -1))
	if code := ask[*kmsg.DeleteGroupsResponse](t, w, 2, del).Groups[0].ErrorCode; code != 0 || states.count() != 0 {
		t.Errorf("deletion: %d, %d states", code, states.count())
	}
	if d := describeShare(t, w); d.ErrorCode != kerr.GroupIDNotFound.Code {
		t.Errorf("%+v", d)
	}
}

// Without share coordinators members join, and get nothing.
func TestShareGroupsWithoutShareCoordinators(t *testing.T) {
	n := newNode(t, quick)
	n.topic(t, "in", 2)
	n.coordinates(t)
	w := n.dial(t)
	resp := ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, shareBeat("m", 0, "in"))
	resp = ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, shareBeat("m", resp.MemberEpoch, "in"))
	if resp.ErrorCode != 0 || len(resp.Assignment.TopicPartitions) > 0 {
		t.Errorf("%+v", resp)
	}
}

// The errors come in the order of the checks.
func TestShareGroupRights(t *testing.T) {
	g := newGuarded(t, quick, withShares(&shareStates{all: map[format.Key]int64{}}))
	g.topic(t, "t", 1)
	g.topic(t, hiddenTopic, 1)
	g.coordinates(t)
	w := g.dial(t)
	if resp := ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, shareBeat("m", 0, "t", hiddenTopic)); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	read, describe := groupRight(acl.Read, "g"), topicRight(acl.Describe, "t")
	for _, c := range []struct {
		name   string
		rights []right
		req    *kmsg.ShareGroupHeartbeatRequest
		want   *kerr.Error
	}{
		{"no right", nil, shareBeat("", 0, "t"), kerr.GroupAuthorizationFailed},
		{"invalid", []right{read}, shareBeat("", 0, hiddenTopic), kerr.InvalidRequest},
		{"hidden topic", []right{read, describe}, shareBeat("n", 0, "t", hiddenTopic), kerr.TopicAuthorizationFailed},
		{"visible topic", []right{read, describe}, shareBeat("n", 0, "t"), nil},
		{"unknown member", []right{read}, shareBeat("o", 3), kerr.UnknownMemberID},
	} {
		g.allow(c.rights...)
		resp := ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, c.req)
		if c.want == nil && resp.ErrorCode != 0 || c.want != nil && resp.ErrorCode != c.want.Code {
			t.Errorf("%s: %v, want %v", c.name, kerr.ErrorForCode(resp.ErrorCode), c.want)
		}
	}
	g.allow(groupRight(acl.Describe, "g"), describe)
	if d := describeShare(t, w); d.ErrorCode != kerr.TopicAuthorizationFailed.Code || len(d.Members) > 0 {
		t.Errorf("%+v", d)
	}
	g.allow(groupRight(acl.Describe, "g"), describe, topicRight(acl.Describe, hiddenTopic))
	if d := describeShare(t, w); d.ErrorCode != 0 || len(d.Members) != 2 {
		t.Errorf("%+v", d)
	}
	g.allow(describe)
	if d := describeShare(t, w); d.ErrorCode != kerr.GroupAuthorizationFailed.Code {
		t.Errorf("%+v", d)
	}
}
