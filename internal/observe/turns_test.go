package observe

import (
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

// A process registers again after another one with its number: both live. One that restarts is
// another process each time.
func TestProcessesThatRegisterByTurns(t *testing.T) {
	c := &Cluster{}
	register := func(process byte, host string) []view.Turns {
		t.Helper()
		b := metadata.Broker{Incarnation: metadata.ID{process}, Listeners: []metadata.Endpoint{{Host: host, Port: 9092}}}
		img, err := metadata.Load([]metadata.KV{{Key: metadata.BrokerKey(2), Value: b.Encode(), ModRevision: 1}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		c.registrations(img)
		c.registrations(img)
		var x view.Cluster
		c.turns(img, &x, time.Now())
		return x.Turns
	}
	for process := byte(1); process < 20; process++ { // restarts
		if got := register(process, "a"); len(got) > 0 {
			t.Fatalf("process %d: %+v", process, got)
		}
	}
	if got := register(20, "b"); len(got) > 0 {
		t.Errorf("the first registration of a copy: %+v", got)
	}
	got := register(19, "a")
	if len(got) != 1 || got[0].Broker != 2 || got[0].Addresses != [2]string{"a:9092", "b:9092"} {
		t.Fatalf("the first process again: %+v", got)
	}
	if got = register(20, "b"); len(got) != 1 || got[0].Addresses != [2]string{"b:9092", "a:9092"} {
		t.Errorf("the copy again: %+v", got)
	}
	img, x := metadata.Empty(), view.Cluster{}
	if c.turns(img, &x, time.Now()); len(x.Turns) > 0 {
		t.Errorf("an unregistered broker: %+v", x.Turns)
	}
	later := time.Now().Add(turnsFor)
	if got := register(20, "b"); len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	img, err := metadata.Load([]metadata.KV{{Key: metadata.BrokerKey(2), Value: metadata.Broker{}.Encode(), ModRevision: 1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c.turns(img, &x, later); len(x.Turns) > 0 {
		t.Errorf("later: %+v", x.Turns)
	}
}

// A process that another one has replaced may not learn of that, and asks in vain to register. That
// both live is known then, too. A process that starts is refused until it knows of the one before.
func TestAProcessThatIsRefusedAgainAndAgainLives(t *testing.T) {
	c := &Cluster{}
	listener := func(host string) []metadata.Endpoint { return []metadata.Endpoint{{Host: host, Port: 9092}} }
	var img *metadata.Image
	register := func(process byte, host string) {
		t.Helper()
		b := metadata.Broker{Incarnation: metadata.ID{process}, Listeners: listener(host)}
		var err error
		img, err = metadata.Load([]metadata.KV{{Key: metadata.BrokerKey(2), Value: b.Encode(), ModRevision: 1}}, 1)
		must.OK(t, err)
		c.registrations(img)
	}
	turns := func(at time.Time) []view.Turns {
		var x view.Cluster
		c.turns(img, &x, at)
		return x.Turns
	}
	c.Stale(2, metadata.ID{1}, listener("a")) // of a broker that is not registered
	register(1, "a")
	register(2, "b")
	for range 3 {
		c.Stale(2, metadata.ID{3}, listener("c"))
		c.Stale(2, metadata.ID{2}, listener("b"))
	}
	c.Stale(2, metadata.ID{1}, listener("a"))
	if got := turns(time.Now()); len(got) > 0 {
		t.Fatalf("processes that start, and a request that was under way: %+v", got)
	}
	c.Stale(2, metadata.ID{1}, listener("a"))
	got := turns(time.Now())
	if len(got) != 1 || got[0].Broker != 2 || got[0].Addresses != [2]string{"b:9092", "a:9092"} {
		t.Fatalf("refused again: %+v", got)
	}
	if got = turns(time.Now().Add(turnsFor)); len(got) > 0 {
		t.Errorf("later: %+v", got)
	}
}

// The checks have to know of each change of brokers that clients are shown.
func TestChangesOfBrokersAreAnnounced(t *testing.T) {
	var got []int64
	c := &Cluster{Changed: func(revision int64) { got = append(got, revision) }}
	for _, x := range []struct {
		version int64
		delta   metadata.Delta
	}{{1, metadata.Delta{Brokers: true}}, {2, metadata.Delta{Cluster: true}}, {3, metadata.Delta{Liveness: []int32{2}}}} {
		img, err := metadata.Load(nil, x.version)
		must.OK(t, err)
		must.OK(t, c.Follow(t.Context(), metadata.Empty(), img, &x.delta))
	}
	if !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("announced %d, want 1 and 3", got)
	}
}
