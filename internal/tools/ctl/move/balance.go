package move

import (
	"cmp"
	"slices"

	"github.com/chronik-io/chronik/internal/sorts"
)

// Balance spreads replicas, and then preferred leaders, evenly over the active brokers; topics of
// users and internal topics each for themselves, and leaders of each topic, too. It moves as few
// replicas as possible, and none into a rack that has one of the partition already, unless it
// leaves such a rack. Partitions without a leader stay as they are: they may not give up a replica.
func (p *Plan) Balance() {
	p.classes(func(parts []*part) { p.spread(parts, -1) })
	p.Lead()
}

// Fill moves replicas to one broker until it has its share, and spreads the preferred leaders.
func (p *Plan) Fill(broker int32) {
	p.classes(func(parts []*part) { p.spread(parts, broker) })
	p.Lead()
}

// Lead spreads the preferred leaders of each topic, and of all, over the replicas that there are,
// or are planned, and has them elected, also those of partitions that do not change.
func (p *Plan) Lead() {
	p.classes(p.lead)
	for _, x := range p.parts {
		if x.leader >= 0 && x.leader != x.to[0] {
			p.elects = append(p.elects, x.partition)
		}
	}
}

// Prefers returns how many partitions prefer a broker as their leader, with what is planned.
func (p *Plan) Prefers(broker int32) (n int) {
	for _, x := range p.parts {
		if x.to[0] == broker {
			n++
		}
	}
	return n
}

// Yield makes other brokers the leaders of the partitions that a broker leads, or prefers to lead:
// of those in sync, the one that is preferred, or else the one with the fewest. The unable ones
// become no leaders. It returns the partitions that have no other broker.
func (p *Plan) Yield(broker int32, unable ...int32) (alone []string) {
	leads := map[int32]int{}
	for _, x := range p.parts {
		p.topics[x.topic] = true
		leads[x.to[0]]++
	}
	for _, x := range p.parts {
		if x.to[0] != broker && (x.leader != broker || !slices.Contains(unable, x.to[0])) {
			if x.leader == broker {
				p.elects = append(p.elects, x.partition)
			}
			continue
		}
		best := -1
		for i, b := range x.to {
			if b != broker && p.active(b) && slices.Contains(x.isr, b) && !slices.Contains(unable, b) &&
				(best < 0 || leads[b] < leads[x.to[best]]) {
				best = i
			}
		}
		if best < 0 {
			alone = append(alone, x.String())
			continue
		}
		leads[x.to[0]]--
		leads[x.to[best]]++
		toFront(x.to, best)
		if at := slices.Index(x.to, broker); at > 0 {
			x.to = append(slices.Delete(x.to, at, at+1), broker)
		}
	}
	return alone
}

// Unable returns the preferred leaders that could not be elected when the plan was carried out.
func (p *Plan) Unable() []int32 { return p.unable }

// classes calls f with the partitions of users' topics, and with those of internal ones.
func (p *Plan) classes(f func(parts []*part)) {
	for _, internal := range []bool{false, true} {
		var parts []*part
		for _, x := range p.parts {
			if p.topics[x.topic] = true; x.internal == internal {
				parts = append(parts, x)
			}
		}
		f(parts)
	}
}

// spread moves replicas from the brokers with the most to those with the fewest, or to one broker
// if only is not negative.
func (p *Plan) spread(parts []*part, only int32) {
	load := map[int32]int{}
	for _, x := range parts {
		for _, b := range x.to {
			load[b]++
		}
	}
	for p.shift(parts, load, only) {
	}
}

// shift moves one replica and reports whether one can move.
func (p *Plan) shift(parts []*part, load map[int32]int, only int32) bool {
	type way struct{ from, to int32 }
	var ways []way
	for _, a := range p.brokers {
		for _, b := range p.brokers {
			if load[a.NodeID]-load[b.NodeID] > 1 && !p.Drained(b.NodeID) && (only < 0 || b.NodeID == only) {
				ways = append(ways, way{a.NodeID, b.NodeID})
			}
		}
	}
	sorts.SortStable(ways, func(x, y way) int {
		return cmp.Or(load[y.from]-load[x.from], load[x.to]-load[y.to])
	})
	for _, w := range ways {
		if x := p.choice(parts, w.from, w.to); x != nil {
			x.to[slices.Index(x.to, w.from)] = w.to
			load[w.from]--
			load[w.to]++
			p.load[w.from]--
			p.load[w.to]++
			return true
		}
	}
	return false
}

// choice returns the partition whose replica moves between two brokers: of the topic whose replicas
// are spread least, the smallest one. It returns nil if none can.
func (p *Plan) choice(parts []*part, from, to int32) *part {
	uneven := map[string]int{}
	for _, x := range parts {
		if slices.Contains(x.to, from) {
			uneven[x.topic]++
		}
		if slices.Contains(x.to, to) {
			uneven[x.topic]--
		}
	}
	var best *part
	for _, x := range parts {
		others := slices.DeleteFunc(slices.Clone(x.to), func(b int32) bool { return b == from })
		_, moves := p.moving[x.topic][x.n]
		if len(others) == len(x.to) || slices.Contains(others, to) || moves || x.leader < 0 ||
			p.shares(to, others) && !p.shares(from, others) {
			continue
		}
		if best == nil || cmp.Or(uneven[best.topic]-uneven[x.topic], cmp.Compare(p.sizes[x.partition], p.sizes[best.partition])) < 0 {
			best = x
		}
	}
	return best
}

// tally counts the preferred leaders on each broker, of all topics and of each.
type tally struct {
	all    map[int32]int
	topics map[string]map[int32]int
}

func newTally(parts []*part) *tally {
	t := &tally{all: map[int32]int{}, topics: map[string]map[int32]int{}}
	for _, x := range parts {
		if t.topics[x.topic] == nil {
			t.topics[x.topic] = map[int32]int{}
		}
		t.add(x, 1)
	}
	return t
}

func (t *tally) add(x *part, n int) {
	t.all[x.to[0]] += n
	t.topics[x.topic][x.to[0]] += n
}

// spares reports whether a topic is spread as evenly as now if another broker leads this partition.
func (t *tally) spares(x *part, to int32) bool {
	return t.topics[x.topic][x.to[0]] > t.topics[x.topic][to]
}

// lead changes preferred leaders until no active broker has two more of a topic than another one
// that could have one of them, directly or through others. Then it does so for all topics together,
// as far as each stays spread: a load is often that of one topic.
func (p *Plan) lead(parts []*part) {
	topics := map[string][]*part{}
	for _, x := range parts {
		topics[x.topic] = append(topics[x.topic], x)
	}
	t := newTally(parts)
	for topic, of := range topics {
		p.even(of, t, t.topics[topic], nil)
	}
	p.even(parts, t, t.all, t.spares)
}

// even changes preferred leaders of these partitions, and the tally, until leads, a part of the
// tally, can't become more even.
func (p *Plan) even(parts []*part, t *tally, leads map[int32]int, may func(x *part, to int32) bool) {
	ids := make([]int32, 0, len(p.brokers))
	for _, b := range p.brokers {
		ids = append(ids, b.NodeID)
	}
	for {
		sorts.SortStable(ids, func(a, b int32) int { return cmp.Or(leads[b]-leads[a], int(a)-int(b)) })
		if !slices.ContainsFunc(ids, func(from int32) bool { return p.pass(parts, t, leads, may, from) }) {
			return
		}
	}
}

// pass gives one preferred leadership of a broker to one that has at least two fewer, along the
// shortest chain of partitions that may change to their next leader, and reports whether there is
// one. Without may, all of them may.
func (p *Plan) pass(parts []*part, t *tally, leads map[int32]int, may func(x *part, to int32) bool, from int32) bool {
	by := map[int32]*part{from: nil} // how a broker is reached: it gets this partition from its leader
	for queue := []int32{from}; len(queue) > 0; queue = queue[1:] {
		if to := queue[0]; leads[to] <= leads[from]-2 {
			for at := to; at != from; {
				x := by[at]
				before := x.to[0]
				t.add(x, -1)
				toFront(x.to, slices.Index(x.to, at))
				t.add(x, 1)
				at = before
			}
			return true
		}
		for _, x := range parts {
			if x.to[0] != queue[0] {
				continue
			}
			for _, b := range x.to[1:] {
				if _, known := by[b]; !known && p.active(b) && (may == nil || may(x, b)) {
					by[b], queue = x, append(queue, b)
				}
			}
		}
	}
	return false
}

// toFront moves a replica to the front; the others keep their order.
func toFront(replicas []int32, at int) {
	b := replicas[at]
	copy(replicas[1:at+1], replicas[:at])
	replicas[0] = b
}
