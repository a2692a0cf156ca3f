package grouping

import (
	"context"
	"errors"
	"testing"
)

func (b *groupState) isAtRest() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	select {
	case <-b.rest:
		return true
	default:
		return b.await(ctx) == nil
	}
}

func TestAGroupIsAtRestWhenAllAgree(t *testing.T) {
	b := newGroupState(4)
	b.expect(2)
	for _, c := range []struct {
		why    string
		member int
		share  share
		rests  bool
	}{
		{"one of two has everything", 0, share{1, 4}, false},
		{"the other one has nothing yet", 1, share{2, 0}, false},
		{"the first has given up and is in an older epoch", 0, share{1, 2}, false},
		{"two partitions are nobody's", 0, share{2, 2}, false},
		{"shared out", 1, share{2, 2}, true},
	} {
		if b.assigned(c.member, c.share); b.isAtRest() != c.rests {
			t.Fatalf("%s: at rest: %t", c.why, !c.rests)
		}
	}
	b.expect(3)
	b.assigned(2, share{3, 0})
	b.assigned(0, share{3, 1})
	b.assigned(1, share{3, 2})
	if b.isAtRest() {
		t.Error("a partition is nobody's")
	}
	b.assigned(2, share{3, 1})
	if !b.isAtRest() {
		t.Error("shared out among three")
	}
	b.expect(2)
	b.left(2)
	b.assigned(0, share{3, 2})
	if b.isAtRest() {
		t.Error("the epoch is the one before the leave")
	}
	b.assigned(0, share{4, 2})
	b.assigned(1, share{4, 2})
	if !b.isAtRest() {
		t.Error("shared out among the two that are left")
	}
	b.expect(1)
	b.assigned(0, share{5, 4}) // before the answer to the leave is read
	b.left(1)
	if !b.isAtRest() {
		t.Error("the one that is left has everything")
	}
}

func TestAnUnevenShareIsNoRest(t *testing.T) {
	b := newGroupState(4)
	b.expect(2)
	b.assigned(0, share{1, 3})
	b.assigned(1, share{1, 1})
	if b.isAtRest() {
		t.Error("three and one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v", err)
	}
}
