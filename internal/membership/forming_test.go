package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// meeting is a network of nodes that become a cluster. Each node's address is that of its id.
type meeting struct {
	mu    sync.Mutex
	list  []string
	nodes map[string]*attendee
}

// attendee is one node.
type attendee struct {
	m        *meeting
	state    State
	server   *Server
	progress string
	down     bool
	voters   []uint64 // of the metadata that it wrote
	learners []uint64 // members that it was asked to add
	alone    bool     // no other broker has its metadata
}

func newMeeting(ids ...int32) *meeting {
	m := &meeting{nodes: map[string]*attendee{}}
	for _, id := range ids {
		m.list = append(m.list, fmt.Sprintf("n%d:1", id))
	}
	for _, id := range ids {
		m.add(id, uint64(id)+100)
	}
	return m
}

// add adds a node with an empty directory, or empties that of one.
func (m *meeting) add(id int32, member uint64) *attendee {
	address := fmt.Sprintf("n%d:1", id)
	n := &attendee{m: m}
	n.state = State{Name: "c", Seeds: SeedsHash(m.list), Self: Member{Node: id, ID: member, Address: address}}
	n.server = NewServer(ServerOptions{
		State: n.current, Reach: func(Member) {}, Group: n, Controller: func() Controller { return nil },
		Gone: func(_ context.Context, member uint64) (bool, error) { return member == 666, nil },
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes[address] = n
	return n
}

func (n *attendee) current() State {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	return n.state
}

// AddLearner implements Group: the member gets the metadata at once.
func (n *attendee) AddLearner(_ context.Context, member uint64) error {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if n.state.Leader.ID != n.state.Self.ID {
		return ErrNotLeader
	}
	n.learners = append(n.learners, member)
	for _, other := range n.m.nodes {
		if other.state.Self.ID == member {
			other.state.Cluster, other.state.Generation = n.state.Cluster, n.state.Generation
		}
	}
	return nil
}

// AskSeed implements Seeds.
func (n *attendee) AskSeed(ctx context.Context, seed string, method uint16, body []byte) ([]byte, string, error) {
	n.m.mu.Lock()
	other := n.m.nodes[seed]
	silent := other == nil || other.down
	n.m.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	p, err := other.server.Handle(ctx, n.state.Self.ID, method, body)
	return p, "", err
}

// Call implements Seeds.
func (n *attendee) Call(ctx context.Context, member uint64, method uint16, body []byte) ([]byte, error) {
	n.m.mu.Lock()
	seed := ""
	for address, other := range n.m.nodes {
		if other.state.Self.ID == member {
			seed = address
		}
	}
	n.m.mu.Unlock()
	p, _, err := n.AskSeed(ctx, seed, method, body)
	return p, err
}

// Reach implements Seeds.
func (*attendee) Reach(Member) {}

// enter runs Enter for the node.
func (n *attendee) enter(ctx context.Context) error {
	set := func(f func()) {
		n.m.mu.Lock()
		defer n.m.mu.Unlock()
		f()
	}
	return Enter(ctx, EnterOptions{
		List: n.m.list, Seeds: n, Self: n.current, Note: func(seen string) { set(func() { n.state.Seen = seen }) },
		Bootstrap: func(generation metadata.ID, voters []uint64, keys []metadata.KV) error {
			c, err := metadata.DecodeCluster(keys[0])
			if err != nil || c.Generation != generation {
				return fmt.Errorf("the first metadata: %+v, %w", c, err)
			}
			set(func() { n.state.Cluster, n.state.Generation, n.voters = c.ID, generation, voters })
			return nil
		},
		HasMetadata: func(ctx context.Context, most time.Duration) bool {
			for end := time.Now().Add(most); n.current().Cluster == "" && time.Now().Before(end) && ctx.Err() == nil; {
				time.Sleep(10 * time.Millisecond)
			}
			return n.current().Cluster != ""
		},
		Alone: func() bool {
			n.m.mu.Lock()
			defer n.m.mu.Unlock()
			return n.alone
		},
		Progress: func(text string) { set(func() { n.progress = text }) },
	})
}

// bring gives a node the metadata of a broker without seeds.
func (n *attendee) bring(cluster string) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	n.state.Cluster, n.state.Generation, n.state.Leader, n.alone = cluster, metadata.ID{8}, n.state.Self, true
}

// A node with data begins the cluster, in whatever order the seeds start, and the empty ones join
// it as learners.
func TestANodeWithDataBegins(t *testing.T) {
	for first := range 3 {
		synctest.Test(t, func(t *testing.T) {
			m := newMeeting(1, 2, 3)
			m.nodes["n1:1"].bring("A")
			errs := make(chan error, 3)
			for _, n := range m.nodes {
				n.down = true
			}
			for i := range 3 {
				n := m.nodes[m.list[(first+i)%3]]
				m.mu.Lock()
				n.down = false
				m.mu.Unlock()
				go func() { errs <- n.enter(t.Context()) }()
				time.Sleep(time.Minute)
			}
			for range 3 {
				if err := <-errs; err != nil {
					t.Fatal(err)
				}
			}
			for address, n := range m.nodes {
				if n.current().Cluster != "A" || (address != "n1:1" && n.voters != nil) {
					t.Errorf("%s: %+v, voters %d", address, n.current(), n.voters)
				}
			}
			if l := m.nodes["n1:1"].learners; len(l) != 2 {
				t.Errorf("learners %d", l)
			}
		})
	}
}

// A node with data that has seen another one with data does not begin a cluster because the other
// one ended first.
func TestARefusalOutlastsTheOtherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(1, 2, 3)
		m.nodes["n1:1"].bring("A")
		m.nodes["n2:1"].bring("B")
		m.nodes["n3:1"].down = true
		done := make(chan error)
		go func() { done <- m.nodes["n1:1"].enter(t.Context()) }()
		time.Sleep(refuseAfter / 2)
		m.mu.Lock()
		m.nodes["n2:1"].down = true
		m.mu.Unlock()
		if err := <-done; !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "A and B") {
			t.Errorf("error %v", err)
		}
	})
}

func TestSeedsWaitForEachOtherAndForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(1, 2, 3)
		m.nodes["n3:1"].down = true
		errs := make(chan error, 3)
		for _, n := range m.nodes {
			if !n.down {
				go func() { errs <- n.enter(t.Context()) }()
			}
		}
		time.Sleep(time.Hour)
		m.mu.Lock()
		first := m.nodes["n1:1"]
		if first.state.Cluster != "" || !strings.Contains(first.progress, "n3:1") {
			t.Errorf("without the third seed: cluster %q, progress %q", first.state.Cluster, first.progress)
		}
		m.nodes["n3:1"].down = false
		m.mu.Unlock()
		go func() { errs <- m.nodes["n3:1"].enter(t.Context()) }()
		for range 3 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range m.nodes {
			if n.state.Cluster == "" || n.state.Cluster != first.state.Cluster || len(n.voters) != 3 {
				t.Errorf("node %+v: the voters are %d, and the cluster is not %q", n.state, n.voters, first.state.Cluster)
			}
		}
	})
}

func TestALaterBrokerJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(1, 2, 3)
		leader := m.nodes["n2:1"]
		for _, n := range m.nodes {
			n.state.Cluster, n.state.Generation, n.state.Leader = "X", metadata.ID{1}, leader.state.Self
		}
		m.nodes["n1:1"].down = true
		if err := m.add(4, 104).enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := m.nodes["n4:1"]; n.state.Cluster != "X" || len(n.voters) > 0 || len(leader.learners) != 1 {
			t.Errorf("the new node has %+v, the leader added %d", n.state, leader.learners)
		}
		gone := m.add(5, 666)
		if err := gone.enter(t.Context()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "unregistered") {
			t.Errorf("an unregistered node joins with %v", err)
		}
		leader.state.Leader = Member{} // deposed, without a successor
		late := m.add(6, 106)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := late.enter(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(late.progress, "metadata leader of cluster X") {
			t.Errorf("without a leader: %v, progress %q", err, late.progress)
		}
	})
}

func TestJoinIsRefusedAcrossClusters(t *testing.T) {
	m := newMeeting(1)
	n := m.nodes["n1:1"]
	q := JoinRequest{Cluster: "X", Generation: metadata.ID{1}, Member: Member{Node: 2, ID: 7}}
	ask := func(from uint64) *Failure {
		_, err := n.server.Handle(t.Context(), from, MethodJoin, encode(q))
		return failure(err)
	}
	if f := ask(7); f == nil || f.Code != CodeNotLeader {
		t.Errorf("a node without a cluster answers %v", f)
	}
	n.state.Cluster, n.state.Generation, n.state.Leader = "X", metadata.ID{2}, n.state.Self
	if f := ask(7); f == nil || f.Code != CodeRefused {
		t.Errorf("another generation is answered with %v", f)
	}
	n.state.Generation = metadata.ID{1}
	if f := ask(8); f == nil || f.Code != CodeRefused {
		t.Errorf("a request for another member is answered with %v", f)
	}
	if f := ask(7); f != nil || len(n.learners) != 1 {
		t.Errorf("a right request is answered with %v", f)
	}
	if _, err := n.server.Handle(t.Context(), 7, MethodHeartbeat, nil); failure(err) == nil || failure(err).Code != CodeNotLeader {
		t.Errorf("without a controller: %v", err)
	}
}

// A contradiction that lasts ends the start, and one that passes does not.
func TestAContradictionEndsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(1, 2, 3)
		third := m.nodes["n3:1"]
		third.state.Self.Node = 2 // its predecessor, for a moment
		errs := make(chan error, 3)
		for _, n := range m.nodes {
			go func() { errs <- n.enter(t.Context()) }()
		}
		time.Sleep(refuseAfter / 2)
		m.mu.Lock()
		third.state.Self.Node = 3
		m.mu.Unlock()
		for range 3 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		m = newMeeting(1, 2, 3)
		m.nodes["n3:1"].state.Name = "d"
		for _, n := range m.nodes {
			go func() { errs <- n.enter(t.Context()) }()
		}
		for range 3 {
			err := <-errs
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"c"`) || !strings.Contains(err.Error(), `"d"`) {
				t.Errorf("two names: %v", err)
			}
		}
	})
}
