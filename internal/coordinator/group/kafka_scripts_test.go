package group

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// scripts are conversations. They must not depend on time, except through assigned.
func scripts() map[string]func(*play) {
	return map[string]func(*play){
		"consumer": playConsumer, "consumer errors": playConsumerErrors, "static consumer": playStaticConsumer,
		"classic": playClassic, "classic errors": playClassicErrors, "static classic": playStaticClassic, "migration": playMigration,
		"transaction": playTransaction, "transaction of members": playTransactionOfMembers,
		"transaction of consumers": playTransactionOfConsumers,
	}
}

// assigned waits until Kafka would compute a target immediately: it does so once a second.
func (p *play) assigned() {
	if _, ok := p.peer.(*kafka); ok {
		time.Sleep(1100 * time.Millisecond)
	}
}

type beatEdit = func(*kmsg.ConsumerGroupHeartbeatRequest)

// consume sends a heartbeat of a consumer in its current epoch; with epoch 0 the consumer joins.
func (p *play) consume(name, id string, epoch int32, edit ...beatEdit) {
	p.t.Helper()
	req := heartbeatOf(id, epoch)
	if epoch == 0 {
		req = full(id, "script")
	}
	req.Group = p.group
	for _, f := range edit {
		f(req)
	}
	p.do(name, req)
}

// has sets the partitions that a consumer reports.
func (p *play) has(partitions ...int32) beatEdit {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(partitions) > 0 {
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.topic, Partitions: partitions})
		}
	}
}

func instance(id string) beatEdit {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &id }
}

func (p *play) commit(name, member string, epoch, partition int32, edit ...func(*kmsg.OffsetCommitRequest)) {
	p.t.Helper()
	req := commitOf(member, epoch, "script", 5)
	req.Group, req.Topics[0].TopicID, req.Topics[0].Partitions[0].Partition = p.group, p.topic, partition
	for _, f := range edit {
		f(req)
	}
	p.do(name, req)
}

func commitVersion(v int16) func(*kmsg.OffsetCommitRequest) {
	return func(r *kmsg.OffsetCommitRequest) { r.Version = v }
}

func commitInstance(id string) func(*kmsg.OffsetCommitRequest) {
	return func(r *kmsg.OffsetCommitRequest) { r.InstanceID = &id }
}

func (p *play) join(name, id string, edit ...func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupResponse {
	p.t.Helper()
	req := joinOf(id)
	req.Group, req.Protocols[0].Metadata = p.group, subscription("script")
	for _, f := range edit {
		f(req)
	}
	return p.do(name, req).(*kmsg.JoinGroupResponse)
}

func (p *play) sync(name, member string, generation int32, inst *string, assignments ...string) {
	p.t.Helper()
	req := syncOf(member, generation, assignments...)
	req.Group, req.InstanceID = p.group, inst
	p.do(name, req)
}

func (p *play) beat(name, member string, generation int32, inst *string) {
	p.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 4, p.group, member, generation, inst
	p.do(name, req)
}

func (p *play) leave(name string, members ...kmsg.LeaveGroupRequestMember) {
	p.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.Members = 5, p.group, members
	p.do(name, req)
}

// views requests all views of the group.
func (p *play) views(name string) {
	p.t.Helper()
	groups := []string{p.group, p.group + "none"}
	p.do(name+": describe", &kmsg.DescribeGroupsRequest{Version: 6, Groups: groups})
	p.do(name+": describe, version 5", &kmsg.DescribeGroupsRequest{Version: 5, Groups: groups})
	p.do(name+": describe consumers", &kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: groups})
	fetch, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = p.group, []kmsg.OffsetFetchRequestGroupTopic{{Topic: "script", Partitions: []int32{0, 1}}}
	fetch.Version, fetch.Groups = 9, []kmsg.OffsetFetchRequestGroup{g}
	p.do(name+": fetch", fetch)
}

func (p *play) remove(name string) {
	p.t.Helper()
	p.do(name, &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{p.group, p.group + "none"}})
}

func playConsumer(p *play) {
	p.consume("a joins", "a", 0)
	p.consume("a joins again", "a", 0)
	p.consume("a stays", "a", p.epoch["a"])
	p.commit("a commits", "a", p.epoch["a"], 0)
	p.commit("nobody commits", "", -1, 0)
	p.commit("a commits in the next epoch", "a", p.epoch["a"]+1, 0)
	p.commit("a commits by version 8", "a", p.epoch["a"], 0, commitVersion(8))
	p.views("a alone")
	p.remove("delete a group with members")
	p.assigned()
	p.consume("b joins", "b", 0)
	p.assigned()
	p.consume("a must revoke", "a", p.epoch["a"], p.has(0, 1, 2, 3))
	p.consume("a still owns it", "a", p.epoch["a"], p.has(0, 1, 2, 3))
	p.consume("b waits", "b", p.epoch["b"], p.has())
	p.consume("a has revoked", "a", p.epoch["a"], p.has(0, 1))
	p.consume("b gets it", "b", p.epoch["b"], p.has())
	p.consume("a in its previous epoch, with its partitions", "a", p.prev["a"], p.has(0))
	p.consume("a in its previous epoch, with others' partitions", "a", p.prev["a"], p.has(3))
	p.consume("a in a future epoch", "a", p.epoch["a"]+3)
	p.commit("a commits in its previous epoch", "a", p.prev["a"], 0)
	p.commit("a commits another's partition", "a", p.prev["a"], 3)
	p.views("two")
	p.consume("a joins again as new", "a", 0)
	p.leave("a is removed", kmsg.LeaveGroupRequestMember{MemberID: "a"})
	p.consume("b leaves", "b", -1)
	p.views("empty")
	p.commit("commit without member to an empty group", "", -1, 0)
	p.remove("delete it")
}

func playConsumerErrors(p *play) {
	str := kmsg.StringPtr
	p.consume("no group", "a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" })
	p.consume("unknown group", "a", 3)
	p.consume("leaves an unknown group", "a", -1)
	p.consume("no member id", "", 0)
	p.consume("no subscription", "a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil })
	p.consume("no rebalance timeout", "a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 })
	p.consume("owns partitions already", "a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })
	p.consume("epoch -3", "a", -3)
	p.consume("an unknown assignor", "a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = str("x") })
	p.consume("an invalid regular expression", "a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = str("a(b") })
	p.consume("a blank instance", "a", 0, instance(""))
	p.consume("a joins", "a", 0)
	p.consume("not a member", "q", 1)
	p.consume("not a member leaves", "q", -1)
	p.consume("an unknown instance leaves", "a", -1, instance("nope"))
	p.consume("-2 without instance", "a", -2)
	p.join("joins with another type", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
	p.sync("syncs", "a", p.epoch["a"], nil)
	p.beat("sends a classic heartbeat", "a", p.epoch["a"], nil)
}

func playStaticConsumer(p *play) {
	p.consume("s joins", "s", 0, instance("i"))
	p.consume("another joins as i", "s2", 0, instance("i"))
	p.consume("another stays as i", "s2", p.epoch["s"], instance("i"))
	p.consume("s leaves temporarily", "s", -2, instance("i"))
	p.views("without s")
	p.consume("i returns", "s3", 0, instance("i"))
	p.consume("s is fenced", "s", 3, instance("i"))
	p.consume("i leaves", "s3", -1, instance("i"))
	p.views("after i")
}

func playClassic(p *play) {
	a := p.join("a is given an id", "").MemberID
	r := p.join("a joins", a)
	p.commit("a commits before it has synced", a, r.Generation, 0)
	p.sync("a syncs", a, r.Generation, nil, a, "all")
	p.beat("a stays", a, r.Generation, nil)
	p.views("stable")
	p.commit("a commits", a, r.Generation, 0)
	p.commit("nobody commits", "", -1, 0)
	p.commit("an unknown instance commits", a, r.Generation, 0, commitInstance("i"))
	p.commit("long metadata", a, r.Generation, 0, func(r *kmsg.OffsetCommitRequest) {
		r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
	})
	p.remove("delete a group with members")
	r = p.join("the leader joins again", a)
	p.join("the leader joins a third time", a)
	p.views("completing")
	p.sync("a syncs again", a, r.Generation, nil, a, "all")
	p.leave("leave", kmsg.LeaveGroupRequestMember{MemberID: "stranger"}, kmsg.LeaveGroupRequestMember{InstanceID: kmsg.StringPtr("i")},
		kmsg.LeaveGroupRequestMember{MemberID: a})
	p.views("empty")
	p.beat("a stays, though it has left", a, r.Generation, nil)
	p.join("a joins, though it has left", a)
	p.sync("a syncs, though it has left", a, r.Generation, nil)
	p.commit("commit without member to an empty group", "", -1, 1)
	p.commit("a commits, though it has left", a, r.Generation, 0)
	p.remove("delete it")
	p.views("gone")
}

func playClassicErrors(p *play) {
	p.sync("sync of an unknown group", "m", 1, nil)
	p.beat("heartbeat of an unknown group", "m", 1, nil)
	p.leave("leave of an unknown group", kmsg.LeaveGroupRequestMember{MemberID: "m"})
	p.commit("commit to an unknown group", "m", 1, 0)
	p.commit("commit to an unknown group, version 8", "m", 1, 0, commitVersion(8))
	p.join("unknown member of an unknown group", "nobody")
	p.join("session timeout", "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 })
	p.join("no protocols", "", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })
	p.join("no type", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })
	a := p.join("a is given an id", "").MemberID
	r := p.join("a joins", a)
	p.join("not a member", "nobody")
	p.join("another protocol", "", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "sticky" })
	p.sync("another generation", a, 7, nil)
	wrong := syncOf(a, r.Generation)
	wrong.Group, wrong.Protocol = p.group, kmsg.StringPtr("sticky")
	p.do("sync with another protocol", wrong)
	silent := syncOf(a, r.Generation)
	silent.Group, silent.Protocol = p.group, nil
	p.do("sync without protocol", silent)
	p.sync("a syncs", a, r.Generation, nil, a, "all")
	p.beat("heartbeat of another generation", a, r.Generation-1, nil)
	p.consume("heartbeat of the new protocol", "n", 1)
	p.consume("joins a group that can't be upgraded with the new protocol", "n", 0)
}

func playStaticClassic(p *play) {
	i := kmsg.StringPtr("i")
	a := p.join("i joins", "", static("i"))
	p.sync("i syncs", a.MemberID, a.Generation, i, a.MemberID, "mine")
	b := p.join("i returns", "", static("i"))
	p.sync("its first id is fenced", a.MemberID, a.Generation, i)
	p.sync("i keeps its assignment", b.MemberID, b.Generation, i)
	c := p.join("i returns with version 8", "", static("i"), version(8))
	p.beat("i stays", c.MemberID, c.Generation, i)
	p.leave("an id before it leaves", kmsg.LeaveGroupRequestMember{MemberID: a.MemberID, InstanceID: i})
	p.leave("i is removed", kmsg.LeaveGroupRequestMember{InstanceID: i})
	p.views("empty")
}

func playMigration(p *play) {
	i := kmsg.StringPtr("i")
	all := kmsg.NewConsumerMemberAssignment()
	all.Version, all.Topics = 1, []kmsg.ConsumerMemberAssignmentTopic{{Topic: "script", Partitions: []int32{0, 1, 2, 3}}}
	a := p.join("i joins", "", static("i"))
	p.sync("i syncs", a.MemberID, a.Generation, i, a.MemberID, string(all.AppendTo(nil)))
	p.consume("n joins: upgrade", "n", 0)
	p.views("upgraded")
	p.beat("i must rejoin", a.MemberID, a.Generation, i)
	b := p.join("i rejoins without partitions", a.MemberID, static("i"))
	p.sync("i syncs again", b.MemberID, b.Generation, i)
	p.beat("i stays", b.MemberID, b.Generation, i)
	p.consume("n gets its share", "n", p.epoch["n"], p.has())
	p.commit("i commits", b.MemberID, b.Generation, 0, commitInstance("i"))
	p.commit("i commits in the previous generation", b.MemberID, a.Generation, 0, commitInstance("i"))
	p.commit("i commits in a future generation", b.MemberID, b.Generation+1, 0, commitInstance("i"))
	p.join("another protocol", "", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "sticky" })
	p.join("another id joins as i", "other", static("i"))
	p.views("mixed")
	p.consume("n leaves: downgrade", "n", -1)
	p.views("downgraded")
	p.beat("i must join the classic group", b.MemberID, b.Generation, i)
	p.leave("i is removed", kmsg.LeaveGroupRequestMember{InstanceID: i})
	p.remove("delete it")
}
