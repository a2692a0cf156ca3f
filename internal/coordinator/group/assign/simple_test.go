package assign

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type spot struct {
	topic     TopicID
	partition int32
}

// shared makes an input of Simple out of one of the other assignors. Some partitions are missing.
func shared(t *rapid.T, in Input) SharedInput {
	out := SharedInput{Partitions: map[TopicID][]int32{}}
	for _, m := range in.Members {
		m.Instance = ""
		out.Members = append(out.Members, m)
	}
	for id, n := range in.Partitions {
		for p := range n {
			if rapid.IntRange(0, 3).Draw(t, "missing") > 0 {
				out.Partitions[id] = append(out.Partitions[id], p)
			}
		}
	}
	return out
}

// checkShared checks what Simple promises, and returns the size of each member's assignment.
func checkShared(t *rapid.T, in SharedInput, out map[string]Assignment) map[string]int {
	sizes, holders, subscribers := map[string]int{}, map[spot]int{}, map[spot]int{}
	for _, m := range in.Members {
		sizes[m.ID] = out[m.ID].Count()
		for id, list := range out[m.ID] {
			for n, p := range list {
				if !slices.Contains(m.Topics, id) || !slices.Contains(in.Partitions[id], p) || n > 0 && list[n-1] >= p {
					t.Fatalf("%s has %v of topic %v", m.ID, list, id)
				}
				holders[spot{id, p}]++
			}
		}
		for _, id := range m.Topics {
			if len(in.Partitions[id]) > 0 && sizes[m.ID] == 0 {
				t.Fatalf("%s has no partition", m.ID)
			}
			for _, p := range in.Partitions[id] {
				subscribers[spot{id, p}]++
			}
		}
	}
	for x := range subscribers {
		if holders[x] == 0 {
			t.Fatalf("no member has %v", x)
		}
	}
	return sizes
}

func TestSimpleSharesPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		homogeneous := rapid.Bool().Draw(t, "homogeneous")
		in := shared(t, draw(t, homogeneous))
		for range 3 {
			out := Simple(in)
			sizes := checkShared(t, in, out)
			if homogeneous {
				lowest, highest, all, partitions := 1<<30, 0, 0, 0
				for _, n := range sizes {
					lowest, highest, all = min(lowest, n), max(highest, n), all+n
				}
				for _, list := range in.Partitions {
					partitions += len(list)
				}
				if highest-lowest > 1 {
					t.Fatalf("sizes from %d to %d", lowest, highest)
				}
				if partitions > 0 && all != partitions*((len(in.Members)+partitions-1)/partitions) {
					t.Fatalf("%d assignments of %d partitions to %d members", all, partitions, len(in.Members))
				}
			}
			for i, m := range in.Members {
				in.Members[i].Previous = out[m.ID]
			}
			for id, a := range Simple(in) {
				if !a.Equal(out[id]) {
					t.Fatalf("without a change, %s gets %v instead of %v", id, a, out[id])
				}
			}
			if n := len(in.Members); n > 1 && rapid.Bool().Draw(t, "leaves") {
				in.Members = in.Members[:n-1]
			} else {
				in.Members = append(in.Members, Member{ID: fmt.Sprint("new", n), Topics: in.Members[0].Topics})
			}
			for id, list := range in.Partitions {
				if rapid.Bool().Draw(t, "grows") {
					in.Partitions[id] = append(list, 100+int32(len(list)))
				}
			}
		}
	})
}

// A member that joins takes what it needs, and nothing else moves. So it is when one leaves.
func TestSimpleIsSticky(t *testing.T) {
	in := SharedInput{Partitions: map[TopicID][]int32{topicID(0): {0, 1, 2, 3, 4, 5, 6, 7}}}
	for _, id := range []string{"a", "b", "c"} {
		in.Members = append(in.Members, Member{ID: id, Topics: []TopicID{topicID(0)}})
	}
	before := Simple(in)
	moved := func(next map[string]Assignment) (n int) {
		for id, a := range next {
			for _, p := range a[topicID(0)] {
				if !slices.Contains(before[id][topicID(0)], p) {
					n++
				}
			}
		}
		return n
	}
	for i, m := range in.Members {
		in.Members[i].Previous = before[m.ID]
	}
	in.Members = append(in.Members, Member{ID: "d", Topics: []TopicID{topicID(0)}})
	if n := moved(Simple(in)); n != 2 {
		t.Errorf("with a fourth member, %d partitions move", n)
	}
	in.Members = in.Members[1:3]
	if n := moved(Simple(in)); n != 3 {
		t.Errorf("without one of three members, %d partitions move", n)
	}
}

// One partition for many members, and the other way round.
func TestSimpleCost(t *testing.T) {
	in := SharedInput{Partitions: map[TopicID][]int32{topicID(0): {0}}}
	for i := range 1000 {
		in.Members = append(in.Members, Member{ID: fmt.Sprintf("m%04d", i), Topics: []TopicID{topicID(0)}})
	}
	out := Simple(in)
	if len(out) != 1000 || out["m0500"].Count() != 1 {
		t.Errorf("%d members have the partition", len(out))
	}
	in.Members = in.Members[:3]
	for p := range int32(10_000) {
		in.Partitions[topicID(0)] = append(in.Partitions[topicID(0)], p+1)
	}
	if out = Simple(in); out["m0000"].Count() < 3333 {
		t.Errorf("a third of the members has %d of 10,001 partitions", out["m0000"].Count())
	}
}
