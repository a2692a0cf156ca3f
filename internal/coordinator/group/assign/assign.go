// Package assign computes who of a consumer group gets which partitions: the
// server-side assignors uniform and range of KIP-848.
//
// It owns the two algorithms, as pure functions: the same input gives the same
// assignment. They promise that every partition of a topic to which a member
// subscribes goes to exactly one of its subscribers. The group coordinator calls
// them; they know neither epochs nor how members get from one assignment to the
// next.
package assign

import (
	"bytes"
	"slices"
	"strings"
)

// TopicID is a topic's id.
type TopicID = [16]byte

// Assignment is partitions by topic; each list is sorted and not empty.
type Assignment map[TopicID][]int32

// Count is how many partitions there are in it.
func (a Assignment) Count() int {
	n := 0
	for _, list := range a {
		n += len(list)
	}
	return n
}

// Equal compares two assignments.
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

// Topics are the topics in it, sorted.
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
	Topics   []TopicID // that it subscribes to and that exist, each once, in any order
	Previous Assignment
}

// Input is what an assignor works on. It is not changed.
type Input struct {
	Members    []Member          // in any order, ids are unique
	Partitions map[TopicID]int32 // how many each topic has
}

// Func is an assignor: the assignments of all members, by id. A member that gets
// nothing may be missing or have an empty one.
type Func func(Input) map[string]Assignment

// ByName returns a built-in assignor, nil where there is none of that name.
func ByName(name string) Func {
	switch name {
	case "uniform":
		return Uniform
	case "range":
		return Range
	}
	return nil
}

// Cost is how much there is to do: members and partitions.
func (in Input) Cost() int {
	n := len(in.Members)
	for _, partitions := range in.Partitions {
		n += int(partitions)
	}
	return n
}

// sorted returns the members in an order that lasts: static ones by instance, so
// that one that comes back under another id keeps its place.
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

// subscribers returns, by topic, the indexes of its subscribers in members, in
// that order; and the topics sorted.
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

// Range gives every subscriber of a topic a run of its partitions, the first ones
// one more where they don't divide: members that subscribe to the same topics get
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
