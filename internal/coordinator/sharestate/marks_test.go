package sharestate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// plain returns the marks of offsets one by one.
func plain(marks []format.Batch, start int64) map[int64]format.Batch {
	m := map[int64]format.Batch{}
	for _, b := range marks {
		for o := max(b.First, start); o <= b.Last; o++ {
			if b.State != 0 || b.Count != 0 {
				m[o] = format.Batch{State: b.State, Count: b.Count}
			}
		}
	}
	return m
}

// random returns marks in order.
func random(r *rand.Rand) (marks []format.Batch) {
	for at := int64(r.IntN(5)); len(marks) < r.IntN(8); {
		b := format.Batch{First: at, Last: at + int64(r.IntN(4)), State: []int8{0, 2, 3, 4}[r.IntN(4)], Count: int16(r.IntN(3))}
		marks, at = append(marks, b), b.Last+1+int64(r.IntN(3)/2*r.IntN(4))
	}
	return marks
}

// Marks are merged and compared as if each offset had one.
func TestMarksAreThoseOfTheOffsets(t *testing.T) {
	for seed := range uint64(30_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		old, marks, start := merge(nil, random(r), 0, false), random(r), int64(r.IntN(8))
		takeLower := r.IntN(4) == 0
		want, outranked := plain(old, start), false
		for o, m := range plain(old, 0) {
			for _, b := range marks {
				outranked = outranked || b.First <= o && o <= b.Last && order(b, m) < 0
			}
		}
		for _, b := range marks {
			for o := max(b.First, start); o <= b.Last; o++ {
				if m := (format.Batch{State: b.State, Count: b.Count}); takeLower || order(m, want[o]) > 0 {
					want[o] = m
				}
				if want[o] == (format.Batch{}) {
					delete(want, o)
				}
			}
		}
		if got := outranks(old, marks); got != outranked {
			t.Fatalf("seed %d: %v outranks %v: %t", seed, old, marks, got)
		}
		given := slices.Clone(marks)
		got := merge(slices.Clone(old), marks, start, takeLower)
		if !slices.Equal(marks, given) {
			t.Fatalf("seed %d: the marks of the request were changed", seed)
		}
		if !reflect.DeepEqual(plain(got, 0), want) {
			t.Fatalf("seed %d: %v with %v from %d on: %v", seed, old, marks, start, got)
		}
		for i, m := range got {
			if m.First > m.Last || i > 0 && (m.First <= got[i-1].Last || m.First == got[i-1].Last+1 && order(m, got[i-1]) == 0) {
				t.Fatalf("seed %d: not in order: %v", seed, got)
			}
		}
	}
}

// The memory of marks that are gone is released.
func TestMarksShrink(t *testing.T) {
	var marks []format.Batch
	for o := int64(0); o < 2000; o += 2 {
		marks = merge(marks, []format.Batch{{First: o, Last: o, State: 2, Count: 1}}, 0, false)
	}
	if len(marks) != 1000 {
		t.Fatalf("%d marks", len(marks))
	}
	if marks = merge(marks, nil, 1990, false); len(marks) != 5 || cap(marks) > 64 {
		t.Errorf("%d marks have the space of %d", len(marks), cap(marks))
	}
	if marks = merge(marks, nil, 2000, false); marks != nil {
		t.Errorf("%v", marks)
	}
}

func TestMalformedMarksAreRefused(t *testing.T) {
	one := window.Mark{First: 4, Last: 5, State: window.Acknowledged, Count: 1}
	bad := func(change func(*window.Mark)) []window.Mark {
		m := one
		change(&m)
		return []window.Mark{m}
	}
	if !valid([]window.Mark{one, {First: 6, Last: 6, Count: math.MaxInt16}}) || !valid(nil) {
		t.Error("marks in order are refused")
	}
	for i, marks := range [][]window.Mark{
		bad(func(m *window.Mark) { m.First = -1 }), bad(func(m *window.Mark) { m.Last = 3 }),
		bad(func(m *window.Mark) { m.Last = math.MaxInt64 }), bad(func(m *window.Mark) { m.State = window.Acquired }),
		bad(func(m *window.Mark) { m.State = window.Delayed }), bad(func(m *window.Mark) { m.State = 200 }),
		bad(func(m *window.Mark) { m.Count = -1 }), bad(func(m *window.Mark) { m.Count = math.MaxInt16 + 1 }),
		{one, one}, {one, {First: 5, Last: 9}}, {one, {First: 1, Last: 2}},
	} {
		if valid(marks) {
			t.Errorf("%d: %+v is accepted", i, marks)
		}
	}
}

// A write of one mark, into a state that has more and more of them.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int64{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n, " marks"), func(b *testing.B) {
			d := newDesk(Config{SnapshotUpdates: 500, Memory: config().Memory})
			ask[[]*kerr.Error](d, Initialize{{keyOf(0), 1, 0, 0}})
			p := ask[[]Peeked](d, Peek{keyOf(0)})[0]
			ask[[]Opened](d, Open{{Key: keyOf(0), ID: p.ID, Recorded: -1, Leader: 0, Cut: -1, Epochs: beginning(0)}})
			w := Writing{Key: keyOf(0), ID: p.ID}
			for o := range n {
				w.Marks = append(w.Marks, window.Mark{First: 2 * o, Last: 2 * o, State: window.Acknowledged, Count: 1})
			}
			ask[[]*kerr.Error](d, Write{w})
			at := int64(0)
			for b.Loop() {
				at = (at + 7919) % n
				w.Marks = []window.Mark{{First: 2*at + 1, Last: 2*at + 1, State: window.Acknowledged, Count: 2}}
				var out coordinator.Effects
				d.s.Handle(d.time(), 1, Write{w}, &out)
			}
		})
	}
}
