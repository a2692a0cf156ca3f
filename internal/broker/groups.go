package broker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// groupAPI returns the definition of an API whose requests one group's shard answers. keep becomes
// its copyBody.
func groupAPI[R kmsg.Request](key kmsg.Key, most int16, groupOf func(R) string, keep func(R)) apiDef[R] {
	return apiDef[R]{
		inProportion: true,
		API:          protocol.API{Key: int16(key), Max: most},
		asks:         asks[R]{whole: func(m rights, req R) *kerr.Error { return m.group(acl.Read, groupOf(req)) }},
		refuse:       func(_ *network.Request, req R, code *kerr.Error) kmsg.Response { return group.Refuse(req, code) },
		overloaded:   kerr.CoordinatorNotAvailable,
		copyBody:     keep,
		route:        toGroup(groupOf),
		handle:       later(atGroup(groupOf), func(c call, req R) { c.b.askGroup(c.r, groupOf(req), req, c.respond) }),
	}
}

// JoinGroup (key 11), versions 0 to 9: answered when all members of a classic group have joined.
func joinGroupAPI() api {
	l := groupAPI(kmsg.JoinGroup, 9, func(req *kmsg.JoinGroupRequest) string { return req.Group }, func(req *kmsg.JoinGroupRequest) {
		for i := range req.Protocols {
			req.Protocols[i].Metadata = bytes.Clone(req.Protocols[i].Metadata)
		}
	})
	l.handle.waits = func(b *Handler, req *kmsg.JoinGroupRequest) (*network.Waiter, string) { return b.at.members, req.Group }
	return l.api()
}

// SyncGroup (key 14), versions 0 to 5: answered when the leader of a classic group has sent the
// assignments.
func syncGroupAPI() api {
	l := groupAPI(kmsg.SyncGroup, 5, func(req *kmsg.SyncGroupRequest) string { return req.Group }, func(req *kmsg.SyncGroupRequest) {
		for i := range req.GroupAssignment {
			req.GroupAssignment[i].MemberAssignment = bytes.Clone(req.GroupAssignment[i].MemberAssignment)
		}
	})
	l.handle.waits = func(b *Handler, req *kmsg.SyncGroupRequest) (*network.Waiter, string) { return b.at.members, req.Group }
	return l.api()
}

// Heartbeat (key 12), versions 0 to 4: a member of a classic group is alive.
func heartbeatAPI() api {
	return groupAPI(kmsg.Heartbeat, 4, func(req *kmsg.HeartbeatRequest) string { return req.Group }, nil).api()
}

// LeaveGroup (key 13), versions 0 to 5: a member leaves a classic group, or several from version 3
// on.
func leaveGroupAPI() api {
	return groupAPI(kmsg.LeaveGroup, 5, func(req *kmsg.LeaveGroupRequest) string { return req.Group }, nil).api()
}

// ConsumerGroupHeartbeat (key 68), versions 0 to 1: everything that a member of a consumer group
// sends (KIP-848).
func consumerGroupHeartbeatAPI() api {
	l := groupAPI(kmsg.ConsumerGroupHeartbeat, 1, func(req *kmsg.ConsumerGroupHeartbeatRequest) string { return req.Group }, nil)
	l.asks.whole = func(m rights, req *kmsg.ConsumerGroupHeartbeatRequest) *kerr.Error {
		return cmp.Or(m.group(acl.Read, req.Group), m.allTopics(acl.Describe, req.SubscribedTopicNames))
	}
	return l.api()
}

// askGroup passes a request to its group's shard, and sets the code with which the answer is
// counted. done receives the answer, which may be a refusal, once, on any goroutine.
func (b *Handler) askGroup(r *network.Request, groupID string, req kmsg.Request, done func(kmsg.Response)) {
	b.askGroupWatched(r, groupID, req, nil, func(resp kmsg.Response) {
		r.Code = cmp.Or(firstError(resp), r.Code) // it may lack parts that were refused
		done(resp)
	})
}

// askGroupWatched is askGroup for an OffsetCommit whose resets are noted. It leaves the code to
// done, since the answer may lack partitions.
func (b *Handler) askGroupWatched(r *network.Request, groupID string, req kmsg.Request, watch *resets, done func(kmsg.Response)) {
	if join, ok := req.(*kmsg.JoinGroupRequest); ok && join.MemberID == "" {
		b.opt.Groups.WatchConnection(r.Connection, r.OnClose)
	}
	e := b.groupRequest(r, req)
	if watch != nil {
		e.Moved = watch.note
	}
	b.opt.Groups.Submit(groupID, e, func(answer any, err error) {
		resp, ok := answer.(kmsg.Response)
		if errors.Is(err, coordinator.ErrLoading) {
			resp = group.Loading(req)
		} else if c := b.coordinatorError(req, answer, ok, err); c != nil {
			resp = group.Refuse(req, c)
		}
		done(within(r, req, resp))
	})
}

// within returns an answer about one group, or a refusal if it is large and clients read too few
// answers: it may have what other members have sent, or an assignment, and be due after minutes, so
// it can't wait for memory. Clients try again, and find the group as it is.
func within(r *network.Request, req kmsg.Request, resp kmsg.Response) kmsg.Response {
	if r.HasAnswerBudget() || r.Length(resp) <= largeGroupAnswer {
		return resp
	}
	return group.Refuse(req, kerr.CoordinatorLoadInProgress)
}

// largeGroupAnswer is what an answer about a group may have on each connection, whatever the others
// have.
const largeGroupAnswer = 4 << 10

// groupRequest returns a request about a group as its shard gets it.
func (b *Handler) groupRequest(r *network.Request, req kmsg.Request) group.Request {
	e := group.Request{Connection: r.Connection, ClientID: view.Cut(r.ClientID), ClientHost: "/" + r.Session.Host, // Kafka's form
		Client: r.Client(), Body: req}
	if !b.rights(r).everything() {
		e.Viewer = group.Viewer{Principal: r.Session.Principal, Host: r.Session.Host}
	}
	return e
}

// Visible returns service.GroupsOptions.Visible for the rules of Options.Rules; nil without any.
func Visible(rules func() *acl.Rules) func(group.Viewer) func(topic string) bool {
	if rules == nil {
		return nil
	}
	return func(v group.Viewer) func(string) bool {
		client := rules().Subject(v.Principal, v.Host)
		return func(topic string) bool { return client.Allowed(acl.Describe, acl.Topic, topic) }
	}
}

// coordinatorError returns the error of a shard's answer to an event, nil if there is none; ok
// reports whether the answer has the expected type.
func (b *Handler) coordinatorError(event, answer any, ok bool, err error) *kerr.Error {
	switch {
	case err != nil:
		return kerr.TypedErrorForCode(b.answered(fmt.Sprintf("%T", event), err, code(err)))
	case !ok:
		b.opt.Logger.Error("BUG: unexpected answer from the group coordinator", zap.Any("answer", answer))
		return kerr.UnknownServerError
	}
	return nil
}

// listError returns the error of a list of what this broker coordinates. A shard that has no
// machine, because it moves at this moment or its log is offline, makes the list incomplete. Admin
// clients repeat the request.
func (b *Handler) listError(r *network.Request, err error) *kerr.Error {
	switch {
	case errors.Is(err, coordinator.ErrNotCoordinator):
		return kerr.CoordinatorLoadInProgress
	case errors.Is(err, context.Canceled): // the broker stops
		return kerr.CoordinatorNotAvailable
	}
	return kerr.TypedErrorForCode(b.code(r, err))
}

// countdown calls then when n operations have ended and finish was called another time.
type countdown struct {
	left atomic.Int64
	then func()
}

func newGather(n int, then func()) *countdown {
	g := &countdown{then: then}
	g.left.Store(int64(n) + 1)
	return g
}

// finish ends one operation, or says that all were started.
func (g *countdown) finish() {
	if g.left.Add(-1) == 0 {
		g.then()
	}
}

// shards are the coordinators of an internal topic; see service.Service.
type shards interface {
	Partition(key string) (partition int32, ok bool)
	SubmitTo(partition int32, event any, done func(response any, err error))
}

// perKey asks the shards of keys, such as group ids, and calls then with an answer for every key in
// their order. A repeated key has one answer, at the place of its first occurrence. The other
// parameters are those of perShard.
func perKey[G any](b *Handler, of shards, keys []string, event func(keys []string) any, failed func(key string, code *kerr.Error) G,
	then func([]G)) {
	keys = distinct(keys)
	perShard(b, of, keys, func(positions []int) any {
		some := make([]string, len(positions))
		for k, i := range positions {
			some[k] = keys[i]
		}
		return event(some)
	}, failed, then)
}

// shardPart is about how many keys one event may name. The next event follows when it is
// answered, so that other requests of the shard are served in between.
const shardPart = 1000

// perShard asks the shards of keys, and calls then with an answer for every entry of ids, in their
// order. event builds the event for some indexes of ids, whose answer is a []G. failed returns the
// answer for a key whose shard gave none.
func perShard[G any](b *Handler, of shards, ids []string, event func(positions []int) any,
	failed func(id string, code *kerr.Error) G, then func([]G)) {
	answers := make([]G, len(ids))
	byShard := map[int32][]int{}
	for i, id := range ids {
		if p, ok := of.Partition(id); ok {
			byShard[p] = append(byShard[p], i)
		} else {
			answers[i] = failed(id, kerr.NotCoordinator)
		}
	}
	all := newGather(len(byShard), func() { then(answers) })
	var ask func(shard int32, positions []int)
	ask = func(shard int32, positions []int) {
		now, rest := positions[:min(len(positions), shardPart)], positions[min(len(positions), shardPart):]
		asked := event(now)
		of.SubmitTo(shard, asked, func(answer any, err error) {
			list, ok := answer.([]G)
			c := b.coordinatorError(asked, answer, ok && len(list) == len(now), err)
			for k, i := range now {
				if c != nil {
					answers[i] = failed(ids[i], c)
				} else {
					answers[i] = list[k]
				}
			}
			if len(rest) > 0 {
				ask(shard, rest)
			} else {
				all.finish()
			}
		})
	}
	for shard, positions := range byShard {
		ask(shard, positions)
	}
	all.finish()
}

// distinct returns the entries of a list, each once, in their order.
func distinct[E comparable](list []E) []E {
	seen := make(map[E]bool, len(list))
	return slices.DeleteFunc(slices.Clone(list), func(e E) bool {
		again := seen[e]
		seen[e] = true
		return again
	})
}
