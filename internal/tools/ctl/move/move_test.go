package move

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// cluster returns metadata with brokers 1 to n, in racks if there are some, and a topic with these
// replicas.
func cluster(n int32, racks string, replicas ...[]int32) kadm.Metadata {
	m := kadm.Metadata{Topics: kadm.TopicDetails{}}
	for id := range n {
		b := kadm.BrokerDetail{NodeID: id + 1}
		if racks != "" {
			rack := racks[id : id+1]
			b.Rack = &rack
		}
		m.Brokers = append(m.Brokers, b)
	}
	t := kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{}}
	for i, r := range replicas {
		t.Partitions[int32(i)] = kadm.PartitionDetail{Topic: "t", Partition: int32(i), Replicas: r, Leader: r[0], ISR: r}
	}
	m.Topics["t"] = t
	return m
}

// Moves that copy nothing do not wait for those that do.
func TestMovesThatCopyNothingAreFirst(t *testing.T) {
	p := newPlan(cluster(3, "", []int32{1, 2}, []int32{1, 2}), nil)
	if err := errors.Join(p.Set("t", 0, []int32{3, 1}), p.Set("t", 1, []int32{2, 1})); err != nil {
		t.Fatal(err)
	}
	if all := p.Moves(); len(all) != 2 || all[0].n != 1 {
		t.Errorf("%+v", all)
	}
}

// A move that leaves fewer replicas says so, and is asked about. Others are not.
func TestMovesThatLeaveFewerReplicas(t *testing.T) {
	p := newPlan(cluster(4, "", []int32{1, 2, 3}, []int32{1, 2, 3}, []int32{1, 2, 3}, []int32{1, 2}), nil)
	for n, to := range [][]int32{{1, 2}, {4}, {2, 3, 4}, {3, 4, 1}} {
		if err := p.Set("t", int32(n), to); err != nil {
			t.Fatal(err)
		}
	}
	got := p.Fewer()
	slices.Sort(got)
	if want := []string{"t-0: from brokers 1,2,3 to 1,2, nothing to copy, 2 replicas instead of 3",
		"t-1: from brokers 1,2,3 to 4, bytes unknown, 1 replica instead of 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A broker that was drained before, or is drained in the same plan, gets no replica by any plan. It
// gives one up first.
func TestDrainedBrokersGetNoReplicas(t *testing.T) {
	all := [][]int32{{1, 2}, {2, 3}, {3, 1}, {1, 4}, {4, 2}}
	for name, make := range map[string]func(p *Plan) error{
		"leave":   func(p *Plan) error { return p.Leave(4) },
		"two":     func(p *Plan) error { p.drained = nil; return p.Leave(4, 5) },
		"fewer":   func(p *Plan) error { p.drained = append(p.drained, 4); return p.SetFactor("t", 1) },
		"more":    func(p *Plan) error { return p.SetFactor("t", 3) },
		"balance": func(p *Plan) error { p.Balance(); return nil },
		"fill":    func(p *Plan) error { p.Fill(5); return nil },
	} {
		p := newPlan(cluster(5, "", all...), nil)
		p.drained = []int32{5}
		if err := make(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, x := range p.parts {
			if slices.Contains(x.to, 5) || slices.Contains(x.to, 4) && (p.Drained(4)) {
				t.Errorf("%s: %v is on %v", name, x.partition, x.to)
			}
		}
	}
	p := newPlan(cluster(4, "", []int32{1, 2}), nil)
	if err := p.Leave(2, 3, 4); err == nil || !strings.Contains(err.Error(), "no other active broker") {
		t.Errorf("nowhere to go: %v", err)
	}
}

// Something must take replicas, also of topics that do not exist yet.
func TestTheLastBrokerThatTakesReplicasIsNotDrained(t *testing.T) {
	for _, c := range []struct {
		drained, leave []int32
		want           string
	}{
		{nil, []int32{1, 2}, ""},
		{[]int32{3}, []int32{3}, ""},
		{nil, []int32{1, 2, 3}, "no other active broker would take replicas; start another broker"},
		{[]int32{2, 3}, []int32{1}, "no other active broker would take replicas; start another broker, or let drained brokers get replicas again " +
			"with chronikctl broker drain 2 3 --end"},
	} {
		p := newPlan(cluster(3, ""), nil)
		p.drained = c.drained
		got := ""
		if err := p.Leave(c.leave...); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v are drained, and now %v: %q, want %q", c.drained, c.leave, got, c.want)
		}
	}
}

// A broker that others cannot replace is left once topics have fewer replicas: the error has the
// whole command, and says which other topics need it.
func TestTopicsThatCannotLeaveABroker(t *testing.T) {
	const command = "t has 3 replicas, and there is no other active broker for the one on broker 3; start another broker, " +
		"or reduce the replicas with chronikctl topic alter t --replication-factor 2"
	for others, want := range map[string]string{
		"":          command,
		"u":         command + "; 1 other topic needs the same: u",
		"u,v":       command + "; 2 other topics need the same: u, v",
		"u,v,w,x,y": command + "; 5 other topics need the same: u, v, w and 2 more",
	} {
		m := cluster(3, "", []int32{1, 2, 3}, []int32{1, 2, 3})
		// It moves to 2.
		m.Topics["a"] = kadm.TopicDetail{Topic: "a", Partitions: kadm.PartitionDetails{0: {Topic: "a", Replicas: []int32{3, 1}}}}
		for _, name := range strings.Split(others, ",") {
			if name != "" {
				m.Topics[name] = kadm.TopicDetail{Topic: name,
					Partitions: kadm.PartitionDetails{0: {Topic: name, Replicas: []int32{1, 2, 3}}}}
			}
		}
		err := newPlan(m, nil).Leave(3)
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", others, err, want)
		}
		p := newPlan(m, nil)
		for topic := range m.Topics {
			must.OK(t, p.SetFactor(topic, 2))
		}
		must.OK(t, p.Leave(3)) // which the remedy makes possible
	}
}

// Drained brokers do not count as those that can be chosen.
func TestAFactorThatDrainedBrokersPrevent(t *testing.T) {
	p := newPlan(cluster(3, "", []int32{1, 2}), nil)
	p.drained = []int32{3}
	err := p.SetFactor("t", 3)
	if err == nil || !strings.Contains(err.Error(), "only 2 active brokers") || !strings.Contains(err.Error(), "drain 3 --end") {
		t.Errorf("three replicas: %v", err)
	}
}

func TestPlans(t *testing.T) {
	all := [][]int32{{1, 2}, {2, 3}, {3, 1}}
	factor := func(n int) func(*Plan) error { return func(p *Plan) error { return p.SetFactor("t", n) } }
	leave := func(id int32) func(*Plan) error { return func(p *Plan) error { return p.Leave(id) } }
	fill := func(id int32) func(*Plan) error { return func(p *Plan) error { p.Fill(id); return nil } }
	balance := func(p *Plan) error { p.Balance(); return nil }
	lead := func(p *Plan) error { p.Lead(); return nil }
	yield := func(id int32) func(*Plan) error { return func(p *Plan) error { p.Yield(id); return nil } }
	spread := func(p *Plan) error { p.classes(func(parts []*part) { p.spread(parts, -1) }); return nil }
	ones, twos := [][]int32{{1}, {1}, {1}}, [][]int32{{1, 2}, {1, 2}, {1, 2}}
	firsts := [][]int32{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}}
	for _, c := range []struct {
		name     string
		brokers  int32
		racks    string
		replicas [][]int32
		plan     func(*Plan) error
		want     string
	}{
		{"three replicas", 3, "", all, factor(3), "0 [1 2 3], 1 [2 3 1], 2 [3 1 2]"},
		{"one replica", 3, "", all, factor(1), "0 [1], 1 [2], 2 [3]"},
		{"the fullest broker loses replicas", 4, "", [][]int32{{1, 2, 3, 4}, {1, 2}, {3, 2}}, factor(2), "0 [1 4]"},
		{"a dead broker loses replicas first", 3, "", [][]int32{{9, 1, 2}, {1, 9, 2}}, factor(2), "0 [1 2], 1 [1 2]"},
		{"a rack with two loses one", 3, "xyx", [][]int32{{1, 2, 3}}, factor(2), "0 [1 2]"},
		{"nothing to do", 3, "", all, factor(2), ""},
		{"the load is spread", 4, "", [][]int32{{1}, {1}, {1}}, factor(2), "0 [1 2], 1 [1 3], 2 [1 4]"},
		{"racks come first", 4, "xxxy", [][]int32{{1}, {1}, {1}}, factor(2), "0 [1 4], 1 [1 4], 2 [1 4]"},
		{"too few brokers", 3, "", all, factor(4), "error: t cannot have 4 replicas"},
		{"a broker leaves", 4, "", all, leave(3), "1 [2 4], 2 [4 1]"},
		{"the rack of the one that leaves is free", 4, "xyzz", [][]int32{{1, 2, 3}}, leave(3), "0 [1 2 4]"},
		{"a dead broker leaves", 3, "", [][]int32{{9, 1}, {2, 3}}, leave(9), "0 [2 1]"},
		{"there is no other broker", 2, "", all[:1], leave(2), "error: t has 2 replicas"},
		{"a cluster has grown", 3, "", firsts, balance, "0 [2 1 3], 1 [2 1 3], 2 [3 1 2]"},
		{"a new broker is filled", 4, "", all, fill(4), "0 [4 2]"},
		{"a new broker is empty", 4, "", [][]int32{{1}, {1}, {2}, {3}, {1}}, balance, "0 [4]"},
		{"a cluster is balanced", 3, "", all, balance, ""},
		{"a rack keeps its replica", 4, "xxyy", [][]int32{{1, 3}, {1, 3}, {1, 3}, {1, 3}}, balance, "0 [4 2], 1 [2 4], 2 [3 1]"},
		{"a preferred leader passes through a broker", 3, "", [][]int32{{1, 2}, {1, 2}, {1, 2}, {2, 3}, {2, 3}}, lead,
			"0 [2 1], 3 [3 2]"},
		{"a dead broker gets nothing", 2, "", [][]int32{{1, 9}, {1, 9}, {1, 9}}, balance, "0 [2 9]"},
		{"a broker gives its leaders up", 3, "", firsts[:3], yield(1), "0 [2 3 1], 1 [3 2 1], 2 [2 3 1]"},
		{"a broker is alone", 3, "", [][]int32{{1}, {2, 1}}, yield(1), ""},
		{"the preferred leader stays", 3, "", [][]int32{{1, 2}, {1, 3}}, factor(1), "0 [1], 1 [1]"},
		{"a shared rack loses one", 3, "xxy", [][]int32{{1, 2, 3}}, factor(2), "0 [1 3]"},
		{"only the rack of the one that leaves is free", 5, "xyzxz", [][]int32{{1, 2, 3}}, leave(3), "0 [1 2 5]"},
		{"a dead broker does not lead", 2, "", [][]int32{{1, 9}}, yield(1), ""},
		{"one that is not in sync does not lead", 2, "", [][]int32{{1, 2}}, func(p *Plan) error {
			p.parts[0].isr = []int32{1}
			p.Yield(1)
			return nil
		}, ""},
		{"internal topics are spread for themselves", 2, "", [][]int32{{1}, {1}, {2}, {2}}, func(p *Plan) error {
			p.parts[2].internal, p.parts[3].internal = true, true
			p.Balance()
			return nil
		}, "0 [2], 2 [1]"},
		{"what moves is not moved", 2, "", ones, func(p *Plan) error {
			p.moving = kadm.ListPartitionReassignmentsResponses{"t": {0: {}}}
			p.Balance()
			return nil
		}, "1 [2]"},
		{"what has no leader is not moved", 2, "", ones, func(p *Plan) error {
			p.parts[0].leader = -1
			p.Balance()
			return nil
		}, "1 [2]"},
		{"the smallest moves", 2, "", ones, func(p *Plan) error {
			p.sizes = map[partition]int64{{"t", 0}: 5, {"t", 1}: 1, {"t", 2}: 3}
			p.Balance()
			return nil
		}, "1 [2]"},
		{"the topic that is spread least moves", 2, "", ones, func(p *Plan) error {
			p.parts[0].topic = "u"
			p.Balance()
			return nil
		}, "1 [2]"},
		{"no second replica gets into a rack", 3, "xyy", twos, spread, "0 [1 3]"},
		{"replicas of a rack may stay in it", 3, "xxx", twos, spread, "0 [3 2], 1 [1 3]"},
		{"only one broker is filled", 4, "", [][]int32{{1}, {1}, {1}, {2}}, fill(4), "0 [4]"},
	} {
		m := cluster(c.brokers, c.racks, c.replicas...)
		p := newPlan(m, nil)
		err := c.plan(p)
		var got []string
		for _, x := range p.Moves() {
			got = append(got, fmt.Sprint(x.n, " ", x.to))
		}
		slices.Sort(got)
		text := strings.Join(got, ", ")
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != c.want && (err == nil || !strings.HasPrefix(text, c.want)) {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// The replicas that a move in progress removes do not count: they are gone when it is complete.
func TestPlansContinueFromTheMoveInProgress(t *testing.T) {
	for _, c := range []struct {
		name string
		plan func(*Plan) error
		want string
	}{
		{"more replicas", func(p *Plan) error { return p.SetFactor("t", 4) }, "[4 2 1 3]"},
		{"the same", func(p *Plan) error { return p.SetFactor("t", 3) }, "[]"},
		{"the broker that is being left", func(p *Plan) error { return p.Leave(3) }, "[]"},
		{"another broker", func(p *Plan) error { return p.Leave(2) }, "[4 3 1]"},
		{"a balance", func(p *Plan) error { p.Balance(); return nil }, "[]"},
	} {
		m := cluster(5, "", []int32{4, 2, 1, 3}) // from 3 to 4
		if c.name == "more replicas" {
			m.Brokers = m.Brokers[:4]
		}
		p := newPlan(m, kadm.ListPartitionReassignmentsResponses{"t": {0: {AddingReplicas: []int32{4}, RemovingReplicas: []int32{3}}}})
		if err := c.plan(p); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := "[]"
		if moves := p.Moves(); len(moves) == 1 {
			got = fmt.Sprint(moves[0].to)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if !p.topics["t"] {
			t.Errorf("%s: the command does not wait for the move in progress", c.name)
		}
	}
}

// Two topics, each with all leaders on one broker, are not balanced although each broker leads as
// many partitions.
func TestEachTopicHasLeadersEverywhere(t *testing.T) {
	p := newPlan(cluster(2, "", []int32{1, 2}, []int32{1, 2}, []int32{2, 1}, []int32{2, 1}), nil)
	p.parts[2].topic, p.parts[3].topic = "u", "u"
	p.Lead()
	var got []string
	for _, x := range p.Moves() {
		got = append(got, fmt.Sprint(x.n, " ", x.to))
	}
	if want := "[0 [2 1] 2 [1 2]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Any plan leaves each partition as many replicas as it had, on different brokers, and no broker
// with two more preferred leaders than another one that could have one of them: of each topic, and
// of all as far as each topic stays spread.
func TestABalanceIsOne(t *testing.T) {
	for seed := range uint64(600) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 1 + random.Int32N(6)
		everywhere, topics := seed%3 == 0, 1+random.IntN(4)
		var replicas [][]int32
		for range 1 + random.IntN(40) {
			var r []int32
			count := 1 + random.IntN(min(3, int(n)))
			if everywhere {
				count = int(n)
			}
			for _, b := range random.Perm(int(n))[:count] {
				r = append(r, int32(b)+1)
			}
			replicas = append(replicas, r)
		}
		grown := n
		if !everywhere {
			grown += random.Int32N(3)
		}
		p := newPlan(cluster(grown, "", replicas...), nil)
		for _, x := range p.parts {
			x.topic = fmt.Sprint("t", random.IntN(topics))
		}
		p.Balance()
		load := map[int32]int{}
		for i, x := range p.parts {
			seen := slices.Compact(slices.Sorted(slices.Values(x.to)))
			if len(seen) != len(replicas[i]) || len(x.to) != len(seen) {
				t.Fatalf("seed %d: %v became %v", seed, replicas[i], x.to)
			}
			for _, b := range x.to {
				load[b]++
			}
		}
		leads := newTally(p.parts)
		for a := int32(1); a <= grown; a++ {
			for b := int32(1); b <= grown; b++ {
				if load[a]-load[b] > 1 {
					t.Fatalf("seed %d: broker %d has %d replicas, broker %d %d", seed, a, load[a], b, load[b])
				}
				for topic, of := range leads.topics {
					if everywhere && of[a]-of[b] > 1 {
						t.Fatalf("seed %d: of %s, broker %d leads %d, broker %d %d", seed, topic, a, of[a], b, of[b])
					}
				}
				if everywhere && leads.all[a]-leads.all[b] > 1 {
					t.Fatalf("seed %d: broker %d leads %d, broker %d %d", seed, a, leads.all[a], b, leads.all[b])
				}
			}
			for topic, of := range leads.topics {
				if parts := partsOf(p, topic); p.pass(parts, leads, of, nil, a) {
					t.Fatalf("seed %d: the preferred leaders of %s are not spread: %v", seed, topic, of)
				}
			}
			if p.pass(p.parts, leads, leads.all, leads.spares, a) {
				t.Fatalf("seed %d: the preferred leaders are not spread: %v", seed, leads.all)
			}
		}
	}
}

func partsOf(p *Plan, topic string) []*part {
	return slices.DeleteFunc(slices.Clone(p.parts), func(x *part) bool { return x.topic != topic })
}

// A partition that has more replicas than the move gave it, because the controller raised their
// number meanwhile, has been moved. One that lacks some has not.
func TestAMoveThatTheControllerExceeded(t *testing.T) {
	for _, c := range []struct {
		name         string
		from, to, is []int32
		want         bool
	}{
		{"raised", []int32{1}, []int32{2}, []int32{1, 2, 3}, true},
		{"cancelled", []int32{1, 2}, []int32{2, 3}, []int32{1, 2}, false},
		{"replaced by another", []int32{1}, []int32{2}, []int32{1, 3, 4}, false},
		{"a smaller number, cancelled", []int32{1, 2, 3}, []int32{1, 2}, []int32{1, 2, 3}, false},
		{"in another order", []int32{1, 2}, []int32{2, 3}, []int32{3, 2}, false},
	} {
		m := &Move{from: c.from, to: c.to}
		if got := m.exceeded(c.is); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// The second round of broker maintain chooses other leaders than those that could not lead.
func TestOneThatCouldNotLeadIsNotAskedAgain(t *testing.T) {
	p := newPlan(cluster(3, "", []int32{2, 1, 3}, []int32{2, 1}, []int32{1, 2, 3}), nil)
	p.parts[0].leader, p.parts[1].leader = 1, 1
	alone := p.Yield(1, 2)
	var got []string
	for _, x := range p.Moves() {
		got = append(got, fmt.Sprint(x.n, " ", x.to))
	}
	if want := []string{"0 [3 2 1]", "2 [3 2 1]"}; !slices.Equal(got, want) || !slices.Equal(alone, []string{"t-1"}) {
		t.Errorf("moves %q, want %q; alone %q", got, want, alone)
	}
}

// A broker may lead what it does not prefer, because the preferred leader could not for a while.
// Then nothing moves, and the preferred leader is elected.
func TestWhatLeadsWithoutPreferenceIsElected(t *testing.T) {
	for name, plan := range map[string]func(*Plan){"yield": func(p *Plan) { p.Yield(1) }, "lead": func(p *Plan) { p.Lead() }} {
		p := newPlan(cluster(2, "", []int32{2, 1}, []int32{1, 2}, []int32{2, 1}, []int32{1, 2}), nil)
		p.parts[0].leader, p.parts[1].leader = 1, -1
		plan(p)
		if want := []partition{{"t", 0}}; !slices.Equal(p.elects, want) {
			t.Errorf("%s elects %v, want %v", name, p.elects, want)
		}
	}
}

// A dry run names each election that the run would ask for, and only those that change a leader.
func TestElectionsOfAPlan(t *testing.T) {
	p := newPlan(cluster(3, "", []int32{2, 1}, []int32{1, 2}, []int32{2, 1}, []int32{2, 1}, []int32{1, 2}, []int32{3, 1}), nil)
	p.parts[0].leader = 1 // elected although it does not move
	p.parts[2].leader = -1
	p.parts[3].leader, p.parts[3].isr = 1, []int32{1}
	p.Lead()
	if err := p.Set("t", 4, []int32{3, 1}); err != nil {
		t.Fatal(err)
	}
	p.parts[5].leader = 1 // the command is not about its topic
	p.parts[5].topic = "u"
	p.elects = slices.DeleteFunc(p.elects, func(x partition) bool { return x.n == 5 })
	var got []string
	for _, x := range p.elections(p.Moves()) {
		got = append(got, x.String()+" "+x.would())
	}
	want := []string{
		"t-0 would be led by broker 2, not by broker 1",
		"t-3 would stay with broker 1 until broker 2, its preferred leader, is in sync",
		"t-4 would be led by broker 3, not by broker 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("elections\n%q, want\n%q", got, want)
	}
}
