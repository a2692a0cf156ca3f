package replica

import (
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

// After an unclean election, or a recovery of the metadata, nothing counts as copied until the
// leader has compared its log with what the object store has, which raises the epoch of the copy
// and names the generation of the metadata.
func TestNothingIsCopiedUntilTheLeaderHasCompared(t *testing.T) {
	p := lone(t, vfs.Memory())
	env := p.env
	for epoch := range int32(2) { // a second leader epoch begins at 100
		lead(p, epoch, []int32{self}, []int32{self})
		must(t, begin(t, p, AcksAll, 100).wait(t))
	}
	for _, x := range []struct {
		unclean, compared int32
		now, then         metadata.ID // generations
		end, want         int64
	}{
		{0, 0, metadata.ID{1}, metadata.ID{1}, 90, 90}, {3, 2, metadata.ID{1}, metadata.ID{1}, 90, 0},
		{3, 3, metadata.ID{1}, metadata.ID{1}, 90, 90}, {3, 4, metadata.ID{1}, metadata.ID{1}, 90, 90},
		{0, 0, metadata.ID{2}, metadata.ID{1}, 90, 0},
		// The log has others: its disk had lost those that the store has from 100 on.
		{0, 0, metadata.ID{1}, metadata.ID{1}, 130, 100}, {0, 1, metadata.ID{1}, metadata.ID{1}, 130, 130},
	} {
		env.generation.Store(&x.now)
		p.role.Store(&role{unclean: x.unclean})
		p.tier.Store(&metadata.Tier{Start: 5, End: x.end, Bytes: 700, Epoch: x.compared, Generation: x.then})
		if got := p.Copied(); got != x.want {
			t.Errorf("%+v: copied up to %d", x, got)
		}
	}
}

// Without copies, and if none is made, no retention waits for one.
func TestAnEmptyCopyHoldsNothing(t *testing.T) {
	p := lone(t, vfs.Memory())
	generation := metadata.ID{2}
	p.env.generation.Store(&generation)
	for _, compared := range []metadata.ID{{1}, {2}} {
		p.tier.Store(&metadata.Tier{Start: 5, End: 5, Generation: compared})
		if got := p.Copied(); got != math.MaxInt64 {
			t.Errorf("generation %v: copied up to %d", compared, got)
		}
	}
}
