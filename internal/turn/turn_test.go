package turn

import (
	"slices"
	"testing"
)

// numbered writes its number down when it is committed, and what it leaves for the
// end.
type numbered struct {
	n    int
	did  *[]int
	last Finisher
}

func (c *numbered) Commit(t *Turn) {
	*c.did = append(*c.did, c.n)
	if c.last != nil {
		t.Last(c.last)
	}
}

// finisher writes its number down, below zero.
type finisher struct {
	n   int
	did *[]int
}

func (f *finisher) Finish() { *f.did = append(*f.did, -f.n) }
func (f *finisher) Wake()   { *f.did = append(*f.did, -10*f.n) }

func TestTheSameIsDoneOnce(t *testing.T) {
	var did []int
	var all []*numbered
	first, second := &finisher{1, &did}, &finisher{2, &did}
	for i := range double {
		all = append(all, &numbered{i, &did, []Finisher{first, second, nil}[i%3]})
	}
	var turn Turn
	for range 3 {
		for _, c := range all {
			turn.Later(c)
		}
		turn.Later(all[0])
	}
	if turn.Idle() {
		t.Error("a turn with work is said to be idle")
	}
	turn.Finish()
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, -10, -2}; !slices.Equal(did, want) {
		t.Errorf("done: %v", did)
	}
	if !turn.Idle() {
		t.Error("a turn that ended is not idle")
	}
	did = nil
	turn.Finish()
	if len(did) > 0 {
		t.Errorf("done again: %v", did)
	}
	turn.Later(all[1])
	turn.End()
	if want := []int{1, -20}; !slices.Equal(did, want) {
		t.Errorf("done, with others woken: %v", did)
	}
}

// TestBound: a turn that is full commits what it has, and finishes at its end only.
func TestBound(t *testing.T) {
	var did []int
	var turn Turn
	last := &finisher{1, &did}
	for i := range 3*most + 1 {
		turn.Later(&numbered{i, &did, last})
		if n := len(turn.later); n > most || len(did)+n != i+1 {
			t.Fatalf("%d wait and %d are done, of %d", n, len(did), i+1)
		}
	}
	turn.Finish()
	if n := len(did) - 1; n != 3*most+1 || !slices.IsSorted(did[:n]) || did[n] != -1 {
		t.Errorf("%d were committed, in order: %v, then came %d", n, slices.IsSorted(did[:n]), did[n])
	}
	if n := cap(turn.later); n > kept {
		t.Errorf("it keeps room for %d", n)
	}
}
