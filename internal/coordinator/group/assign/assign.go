// Package assign computes which member of a group gets which partitions or tasks: the server-side
// assignors uniform and range of consumer groups (KIP-848), the sticky one of streams groups
// (KIP-1071), and simple of share groups (KIP-932).
//
// It owns the algorithms, as pure functions: the same input gives the same assignment. Uniform and
// range assign every partition of a subscribed topic to exactly one of its subscribers; Sticky
// assigns every task to exactly one member; Simple assigns every partition to one or more. The
// group coordinator calls them. They know neither epochs nor how members get from one assignment to
// the next.
package assign

import (
	"bytes"
	"slices"
	"strings"
)

// TopicID is a topic's id.
type TopicID = [16]byte

// Assignment maps topics to partitions; each list is sorted and not empty.
type Assignment map[TopicID][]int32

// Count returns the number of partitions.
func (a Assignment) Count() int {
	n := 0
	for _, list := range a {
		n += len(list)
	}
	return n
}

// Equal reports whether two assignments are equal.
func (a Assignment) Equal(b Assignment) bool {
	if len(a) != len(b) {
		return false
	}
	for id, list := range a {
		if !slices.Equal(list, b[id]) {
			return false
		}
	}
	return true
}

// Topics returns the topics, sorted.
func (a Assignment) Topics() []TopicID {
	ids := make([]TopicID, 0, len(a))
	for id := range a {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareTopics)
	return ids
}

func compareTopics(a, b TopicID) int { return bytes.Compare(a[:], b[:]) }

// Member is one member of the group.
type Member struct {
	ID       string
	Instance string    // empty: not static
	Topics   []TopicID // existing topics that it subscribes to, each once, in any order
	Previous Assignment
}

// Input is the input of an assignor, which does not change it.
type Input struct {
	Members    []Member          // in any order, ids are unique
	Partitions map[TopicID]int32 // number of partitions by topic
}

// Func is an assignor. It returns the assignments of all members, by id. A member without
// partitions may be missing or have an empty assignment.
type Func func(Input) map[string]Assignment

// ByName returns a built-in assignor, or nil if there is none of that name.
func ByName(name string) Func {
	switch name {
	case "uniform":
		return Uniform
	case "range":
		return Range
	}
	return nil
}

// Cost returns the number of members and partitions.
func (in Input) Cost() int {
	n := len(in.Members)
	for _, partitions := range in.Partitions {
		n += int(partitions)
	}
	return n
}

// sorted returns the members in a stable order. Static members are sorted by instance, so that a
// member that returns with another id keeps its position.
func (in Input) sorted() []Member {
	list := slices.Clone(in.Members)
	slices.SortFunc(list, func(a, b Member) int {
		if c := strings.Compare(a.Instance, b.Instance); c != 0 {
			if a.Instance == "" || b.Instance == "" {
				return -c // static members first
			}
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// subscribers returns the indexes of each topic's subscribers in members, in that order, and the
// topics, sorted.
func (in Input) subscribers(members []Member) (map[TopicID][]int, []TopicID) {
	by := map[TopicID][]int{}
	var topics []TopicID
	for i, m := range members {
		for _, t := range m.Topics {
			if in.Partitions[t] <= 0 {
				continue
			}
			if by[t] == nil {
				topics = append(topics, t)
			}
			by[t] = append(by[t], i)
		}
	}
	slices.SortFunc(topics, compareTopics)
	return by, topics
}

// Range assigns every subscriber a contiguous range of each topic's partitions. If they don't
// divide evenly, the first subscribers get one more. Members that subscribe to the same topics get
// the same partition numbers of each.
func Range(in Input) map[string]Assignment {
	members := in.sorted()
	by, topics := in.subscribers(members)
	out := make(map[string]Assignment, len(members))
	for _, t := range topics {
		subs, next := by[t], int32(0)
		each, more := in.Partitions[t]/int32(len(subs)), in.Partitions[t]%int32(len(subs))
		for i, m := range subs {
			n := each
			if int32(i) < more {
				n++
			}
			if n == 0 {
				break
			}
			a := out[members[m].ID]
			if a == nil {
				a = Assignment{}
				out[members[m].ID] = a
			}
			for ; n > 0; n-- {
				a[t] = append(a[t], next)
				next++
			}
		}
	}
	return out
}
