package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// A member may get a task when no other member has the active one, and no other member of its
// process has any.
func TestStreamsTaskIsFree(t *testing.T) {
	task := assign.Task{Subtopology: "1", Partition: 2}
	active := held{active: map[assign.Task]int32{task: 3}}
	standby := held{standby: map[assign.Task]struct{}{task: {}}}
	for _, c := range []struct {
		owner, process    string
		assigned          held
		revoking          held
		mayRun, mayFollow bool
	}{
		{"b", "one", active, held{}, false, false},
		{"b", "one", held{}, active, false, false},
		{"b", "one", standby, held{}, false, false},
		{"b", "one", held{}, standby, false, false},
		{"b", "two", active, held{}, false, true},
		{"b", "two", held{}, active, false, true},
		{"b", "two", standby, held{}, true, true},
		{"b", "two", held{}, standby, true, true},
		{"a", "one", active, held{}, true, true}, // what it owns itself counts as revoked
		{"a", "one", standby, held{}, true, true},
		{"b", "one", held{}, held{}, true, true},
	} {
		k := newStreams()
		a := k.member("a")
		a.meta.Process = "one"
		o := k.member(c.owner)
		o.meta.Process, o.assigned, o.revoking = c.process, c.assigned, c.revoking
		k.claim(o)
		if run, follow := k.free(a, task, true), k.free(a, task, false); run != c.mayRun || follow != c.mayFollow {
			t.Errorf("%s of process %s has %v, revokes %v: active %v, standby %v", c.owner, c.process, c.assigned, c.revoking, run, follow)
		}
		k.release(o)
		if !k.free(a, task, true) || !k.free(a, task, false) || k.bytes != 0 {
			t.Errorf("%s: not free after the release, %d bytes", c.owner, k.bytes)
		}
	}
}

// A task that must move within a process waits until its old owner has closed it.
func TestStreamsTaskMovesWithinAProcess(t *testing.T) {
	task := assign.Task{Subtopology: "1", Partition: 0}
	k := newStreams()
	k.apply("", format.TargetEpoch{Epoch: 7})
	for id, process := range map[string]string{"a": "one", "b": "one", "c": "two"} {
		k.apply(id, format.StreamsMember{Process: process})
	}
	one := []format.Tasks{{Subtopology: "1", Partitions: []int32{0}, Epochs: []int32{6}}}
	k.apply("b", format.StreamsCurrent{Epoch: 7, State: tasksStable, Assigned: format.TaskLists{Standby: one}})
	k.apply("c", format.StreamsCurrent{Epoch: 7, State: tasksStable, Assigned: format.TaskLists{Active: one}})
	none := streamsBeatOf("", 0)
	for _, target := range []format.StreamsTarget{{Active: one}, {Standby: one}} {
		k.apply("a", target)
		if next := k.step(k.members["a"], 7, none); next.state != tasksUnreleased || next.assigned.count() > 0 {
			t.Errorf("target %v: state %d, %v", target, next.state, next.assigned)
		}
	}
	k.apply("b", format.StreamsCurrent{Epoch: 7, State: tasksStable})
	if next := k.step(k.members["a"], 7, none); next.state != tasksStable || !next.assigned.hasStandby(task) {
		t.Errorf("state %d, %v", next.state, next.assigned)
	}
	k.apply("a", format.StreamsTarget{Active: one})
	if next := k.step(k.members["a"], 7, none); next.state != tasksUnreleased || next.assigned.count() > 0 {
		t.Errorf("c still runs it: state %d, %v", next.state, next.assigned)
	}
	k.apply("c", format.StreamsCurrent{Epoch: 7, State: tasksStable})
	if next := k.step(k.members["a"], 7, none); next.state != tasksStable || next.assigned.active[task] != 7 {
		t.Errorf("state %d, %v", next.state, next.assigned)
	}
}

// A member whose response with a new epoch was lost may continue in the previous epoch, if it runs
// only tasks that it has.
func TestStreamsPreviousEpoch(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 3)
	a := w.newStreamsClient("a", simple("in"))
	w.newStreamsClient("b", simple("in"))
	is(t, a.beat(), nil)
	is(t, a.beat(), nil)
	a.expect("epoch 3: 0_0 0_1")
	standby := ownTasks(streamsBeatOf("a", 2), "0", 0)
	standby.StandbyTasks = taskIDs([]assign.Task{{Subtopology: "0", Partition: 1}})
	for _, c := range []struct {
		what string
		req  *kmsg.StreamsGroupHeartbeatRequest
		code *kerr.Error
	}{
		{"no report", streamsBeatOf("a", 2), kerr.FencedMemberEpoch},
		{"a task of another member", ownTasks(streamsBeatOf("a", 2), "0", 0, 2), kerr.FencedMemberEpoch},
		{"a standby task", standby, kerr.FencedMemberEpoch},
		{"an earlier epoch", ownTasks(streamsBeatOf("a", 1), "0", 0, 1), kerr.FencedMemberEpoch},
		{"its tasks", ownTasks(streamsBeatOf("a", 2), "0", 0, 1), nil},
		{"one of its tasks", ownTasks(streamsBeatOf("a", 2), "0", 0), nil},
	} {
		resp := w.streamsBeat(c.req).Response
		if c.code == nil && (resp.ErrorCode != 0 || resp.MemberEpoch != 3) || c.code != nil && resp.ErrorCode != c.code.Code {
			t.Errorf("%s: epoch %d, %v, want %v", c.what, resp.MemberEpoch, kerr.ErrorForCode(resp.ErrorCode), c.code)
		}
	}
}

// Each revocation gets an epoch of its own, though a newer target requires another one.
func TestStreamsRevocationsFollowEachOther(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 6)
	a := w.newStreamsClient("a", simple("in"))
	w.newStreamsClient("b", simple("in"))
	is(t, a.idle(), nil)
	a.expect("epoch 2: 0_0 0_1 0_2")
	w.newStreamsClient("c", simple("in"))
	is(t, a.beat(), nil)
	a.expect("epoch 3: 0_0 0_1")
	is(t, a.beat(), nil)
	a.expect("epoch 4: 0_0 0_1")
	w.replays()
}

// A member that must revoke a standby task stays in its epoch while it reports that task.
func TestStreamsStandbyIsRevokedFirst(t *testing.T) {
	w := newWorld(t, quick(func(c *StreamsConfig) { c.Standbys = 1 }))
	for _, name := range []string{"in", "r", "c"} {
		w.topic(name, 2)
	}
	a, b := w.newStreamsClient("a", wordCount()), w.newStreamsClient("b", wordCount())
	for range 3 {
		is(t, a.beat(), nil)
		is(t, b.beat(), nil)
	}
	had := b.has
	is(t, w.streamsBeat(streamsBeatOf("a", -1)).Response.ErrorCode, nil)
	for range 2 { // it has not closed the standby task yet
		is(t, b.beat(), nil)
		if b.epoch != 3 || w.state("g") != "Reconciling" {
			t.Errorf("%s, %s", b.shown(), w.state("g"))
		}
		b.has = had
	}
	b.has.Standby = nil
	is(t, b.beat(), nil)
	b.expect("epoch 4: 0_0 0_1 1_0 1_1")
}

// The time to revoke tasks ends with the revocation, and starts again when the coordinator moves.
func TestStreamsTimeToRevoke(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a, b := w.newStreamsClient("a", simple("in")), w.newStreamsClient("b", simple("in"))
	is(t, a.idle(), nil)
	w.advance(29 * time.Second)
	is(t, a.beat(), nil)
	w.advance(2 * time.Second)
	is(t, a.idle(), nil)
	is(t, b.idle(), nil)
	w.newStreamsClient("c", simple("in"))
	is(t, w.streamsBeat(streamsBeatOf("c", -1)).Response.ErrorCode, nil)
	is(t, w.streamsBeat(streamsBeatOf("b", -1)).Response.ErrorCode, nil)
	is(t, a.beat(), nil)
	a.expect("epoch 6: 0_0 0_1")
	w.newStreamsClient("b", simple("in"))
	is(t, a.idle(), nil) // must revoke
	w.advance(20 * time.Second)
	w.start()
	w.advance(29 * time.Second)
	is(t, a.idle(), nil)
	w.advance(2 * time.Second)
	is(t, a.idle(), kerr.UnknownMemberID)
	w.replays()
}

// A commit in an earlier epoch counts if the member has had the partition's task since then, also
// while it revokes the task.
func TestStreamsCommitOfATaskOwnedSince(t *testing.T) {
	k := newStreams()
	k.apply("", recordedTopology(wordCount()))
	list := func(partition, since int32) format.TaskLists {
		return format.TaskLists{Active: []format.Tasks{{Subtopology: "1", Partitions: []int32{partition}, Epochs: []int32{since}}}}
	}
	k.apply("a", format.StreamsCurrent{Epoch: 9, State: tasksUnrevoked, Assigned: list(0, 5), Revoking: list(1, 7)})
	for _, c := range []struct {
		topic            string
		partition, epoch int32
		want             bool
	}{
		{"r", 0, 5, true}, {"r", 0, 8, true}, {"r", 0, 4, false},
		{"r", 1, 7, true}, {"r", 1, 6, false},
		{"r", 2, 8, false}, {"in", 0, 8, false}, {"c", 0, 8, false},
	} {
		if got := k.ownedSince(k.members["a"], c.topic, c.partition, c.epoch); got != c.want {
			t.Errorf("%s-%d in epoch %d: %v", c.topic, c.partition, c.epoch, got)
		}
	}
}

// A member that starts again in another process, or with another version of the topology, is a
// reason for a new target.
func TestStreamsMemberStartsAgainElsewhere(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	newer := simple("in")
	newer.Epoch = 1
	a := w.newStreamsClient("a", newer)
	is(t, a.join(), nil)
	a.expect("epoch 2: 0_0 0_1")
	a.request = func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.Topology, req.ProcessID = newer, kmsg.StringPtr("elsewhere")
	}
	is(t, a.join(), nil)
	a.expect("epoch 3: 0_0 0_1")
	a.request = func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.Topology, req.ProcessID = simple("in"), kmsg.StringPtr("elsewhere")
	}
	is(t, a.join(), nil)
	if a.epoch != 4 {
		t.Error(a.shown())
	}
}

// Every member learns of a new endpoint, of tasks that move between endpoints, and of an endpoint
// that has gone.
func TestStreamsEndpointsChange(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	at := func(id string) *streamsClient {
		c := &streamsClient{w: w, id: id, request: func(req *kmsg.StreamsGroupHeartbeatRequest) {
			req.Topology, req.UserEndpoint = simple("in"), &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: id, Port: 7}
		}}
		is(t, c.join(), nil)
		return c
	}
	a, b, watcher := at("a"), at("b"), w.newStreamsClient("w", simple("in"))
	known := int32(-1)
	look := func() string { // "" if it knows all
		req := streamsBeatOf("w", watcher.epoch)
		req.EndpointInformationEpoch = known
		is(t, watcher.take(w.streamsBeat(req)), nil)
		known = watcher.last.Response.EndpointInformationEpoch
		var words []string
		for _, e := range watcher.last.Response.PartitionsByUserEndpoint {
			n := 0
			for _, topic := range e.ActivePartitions {
				n += len(topic.Partitions)
			}
			words = append(words, fmt.Sprintf("%s:%d", e.UserEndpoint.Host, n))
		}
		return strings.Join(words, " ")
	}
	expect := func(want string) {
		t.Helper()
		if got := look(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if again := look(); again != "" {
			t.Errorf("told again: %s", again)
		}
	}
	expect("a:2 b:0")
	is(t, a.beat(), nil)
	expect("a:1 b:0")
	is(t, a.beat(), nil)
	expect("")
	is(t, b.beat(), nil)
	expect("a:1 b:1")
	moved := streamsBeatOf("a", a.epoch)
	moved.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "elsewhere", Port: 7}
	is(t, a.take(w.streamsBeat(moved)), nil)
	expect("elsewhere:1 b:1")
	is(t, w.streamsBeat(streamsBeatOf("b", -1)).Response.ErrorCode, nil)
	expect("elsewhere:1")
}

// A report of tasks whose topic is missing now is valid: the next response takes them away.
func TestStreamsReportWithoutTheSource(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a := w.newStreamsClient("a", simple("in"))
	w.topic("in", 0)
	is(t, a.beat(), nil)
	a.expect("epoch 2: (1 Source topics in are missing.)")
	w.replays()
}

// A member that shuts the application down may leave with the same request.
func TestStreamsMemberLeavesAndShutsDown(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	w.newStreamsClient("a", simple("in"))
	b := w.newStreamsClient("b", simple("in"))
	req := streamsBeatOf("a", -1)
	req.ShutdownApplication = true
	is(t, w.streamsBeat(req).Response.ErrorCode, nil)
	is(t, b.idle(), nil)
	if s := b.last.Response.Status; len(s) != 1 || s[0].StatusCode != statusShutdown {
		t.Error(b.shown())
	}
}

// A classic group becomes a streams group when it has no members, and leaves no record behind.
func TestStreamsGroupReplacesAClassicOne(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	one, two, _ := w.two()
	is(t, w.streamsBeat(streamsJoin("a", simple("in"))).Response.ErrorCode, kerr.GroupIDNotFound)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.Members = 3, "g", []kmsg.LeaveGroupRequestMember{{MemberID: one}, {MemberID: two}}
	is(t, ask[*kmsg.LeaveGroupResponse](w, request(leave)).Members[0].ErrorCode, nil)
	w.newStreamsClient("a", simple("in"))
	is(t, w.streamsBeat(streamsBeatOf("a", -1)).Response.ErrorCode, nil)
	is(t, ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{Groups: []string{"g"}})[0].ErrorCode, nil)
	if left := compact(w.log); len(left) != 0 {
		t.Errorf("%d records are left", len(left))
	}
}

// The codes with which a commit in another epoch is refused are those that its protocol knows.
func TestStreamsStaleCommits(t *testing.T) {
	k := newStreams()
	k.apply("", recordedTopology(simple("in")))
	k.apply("a", format.StreamsCurrent{Epoch: 9, State: tasksStable})
	for _, x := range []struct {
		transactional, knows bool
		want                 *kerr.Error
	}{
		{false, true, kerr.StaleMemberEpoch}, {true, true, kerr.StaleMemberEpoch}, {true, false, kerr.IllegalGeneration},
	} {
		by := committer{member: "a", generation: 10, knowsEpochs: x.knows, transactional: x.transactional, topics: fakeTopics{}}
		if _, f := k.checkCommit(by); f.errorCode() != x.want.Code {
			t.Errorf("%+v, later epoch: %d", x, f.errorCode())
		}
		by.generation = 8
		if check, f := k.checkCommit(by); f != nil || check(idOf("in"), 0).errorCode() != x.want.Code {
			t.Errorf("%+v, earlier epoch: %v", x, f)
		}
	}
}

// Without members allowed, there are no streams groups.
func TestStreamsGroupsWithoutMembers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.StreamsMaxSize = 0 })
	is(t, w.streamsBeat(streamsJoin("a", simple("in"))).Response.ErrorCode, kerr.GroupMaxSizeReached)
	if len(w.shard.groups)+len(w.log) > 0 {
		t.Error("a refused member made a group")
	}
}
