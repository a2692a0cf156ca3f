package service

import (
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func registry(t testing.TB) *configdef.Registry {
	t.Helper()
	profiles, err := durability.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	return configdef.New(configdef.Options{Profiles: profiles, ProduceProfiles: []string{"balanced"}})
}

// Two places define Kafka's defaults; they must agree.
func TestDefaultsAreKafkas(t *testing.T) {
	conf, err := registry(t).ResolveBroker(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := configOf(&conf), group.DefaultConfig()
	got.NewID, want.NewID = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// image returns an image with topics and their partition counts; a topic's id is its first letter.
func image(t testing.TB, revision int64, topics map[string]int32) *metadata.Image {
	t.Helper()
	var kvs []metadata.KV
	put := func(key string, value []byte) {
		kvs = append(kvs, metadata.KV{Key: key, Value: value, ModRevision: revision})
	}
	for name, partitions := range topics {
		id := [16]byte{name[0]}
		put(metadata.NameKey(name), metadata.Name{Topic: name, ID: id}.Encode())
		put(metadata.TopicKey(id), metadata.TopicRecord{Name: name, Partitions: partitions}.Encode())
		for i := range partitions {
			put(metadata.PartitionKey(id, i),
				metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}.Encode())
		}
	}
	img, err := metadata.Load(kvs, revision)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// Shards are notified of created, deleted and grown topics, and of nothing else.
func TestTopicChangesForShards(t *testing.T) {
	prev := image(t, 1, map[string]int32{"same": 1, "more": 1, "gone": 2})
	next := image(t, 2, map[string]int32{"same": 1, "more": 3, "new": 1})
	c, err := NewGroups(GroupsOptions{Options: alone(t), Configs: registry(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e := c.changeEvent(next, metadata.Diff(prev, next)).(group.TopicsChanged)
	if again := c.changeEvent(next, metadata.Diff(next, next)); again != nil {
		t.Errorf("nothing has changed: %+v", again)
	}
	slices.Sort(e.Changed)
	if !slices.Equal(e.Changed, []string{"gone", "more", "new"}) || !slices.Equal(e.Deleted, []string{"gone"}) || e.All ||
		e.Topics.Version() != 2 {
		t.Errorf("%+v", e)
	}
}

// Shards match their expressions again when a rule comes or goes, if rules decide what members see.
func TestChangesOfRulesForShards(t *testing.T) {
	img := image(t, 1, nil)
	for _, visible := range []func(group.Viewer) func(string) bool{nil, func(group.Viewer) func(string) bool { return nil }} {
		c, err := NewGroups(GroupsOptions{Options: alone(t), Configs: registry(t), Visible: visible})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		for _, d := range []*metadata.Delta{{ACLsAdded: make([]acl.Binding, 1)}, {ACLsRemoved: make([]acl.Binding, 1)}} {
			if e, ok := c.changeEvent(img, d).(group.TopicsChanged); ok != (visible != nil) || e.All != ok {
				t.Errorf("%+v: %+v, %v", d, e, ok)
			}
		}
	}
}

func TestViewShowsTheImage(t *testing.T) {
	v := groupView{image(t, 5, map[string]int32{"a": 3, "b": 1})}
	a, ok := v.ByName("a")
	byID, ok2 := v.ByID(a.ID)
	if !ok || !ok2 || a != byID || a.Partitions != 3 || a.Name != "a" || v.Version() != 5 {
		t.Errorf("%+v %+v", a, byID)
	}
	if _, ok := v.ByName("c"); ok {
		t.Error("found a topic that does not exist")
	}
	if _, ok := v.ByID([16]byte{'c'}); ok {
		t.Error("found an id that does not exist")
	}
	if names := slices.Sorted(v.Names()); !slices.Equal(names, []string{"a", "b"}) {
		t.Error(names)
	}
	for range v.Names() {
		break // an iteration may end early
	}
}

func TestNotCoordinatorWithoutTopicAndAfterClose(t *testing.T) {
	c, err := NewGroups(GroupsOptions{Options: alone(t), Configs: registry(t)})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (err error) {
		c.Submit("g", group.List{}, func(_ any, e error) { err = e })
		return err
	}
	if err := ask(); err != coordinator.ErrNotCoordinator { //nolint:errorlint // it is what the contract names
		t.Error(err)
	}
	if got := c.Overview(t.Context()); got.List != nil {
		t.Errorf("%+v", got)
	}
	c.Close()
	must(t, c.Ensure()) // creates nothing: there is no controller that could
	c.Close()
}
