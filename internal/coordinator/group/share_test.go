package group

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// shareWorld returns a world with share coordinators, and a topic t of 3 partitions.
func shareWorld(t *testing.T, edit ...func(*Config)) (*world, *shareStore) {
	w := newWorld(t, edit...)
	w.topics.again = map[string]byte{}
	w.topic("t", 3)
	return w, newShareStore(w)
}

func (w *world) newShareClient(id string, topics ...string) *shareClient {
	w.t.Helper()
	c := &shareClient{w: w, id: id, topics: topics}
	is(w.t, c.join(), nil)
	return c
}

// expect checks a client's epoch and partitions, such as "4 t0 t1".
func (c *shareClient) expect(want string) {
	c.w.t.Helper()
	got := fmt.Sprint(c.epoch)
	for _, id := range c.has.Topics() {
		topic, _ := c.w.topics.ByID(id)
		for _, p := range c.has[id] {
			got += fmt.Sprint(" ", topic.Name, p)
		}
	}
	if got != want {
		c.w.t.Fatalf("%s has %q, want %q", c.id, got, want)
	}
}

func (w *world) shareDescribed() kmsg.ShareGroupDescribeResponseGroup {
	w.t.Helper()
	return ask[[]kmsg.ShareGroupDescribeResponseGroup](w, DescribeShares{Groups: []string{"g"}})[0]
}

// The epochs and answers are those of Kafka 4.4, as its code says, but for the interval of a member
// that waits for its first partitions.
func TestShareGroupLikeKafka(t *testing.T) {
	w, store := shareWorld(t)
	a := w.newShareClient("a", "t")
	a.expect("2") // nothing can be assigned yet
	if a.last.Assignment == nil || a.last.HeartbeatIntervalMillis != 1000 || *a.last.MemberID != "a" {
		t.Errorf("answer to a join: %+v", a.last)
	}
	store.collect()
	if want := (InitializeShares{Group: "g", StateEpoch: 2, Partitions: []SharePartition{
		{idOf("t"), 0}, {idOf("t"), 1}, {idOf("t"), 2}}}); fmt.Sprint(store.queue[0].request) != fmt.Sprint(want) {
		t.Errorf("sent: %+v", store.queue[0].request)
	}
	is(t, a.beat(), nil)
	if a.expect("2"); a.last.Assignment != nil {
		t.Error("an assignment that has not changed")
	}
	store.rest()
	w.advance(time.Second) // the interval between two targets
	is(t, a.beat(), nil)
	a.expect("3 t0 t1 t2")
	if a.last.HeartbeatIntervalMillis != 5000 {
		t.Errorf("the interval of a member with partitions: %+v", a.last)
	}

	b := w.newShareClient("b", "t")
	b.expect("3") // the next target waits
	w.advance(time.Second)
	is(t, b.beat(), nil)
	b.expect("4 t2")
	had := a.epoch
	is(t, a.beat(), nil)
	a.expect("4 t0 t1")
	a.epoch = had // the answer was lost
	is(t, a.beat(), nil)
	if a.expect("4 t0 t1"); a.last.Assignment == nil {
		t.Error("a member in the previous epoch gets no assignment")
	}
	a.epoch = 5
	is(t, a.beat(), kerr.FencedMemberEpoch)
	a.epoch = 2
	is(t, a.beat(), kerr.FencedMemberEpoch)
	is(t, a.join(), nil) // with its epoch and partitions
	a.expect("4 t0 t1")

	d := w.shareDescribed()
	if d.GroupState != "Stable" || d.GroupEpoch != 4 || d.AssignmentEpoch != 4 || d.Assignor != "simple" || len(d.Members) != 2 ||
		d.Members[1].MemberID != "b" || d.Members[1].MemberEpoch != 4 || d.Members[1].SubscribedTopicNames[0] != "t" ||
		d.Members[1].ClientID != "c" || d.Members[1].ClientHost != "/1.2.3.4" ||
		d.Members[1].Assignment.TopicPartitions[0].Topic != "t" || d.Members[1].Assignment.TopicPartitions[0].Partitions[0] != 2 {
		t.Errorf("described: %+v", d)
	}
	w.start() // a reload shows the same
	if again := w.shareDescribed(); fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", d) {
		t.Errorf("after a load: %+v, was %+v", again, d)
	}

	is(t, w.shareBeat(shareBeatOf("b", -1)).ErrorCode, nil)
	is(t, w.shareBeat(shareBeatOf("b", -1)).ErrorCode, kerr.UnknownMemberID)
	is(t, b.beat(), kerr.UnknownMemberID)
	w.advance(time.Second)
	is(t, a.beat(), nil)
	a.expect("5 t0 t1 t2")
	w.advance(45 * time.Second) // its session ends
	is(t, a.beat(), kerr.UnknownMemberID)
	if d := w.shareDescribed(); d.GroupState != "Empty" || d.GroupEpoch != 6 || d.AssignmentEpoch != 6 || len(d.Members) > 0 {
		t.Errorf("described without members: %+v", d)
	}
	w.advance(30 * 24 * time.Hour)
	if w.state("g") != "Empty" {
		t.Error("a share group has expired")
	}
	is(t, a.join(), nil)
	a.expect("7 t0 t1 t2") // without a wait
	w.replays()
}

// More members than partitions share them.
func TestShareMembersShareAPartition(t *testing.T) {
	w, store := shareWorld(t)
	var all []*shareClient
	for i := range 7 {
		all = append(all, w.newShareClient(fmt.Sprint("m", i), "t"))
	}
	store.rest()
	count := map[int32]int{}
	for range 2 {
		w.advance(time.Second)
		for _, c := range all {
			is(t, c.beat(), nil)
		}
	}
	for _, c := range all {
		if n := c.has.Count(); n < 1 || n > 2 {
			t.Errorf("%s has %d partitions", c.id, n)
		}
		for _, p := range c.has[idOf("t")] {
			count[p]++
		}
	}
	if len(count) != 3 || count[0] != 3 || count[1] != 3 || count[2] != 3 {
		t.Errorf("members by partition: %v", count)
	}
}

func TestShareHeartbeatRefused(t *testing.T) {
	w, _ := shareWorld(t, func(c *Config) { c.ShareMaxSize, c.MaxRequest = 1, 1000 })
	long := strings.Repeat("ä", 36)
	for _, c := range []struct {
		name string
		req  func(*kmsg.ShareGroupHeartbeatRequest)
		want *kerr.Error
	}{
		{"no member id", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = "" }, kerr.InvalidRequest},
		{"blank member id", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = "  " }, kerr.InvalidRequest},
		{"long member id", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = long + "x" }, kerr.InvalidRequest},
		{"no group", func(r *kmsg.ShareGroupHeartbeatRequest) { r.GroupID = "" }, kerr.InvalidRequest},
		{"blank rack", func(r *kmsg.ShareGroupHeartbeatRequest) { r.RackID = kmsg.StringPtr("") }, kerr.InvalidRequest},
		{"no topics", func(r *kmsg.ShareGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }, kerr.InvalidRequest},
		{"empty topics", func(r *kmsg.ShareGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{} }, kerr.InvalidRequest},
		{"epoch -2", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = -2 }, kerr.InvalidRequest},
		{"many names", func(r *kmsg.ShareGroupHeartbeatRequest) {
			r.SubscribedTopicNames = slices.Repeat([]string{"a name"}, 200)
		}, kerr.InvalidRequest},
		{"unknown group", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = 1 }, kerr.GroupIDNotFound},
		{"leaves an unknown group", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = -1 }, kerr.GroupIDNotFound},
		{"long enough", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberID = long }, nil},
		{"group is full", func(r *kmsg.ShareGroupHeartbeatRequest) {}, kerr.GroupMaxSizeReached},
		{"unknown member of a full group", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = 2 }, kerr.GroupMaxSizeReached},
		{"leaves, unknown", func(r *kmsg.ShareGroupHeartbeatRequest) { r.MemberEpoch = -1 }, kerr.UnknownMemberID},
	} {
		req := shareBeatOf("m", 0, "t")
		c.req(req)
		resp := w.shareBeat(req)
		if c.want == nil && resp.ErrorCode != 0 || c.want != nil && resp.ErrorCode != c.want.Code {
			t.Errorf("%s: %v, want %v", c.name, kerr.ErrorForCode(resp.ErrorCode), c.want)
		}
		if resp.ErrorCode != 0 && resp.ErrorMessage == nil {
			t.Errorf("%s: no message", c.name)
		}
	}
	w.replays()
	loading := New(w.cfg)
	defer loading.End()
	var out coordinator.Effects
	loading.Handle(w.now, 1, request(shareBeatOf("m", 0, "t")), &out)
	is(t, out.Replies[0].Response.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode, kerr.CoordinatorLoadInProgress)
}

func TestShareGroupAndOtherProtocols(t *testing.T) {
	w, _ := shareWorld(t)
	w.newShareClient("a", "t")
	refused := func() {
		t.Helper()
		is(t, ask[*kmsg.JoinGroupResponse](w, request(joinOf(""))).ErrorCode, kerr.InconsistentGroupProtocol)
		is(t, w.consumerBeat(full("x", "t")).ErrorCode, kerr.GroupIDNotFound)
		is(t, w.streamsBeat(streamsJoin("x", simple("t"))).Response.ErrorCode, kerr.GroupIDNotFound)
		is(t, ask[*kmsg.OffsetCommitResponse](w, request(commitOf("", -1, "t", 1))).Topics[0].Partitions[0].ErrorCode, kerr.GroupIDNotFound)
		is(t, ask[[]kmsg.OffsetFetchResponseGroup](w, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{
			{Group: "g", MemberEpoch: -1}}})[0].ErrorCode, kerr.GroupIDNotFound)
		del := kmsg.NewPtrOffsetDeleteRequest()
		del.Group = "g"
		is(t, ask[*kmsg.OffsetDeleteResponse](w, request(del)).ErrorCode, kerr.GroupIDNotFound)
		is(t, ask[[]kmsg.DescribeGroupsResponseGroup](w, Describe{Groups: []string{"g"}, Version: 6})[0].ErrorCode, kerr.GroupIDNotFound)
	}
	refused()
	is(t, ask[*kmsg.SyncGroupResponse](w, request(syncOf("a", 2))).ErrorCode, kerr.InconsistentGroupProtocol)
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = "g", "a", 2
	is(t, ask[*kmsg.HeartbeatResponse](w, request(beat)).ErrorCode, kerr.UnknownMemberID)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.Members = 3, "g", []kmsg.LeaveGroupRequestMember{{MemberID: "a"}}
	is(t, ask[*kmsg.LeaveGroupResponse](w, request(leave)).Members[0].ErrorCode, kerr.UnknownMemberID)
	is(t, ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{Groups: []string{"g"}})[0].ErrorCode, kerr.NonEmptyGroup)
	list := ask[[]kmsg.ListGroupsResponseGroup](w, List{Types: FilterOf([]string{"Share"})})
	if len(list) != 1 || list[0].GroupType != "share" || list[0].ProtocolType != "share" || list[0].GroupState != "Stable" {
		t.Errorf("%+v", list)
	}
	is(t, w.shareBeat(shareBeatOf("a", -1)).ErrorCode, nil)
	refused() // also without members, as in Kafka

	// Groups of other kinds stay what they are, too.
	for _, event := range []func(){
		func() { ask[*kmsg.OffsetCommitResponse](w, request(commitOf("", -1, "t", 1))) },
		func() { is(t, w.consumerBeat(full("x", "t")).ErrorCode, nil) },
	} {
		w, _ = shareWorld(t)
		event()
		is(t, w.shareBeat(shareBeatOf("a", 0, "t")).ErrorCode, kerr.GroupIDNotFound)
		is(t, w.shareBeat(shareBeatOf("a", 1)).ErrorCode, kerr.GroupIDNotFound)
		is(t, w.shareBeat(shareBeatOf("a", -1)).ErrorCode, kerr.GroupIDNotFound)
		is(t, w.shareDescribed().ErrorCode, kerr.GroupIDNotFound)
	}
}

// A request to share coordinators that fails is repeated, first soon and then more seldom.
func TestShareStatesAreAskedForAgain(t *testing.T) {
	w, store := shareWorld(t)
	a := w.newShareClient("a", "t")
	var pauses []time.Duration
	for range 9 {
		store.collect()
		store.answer(func() bool { return true })
		from := w.now
		for store.collect(); len(store.queue) == 0; store.collect() {
			w.advance(100 * time.Millisecond)
			if w.now.Sub(from) > time.Minute {
				t.Fatal("the request is not repeated")
			}
		}
		pauses = append(pauses, w.now.Sub(from))
	}
	if pauses[0] != 500*time.Millisecond || pauses[1] != time.Second || pauses[8] != 30*time.Second {
		t.Errorf("pauses: %v", pauses)
	}
	store.rest()
	is(t, a.join(), nil) // its session has ended
	w.advance(time.Second)
	is(t, a.beat(), nil)
	if a.has.Count() != 3 {
		t.Errorf("assigned: %v", a.has)
	}
}

// A topic that grows, is deleted, and is created again: its new partitions have states of their
// own.
func TestShareTopicChanges(t *testing.T) {
	w, store := shareWorld(t)
	a := w.newShareClient("a", "t")
	next := func(want string) {
		t.Helper()
		is(t, a.beat(), nil)
		store.rest()
		for range 2 {
			w.advance(time.Second)
			is(t, a.beat(), nil)
		}
		a.expect(want)
		w.replays()
	}
	next("3 t0 t1 t2")
	w.topic("t", 4)
	next("5 t0 t1 t2 t3") // one epoch for the topic, one for the state
	w.topic("t", 0)
	next("6")
	if x := w.shard.groups["g"].share().states; !x.empty() {
		t.Errorf("states of a deleted topic: %+v", x)
	}
	store.forget()
	w.topic("t", 1)
	next("8 t0")
}

// What a request asks for is bounded, and so is the number of records for their results.
func TestShareRequestsAreBounded(t *testing.T) {
	w, store := shareWorld(t)
	w.topic("u", 2500)
	w.newShareClient("a", "t", "u")
	records := len(w.log)
	store.collect()
	if len(store.queue) != 3 {
		t.Fatalf("%d requests", len(store.queue))
	}
	for _, j := range store.queue {
		if n := len(j.partitions()); n > maxShares {
			t.Errorf("a request names %d partitions", n)
		}
	}
	store.rest()
	if n := len(w.log) - records; n != 3 {
		t.Errorf("%d records for 3 results", n)
	}
	if n := len(store.states); n != 2503 {
		t.Errorf("%d states", n)
	}
	w.replays()
}

func TestShareStatesAreBoundedByMemory(t *testing.T) {
	w, store := shareWorld(t, func(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(64 << 10) })
	w.topic("large", 5000)
	a := w.newShareClient("a", "t", "large")
	store.rest()
	w.advance(time.Second)
	is(t, a.beat(), nil)
	if a.expect("3 t0 t1 t2"); len(store.states) != 3 {
		t.Errorf("%d states", len(store.states))
	}
	w.replays()
	n := 0
	for ; n < 100; n++ {
		r := w.shareBeat(shareBeatOf(fmt.Sprint("m", n), 0, "t"))
		if r.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
			break
		}
		is(t, r.ErrorCode, nil)
	}
	if n == 0 || n == 100 {
		t.Errorf("%d members joined", n)
	}
}

// A deletion waits for the states. A member that joins meanwhile keeps the group, and its states
// begin again.
func TestShareGroupIsDeletedWithItsStates(t *testing.T) {
	w, store := shareWorld(t)
	a := w.newShareClient("a", "t")
	store.rest()
	is(t, w.shareBeat(shareBeatOf("a", -1)).ErrorCode, nil)
	ticket := w.send(Delete{Groups: []string{"g", "unknown"}})
	w.waits(ticket)
	store.collect()
	store.answer(func() bool { return true })
	list := answer[[]kmsg.DeleteGroupsResponseGroup](w, ticket)
	is(t, list[0].ErrorCode, kerr.CoordinatorNotAvailable)
	is(t, list[1].ErrorCode, kerr.GroupIDNotFound)

	first, second := w.send(Delete{Groups: []string{"g"}}), w.send(Delete{Groups: []string{"g"}}) // at once, in spite of the pause
	is(t, a.join(), nil)
	store.rest()
	for _, ticket := range []coordinator.Ticket{first, second} {
		is(t, answer[[]kmsg.DeleteGroupsResponseGroup](w, ticket)[0].ErrorCode, kerr.NonEmptyGroup)
	}
	w.advance(time.Second)
	is(t, a.beat(), nil)
	if a.has.Count() != 3 || len(store.states) != 3 {
		t.Errorf("assigned %v, states %v", a.has, store.states)
	}

	is(t, w.shareBeat(shareBeatOf("a", -1)).ErrorCode, nil)
	w.send(Delete{Groups: []string{"g"}})
	store.collect()
	w.start() // the new coordinator repeats the Delete; the client repeats its request
	store.rest()
	if w.state("g") != "Empty" || len(store.states) > 0 {
		t.Errorf("after a load: %s, states %v", w.state("g"), store.states)
	}
	is(t, ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{Groups: []string{"g"}})[0].ErrorCode, nil)
	if len(w.shard.groups) > 0 {
		t.Error("the deleted group is still there")
	}
	w.replays()
}

// comesAndGoes deletes a group while a member comes, begins states of another topic, and goes. It
// returns the number of states that are left.
func comesAndGoes(t *testing.T, broken Broken) int {
	w, store := shareWorld(t, func(c *Config) { c.Broken = broken })
	w.topic("u", 2)
	w.newShareClient("a", "t")
	store.rest()
	is(t, w.shareBeat(shareBeatOf("a", -1)).ErrorCode, nil)
	ticket := w.send(Delete{Groups: []string{"g"}})
	store.collect() // the Delete is under way
	w.newShareClient("b", "u")
	is(t, w.shareBeat(shareBeatOf("b", -1)).ErrorCode, nil)
	store.rest()
	is(t, answer[[]kmsg.DeleteGroupsResponseGroup](w, ticket)[0].ErrorCode, nil)
	if len(w.shard.groups) > 0 {
		t.Error("the deleted group is still there")
	}
	return len(store.states)
}

func TestShareDeletionCoversStatesOfAMemberThatCameAndWent(t *testing.T) {
	if n := comesAndGoes(t, Broken{}); n != 0 {
		t.Errorf("%d states are left", n)
	}
}

// The topics of a group that is being deleted are deleted: nothing is left to wait for.
func TestShareDeletionEndsWithTheTopics(t *testing.T) {
	w, store := shareWorld(t)
	w.newShareClient("a", "t")
	store.rest()
	is(t, w.shareBeat(shareBeatOf("a", -1)).ErrorCode, nil)
	ticket := w.send(Delete{Groups: []string{"g"}})
	store.collect()
	w.topic("t", 0)
	is(t, answer[[]kmsg.DeleteGroupsResponseGroup](w, ticket)[0].ErrorCode, nil)
	store.rest() // a result that is late
	if len(w.shard.groups) > 0 {
		t.Error("the deleted group is still there")
	}
	w.replays()
}

// Kafka records a topic as deleting and initialized at the same time.
func TestShareStatesOfKafka(t *testing.T) {
	w, store := shareWorld(t)
	w.topic("u", 2)
	key := func(kind format.Type, item string) []byte {
		return format.Key{Type: kind, Group: "g", Item: item}.Encode()
	}
	has := format.Target{{ID: idOf("t"), Partitions: []int32{1, 0}}}
	for _, p := range []SharePartition{{idOf("t"), 0}, {idOf("t"), 1}, {idOf("u"), 0}} {
		store.states[p] = true
	}
	w.log = append(w.log,
		coordinator.Record{Key: key(format.TypeShareStates, ""), Value: format.ShareStates{
			Initializing: []format.ShareTopic{{ID: idOf("t"), Name: "t", Partitions: []int32{2}}},
			Initialized: []format.ShareTopic{{ID: idOf("t"), Name: "t", Partitions: []int32{1, 0}},
				{ID: idOf("u"), Name: "u", Partitions: []int32{0}}},
			Deleting: []format.ShareTopic{{ID: idOf("u"), Name: "u"}, {ID: idOf("gone"), Name: "<UNKNOWN>"}}}.Encode()},
		coordinator.Record{Key: key(format.TypeShareMember, "a"), Value: format.ShareMember{Rack: kmsg.StringPtr(""), ClientID: "c",
			ClientHost: "/1.2.3.4", Topics: []string{"t", "u"}}.Encode()},
		coordinator.Record{Key: key(format.TypeShareTarget, "a"), Value: has.Encode()},
		coordinator.Record{Key: key(format.TypeShareEpoch, ""), Value: format.TargetEpoch{Epoch: 7, Time: 1}.Encode()},
		coordinator.Record{Key: key(format.TypeShareCurrent, "a"), Value: format.ShareCurrent{Epoch: 7, Previous: 6,
			Assigned: has}.Encode()},
		coordinator.Record{Key: key(format.TypeShare, ""), Value: format.Share{Epoch: 7, Hash: 12345}.Encode()})
	w.start()
	a := &shareClient{w: w, id: "a", topics: []string{"t", "u"}, epoch: 7, has: assign.Assignment{idOf("t"): {0, 1}}}
	is(t, a.beat(), nil)
	if slices.Contains(a.has.Topics(), idOf("gone")) {
		t.Errorf("assigned: %v", a.has)
	}
	store.rest()
	for range 2 {
		w.advance(time.Second)
		is(t, a.beat(), nil)
	}
	if a.has.Count() != 5 || len(store.states) != 5 {
		t.Errorf("assigned %v, states %v", a.has, store.states)
	}
	if x := w.shard.groups["g"].share().states; x.unfinished() {
		t.Errorf("states: %+v", x)
	}
	w.replays()
}

// Partitions that a topic gets while a group reads it begin with their first record, also if the
// group has no members then, or if a request for their states has failed. So does a topic that is
// created while members subscribe to it. Those that are there before begin where the group's
// configs say.
func TestAddedPartitionsBeginWithTheirFirstRecord(t *testing.T) {
	w, store := shareWorld(t)
	begun := func(want string) {
		t.Helper()
		store.rest()
		got := ""
		for _, p := range slices.SortedFunc(maps.Keys(store.starts), func(a, b SharePartition) int {
			return cmp.Or(slices.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
		}) {
			topic, _ := w.topics.ByID(p.Topic)
			got += fmt.Sprintf("%s%d:%d ", topic.Name, p.Partition, store.starts[p])
		}
		if got != want {
			t.Errorf("states begin at %s\nwant %s", got, want)
		}
	}
	a := w.newShareClient("a", "t", "u")
	begun("t0:-1 t1:-1 t2:-1 ")
	w.topic("t", 4)
	begun("t0:-1 t1:-1 t2:-1 t3:-2 ")
	w.topic("u", 2)
	store.collect()
	store.answer(func() bool { return true })
	w.advance(time.Second)
	begun("t0:-1 t1:-1 t2:-1 t3:-2 u0:-2 u1:-2 ")
	a.epoch = -1
	is(t, a.beat(), nil)
	w.topic("t", 5)
	begun("t0:-1 t1:-1 t2:-1 t3:-2 t4:-2 u0:-2 u1:-2 ")
	w.topic("v", 1)
	w.newShareClient("b", "v")
	begun("t0:-1 t1:-1 t2:-1 t3:-2 t4:-2 u0:-2 u1:-2 v0:-1 ")
	if n := len(w.shard.groups["g"].share().added); n > 0 {
		t.Errorf("%d topics are still noted", n)
	}
}
