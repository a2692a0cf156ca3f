package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
)

func node(id int32, member uint64) State {
	return State{Name: "c", Seeds: SeedsHash([]string{"a:1", "b:1", "c:1"}),
		Self: Member{Node: id, ID: member, Address: fmt.Sprintf("%c:1", 'a'+id-1)}}
}

func answers(states ...*State) []Answer {
	var list []Answer
	for i, s := range states {
		list = append(list, Answer{Seed: fmt.Sprintf("%c:1", 'a'+i), State: s})
	}
	return list
}

// A node that joins says that it waits in vain if a voter reports that most votes are lost: those
// of brokers that run with other metadata directories. What one that is away has is not known.
func TestANodeThatJoinsSaysThatMostVotesAreLost(t *testing.T) {
	a := node(1, 99)
	vote := func(id int32, lost bool) Vote {
		return Vote{Node: id, Address: fmt.Sprintf("%c:1", 'a'+id-1), Lost: lost}
	}
	for _, x := range []struct {
		votes []Vote
		led   bool
		want  string
	}{
		{[]Vote{vote(1, true), vote(2, true)}, false, "broker 1 (a:1), broker 2 (b:1), of 3 voters, run with other metadata directories"},
		{[]Vote{vote(1, true), vote(2, true)}, false, "stop broker 3 (c:1), which has the metadata, run " +
			"`chronikd recover --config FILE --lost 1,2` there"},
		{[]Vote{vote(1, true), vote(2, true)}, true, ""},
		{[]Vote{vote(1, true), vote(2, false)}, false, ""},
		{[]Vote{vote(1, true), vote(2, true), vote(4, false), vote(5, false)}, false, ""},
		{[]Vote{vote(5, true), vote(1, true), vote(2, true), vote(4, false)}, false, "--lost 1,2,4,5`"},
		{nil, false, ""},
	} {
		c := node(3, 13)
		if c.Cluster, c.Votes = "X", x.votes; x.led {
			c.Leader = c.Self
		}
		d := Decide(a, answers(&a, nil, &c))
		if d.Step != Join || (d.Gone == "") != (x.want == "") || !strings.Contains(d.Gone, x.want) {
			t.Errorf("%+v: step %d, %q, want %q", x.votes, d.Step, d.Gone, x.want)
		}
	}
	if !Gone([]Vote{vote(1, true), vote(2, true)}, 0) || Gone([]Vote{vote(1, true), vote(2, false), vote(3, false)}, 0) {
		t.Error("votes that a node without one knows")
	}
}

func TestDecide(t *testing.T) {
	a, b, c := node(1, 11), node(2, 12), node(3, 13)
	all := []Member{a.Self, b.Self, c.Self}
	seen := func(s State) *State { s.Seen = FormationID(all); return &s }
	old := b
	old.Cluster, old.Generation, old.Leader = "X", metadata.ID{7}, c.Self
	formedByAll := b
	formedByAll.Cluster, formedByAll.Generation = identity(all)
	change := func(s State, f func(*State)) *State { f(&s); return &s }
	data := *change(a, func(s *State) { s.Cluster = "A" })
	for _, x := range []struct {
		name    string
		self    State
		answers []Answer
		step    Step
		why     string
	}{
		{"a seed is silent", a, answers(&a, &b, nil), Wait, "c:1"},
		{"a seed has not heard all others", *seen(a), answers(&a, seen(b), &c), Wait, "c:1 has not"},
		{"this node has not told the others", a, answers(&a, seen(b), seen(c)), Wait, "confirmed"},
		{"all agree", *seen(a), answers(seen(a), seen(b), seen(c)), Form, ""},
		{"a node that is no seed", node(4, 14), answers(seen(a), seen(b), seen(c)), Wait, "not one of them"},
		{"a seed has a cluster", *seen(a), answers(seen(a), &old, nil), Join, ""},
		{"a founder that was slower", a, answers(&a, &formedByAll, &c), Form, ""},
		{"a founder that was slower, and a silent one", a, answers(&a, &formedByAll, nil), Join, ""},
		{"a founder that lost its directory", node(1, 99), answers(change(a, func(s *State) { s.Self.ID = 99 }), &formedByAll, &c), Join, ""},
		{"a seed of another cluster", a, []Answer{{Seed: "b:1", Rejected: `cluster.name is "d"`}}, Refuse, `b:1: cluster.name is "d"`},
		{"metadata lost", a, answers(&a, change(b, func(s *State) { s.Logs = "X" }), &c), Refuse, "restore"},
		{"metadata lost, and a silent seed", a, answers(&a, change(b, func(s *State) { s.Logs = "X" }), nil), Wait, "c:1"},
		{"own metadata lost", *change(a, func(s *State) { s.Logs = "X" }), answers(&a, &old, nil), Join, ""},
		{"logs of another cluster", *change(a, func(s *State) { s.Logs = "Y" }), answers(&a, &old, nil), Refuse, "Y"},
		{"another name", a, answers(&a, change(b, func(s *State) { s.Name = "d" }), &c), Refuse, `"d"`},
		{"another list of seeds", a, answers(&a, change(b, func(s *State) { s.Seeds = "0" }), &c), Refuse, "other cluster.seeds"},
		{"a copied directory", a, answers(&a, &b, change(c, func(s *State) { s.Self.ID = 12 })), Refuse, "copy"},
		{"a node id twice", a, answers(&a, &b, change(c, func(s *State) { s.Self.Node = 2 })), Refuse, "node.id=2"},
		{"this node's id", node(2, 14), answers(&a, &b, &c), Refuse, "node.id=2"},
		{"two clusters", a, answers(&a, &old, change(c, func(s *State) { s.Cluster = "Y" })), Refuse, "X and Y"},
		{"a grown cluster has other seeds", a, answers(&a, change(old, func(s *State) { s.Seeds = "0" }), nil), Join, ""},
		{"a node with data is alone", data, answers(&data, nil, nil), Begin, ""},
		{"a node with data and empty seeds", data, answers(&data, seen(b), seen(c)), Begin, ""},
		{"a node with data that is no seed", data, answers(nil, &b, &c), Wait, "advertises"},
		{"a node with data that is certainly no seed", data, answers(&b, &c), Refuse, "advertises"},
		{"a node with data, and a cluster", data, answers(&data, &old, nil), Refuse, "A and X"},
		{"two nodes with data", data, answers(&data, change(b, func(s *State) { s.Cluster = "B" }), nil), Refuse, "A and B"},
		{"an empty node beside one with data", *seen(b), answers(&data, seen(b), seen(c)), Join, ""},
		{"an empty node beside one with data, and a silent one", *seen(b), answers(&data, seen(b), nil), Join, ""},
		{"an empty node whose seed with data is silent", b, answers(nil, &b, &c), Wait, "a:1"},
	} {
		d := Decide(x.self, x.answers)
		if d.Step != x.step || !strings.Contains(d.Why, x.why) {
			t.Errorf("%s: step %d (%s), want %d (%s)", x.name, d.Step, d.Why, x.step, x.why)
		}
	}
	formed := Decide(*seen(a), answers(seen(a), seen(b), seen(c)))
	if again := Decide(*seen(c), answers(seen(a), seen(b), seen(c))); again.Cluster != formed.Cluster ||
		again.Generation != formed.Generation || !slices.Equal(again.Members, formed.Members) || len(formed.Cluster) != 22 {
		t.Errorf("two members form %+v and %+v", formed, again)
	}
	d := Decide(a, answers(&a, &old, nil))
	if d.Cluster != "X" || d.Generation != (metadata.ID{7}) || !slices.Equal(d.Contacts, []Member{c.Self, b.Self}) {
		t.Errorf("joins %+v", d)
	}
}

// seedRun is a run of three seeds that form a cluster while answers are delayed and nodes are
// restarted or wiped.
type seedRun struct {
	nodes  []State
	heard  [][]*State // by node: the answers of its current round
	member uint64
}

func (f *seedRun) ask(i, j int) {
	s := f.nodes[j]
	f.heard[i][j] = &s
}

func (f *seedRun) decide(i int) {
	n := &f.nodes[i]
	if n.Cluster != "" {
		return
	}
	self := *n
	f.heard[i][i] = &self
	d := Decide(self, answers(f.heard[i]...))
	f.heard[i] = make([]*State, len(f.nodes))
	n.Seen = d.Seen
	if d.Step == Form || d.Step == Join {
		n.Cluster, n.Generation = d.Cluster, d.Generation
	}
}

// Delayed answers, restarts and lost directories never lead to two clusters that both have a
// majority of the seeds.
func TestOneClusterIsFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &seedRun{member: 100}
		for i := range int32(3) {
			f.nodes = append(f.nodes, node(i+1, uint64(i)+10))
			f.heard = append(f.heard, make([]*State, 3))
		}
		at := rapid.IntRange(0, 2)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			i := at.Draw(t, "node")
			switch rapid.IntRange(0, 19).Draw(t, "step") {
			case 0: // wiped
				f.member++
				f.nodes[i] = node(int32(i)+1, f.member)
				f.heard[i] = make([]*State, 3)
			case 1: // restarted: what it has seen is forgotten
				f.nodes[i].Seen = ""
				f.heard[i] = make([]*State, 3)
			case 2, 3, 4, 5, 6, 7:
				f.decide(i)
			default:
				f.ask(i, at.Draw(t, "seed"))
			}
			count := map[string]int{}
			for _, n := range f.nodes {
				if n.Cluster != "" {
					count[n.Cluster]++
				}
			}
			if len(count) > 1 {
				t.Fatalf("two clusters: %+v", f.nodes)
			}
		}
	})
}

// Without failures, three rounds of questions are enough.
func TestSeedsAgreeInThreeRounds(t *testing.T) {
	f := &seedRun{}
	for i := range int32(3) {
		f.nodes = append(f.nodes, node(i+1, uint64(i)+10))
		f.heard = append(f.heard, make([]*State, 3))
	}
	for range 3 {
		for i := range f.nodes {
			for j := range f.nodes {
				f.ask(i, j)
			}
			f.decide(i)
		}
	}
	for _, n := range f.nodes {
		if n.Cluster == "" || n.Cluster != f.nodes[0].Cluster {
			t.Fatalf("after three rounds: %+v", f.nodes)
		}
	}
}

// Seeds that do not answer are named with the reason, each reason once.
func TestSeedsWithoutAnAnswerAreNamedWithTheReason(t *testing.T) {
	silent := []Answer{{Seed: "a:1", Unconnected: "expired"}, {Seed: "b:1"}, {Seed: "c:1", Unconnected: "expired"}}
	const want = "no answer from a:1, c:1 (expired); no answer from b:1"
	if got := Reasons(silent); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if d := Decide(State{}, silent); d.Step != Wait || !strings.HasPrefix(d.Why, want+"; ") {
		t.Errorf("%+v", d)
	}
}
