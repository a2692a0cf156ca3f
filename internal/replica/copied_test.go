package replica

import (
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
)

// After an unclean election nothing counts as copied until the leader has compared its log with
// what the object store has, which raises the epoch of the copy.
func TestNothingIsCopiedAfterAnUncleanElection(t *testing.T) {
	var p Partition
	for _, x := range []struct {
		unclean, compared int32
		want              int64
	}{{0, 0, 90}, {3, 2, 0}, {3, 3, 90}, {3, 4, 90}} {
		p.role.Store(&role{unclean: x.unclean})
		p.tier.Store(&metadata.Tier{Start: 5, End: 90, Bytes: 700, Epoch: x.compared})
		if got := p.Copied(); got != x.want {
			t.Errorf("unclean election %d, compared in %d: copied up to %d, want %d", x.unclean, x.compared, got, x.want)
		}
	}
}
