package assign

import "slices"

// Uniform balances the number of partitions of all members as far as subscriptions allow, and moves
// as few partitions as possible.
func Uniform(in Input) map[string]Assignment {
	u := newUniform(in)
	if u.homogeneous() {
		u.keepFair()
		u.assignRest()
	} else {
		u.keepAll()
		u.assignRestSparse()
		u.balance()
	}
	return u.result()
}

// partition is one partition to be assigned.
type partition struct {
	topic TopicID
	index int32
}

// uniform is one run of the assignor.
type uniform struct {
	in      Input
	members []Member
	by      map[TopicID][]int // subscribers
	topics  []TopicID
	total   int
	owner   map[partition]int
	count   []int // partitions per member
}

func newUniform(in Input) *uniform {
	u := &uniform{in: in, members: in.sorted()}
	u.by, u.topics = in.subscribers(u.members)
	for _, t := range u.topics {
		u.total += int(in.Partitions[t])
	}
	u.owner = make(map[partition]int, u.total)
	u.count = make([]int, len(u.members))
	return u
}

// homogeneous reports whether all members subscribe to the same topics.
func (u *uniform) homogeneous() bool {
	for _, subs := range u.by {
		if len(subs) != len(u.members) {
			return false
		}
	}
	return true
}

func (u *uniform) assign(p partition, member int) {
	u.owner[p] = member
	u.count[member]++
}

// previous calls fn for the previous partitions of a member that still exist, that it still
// subscribes to, and that are not assigned yet. It stops when fn returns false.
func (u *uniform) previous(member int, fn func(partition) bool) {
	m := &u.members[member]
	for _, t := range m.Previous.Topics() {
		if _, subscribed := slices.BinarySearch(u.by[t], member); !subscribed {
			continue
		}
		for _, i := range m.Previous[t] {
			p := partition{t, i}
			if _, taken := u.owner[p]; taken || i >= u.in.Partitions[t] {
				continue
			}
			if !fn(p) {
				return
			}
		}
	}
}

// keepFair lets every member keep previous partitions up to its fair share. total%n members get a
// share that is one larger; members that had that many keep it while there are such shares.
func (u *uniform) keepFair() {
	if len(u.members) == 0 {
		return
	}
	share, larger := u.total/len(u.members), u.total%len(u.members)
	for m := range u.members {
		u.previous(m, func(p partition) bool {
			switch {
			case u.count[m] < share:
			case u.count[m] == share && larger > 0:
				larger--
			default:
				return false
			}
			u.assign(p, m)
			return true
		})
	}
}

// assignRest assigns the remaining partitions to the members with the fewest; all members subscribe
// to all topics.
func (u *uniform) assignRest() {
	order := make([]int, len(u.members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return u.count[a] - u.count[b] })
	// Partitions go round by round to the members in order. A round ends before the first member
	// that has more than order[0], so that each partition goes to a member with the fewest, and
	// order is sorted again when the next round begins.
	at := 0
	u.unowned(func(p partition) {
		if at > 0 && (at == len(order) || u.count[order[at]] > u.count[order[0]]) {
			at = 0
		}
		u.assign(p, order[at])
		at++
	})
}

// unowned calls fn for every unassigned partition. Topics with the fewest subscribers come first,
// because they leave the least choice.
func (u *uniform) unowned(fn func(partition)) {
	topics := slices.Clone(u.topics)
	slices.SortStableFunc(topics, func(a, b TopicID) int { return len(u.by[a]) - len(u.by[b]) })
	for _, t := range topics {
		for i := range u.in.Partitions[t] {
			if _, taken := u.owner[partition{t, i}]; !taken {
				fn(partition{t, i})
			}
		}
	}
}

// keepAll lets all members keep their previous partitions.
func (u *uniform) keepAll() {
	for m := range u.members {
		u.previous(m, func(p partition) bool {
			u.assign(p, m)
			return true
		})
	}
}

// assignRestSparse assigns each remaining partition to its subscriber with the fewest.
func (u *uniform) assignRestSparse() {
	u.unowned(func(p partition) { u.assign(p, u.leastLoaded(p.topic)) })
}

func (u *uniform) leastLoaded(t TopicID) int {
	subs := u.by[t]
	best := subs[0]
	for _, m := range subs[1:] {
		if u.count[m] < u.count[best] {
			best = m
		}
	}
	return best
}

// balance moves partitions to subscribers that have at least two fewer, until none is left. Every
// move reduces the sum of the squared counts, so the loop ends.
func (u *uniform) balance() {
	for moved := true; moved; {
		moved = false
		for _, t := range u.topics {
			for i := range u.in.Partitions[t] {
				p := partition{t, i}
				from, to := u.owner[p], u.leastLoaded(t)
				if u.count[from] > u.count[to]+1 {
					u.count[from]--
					u.assign(p, to)
					moved = true
				}
			}
		}
	}
}

func (u *uniform) result() map[string]Assignment {
	out := make(map[string]Assignment, len(u.members))
	for _, t := range u.topics {
		for i := range u.in.Partitions[t] {
			id := u.members[u.owner[partition{t, i}]].ID
			if out[id] == nil {
				out[id] = Assignment{}
			}
			out[id][t] = append(out[id][t], i)
		}
	}
	return out
}
