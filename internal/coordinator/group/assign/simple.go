package assign

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// SimpleAssignor is Kafka's name of Simple.
const SimpleAssignor = "simple"

// SharedInput is the input of Simple, which does not change it.
type SharedInput struct {
	Members []Member // in any order, ids are unique; none is static
	// Partitions are the partitions of each topic that may be assigned, each once, in any order.
	Partitions map[TopicID][]int32
}

// Simple assigns partitions to the members of a share group (KIP-932). Members share a partition if
// there are more members than partitions. Topics with the same subscribers are assigned together:
// each partition goes to the same number of members, the smallest with which each subscriber has
// one, and the sizes of two subscribers differ by at most one. A member keeps what it had, as far
// as that permits.
func Simple(in SharedInput) map[string]Assignment {
	members := slices.Clone(in.Members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	by := map[TopicID][]int{}
	for i, m := range members {
		for _, t := range m.Topics {
			if len(in.Partitions[t]) > 0 {
				by[t] = append(by[t], i)
			}
		}
	}
	topics := make([]TopicID, 0, len(by))
	for t := range by {
		topics = append(topics, t)
	}
	slices.SortFunc(topics, compareTopics)
	classes := map[string]int{} // by subscribers
	var list []class
	for _, t := range topics {
		key := fmt.Sprint(by[t])
		n, known := classes[key]
		if !known {
			n = len(list)
			classes[key] = n
			list = append(list, class{subscribers: by[t]})
		}
		list[n].add(t, in.Partitions[t])
	}
	out := make(map[string]Assignment, len(members))
	load := make([]int, len(members))
	for _, c := range list {
		s := newSharing(members, c, load)
		s.retain()
		s.fill()
		for j, i := range c.subscribers {
			load[i] += s.count[j]
		}
		s.collect(members, out)
	}
	return out
}

// class has the partitions of all topics with the same subscribers. They are numbered.
type class struct {
	subscribers []int // indexes of members
	topics      []classTopic
	partitions  int
}

// classTopic is a topic of a class, whose partitions have the numbers from first on.
type classTopic struct {
	id         TopicID
	first      int
	partitions []int32 // sorted
}

func (c *class) add(id TopicID, partitions []int32) {
	c.topics = append(c.topics, classTopic{id, c.partitions, slices.Sorted(slices.Values(partitions))})
	c.partitions += len(partitions)
}

// sharing is the assignment of a class. Members are numbered as in class.subscribers.
type sharing struct {
	class
	wanted  int     // members for each partition
	had     [][]int // partitions that each member had
	quota   []int   // partitions for each member
	count   []int   // partitions of each member so far
	holders []int   // members of each partition so far: those of partition i begin at i*wanted
	held    []int   // number of members of each partition so far
	open    []int   // members with fewer partitions than their quota
}

// newSharing computes the quotas. Members that had more partitions get one more, if they don't
// divide evenly, otherwise those with the smaller load.
func newSharing(members []Member, c class, load []int) *sharing {
	m, n := len(c.subscribers), c.partitions
	s := &sharing{class: c, wanted: (m + n - 1) / n, had: make([][]int, m), quota: make([]int, m), count: make([]int, m),
		held: make([]int, n)}
	s.holders = make([]int, n*s.wanted)
	order := make([]int, m)
	for j, i := range c.subscribers {
		order[j] = j
		for _, t := range c.topics {
			for _, p := range members[i].Previous[t.id] {
				if k, stays := slices.BinarySearch(t.partitions, p); stays {
					s.had[j] = append(s.had[j], t.first+k)
				}
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(s.had[b]), len(s.had[a])), cmp.Compare(load[c.subscribers[a]], load[c.subscribers[b]]))
	})
	for k, j := range order {
		if s.quota[j] = s.wanted * n / m; k < s.wanted*n%m {
			s.quota[j]++
		}
	}
	return s
}

// retain gives members what they had, the partitions with the fewest members first.
func (s *sharing) retain() {
	had := make([]int, len(s.held))
	for _, list := range s.had {
		for _, i := range list {
			had[i]++
		}
	}
	for j, list := range s.had {
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(had[a], had[b]) })
		for _, i := range list {
			if s.count[j] < s.quota[j] && s.held[i] < s.wanted {
				s.give(j, i)
			}
		}
	}
}

// members returns the members of a partition.
func (s *sharing) members(i int) []int { return s.holders[i*s.wanted : i*s.wanted+s.held[i]] }

func (s *sharing) has(j, i int) bool { return slices.Contains(s.members(i), j) }

func (s *sharing) give(j, i int) {
	s.holders[i*s.wanted+s.held[i]] = j
	s.held[i]++
	s.count[j]++
}

// fill assigns what is left to the members below their quota, in turn.
func (s *sharing) fill() {
	for j := range s.count {
		if s.count[j] < s.quota[j] {
			s.open = append(s.open, j)
		}
	}
	for i := range s.held {
		for s.held[i] < s.wanted {
			k := slices.IndexFunc(s.open, func(j int) bool { return !s.has(j, i) })
			if k < 0 {
				k = 0
				s.exchange(s.open[0], i)
			} else {
				s.give(s.open[k], i)
			}
			j := s.open[k]
			if s.open = slices.Delete(s.open, k, k+1); s.count[j] < s.quota[j] {
				s.open = append(s.open, j)
			}
		}
	}
}

// exchange gives partition i to a member that lacks it, and another one of that member to j. Every
// member below its quota has i already. Members that lack it have all of their quota, which is at
// least what j has. So each of them has a partition that j lacks.
func (s *sharing) exchange(j, i int) {
	for x := range s.count {
		if s.has(x, i) {
			continue
		}
		for q := range s.held {
			if at := slices.Index(s.members(q), x); at >= 0 && !s.has(j, q) {
				s.members(q)[at] = j
				s.count[j]++
				s.count[x]--
				s.give(x, i)
				return
			}
		}
	}
}

// collect adds the assignment of the class to those of the members.
func (s *sharing) collect(members []Member, out map[string]Assignment) {
	lists := make([][]int32, len(s.count))
	for _, t := range s.topics {
		for k, p := range t.partitions {
			for _, j := range s.members(t.first + k) {
				lists[j] = append(lists[j], p)
			}
		}
		for j, list := range lists {
			if len(list) == 0 {
				continue
			}
			id := members[s.subscribers[j]].ID
			if out[id] == nil {
				out[id] = Assignment{}
			}
			out[id][t.id], lists[j] = slices.Clone(list), list[:0]
		}
	}
}
