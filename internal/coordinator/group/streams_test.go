package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// streamsClient is a member of a streams group that behaves like Kafka Streams.
type streamsClient struct {
	w       *world
	id      string
	epoch   int32
	has     assign.Tasks
	request func(*kmsg.StreamsGroupHeartbeatRequest) // changes the heartbeat with which it joins
	last    *StreamsHeartbeat
}

func streamsBeatOf(id string, epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = "g", id, epoch
	return req
}

type (
	sentTopology    = kmsg.StreamsGroupHeartbeatRequestTopology
	sentSubtopology = kmsg.StreamsGroupHeartbeatRequestTopologySubtopology
)

// wordCount is a topology that reads in, and counts with a changelog what it writes to r.
func wordCount() *sentTopology {
	return &sentTopology{Subtopologies: []sentSubtopology{
		{SubtopologyID: "0", SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"r"}},
		{SubtopologyID: "1", RepartitionSourceTopics: []kmsg.TopicInfo{{Topic: "r"}},
			StateChangelogTopics: []kmsg.TopicInfo{{Topic: "c",
				Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}}}},
	}}
}

// simple is a topology of one subtopology without state.
func simple(topics ...string) *sentTopology {
	return &sentTopology{Subtopologies: []sentSubtopology{{SubtopologyID: "0", SourceTopics: topics}}}
}

// streamsJoin returns the heartbeat of a member that joins, in a process of its own.
func streamsJoin(id string, t *sentTopology) *kmsg.StreamsGroupHeartbeatRequest {
	req := streamsBeatOf(id, 0)
	req.RebalanceTimeoutMillis, req.Topology, req.ProcessID = 30_000, t, kmsg.StringPtr("p-"+id)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return req
}

func (w *world) streamsBeat(req *kmsg.StreamsGroupHeartbeatRequest) *StreamsHeartbeat {
	w.t.Helper()
	return ask[*StreamsHeartbeat](w, request(req))
}

// newStreamsClient creates a client that joins.
func (w *world) newStreamsClient(id string, t *sentTopology) *streamsClient {
	w.t.Helper()
	c := &streamsClient{w: w, id: id, request: func(req *kmsg.StreamsGroupHeartbeatRequest) { req.Topology = t }}
	is(w.t, c.join(), nil)
	return c
}

func (c *streamsClient) join() int16 {
	req := streamsJoin(c.id, nil)
	c.request(req)
	c.has = assign.Tasks{}
	return c.take(c.w.streamsBeat(req))
}

// beat reports the owned tasks, as clients do while they reconcile.
func (c *streamsClient) beat() int16 {
	req := streamsBeatOf(c.id, c.epoch)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = taskIDs(c.has.Active), taskIDs(c.has.Standby), []kmsg.TaskIDs{}
	return c.take(c.w.streamsBeat(req))
}

// idle sends a heartbeat without tasks.
func (c *streamsClient) idle() int16 { return c.take(c.w.streamsBeat(streamsBeatOf(c.id, c.epoch))) }

func (c *streamsClient) take(answer *StreamsHeartbeat) int16 {
	c.last = answer
	resp := answer.Response
	if resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	c.epoch = resp.MemberEpoch
	if resp.ActiveTasks != nil {
		c.has = assign.Tasks{Active: sentTasks(resp.ActiveTasks), Standby: sentTasks(resp.StandbyTasks)}
	}
	return 0
}

func sentTasks(list []kmsg.TaskIDs) (tasks []assign.Task) {
	for _, t := range list {
		for _, p := range t.Partitions {
			tasks = append(tasks, assign.Task{Subtopology: t.SubtopologyID, Partition: p})
		}
	}
	return tasks
}

// shown writes what a client has and the statuses that it received, as in
// "epoch 2: 0_0 0_1 | 1_0 (5 text)".
func (c *streamsClient) shown() string {
	words := []string{fmt.Sprintf("epoch %d:", c.epoch)}
	for _, t := range c.has.Active {
		words = append(words, fmt.Sprintf("%s_%d", t.Subtopology, t.Partition))
	}
	if len(c.has.Standby) > 0 {
		words = append(words, "|")
	}
	for _, t := range c.has.Standby {
		words = append(words, fmt.Sprintf("%s_%d", t.Subtopology, t.Partition))
	}
	for _, s := range c.last.Response.Status {
		words = append(words, fmt.Sprintf("(%d %s)", s.StatusCode, s.StatusDetail))
	}
	return strings.Join(words, " ")
}

// expect checks what shown writes.
func (c *streamsClient) expect(want string) {
	c.w.t.Helper()
	if got := c.shown(); got != want {
		c.w.t.Fatalf("%s has %s\nwant %s", c.id, got, want)
	}
}

// quick makes a group that waits for nothing, unless edit changes that.
func quick(edit ...func(*StreamsConfig)) func(*Config) {
	return func(c *Config) {
		c.Streams.InitialDelay, c.Streams.Interval = 0, 0
		for _, f := range edit {
			f(&c.Streams)
		}
	}
}

func (w *world) streamsDescribed() kmsg.StreamsGroupDescribeResponseGroup {
	w.t.Helper()
	return ask[[]kmsg.StreamsGroupDescribeResponseGroup](w, DescribeStreams{Groups: []string{"g"}})[0]
}

// The steps, epochs and messages are those that Kafka 4.3.1 showed for the same requests.
func TestStreamsGroupLikeKafka(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Streams.InitialDelay = 3 * time.Second })
	w.topic("in", 3)
	a := w.newStreamsClient("a", simple("in"))
	a.expect("epoch 1: (5 Assignment delayed due to the configured initial rebalance delay.)")
	if d := w.streamsDescribed(); d.State != "Assigning" || d.Epoch != 2 || d.AssignmentEpoch != 1 {
		t.Errorf("%+v", d)
	}
	w.advance(3 * time.Second)
	is(t, a.idle(), nil)
	a.expect("epoch 2: 0_0 0_1 0_2")
	b := w.newStreamsClient("b", simple("in"))
	b.expect("epoch 2: (5 Assignment delayed due to the configured assignment interval.)")
	w.advance(time.Second)
	is(t, b.idle(), nil)
	b.expect("epoch 3:")
	is(t, a.idle(), nil) // must revoke one
	a.expect("epoch 2: 0_0 0_1")
	if s := w.state("g"); s != "Reconciling" {
		t.Error(s)
	}
	is(t, b.idle(), nil)
	b.expect("epoch 3:")
	is(t, a.idle(), nil) // has not reported it
	a.expect("epoch 2: 0_0 0_1")
	is(t, a.beat(), nil)
	a.expect("epoch 3: 0_0 0_1")
	is(t, b.idle(), nil)
	b.expect("epoch 3: 0_2")
	if s := w.state("g"); s != "Stable" {
		t.Error(s)
	}
	w.replays()

	is(t, w.streamsBeat(streamsBeatOf("a", -1)).Response.ErrorCode, nil)
	w.advance(time.Second)
	is(t, b.idle(), nil)
	b.expect("epoch 4: 0_0 0_1 0_2")
	is(t, w.streamsBeat(streamsBeatOf("b", -1)).Response.ErrorCode, nil)
	if d := w.streamsDescribed(); d.State != "Empty" || d.Epoch != 5 || len(d.Members) != 0 {
		t.Errorf("%+v", d)
	}
	w.replays()
}

func TestStreamsInternalTopics(t *testing.T) {
	w := newWorld(t, quick())
	a := w.newStreamsClient("a", wordCount())
	a.expect("epoch 2: (1 Source topics in are missing.)")
	if d := w.streamsDescribed(); d.State != "NotReady" {
		t.Errorf("%+v", d)
	}
	w.topic("in", 2)
	is(t, a.idle(), nil)
	a.expect("epoch 3: (3 Internal topics are missing: c, r)")
	if n := a.last.Create; len(n) != 2 || n[0].Name != "c" || n[0].Partitions != 2 || n[1].Name != "r" || n[1].Partitions != 2 ||
		n[0].Configs[0].Value != "compact" {
		t.Errorf("%+v", n)
	}
	w.topic("r", 2)
	w.topic("c", 1)
	is(t, a.idle(), nil)
	a.expect("epoch 4: (2 Existing topic c has different number of partitions: expected 2, found 1)")
	w.topic("c", 2)
	is(t, a.idle(), nil)
	a.expect("epoch 5: 0_0 0_1 1_0 1_1")
	d := w.streamsDescribed()
	if s := d.Topology.Subtopologies[1]; d.State != "Stable" || s.StateChangelogTopics[0].NumPartitions != 2 ||
		s.RepartitionSourceTopics[0].NumPartitions != 2 {
		t.Errorf("%+v", d)
	}
	w.start() // the members keep their tasks
	is(t, a.idle(), nil)
	a.expect("epoch 5: 0_0 0_1 1_0 1_1")
	w.topic("in", 0) // without its source the application has no tasks
	is(t, a.idle(), nil)
	is(t, a.beat(), nil)
	a.expect("epoch 6: (1 Source topics in are missing.)")
	w.replays()
}

// Descriptions share no list with the group, and none with each other.
func TestADescribedTopologyIsACopy(t *testing.T) {
	w := newWorld(t, quick())
	w.newStreamsClient("a", wordCount())
	first, second := w.streamsDescribed().Topology, w.streamsDescribed().Topology
	of := &first.Subtopologies[0]
	for _, names := range [][]string{of.SourceTopics, of.RepartitionSinkTopics} {
		names[0] = "changed"
	}
	for _, d := range []*kmsg.StreamsGroupDescribeResponseGroupTopology{second, w.streamsDescribed().Topology} {
		if s := d.Subtopologies[0]; s.SourceTopics[0] != "in" || s.RepartitionSinkTopics[0] != "r" {
			t.Errorf("%+v", s)
		}
	}
}

func TestStreamsStandbys(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	w.topic("r", 2)
	w.topic("c", 2)
	standby := func(n int) {
		c := w.cfg.Streams
		c.Standbys = n
		w.event(TopicsChanged{Topics: w.topics.clone(), Times: func(string) Times { return Times{Streams: &c} }})
	}
	standby(1)
	a := w.newStreamsClient("a", wordCount())
	a.expect("epoch 2: 0_0 0_1 1_0 1_1") // there is no other process
	b := w.newStreamsClient("b", wordCount())
	for range 3 {
		is(t, a.beat(), nil)
		is(t, b.beat(), nil)
	}
	a.expect("epoch 3: 0_0 1_0 | 1_1")
	b.expect("epoch 3: 0_1 1_1 | 1_0")
	// The state of 1_0 is in b's process: it takes over, and gives up the standby task first.
	is(t, w.streamsBeat(streamsBeatOf("a", -1)).Response.ErrorCode, nil)
	is(t, b.idle(), nil)
	b.expect("epoch 3: 0_1 1_1")
	is(t, b.beat(), nil)
	b.expect("epoch 4: 0_0 0_1 1_0 1_1")
	standby(0) // a change of the setting is a reason for a new target
	is(t, b.beat(), nil)
	b.expect("epoch 5: 0_0 0_1 1_0 1_1")
	w.replays()
}

// Members of one process share a state directory: a task of one of them waits until the other has
// closed it, and a standby task is never in the process of the active one.
func TestStreamsProcessHoldsATaskOnce(t *testing.T) {
	w := newWorld(t, quick(func(c *StreamsConfig) { c.Standbys = 1 }))
	for _, name := range []string{"in", "r", "c"} {
		w.topic(name, 2)
	}
	var all []*streamsClient
	for _, id := range []string{"a", "b", "c"} {
		c := &streamsClient{w: w, id: id, request: func(req *kmsg.StreamsGroupHeartbeatRequest) {
			req.Topology = wordCount()
			req.ProcessID = kmsg.StringPtr(map[string]string{"a": "one", "b": "one", "c": "two"}[id])
		}}
		is(t, c.join(), nil)
		all = append(all, c)
	}
	for range 6 {
		for _, c := range all {
			is(t, c.beat(), nil)
		}
	}
	process := append(slices.Clone(all[0].has.Active), all[1].has.Active...)
	for _, standby := range append(slices.Clone(all[0].has.Standby), all[1].has.Standby...) {
		if slices.Contains(process, standby) {
			t.Errorf("process one has %v twice", standby)
		}
	}
	if all[2].has.Count() == 0 || w.state("g") != "Stable" {
		t.Errorf("%s, %s", all[2].shown(), w.state("g"))
	}
}

func TestStreamsHeartbeatRefused(t *testing.T) {
	w := newWorld(t, quick(), func(c *Config) { c.StreamsMaxSize, c.MaxRequest = 2, 1000 })
	w.topic("in", 2)
	a := w.newStreamsClient("a", simple("in"))
	consumer := full("x", "in")
	consumer.Group = "cg"
	is(t, w.consumerBeat(consumer).ErrorCode, nil)
	type req = kmsg.StreamsGroupHeartbeatRequest
	join := func(edit func(*req)) *req {
		r := streamsJoin("z", simple("in"))
		edit(r)
		return r
	}
	beat := func(id string, epoch int32, edit func(*req)) *req {
		r := streamsBeatOf(id, epoch)
		edit(r)
		return r
	}
	none := func(*req) {}
	for _, c := range []struct {
		what string
		req  *req
		code *kerr.Error
		msg  string
	}{
		{"no group", join(func(r *req) { r.Group = "" }), kerr.InvalidRequest, "GroupId can't be empty."},
		{"no member id", join(func(r *req) { r.MemberID = " " }), kerr.InvalidRequest, "MemberId can't be empty."},
		{"static", join(func(r *req) { r.InstanceID = kmsg.StringPtr("i") }), kerr.InvalidRequest,
			"Static membership is not yet supported."},
		{"rack", join(func(r *req) { r.RackID = kmsg.StringPtr("") }), kerr.InvalidRequest, "RackId can't be empty."},
		{"epoch -2", beat("a", -2, none), kerr.InvalidRequest, "InstanceId can't be null."},
		{"epoch -3", beat("a", -3, none), kerr.InvalidRequest, "MemberEpoch is -3, but must be greater than or equal to -2."},
		{"timeout", join(func(r *req) { r.RebalanceTimeoutMillis = -1 }), kerr.InvalidRequest,
			"RebalanceTimeoutMs must be provided in first request."},
		{"active", join(func(r *req) { r.ActiveTasks = nil }), kerr.InvalidRequest, "ActiveTasks must be empty when (re-)joining."},
		{"standby", join(func(r *req) { r.StandbyTasks = nil }), kerr.InvalidRequest, "StandbyTasks must be empty when (re-)joining."},
		{"warmup", join(func(r *req) { r.WarmupTasks = nil }), kerr.InvalidRequest, "WarmupTasks must be empty when (re-)joining."},
		{"topology", join(func(r *req) { r.Topology = nil }), kerr.InvalidRequest, "Topology must be non-null when (re-)joining."},
		{"regex", join(func(r *req) { r.Topology.Subtopologies[0].SourceTopicRegex = []string{"a.*"} }), kerr.InvalidRequest,
			"Regular expressions for source topics are not supported yet."},
		{"invalid topology", join(func(r *req) { r.Group, r.Topology = "other", simple() }), kerr.StreamsInvalidTopology,
			"No source topics found for subtopology 0"},
		{"large topology", join(func(r *req) { r.Topology = simple(strings.Repeat("t", 1000)) }), kerr.InvalidRequest,
			"The topology and the tags have more than 1000 bytes in all."},
		{"another topology", join(func(r *req) { r.Topology = simple("other") }), kerr.InvalidRequest,
			"Topology updates are not supported yet."},
		{"newer topology", join(func(r *req) { r.Topology.Epoch = 1 }), kerr.InvalidRequest, "Topology updates are not supported yet."},
		{"topology later", beat("a", 2, func(r *req) { r.Topology = simple("in") }), kerr.InvalidRequest,
			"Topology can only be provided when (re-)joining."},
		{"one kind of tasks", beat("a", 2, func(r *req) { r.ActiveTasks = []kmsg.TaskIDs{} }), kerr.InvalidRequest,
			"If one task-type is non-null, all must be non-null."},
		{"warmup tasks", beat("a", 2, func(r *req) { r.WarmupTasks = []kmsg.TaskIDs{{}} }), kerr.InvalidRequest,
			"WarmupTasks are not supported yet."},
		{"no subtopology", ownTasks(beat("a", 2, none), "9", 0), kerr.InvalidRequest, "Subtopology 9 does not exist in the topology."},
		{"no task", ownTasks(beat("a", 2, none), "0", 7), kerr.InvalidRequest,
			"Task 7 for subtopology 0 is invalid. Number of tasks for this subtopology: 2"},
		{"unknown member", beat("z", 2, none), kerr.UnknownMemberID, "Member z is not a member of group g."},
		{"unknown member leaves", beat("z", -1, none), kerr.UnknownMemberID, "Member z is not a member of group g."},
		{"unknown group", beat("a", 2, func(r *req) { r.Group = "none" }), kerr.GroupIDNotFound, "Streams group none not found."},
		{"unknown group left", beat("a", -1, func(r *req) { r.Group = "none" }), kerr.GroupIDNotFound, "Streams group none not found."},
		{"consumer group", join(func(r *req) { r.Group = "cg" }), kerr.GroupIDNotFound, "Group cg is not a streams group."},
		{"consumer group left", beat("a", -1, func(r *req) { r.Group = "cg" }), kerr.GroupIDNotFound, "Group cg is not a streams group."},
		{"greater epoch", beat("a", 99, none), kerr.FencedMemberEpoch,
			"The streams group member has a greater member epoch (99) than the one " +
				"known by the group coordinator (2). The member must abandon all its partitions and rejoin."},
		{"smaller epoch", beat("a", 1, none), kerr.FencedMemberEpoch,
			"The streams group member has a smaller member epoch (1) than the one " +
				"known by the group coordinator (2). The member must abandon all its partitions and rejoin."},
	} {
		n := len(w.log)
		resp := w.streamsBeat(c.req).Response
		if resp.ErrorCode != c.code.Code || deref(resp.ErrorMessage) != c.msg {
			t.Errorf("%s: %v %q, want %v %q", c.what, kerr.ErrorForCode(resp.ErrorCode), deref(resp.ErrorMessage), c.code, c.msg)
		}
		if len(w.log) > n || resp.Status == nil {
			t.Errorf("%s: %d records, status %v", c.what, len(w.log)-n, resp.Status)
		}
	}
	w.newStreamsClient("b", simple("in"))
	if resp := w.streamsBeat(streamsJoin("z", simple("in"))).Response; resp.ErrorCode != kerr.GroupMaxSizeReached.Code {
		t.Error(resp.ErrorCode)
	}
	is(t, a.join(), nil) // a member may join again
	w.replays()
}

// Kafka Streams 4.4 sends the offsets of tasks with state when it joins, and later.
func TestStreamsOffsetsOfTasksAreIgnored(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	offsets := []kmsg.TaskOffset{{SubtopologyID: "0", Partition: 1, Offset: 5}}
	req := streamsJoin("a", simple("in"))
	req.Version, req.TaskOffsets, req.TaskEndOffsets = 1, offsets, offsets
	first := w.streamsBeat(req).Response
	is(t, first.ErrorCode, nil)
	if first.AcceptableRecoveryLag != -1 || first.TaskOffsetIntervalMillis != 60_000 {
		t.Errorf("lag %d, interval %d ms", first.AcceptableRecoveryLag, first.TaskOffsetIntervalMillis)
	}
	req = streamsBeatOf("a", first.MemberEpoch)
	req.Version, req.TaskOffsets, req.TaskEndOffsets = 1, offsets, offsets
	is(t, w.streamsBeat(req).Response.ErrorCode, nil)
}

func ownTasks(r *kmsg.StreamsGroupHeartbeatRequest, sub string, partitions ...int32) *kmsg.StreamsGroupHeartbeatRequest {
	r.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: sub, Partitions: partitions}}
	r.StandbyTasks, r.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return r
}

func TestStreamsShutdownIsToldToAll(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a, b := w.newStreamsClient("a", simple("in")), w.newStreamsClient("b", simple("in"))
	req := streamsBeatOf("a", a.epoch)
	req.ShutdownApplication = true
	is(t, a.take(w.streamsBeat(req)), nil)
	is(t, b.idle(), nil)
	for _, c := range []*streamsClient{a, b} {
		if s := c.last.Response.Status; len(s) != 1 || s[0].StatusCode != 4 || s[0].StatusDetail !=
			"Streams group member a encountered a fatal error and requested a shutdown for the entire application." {
			t.Errorf("%s: %+v", c.id, s)
		}
	}
	for _, id := range []string{"a", "b"} {
		is(t, w.streamsBeat(streamsBeatOf(id, -1)).Response.ErrorCode, nil)
	}
	if c := w.newStreamsClient("c", simple("in")); len(c.last.Response.Status) != 0 {
		t.Errorf("the application can't be started again: %s", c.shown())
	}
}

func TestStreamsMemberWithAnOlderTopologyIsTold(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	newer := simple("in")
	newer.Epoch = 5
	w.newStreamsClient("a", newer)
	b := w.newStreamsClient("b", simple("in"))
	if got := b.shown(); !strings.HasSuffix(got, "(0 The member's topology epoch 0 is behind the group's topology epoch 5.)") {
		t.Error(got)
	}
}

// Clients that run the same topology may send its lists in any order.
func TestStreamsTopologyInAnotherOrder(t *testing.T) {
	build := func(order ...int) *sentTopology {
		top := &sentTopology{}
		names := []string{"x", "y", "z"}
		s := sentSubtopology{SubtopologyID: "0"}
		group := kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{}
		for place, i := range order {
			s.SourceTopics = append(s.SourceTopics, names[i])
			if names[i] != "y" {
				group.SourceTopics = append(group.SourceTopics, int16(place))
			}
		}
		s.CopartitionGroups = append(s.CopartitionGroups, group)
		top.Subtopologies = append(top.Subtopologies, s)
		return top
	}
	w := newWorld(t, quick())
	for name, n := range map[string]int32{"x": 2, "y": 5, "z": 2} {
		w.topic(name, n)
	}
	w.newStreamsClient("a", build(0, 1, 2)).expect("epoch 2: 0_0 0_1 0_2 0_3 0_4")
	w.newStreamsClient("b", build(2, 0, 1))
	if f := w.streamsBeat(streamsJoin("c", build(1, 2))).Response; f.ErrorCode != kerr.InvalidRequest.Code {
		t.Error(f.ErrorCode)
	}
}

func TestStreamsMemberTimesOut(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a, b := w.newStreamsClient("a", simple("in")), w.newStreamsClient("b", simple("in"))
	is(t, a.idle(), nil) // must revoke one task, and does not
	w.advance(29 * time.Second)
	is(t, a.idle(), nil)
	is(t, b.idle(), nil)
	w.advance(2 * time.Second) // its rebalance timeout is 30 s
	is(t, a.idle(), kerr.UnknownMemberID)
	is(t, b.idle(), nil)
	b.expect("epoch 4: 0_0 0_1")
	w.start()
	w.advance(44 * time.Second)
	is(t, b.idle(), nil)
	w.advance(46 * time.Second) // the session ends
	is(t, b.idle(), kerr.UnknownMemberID)
	if s := w.state("g"); s != "Empty" {
		t.Error(s)
	}
	w.replays()
}

func TestStreamsOffsets(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a, b := w.newStreamsClient("a", simple("in")), w.newStreamsClient("b", simple("in"))
	is(t, a.beat(), nil)
	is(t, a.beat(), nil)
	is(t, b.beat(), nil)
	if a.epoch != 3 || b.epoch != 3 || a.has.Count() != 1 || b.has.Count() != 1 {
		t.Fatalf("%s, %s", a.shown(), b.shown())
	}
	p := a.has.Active[0].Partition
	commit := func(member string, epoch, partition int32, version int16) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.MemberID, req.Generation = version, "g", member, epoch
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "in", TopicID: idOf("in"),
			Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: partition, Offset: 7}}}}
		return ask[*kmsg.OffsetCommitResponse](w, request(req)).Topics[0].Partitions[0].ErrorCode
	}
	is(t, commit("a", 3, p, 9), nil)
	is(t, commit("a", 2, p, 9), nil) // it has had the task since epoch 2
	is(t, commit("a", 2, 1-p, 9), kerr.StaleMemberEpoch)
	is(t, commit("a", 1, p, 9), kerr.StaleMemberEpoch)
	is(t, commit("a", 4, p, 9), kerr.StaleMemberEpoch)
	is(t, commit("a", -1, p, 9), kerr.StaleMemberEpoch)
	is(t, commit("a", 3, p, 8), kerr.UnsupportedVersion)
	is(t, commit("z", 3, p, 9), kerr.UnknownMemberID)
	is(t, commit("", -1, p, 9), kerr.UnknownMemberID)
	fetch := func(member *string, epoch int32) int16 {
		return ask[[]kmsg.OffsetFetchResponseGroup](w, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{
			{Group: "g", MemberID: member, MemberEpoch: epoch}}})[0].ErrorCode
	}
	is(t, fetch(nil, -1), nil)
	is(t, fetch(kmsg.StringPtr("a"), 3), nil)
	is(t, fetch(kmsg.StringPtr("a"), 2), kerr.StaleMemberEpoch)
	is(t, fetch(kmsg.StringPtr("z"), 3), kerr.UnknownMemberID)
	remove := kmsg.NewPtrOffsetDeleteRequest()
	remove.Group = "g"
	remove.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "in", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: p}}}}
	is(t, ask[*kmsg.OffsetDeleteResponse](w, request(remove)).Topics[0].Partitions[0].ErrorCode, kerr.GroupSubscribedToTopic)
	w.advance(8 * 24 * time.Hour) // without members the offsets expire, and then the group
	w.advance(20 * time.Minute)
	if len(w.shard.groups) != 0 {
		t.Errorf("the group is still there: %s", w.state("g"))
	}
	w.replays()
}

// Requests of other protocols to a streams group, and the other way round.
func TestStreamsGroupAndOtherProtocols(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a := w.newStreamsClient("a", simple("in"))
	is(t, ask[*kmsg.JoinGroupResponse](w, request(joinOf(""))).ErrorCode, kerr.InconsistentGroupProtocol)
	is(t, ask[*kmsg.SyncGroupResponse](w, request(syncOf("a", 2))).ErrorCode, kerr.InconsistentGroupProtocol)
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = "g", "a", 2
	is(t, ask[*kmsg.HeartbeatResponse](w, request(beat)).ErrorCode, kerr.UnknownMemberID)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.Members = 3, "g", []kmsg.LeaveGroupRequestMember{{MemberID: "a"}}
	is(t, ask[*kmsg.LeaveGroupResponse](w, request(leave)).Members[0].ErrorCode, kerr.UnknownMemberID)
	is(t, w.consumerBeat(full("x", "in")).ErrorCode, kerr.GroupIDNotFound)
	is(t, ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{Groups: []string{"g"}})[0].ErrorCode, kerr.NonEmptyGroup)
	list := ask[[]kmsg.ListGroupsResponseGroup](w, List{Types: FilterOf([]string{"Streams"})})
	if len(list) != 1 || list[0].GroupType != "streams" || list[0].ProtocolType != "streams" {
		t.Errorf("%+v", list)
	}
	is(t, w.streamsBeat(streamsBeatOf("a", -1)).Response.ErrorCode, nil)
	is(t, w.consumerBeat(full("x", "in")).ErrorCode, kerr.GroupIDNotFound) // even without members, as in Kafka
	is(t, a.join(), nil)
	is(t, w.streamsBeat(streamsBeatOf("a", -1)).Response.ErrorCode, nil)
	is(t, ask[*kmsg.JoinGroupResponse](w, request(joinOf(""))).ErrorCode, kerr.MemberIDRequired) // a classic group now
	w.replays()
	is(t, a.join(), nil) // and a streams group again
	is(t, w.streamsBeat(streamsBeatOf("a", -1)).Response.ErrorCode, nil)
	is(t, ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{Groups: []string{"g"}})[0].ErrorCode, nil)
	if len(w.shard.groups) != 0 {
		t.Error("the deleted group is still there")
	}
	w.replays()
}

func TestStreamsEndpoints(t *testing.T) {
	w := newWorld(t, quick())
	w.topic("in", 2)
	a := &streamsClient{w: w, id: "a", request: func(req *kmsg.StreamsGroupHeartbeatRequest) {
		req.Topology = simple("in")
		req.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "h", Port: 77}
	}}
	is(t, a.join(), nil)
	r := a.last.Response
	if p := r.PartitionsByUserEndpoint; len(p) != 1 || p[0].UserEndpoint.Port != 77 || len(p[0].ActivePartitions) != 1 ||
		!slices.Equal(p[0].ActivePartitions[0].Partitions, []int32{0, 1}) {
		t.Errorf("%+v", p)
	}
	req := streamsBeatOf("a", a.epoch)
	req.EndpointInformationEpoch = r.EndpointInformationEpoch
	is(t, a.take(w.streamsBeat(req)), nil)
	if p := a.last.Response.PartitionsByUserEndpoint; p != nil {
		t.Errorf("told again: %+v", p)
	}
	w.start() // what it knows may be old
	is(t, a.take(w.streamsBeat(req)), nil)
	if p := a.last.Response.PartitionsByUserEndpoint; len(p) != 1 {
		t.Errorf("not told after a move of the coordinator: %+v", a.last.Response)
	}
}

func TestStreamsMembersAreBoundedByMemory(t *testing.T) {
	w := newWorld(t, quick(), func(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(16 << 10) })
	w.topic("in", 2)
	n := 0
	for ; n < 100; n++ {
		r := w.streamsBeat(streamsJoin(fmt.Sprint("m", n), simple("in"))).Response
		if r.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
			break
		}
		is(t, r.ErrorCode, nil)
	}
	if n == 0 || n == 100 {
		t.Errorf("%d members joined", n)
	}
	w.replays()
}
