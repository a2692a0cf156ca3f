package replica

import (
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// A follower knows what it lacks of the records that its leader has committed.
func TestAFollowerKnowsWhatItLacks(t *testing.T) {
	p := lone(t, vfs.Memory())
	pair := []int32{self, 2}
	follow(p, 2, 2, pair, pair)
	if n := p.Behind(); n != 0 {
		t.Errorf("before the leader's first word: %d", n)
	}
	must(t, p.LeaderHigh(2, 40))
	if n := p.Behind(); n != 40 {
		t.Errorf("an empty log: %d", n)
	}
	lead(p, 3, pair, pair)
	if n := p.Behind(); n != 0 {
		t.Errorf("a leader: %d", n)
	}
}
