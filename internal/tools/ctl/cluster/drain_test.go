package cluster

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/fakebroker"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
)

// A replica may be placed on a broker between the reading of the cluster and the mark that it is
// drained, and a broker that is behind may not list it then. An operator unregisters what has no
// replicas.
func TestDrainMovesReplicasThatArePlacedMeanwhile(t *testing.T) {
	f := fakebroker.NewCluster(t, 1, 2, 3)
	on := func(replicas ...int32) fakebroker.Partition {
		return fakebroker.Partition{Replicas: replicas, ISR: replicas}
	}
	f.Partitions["t"] = []fakebroker.Partition{on(1, 2)}
	f.Dirs = []string{"/one"}
	moves := 0
	f.Hook = func(req kmsg.Request) {
		switch req.(type) {
		case *kmsg.IncrementalAlterConfigsRequest:
			f.Partitions["t"] = append(f.Partitions["t"], on(2, 1)) // before the mark
		case *kmsg.AlterPartitionAssignmentsRequest:
			if moves++; moves == 1 {
				f.Partitions["t"] = append(f.Partitions["t"], on(2))
			}
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.Addr()), kgo.MetadataMinAge(app.FreshAge))
	must.OK(t, err)
	defer cl.Close()
	var text bytes.Buffer
	a := app.New("v1", app.Streams{In: strings.NewReader(""), Out: &text, Err: &text})
	var out app.Outcomes
	d := &draining{a: a}
	to := plannedOn{cl: cl, ids: []int32{2}}
	must.OK(t, carryOut(t.Context(), a, kadm.NewClient(cl), to, "drain broker %d", move.Once(), &out, d.plan))
	must.OK(t, a.PrintOutcomes(&out))
	f.Do(func() {
		for n, p := range f.Partitions["t"] {
			if slices.Contains(p.Replicas, 2) {
				t.Errorf("t-%d is on %v", n, p.Replicas)
			}
		}
		if len(f.Partitions["t"]) != 3 || f.Configs["broker/2"][move.TakesReplicas] != "false" {
			t.Error(fmt.Sprint(f.Configs))
		}
	})
	if !strings.Contains(text.String(), "1 replica was placed there meanwhile; moving again") {
		t.Error(text.String())
	}
}
