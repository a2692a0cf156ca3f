package assign

import (
	"cmp"
	"fmt"
	"maps"
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
		for _, p := range slices.Sorted(slices.Values(in.Partitions[t])) {
			list[n].spots = append(list[n].spots, spot{t, p})
		}
	}
	out := make(map[string]Assignment, len(members))
	load := make([]int, len(members))
	for _, c := range list {
		s := newSharing(members, c, load)
		s.retain()
		s.fill()
		for j, i := range c.subscribers {
			load[i] += len(s.has[j])
			for _, n := range slices.Sorted(maps.Keys(s.has[j])) {
				id := members[i].ID
				if out[id] == nil {
					out[id] = Assignment{}
				}
				out[id][c.spots[n].topic] = append(out[id][c.spots[n].topic], c.spots[n].partition)
			}
		}
	}
	return out
}

// class has the partitions of all topics with the same subscribers.
type class struct {
	subscribers []int // indexes of members
	spots       []spot
}

type spot struct {
	topic     TopicID
	partition int32
}

// sharing is the assignment of a class. Members and partitions are indexes of it.
type sharing struct {
	wanted  int                // members for each partition
	had     [][]int            // partitions that each member had
	quota   []int              // partitions for each member
	has     []map[int]struct{} // partitions of each member so far
	holders []int              // number of members of each partition so far
	open    []int              // members with fewer partitions than their quota
}

// newSharing computes the quotas. Members that had more partitions get one more, if they don't
// divide evenly, otherwise those with the smaller load.
func newSharing(members []Member, c class, load []int) *sharing {
	m, n := len(c.subscribers), len(c.spots)
	s := &sharing{wanted: (m + n - 1) / n, had: make([][]int, m), quota: make([]int, m), has: make([]map[int]struct{}, m),
		holders: make([]int, n)}
	index := make(map[spot]int, n)
	for i, x := range c.spots {
		index[x] = i
	}
	order := make([]int, m)
	for j, i := range c.subscribers {
		order[j], s.has[j] = j, map[int]struct{}{}
		for _, t := range members[i].Previous.Topics() {
			for _, p := range members[i].Previous[t] {
				if x, stays := index[spot{t, p}]; stays {
					s.had[j] = append(s.had[j], x)
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
	had := make([]int, len(s.holders))
	for _, list := range s.had {
		for _, i := range list {
			had[i]++
		}
	}
	for j, list := range s.had {
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(had[a], had[b]) })
		for _, i := range list {
			if len(s.has[j]) < s.quota[j] && s.holders[i] < s.wanted {
				s.give(j, i)
			}
		}
	}
}

func (s *sharing) give(j, i int) {
	s.has[j][i] = struct{}{}
	s.holders[i]++
}

// fill assigns what is left to the members below their quota, in turn.
func (s *sharing) fill() {
	for j := range s.has {
		if len(s.has[j]) < s.quota[j] {
			s.open = append(s.open, j)
		}
	}
	for i := range s.holders {
		for s.holders[i] < s.wanted {
			k := slices.IndexFunc(s.open, func(j int) bool { _, has := s.has[j][i]; return !has })
			if k < 0 {
				k = 0
				s.exchange(s.open[0], i)
			} else {
				s.give(s.open[k], i)
			}
			j := s.open[k]
			if s.open = slices.Delete(s.open, k, k+1); len(s.has[j]) < s.quota[j] {
				s.open = append(s.open, j)
			}
		}
	}
}

// exchange gives partition i to a member that lacks it, and another one of that member to j. Every
// member below its quota has i already. Members that lack it have all of their quota, which is at
// least what j has. So each of them has a partition that j lacks.
func (s *sharing) exchange(j, i int) {
	for x := range s.has {
		if _, has := s.has[x][i]; has {
			continue
		}
		for _, q := range slices.Sorted(maps.Keys(s.has[x])) {
			if _, has := s.has[j][q]; !has {
				delete(s.has[x], q)
				s.has[j][q] = struct{}{}
				s.give(x, i)
				return
			}
		}
	}
}
