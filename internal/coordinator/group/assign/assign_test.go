package assign

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func topicID(i int) TopicID { return TopicID{15: byte(i + 1)} }

// draw draws a random group. In homogeneous groups all members subscribe to all topics.
func draw(t *rapid.T, homogeneous bool) Input {
	in := Input{Partitions: map[TopicID]int32{}}
	topics := rapid.IntRange(1, 5).Draw(t, "topics")
	for i := range topics {
		in.Partitions[topicID(i)] = rapid.Int32Range(1, 12).Draw(t, "partitions")
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "members") {
		m := Member{ID: fmt.Sprint("m", i)}
		if rapid.Bool().Draw(t, "static") {
			m.Instance = fmt.Sprint("i", i)
		}
		for j := range topics {
			if homogeneous || rapid.Bool().Draw(t, "subscribes") {
				m.Topics = append(m.Topics, topicID(j))
			}
		}
		in.Members = append(in.Members, m)
	}
	return in
}

// check checks what both assignors promise.
func check(t *rapid.T, in Input, out map[string]Assignment) {
	subscribed := map[TopicID]map[string]bool{}
	for _, m := range in.Members {
		for _, id := range m.Topics {
			if subscribed[id] == nil {
				subscribed[id] = map[string]bool{}
			}
			subscribed[id][m.ID] = true
		}
	}
	owner := map[string]string{}
	for member, a := range out {
		for id, list := range a {
			for n, p := range list {
				key := fmt.Sprint(id, p)
				if owner[key] != "" {
					t.Fatalf("%s is assigned to %s and %s", key, owner[key], member)
				}
				if !subscribed[id][member] || p < 0 || p >= in.Partitions[id] || n > 0 && list[n-1] >= p {
					t.Fatalf("%s has %v of topic %v", member, list, id)
				}
				owner[key] = member
			}
		}
	}
	want := 0
	for id := range subscribed {
		want += int(in.Partitions[id])
	}
	if len(owner) != want {
		t.Fatalf("%d partitions are assigned, there are %d", len(owner), want)
	}
}

func TestEveryPartitionGoesToExactlyOneSubscriber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t, rapid.Bool().Draw(t, "homogeneous"))
		for _, f := range []Func{Uniform, Range} {
			out := f(in)
			check(t, in, out)
			for i, m := range in.Members { // the assignment is the input of the next run
				in.Members[i].Previous = out[m.ID]
			}
			again := f(in)
			check(t, in, again)
			for _, m := range in.Members {
				if !out[m.ID].Equal(again[m.ID]) {
					t.Fatalf("%s had %v, and got %v although the group did not change", m.ID, out[m.ID], again[m.ID])
				}
			}
		}
	})
}

func TestUniformIsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t, rapid.Bool().Draw(t, "homogeneous"))
		out := Uniform(in)
		change(t, &in, out)
		out = Uniform(in)
		check(t, in, out)
		for _, rich := range in.Members {
			for id := range out[rich.ID] {
				for _, poor := range in.Members {
					for _, s := range poor.Topics {
						if s == id && out[rich.ID].Count() > out[poor.ID].Count()+1 {
							t.Fatalf("%s has %d, %s only %d and subscribes to a topic that could move", rich.ID, out[rich.ID].Count(),
								poor.ID, out[poor.ID].Count())
						}
					}
				}
			}
		}
	})
}

// change removes or adds a member.
func change(t *rapid.T, in *Input, previous map[string]Assignment) {
	for i, m := range in.Members {
		in.Members[i].Previous = previous[m.ID]
	}
	if len(in.Members) > 1 && rapid.Bool().Draw(t, "leaves") {
		in.Members = in.Members[1:]
		return
	}
	in.Members = append(in.Members, Member{ID: "new", Topics: in.Members[0].Topics})
}

// If all members subscribe to the same topics, only the necessary partitions move: those of members
// that left, and those above the new fair shares.
func TestUniformMovesAsFewAsPossible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t, true)
		before := Uniform(in)
		change(t, &in, before)
		after := Uniform(in)
		check(t, in, after)
		total, kept, least := 0, 0, 0
		for _, n := range in.Partitions {
			total += int(n)
		}
		share, larger := total/len(in.Members), total%len(in.Members)
		for _, m := range in.Members {
			had := before[m.ID].Count()
			least += min(had, share)
			if had > share && larger > 0 {
				larger--
				least++
			}
			for id, list := range after[m.ID] {
				for _, p := range list {
					for _, old := range before[m.ID][id] {
						if old == p {
							kept++
						}
					}
				}
			}
		}
		if kept < least {
			t.Fatalf("%d stayed where they were, %d could have", kept, least)
		}
	})
}

func TestRangeAssignsTheSameNumbersOfEachTopic(t *testing.T) {
	a, b := topicID(0), topicID(1)
	out := Range(Input{Partitions: map[TopicID]int32{a: 5, b: 5}, Members: []Member{
		{ID: "m2", Topics: []TopicID{a, b}}, {ID: "m1", Topics: []TopicID{b, a}}, {ID: "m0", Instance: "z", Topics: []TopicID{a, b}}}})
	for id, want := range map[string]Assignment{"m0": {a: {0, 1}, b: {0, 1}}, "m1": {a: {2, 3}, b: {2, 3}}, "m2": {a: {4}, b: {4}}} {
		if !out[id].Equal(want) {
			t.Errorf("%s got %v", id, out[id])
		}
	}
}

func TestByName(t *testing.T) {
	if ByName("uniform") == nil || ByName("range") == nil || ByName("sticky") != nil {
		t.Error("uniform or range not found")
	}
	if out := Uniform(Input{}); len(out) != 0 {
		t.Error(out)
	}
}
