package metadata

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// show returns the content of an image as text.
func show(m *Image) string {
	var b strings.Builder
	fmt.Fprintf(&b, "@%d %q %d %v\n", m.Version(), m.ClusterID(), m.FeatureLevel(), m.Brokers())
	for t := range m.Topics() {
		fmt.Fprintf(&b, "%s %v %t configs %v@%d rev %d\n", t.Name, t.ID, t.Internal, t.Configs, t.ConfigRevision, t.Revision)
		for i, p := range t.Partitions.All() {
			fmt.Fprintf(&b, "  %d %+v\n", i, *p)
		}
		if m.TopicByID(t.ID) != t || m.Topic(t.Name) != t {
			fmt.Fprintf(&b, "  found as another topic by id or name\n")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.configs)) {
		fmt.Fprintf(&b, "broker %d %v@%d\n", id, m.BrokerConfig(id), m.BrokerConfigRevision(id))
	}
	for _, g := range slices.Sorted(m.GroupConfigs()) {
		c, _ := m.groups.get(g)
		fmt.Fprintf(&b, "group %s %v@%d\n", g, c.set, c.revision)
	}
	for _, member := range slices.Sorted(maps.Keys(m.gone)) {
		fmt.Fprintf(&b, "gone %d of %d\n", member, m.gone[member])
	}
	for _, s := range slices.Sorted(m.Subscriptions()) {
		c, _ := m.subscriptions.get(s)
		fmt.Fprintf(&b, "subscription %s %v@%d\n", s, c.set, c.revision)
	}
	for _, id := range slices.Sorted(maps.Keys(m.liveness)) {
		fmt.Fprintf(&b, "liveness %d %v\n", id, m.liveness[id])
	}
	for _, at := range slices.SortedFunc(maps.Keys(maps.Collect(m.placed.all())), compareBrokerTopics) {
		p, _ := m.placed.get(at)
		fmt.Fprintf(&b, "placed %v %v\n", at, *p)
	}
	for _, id := range sortIDs(maps.Keys(maps.Collect(m.acls.all()))) {
		a, _ := m.acls.get(id)
		fmt.Fprintf(&b, "rule %+v\n", a)
	}
	for _, name := range slices.Sorted(maps.Keys(maps.Collect(m.users.all()))) {
		u := m.User(name)
		fmt.Fprintf(&b, "user %s@%d", u.Name, u.Revision)
		for _, c := range u.Credentials {
			fmt.Fprintf(&b, " %v %d %x %x %x", c.Mechanism, c.Iterations, c.Salt.Bytes(), c.StoredKey.Bytes(), c.ServerKey.Bytes())
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "logins %x %t\nsnapshots %+v\ncollection %d\n", m.Logins().Salt.Bytes(), m.Logins().Bootstrapped, m.Snapshots(),
		m.Collection())
	var lines []string
	for q := range m.Quotas() {
		lines = append(lines, fmt.Sprintf("quota %+v\n", q))
	}
	for tp, t := range m.Tiers() {
		lines = append(lines, fmt.Sprintf("tier %v %+v\n", tp, *t))
	}
	for d := range m.Tombstones() {
		lines = append(lines, fmt.Sprintf("deleting %+v\n", *d))
	}
	slices.Sort(lines)
	return b.String() + strings.Join(lines, "")
}

func set(key string, value []byte) Event { return Event{Key: key, Value: value} }

func gone(key string) Event { return Event{Key: key, Deleted: true} }

func onePartition(leader int32) []byte {
	return Partition{Leader: leader, Replicas: []int32{leader}, ISR: []int32{leader}}.Encode()
}

// create returns the events of a new topic.
func create(id [16]byte, name string, partitions int32) []Event {
	events := []Event{set(NameKey(name), Name{Topic: name, ID: id}.Encode()),
		set(TopicKey(id), TopicRecord{Name: name, Partitions: partitions}.Encode())}
	for i := range partitions {
		events = append(events, set(PartitionKey(id, i), onePartition(1)))
	}
	return events
}

func remove(id [16]byte, name string, partitions int32) []Event {
	events := []Event{gone(NameKey(name)), gone(TopicKey(id)), gone(TopicConfigKey(id)),
		set(DeletingKey(id), Deleting{Name: name, Partitions: partitions}.Encode())}
	for i := range partitions {
		events = append(events, gone(PartitionKey(id, i)))
	}
	return events
}

func apply(t testing.TB, m *Image, events ...Event) (*Image, *Delta) {
	t.Helper()
	next, d, err := m.Apply(Batch{Revision: m.Version() + 1, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return next, d
}

func TestTopicLifecycle(t *testing.T) {
	m, d := apply(t, Empty(), create(idA, "x", 2)...)
	x := m.Topic("x")
	if len(d.Created) != 1 || d.Created[0] != x || x.ID != idA || x.Partitions.Len() != 2 || m.NumTopics() != 1 {
		t.Fatalf("created: %+v", d)
	}
	raised := *x.Partitions.At(1)
	raised.LeaderEpoch++
	m, d = apply(t, m, set(PartitionKey(idA, 1), raised.Encode()))
	if len(d.Changed) != 1 || d.Changed[0].Prev != x || d.Changed[0].Config || !slices.Equal(d.Changed[0].Partitions, []int32{1}) {
		t.Fatalf("epoch raised: %+v", d)
	}
	if got := m.Partition(TopicPartition{idA, 1}); got.LeaderEpoch != 1 || got.Revision != 2 || x.Partitions.At(1).LeaderEpoch != 0 {
		t.Errorf("epochs: %+v, before: %+v", got, x.Partitions.At(1))
	}
	m, d = apply(t, m, set(TopicConfigKey(idA), EncodeConfigs(map[string]string{"a": "1"})))
	if !d.Changed[0].Config || len(d.Changed[0].Partitions) != 0 || m.Topic("x").Configs["a"] != "1" || m.Topic("x").ConfigRevision != 3 {
		t.Errorf("config: %+v", d.Changed[0])
	}
	m, d = apply(t, m, set(TopicKey(idA), TopicRecord{Name: "x", Partitions: 3}.Encode()), set(PartitionKey(idA, 2), onePartition(1)))
	if !slices.Equal(d.Changed[0].Partitions, []int32{2}) || m.Topic("x").Partitions.Len() != 3 || m.Topic("x").Partitions.At(3) != nil ||
		m.Topic("x").Partitions.At(-1) != nil {
		t.Errorf("grown: %+v", d.Changed[0])
	}
	m, d = apply(t, m, remove(idA, "x", 3)...)
	if len(d.Deleted) != 1 || len(d.Tombstones) != 1 || m.Topic("x") != nil || m.TopicByID(idA) != nil || m.Deleting(idA).Partitions != 3 {
		t.Errorf("deleted: %+v", d)
	}
	m, d = apply(t, m, append(create(idB, "x", 1), gone(DeletingKey(idA)))...)
	if len(d.Forgotten) != 1 || m.Deleting(idA) != nil || m.Topic("x").ID != idB || m.Topic("x").Configs != nil {
		t.Errorf("made again: %+v, %s", d, show(m))
	}
}

// One transaction may move a name from one topic to another, whichever id comes first.
func TestNameMovesInOneTransaction(t *testing.T) {
	for _, ids := range [][2][16]byte{{idA, idB}, {idB, idA}} {
		m, _ := apply(t, Empty(), create(ids[0], "x", 1)...)
		m, d := apply(t, m, append(remove(ids[0], "x", 1), create(ids[1], "x", 1)...)...)
		if m.Topic("x") == nil || m.Topic("x").ID != ids[1] || m.NumTopics() != 1 || len(d.Created) != 1 || len(d.Deleted) != 1 {
			t.Errorf("from %v: %s", ids[0], show(m))
		}
	}
}

func TestBrokersAndTheirConfigs(t *testing.T) {
	m, d := apply(t, Empty(), set(BrokerKey(2), Broker{Incarnation: idB}.Encode()), set(BrokerKey(1), Broker{Incarnation: idA}.Encode()),
		set(BrokerConfigKey(DefaultBroker), EncodeConfigs(map[string]string{"a": "1"})), set(ClusterKey,
			Cluster{ID: "c", FeatureLevel: 1}.Encode()))
	if !d.Brokers || !d.Cluster || !slices.Equal(d.BrokerConfigs, []int32{-1}) || len(m.Brokers()) != 2 || m.Brokers()[0].ID != 1 {
		t.Errorf("%+v %s", d, show(m))
	}
	m, d = apply(t, m, gone(BrokerKey(1)), gone(BrokerConfigKey(DefaultBroker)))
	if _, ok := m.Broker(1); ok || !d.Brokers || m.BrokerConfig(DefaultBroker) != nil || m.BrokerConfigRevision(DefaultBroker) != 0 {
		t.Errorf("%+v %s", d, show(m))
	}
	if b, ok := m.Broker(2); !ok || b.Epoch != 1 || b.Incarnation != idB {
		t.Errorf("broker 2: %+v", b)
	}
}

// A broker without a liveness is fenced. Placements belong to a broker and a topic, and outlive the
// topic until the broker removes them.
func TestLivenessAndPlacements(t *testing.T) {
	tp := TopicPartition{idA, 1}
	var none Placement
	m, d := apply(t, Empty(), append(create(idA, "x", 2), set(LivenessKey(2), BrokerState{Liveness: Active}.Encode()),
		set(PlacementKey(2, idA), none.With(map[int32][16]byte{1: idC}).Encode()))...)
	if !slices.Equal(d.Liveness, []int32{2}) || !slices.Equal(d.Placements, []BrokerTopic{{2, idA}}) {
		t.Errorf("%+v", d)
	}
	if l, rev := m.Liveness(2); l != Active || rev != 1 {
		t.Errorf("broker 2: %v at %d", l, rev)
	}
	if l, rev := m.Liveness(1); l != Fenced || rev != 0 {
		t.Errorf("broker 1: %v at %d", l, rev)
	}
	if dir, ok := m.Placement(2, tp); dir != idC || !ok {
		t.Errorf("broker 2: %v %t", dir, ok)
	}
	if dir, ok := m.Placement(1, tp); ok {
		t.Errorf("broker 1: %v", dir)
	}
	again, d := apply(t, m, set(LivenessKey(2), BrokerState{Liveness: Active}.Encode()))
	if _, rev := again.Liveness(2); rev != 2 || !slices.Equal(d.Liveness, []int32{2}) {
		t.Errorf("the same state again: revision %d, %+v", rev, d)
	}
	m, _ = apply(t, again, remove(idA, "x", 2)...)
	if _, ok := m.Placement(2, tp); !ok {
		t.Error("the placement went with the topic")
	}
	m, d = apply(t, m, gone(PlacementKey(2, idA)), gone(LivenessKey(2)))
	if _, ok := m.Placement(2, tp); ok || !slices.Equal(d.Placements, []BrokerTopic{{2, idA}}) || !slices.Equal(d.Liveness, []int32{2}) {
		t.Errorf("removed: %+v", d)
	}
}

// Of a topic whose placements change, only the partitions count that are in another directory.
func TestWhichReplicasHaveMoved(t *testing.T) {
	at, none := BrokerTopic{2, idA}, Placement{}
	image := func(dirs map[int32][16]byte) *Image {
		p := none.With(dirs)
		if p.IsEmpty() {
			return Empty()
		}
		m, _ := apply(t, Empty(), set(PlacementKey(2, idA), p.Encode()))
		return m
	}
	rapid.Check(t, func(r *rapid.T) {
		places := rapid.MapOfN(rapid.Int32Range(0, 9), rapid.SampledFrom([][16]byte{idA, idB, idC}), 0, 5)
		was, is := places.Draw(r, "was"), places.Draw(r, "is")
		var want []int32
		for i := range int32(10) {
			if was[i] != is[i] {
				want = append(want, i)
			}
		}
		if got := slices.Collect(image(is).Moved(image(was), at)); !slices.Equal(got, want) {
			r.Fatalf("%v, want %v", got, want)
		}
	})
}

// A tombstone lists the brokers that have not confirmed, and a broker that has to confirm without a
// tombstone is an error.
func TestBrokersConfirmDeletions(t *testing.T) {
	m, _ := apply(t, Empty(), create(idA, "x", 1)...)
	m, d := apply(t, m, append(remove(idA, "x", 1), set(DeletingBrokerKey(idA, 3), EncodeWaiting()),
		set(DeletingBrokerKey(idA, 1), EncodeWaiting()))...)
	if tomb := m.Deleting(idA); len(d.Tombstones) != 1 || d.Tombstones[0] != tomb || !slices.Equal(tomb.Brokers, []int32{1, 3}) ||
		!tomb.Waits(3) || tomb.Waits(2) {
		t.Fatalf("%+v", d)
	}
	before := m.Deleting(idA)
	m, d = apply(t, m, gone(DeletingBrokerKey(idA, 3)))
	if tomb := m.Deleting(idA); !d.Empty() || !slices.Equal(tomb.Brokers, []int32{1}) || tomb.Partitions != 1 || !before.Waits(3) {
		t.Errorf("%+v %+v", d, m.Deleting(idA))
	}
	if _, _, err := m.Apply(Batch{Revision: 9, Events: []Event{gone(DeletingKey(idA))}}); err == nil {
		t.Error("a tombstone was removed before the last broker confirmed")
	}
	m, d = apply(t, m, gone(DeletingKey(idA)), gone(DeletingBrokerKey(idA, 1)))
	if m.Deleting(idA) != nil || len(d.Forgotten) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestGroupsHaveConfigs(t *testing.T) {
	m, d := apply(t, Empty(), set(GroupConfigKey("b/c"), EncodeConfigs(map[string]string{"k": "1"})),
		set(GroupConfigKey("a"), EncodeConfigs(nil)))
	if !slices.Equal(d.GroupConfigs, []string{"a", "b/c"}) || d.Empty() || m.GroupConfig("b/c")["k"] != "1" || m.GroupConfig("x") != nil {
		t.Errorf("%+v %s", d, show(m))
	}
	next, d := apply(t, m, gone(GroupConfigKey("a")))
	if names := slices.Collect(next.GroupConfigs()); !slices.Equal(names, []string{"b/c"}) || !slices.Equal(d.GroupConfigs, []string{"a"}) {
		t.Errorf("%v %+v", names, d)
	}
	if diff := Diff(m, next); !slices.Equal(diff.GroupConfigs, []string{"a"}) {
		t.Errorf("%+v", diff)
	}
}

// A rule that is written again is no change: those who compile rules are not told.
func TestAccessRules(t *testing.T) {
	a, b := someACL("a"), someACL("b")
	m, d := apply(t, Empty(), set(ACLKey(a), EncodeACL(a)), set(ACLKey(b), EncodeACL(b)))
	if m.NumACLs() != 2 || len(d.ACLsAdded) != 2 || len(d.ACLsRemoved) != 0 || d.Empty() {
		t.Errorf("%+v %s", d, show(m))
	}
	m, d = apply(t, m, set(ACLKey(a), EncodeACL(a)), gone(ACLKey(someACL("c"))))
	if !d.Empty() || m.NumACLs() != 2 {
		t.Errorf("a rule that existed: %+v", d)
	}
	next, d := apply(t, m, gone(ACLKey(a)))
	if got := slices.Collect(next.ACLs()); len(got) != 1 || got[0] != *b || !slices.Equal(d.ACLsRemoved, []acl.Binding{*a}) || d.Empty() {
		t.Errorf("%v %+v", got, d)
	}
	for range m.ACLs() {
		break // an iteration may end early
	}
	for _, other := range []acl.Binding{
		{Name: "ab", Principal: "c"}, {Name: "a", Principal: "bc"}, {Name: "a", Principal: "b", Host: "c"},
	} {
		for _, o := range []acl.Binding{{Name: "a", Principal: "b"}, {Principal: "abc"}, {Host: "abc"}, {Name: "abc"}} {
			if aclID(&other) == aclID(&o) {
				t.Errorf("%+v and %+v have one id", other, o)
			}
		}
	}
}

func TestInconsistentStoresAreRefused(t *testing.T) {
	base, _ := apply(t, Empty(), create(idA, "x", 2)...)
	for what, events := range map[string][]Event{
		"a partition without a topic":      {set(PartitionKey(idB, 0), onePartition(1))},
		"configs without a topic":          {set(TopicConfigKey(idB), EncodeConfigs(nil))},
		"a topic without partitions":       {set(TopicKey(idB), TopicRecord{Name: "y", Partitions: 1}.Encode())},
		"a partition beyond the topic":     {set(PartitionKey(idA, 2), onePartition(1))},
		"a partition that is gone":         {gone(PartitionKey(idA, 1))},
		"a topic that shrinks":             {set(TopicKey(idA), TopicRecord{Name: "x", Partitions: 1}.Encode())},
		"two topics of one name":           create(idB, "x", 1),
		"a confirmation to no deletion":    {set(DeletingBrokerKey(idB, 1), EncodeWaiting())},
		"an access rule under another key": {set(ACLKey(someACL("a")), EncodeACL(someACL("b")))},
		"an unknown key":                   {set("/unknown/1", []byte(`{"v":1}`))},
		"an unknown key that goes away":    {gone("/unknown/1")},
	} {
		if m, _, err := base.Apply(Batch{Revision: 2, Events: events}); err == nil {
			t.Errorf("%s: accepted as %s", what, show(m))
		}
	}
}

func TestListingContinuesFromAnyName(t *testing.T) {
	m := Empty()
	for i, name := range []string{"b", "d", "a", "c"} {
		m, _ = apply(t, m, create([16]byte{byte(i + 1)}, name, 1)...)
	}
	for from, want := range map[string]string{"": "abcd", "b": "bcd", "bb": "cd", "e": ""} {
		got := ""
		for topic := range m.TopicsFrom(from) {
			got += topic.Name
		}
		if got != want {
			t.Errorf("from %q: %s, want %s", from, got, want)
		}
	}
	for range m.Topics() {
		break // an iteration may end early
	}
}

// A random history: every image equals one loaded from the store's content at that time, Diff
// agrees with the deltas, and no earlier image changes.
func TestI16ImagesAreReplacedAndNeverChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := map[string]KV{}
		images, shown := []*Image{Empty()}, []string{show(Empty())}
		var history []Batch
		topics := map[[16]byte]int32{}
		for rev := int64(1); rev <= 9; rev++ {
			id := [16]byte{byte(rapid.IntRange(1, 4).Draw(t, "topic"))}
			events := append(randomEvents(t, id, topics), otherEvents(t)...)
			for _, e := range events {
				if e.Deleted {
					delete(store, e.Key)
				} else {
					store[e.Key] = KV{Key: e.Key, Value: e.Value, ModRevision: rev}
				}
			}
			prev := images[len(images)-1]
			history = append(history, Batch{Revision: rev, Events: events})
			next, d, err := prev.Apply(history[rev-1])
			if err != nil {
				t.Fatal(err)
			}
			if diff := Diff(prev, next); !agree(diff, d) {
				t.Fatalf("diff %+v\ndelta %+v", diff, d)
			}
			images, shown = append(images, next), append(shown, show(next))
		}
		last := images[len(images)-1]
		loaded, err := Load(slices.Collect(maps.Values(store)), last.Version())
		if err != nil || show(loaded) != show(last) || !Diff(loaded, last).Empty() {
			t.Fatalf("loaded (%v):\n%s\napplied:\n%s", err, show(loaded), show(last))
		}
		from := rapid.IntRange(0, len(history)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(history)).Draw(t, "to")
		many, d, err := images[from].Apply(history[from:to]...)
		if err != nil || show(many) != shown[to] || !agree(Diff(images[from], many), d) {
			t.Fatalf("%d to %d at once (%v):\n%s\none after the other:\n%s\ndelta %+v", from, to, err, show(many), shown[to], d)
		}
		for i, m := range images {
			if show(m) != shown[i] {
				t.Fatalf("image %d changed from\n%s\nto\n%s", i, shown[i], show(m))
			}
		}
	})
}

// normal removes changes without effect, which Diff can't know.
func normal(d *Delta) Delta {
	n := *d
	n.Changed = slices.DeleteFunc(slices.Clone(d.Changed), func(c TopicChange) bool { return !c.Config && len(c.Partitions) == 0 })
	if len(n.Changed) == 0 {
		n.Changed = nil
	}
	for i := range n.Changed {
		n.Changed[i].Partitions = slices.Clip(n.Changed[i].Partitions)
		if len(n.Changed[i].Partitions) == 0 {
			n.Changed[i].Partitions = nil
		}
	}
	if len(n.BrokerConfigs) == 0 {
		n.BrokerConfigs = nil
	}
	if len(n.GroupConfigs) == 0 {
		n.GroupConfigs = nil
	}
	return n
}

// agree reports whether a delta has what differs. It may also name what was removed and did not
// exist.
func agree(diff, d *Delta) bool {
	n := normal(d)
	n.Brokers = n.Brokers && diff.Brokers
	n.BrokerConfigs, n.Liveness = among(n.BrokerConfigs, diff.BrokerConfigs), among(n.Liveness, diff.Liveness)
	return reflect.DeepEqual(normal(diff), n)
}

// among returns the ids that some contains.
func among(ids, some []int32) (list []int32) {
	for _, id := range ids {
		if slices.Contains(some, id) {
			list = append(list, id)
		}
	}
	return list
}

func randomEvents(t *rapid.T, id [16]byte, topics map[[16]byte]int32) []Event {
	name := fmt.Sprintf("topic-%d", id[0]) // the next topic of that name has another id
	for topics[id] < 0 {                   // a deleted id is never reused
		id[1]++
	}
	n, exists := topics[id]
	if !exists {
		topics[id] = rapid.SampledFrom([]int32{1, 2, chunkSize - 1, chunkSize}).Draw(t, "partitions")
		return create(id, name, topics[id])
	}
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		topics[id] = -1
		return remove(id, name, n)
	case 1:
		topics[id] = n + 1
		return []Event{set(TopicKey(id), TopicRecord{Name: name, Partitions: n + 1}.Encode()), set(PartitionKey(id, n), onePartition(2))}
	case 2:
		return []Event{set(TopicConfigKey(id), EncodeConfigs(map[string]string{"k": rapid.StringN(0, 3, 9).Draw(t, "value")}))}
	case 3:
		return []Event{set(ProducerIDsKey, ProducerIDs{Next: 5}.Encode())}
	case 6:
		rule := someACL(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rule"))
		return []Event{set(ACLKey(rule), EncodeACL(rule))}
	case 7:
		return []Event{gone(ACLKey(someACL(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rule"))))}
	case 9:
		if rapid.Bool().Draw(t, "gone") {
			return []Event{gone(SubscriptionKey(name)), set(GoneKey(uint64(id[0])), Gone{Broker: 3}.Encode())}
		}
		return []Event{set(SubscriptionKey(name), EncodeConfigs(map[string]string{"k": rapid.StringN(0, 3, 9).Draw(t, "value")}))}
	case 5:
		return []Event{set(GroupConfigKey(name), EncodeConfigs(map[string]string{"k": rapid.StringN(0, 3, 9).Draw(t, "value")}))}
	case 4:
		if rapid.Bool().Draw(t, "placement") {
			var none Placement
			dir := [16]byte{byte(rapid.IntRange(0, 3).Draw(t, "dir"))}
			return []Event{set(PlacementKey(1, id), none.With(map[int32][16]byte{0: idA, n - 1: dir}).Encode()), gone(PlacementKey(2, id))}
		}
		return []Event{gone(DeletingKey(id))}
	}
	p := rapid.Int32Range(0, n-1).Draw(t, "partition")
	return []Event{set(PartitionKey(id, p), onePartition(3)), set(PartitionKey(id, n-1), onePartition(4))}
}

// otherEvents returns changes of what is no topic, in any order: brokers, users, quotas, snapshots
// and copies in the object store come, change and go, whether they exist or not.
func otherEvents(t *rapid.T) []Event {
	n := rapid.Int32Range(1, 3).Draw(t, "which")
	name, entity := fmt.Sprint("user-", n), quota.Entity{User: quota.Of(fmt.Sprint("user-", n))}
	tp, fill := TopicPartition{idA, n}, byte(rapid.IntRange(1, 9).Draw(t, "value"))
	switch rapid.IntRange(0, 12).Draw(t, "other") {
	case 0, 1:
		return []Event{set(BrokerKey(n), Broker{Incarnation: [16]byte{fill}}.Encode()),
			set(LivenessKey(n), BrokerState{Liveness: Liveness(fill % 4)}.Encode())}
	case 2:
		return []Event{gone(BrokerKey(n)), gone(LivenessKey(n))}
	case 3:
		return []Event{set(BrokerConfigKey(n-2), EncodeConfigs(map[string]string{"k": fmt.Sprint(fill)}))} // or that of all
	case 4:
		return []Event{gone(BrokerConfigKey(n - 2))}
	case 5:
		return []Event{set(UserKey(name), User{Credentials: []Credential{someCredential(ScramSHA256, fill)}}.Encode())}
	case 6:
		return []Event{gone(UserKey(name))}
	case 7:
		return []Event{set(QuotaKey(entity), Quota{Limits: map[string]float64{quota.LimitNames()[0]: float64(fill)}}.Encode())}
	case 8:
		return []Event{gone(QuotaKey(entity))}
	case 9:
		return []Event{set(SnapshotKey(int64(n)), (&Snapshot{Nonce: idB, Bytes: int64(fill)}).Encode())}
	case 10:
		return []Event{gone(SnapshotKey(int64(n))), set(CollectionKey, Collection{}.Encode())}
	case 11:
		return []Event{set(TierKey(tp), (&Tier{Manifest: idC, End: int64(fill)}).Encode())}
	}
	return []Event{gone(TierKey(tp))}
}

// big returns an image of many topics, or of one with many partitions.
func big(t testing.TB, topics int, partitions int32) *Image {
	t.Helper()
	m := Empty()
	var events []Event
	for i := range topics {
		events = append(events, create([16]byte{1, byte(i), byte(i >> 8), byte(i >> 16)}, fmt.Sprintf("t-%d", i), partitions)...)
	}
	m, _ = apply(t, m, events...)
	return m
}

// One change among 10,000 partitions allocates about as much as one among 500: a shard and a chunk,
// not everything.
func TestOneChangeIsNotLinear(t *testing.T) {
	cost := func(m *Image, id [16]byte) uint64 {
		events := []Event{set(PartitionKey(id, 0), onePartition(2))}
		const runs = 200
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			apply(t, m, events...)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / runs
	}
	id := [16]byte{1}
	for name, m := range map[string]*Image{
		"500 topics": big(t, 500, 1), "10,000 topics": big(t, 10_000, 1), "one topic of 10,000 partitions": big(t, 1, 10_000),
	} {
		if n := cost(m, id); n > 40_000 {
			t.Errorf("%s: one change allocates %d bytes, want at most 40,000", name, n)
		}
	}
}

// Changes that are applied together share the copies of the tables: 10,000 changes of 10,000
// partitions allocate less than 4 KiB each.
func TestManyChangesAtOnceShareTheirCopies(t *testing.T) {
	m := big(t, 10_000, 1)
	var batches []Batch
	for i := range 10_000 {
		id := [16]byte{1, byte(i), byte(i >> 8), byte(i >> 16)}
		batches = append(batches, Batch{Revision: m.Version() + 1 + int64(i), Events: []Event{set(PartitionKey(id, 0), onePartition(2))}})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	next, d, err := m.Apply(batches...)
	runtime.ReadMemStats(&after)
	if err != nil || len(d.Changed) != 10_000 || next.Version() != m.Version()+10_000 {
		t.Fatalf("%v, %d topics changed", err, len(d.Changed))
	}
	if n := (after.TotalAlloc - before.TotalAlloc) / 10_000; n > 4<<10 {
		t.Errorf("%d bytes for each change", n)
	}
}

// A gap in the history would lose changes.
func TestAHistoryWithAGapIsRefused(t *testing.T) {
	m, _ := apply(t, Empty(), create(idA, "x", 1)...)
	for _, revisions := range [][]int64{{3}, {1}, {2, 4}} {
		var batches []Batch
		for _, r := range revisions {
			batches = append(batches, Batch{Revision: r, Events: []Event{set(ProducerIDsKey, ProducerIDs{Next: 5}.Encode())}})
		}
		if next, _, err := m.Apply(batches...); err == nil {
			t.Errorf("revisions %v after %d: accepted as %d", revisions, m.Version(), next.Version())
		}
	}
}

func BenchmarkOneChangeAmong10000Topics(b *testing.B) {
	m := big(b, 10_000, 1)
	batch := Batch{Revision: 2, Events: []Event{set(PartitionKey([16]byte{1}, 0), onePartition(2))}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.Apply(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookupAmong10000Topics(b *testing.B) {
	m := big(b, 10_000, 1)
	names := slices.Collect(func(yield func(string) bool) {
		for t := range m.Topics() {
			if !yield(t.Name) {
				return
			}
		}
	})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if m.Topic(names[i%len(names)]) == nil {
			b.Fatal("not found")
		}
	}
}
