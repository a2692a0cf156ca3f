package daemon

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/replica"
)

// Each replica.* setting of a broker that is about partitions reaches them.
func TestReplicaSettingsArePassed(t *testing.T) {
	conf := configdef.Replica{Lag: time.Second, Stall: 2 * time.Second}
	var o replica.Options
	(&member{Cluster: &cluster.Cluster{}}).replicas(&o, &controller.Controller{}, &conf)
	if o.LagTime != conf.Lag || o.StallTime != conf.Stall {
		t.Errorf("replicas have %v and %v, want %v and %v", o.LagTime, o.StallTime, conf.Lag, conf.Stall)
	}
}
