package daemon

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/replica"
)

// Each setting of a broker that is about partitions of a cluster reaches them.
func TestReplicaSettingsArePassed(t *testing.T) {
	conf := configdef.Cluster{Replica: configdef.Replica{Lag: time.Second, Stall: 2 * time.Second}, Session: 3 * time.Second}
	var o replica.Options
	(&member{Cluster: &cluster.Cluster{}}).replicas(&o, &controller.Controller{}, &conf)
	if o.LagTime != conf.Replica.Lag || o.StallTime != conf.Replica.Stall || o.SessionTime != conf.Session {
		t.Errorf("replicas have %v, %v and %v, want %+v", o.LagTime, o.StallTime, o.SessionTime, conf)
	}
}
