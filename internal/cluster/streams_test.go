package cluster

import (
	"testing"

	"github.com/chronik-io/chronik/internal/configdef"
)

// Each replica.* setting of a broker that is about streams reaches them.
func TestSettingsOfStreamsArePassed(t *testing.T) {
	conf := configdef.Replica{Window: 3, Follow: 4, CatchUpRate: 5}
	if s := streamOptions(&conf); s.Window != conf.Window || s.FollowBytes != conf.Follow || s.CatchUpRate != conf.CatchUpRate {
		t.Errorf("streams have %d, %d and %d, want %+v", s.Window, s.FollowBytes, s.CatchUpRate, conf)
	}
}
