package brokers

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/configdef"
)

// Two brokers hold logs and a third one only votes. With min.insync.replicas=1, clients continue
// without either of the two and without the third. A topic and the internal topics have replicas on
// the two by default, no request places one on the third, and the third answers as any broker.
func TestAWitness(t *testing.T) {
	historyOf(t, 71, kind{witness: true}, func(w *world, c *clients) {
		a := kadm.NewClient(c.admin)
		one := "1"
		within, cancel := context.WithTimeout(c.ctx, patience)
		defer cancel()
		set, err := a.AlterBrokerConfigs(within, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: configdef.MinInsyncReplicas, Value: &one}})
		if err != nil || len(set) != 1 || set[0].Err != nil {
			w.problem("set min.insync.replicas: %v %v", set, err)
		}
		if r, err := a.CreateTopic(within, 2, -1, nil, "default"); err != nil || r.ReplicationFactor != 2 {
			w.problem("a topic by default has %d replicas, not 2: %v", r.ReplicationFactor, err)
		}
		if r, err := a.CreateTopic(within, 1, 3, nil, "three"); err == nil {
			w.problem("a topic has %d replicas on two brokers", r.ReplicationFactor)
		}
		moves := kadm.AlterPartitionAssignmentsReq{}
		moves.Assign(topic, 0, []int32{1, 3})
		if all, err := a.AlterPartitionAssignments(within, moves); err != nil || all[topic][0].Err == nil {
			w.problem("a replica moves to a broker that only votes: %v %v", all, err)
		}
		c.consumes() // the internal topics are created when both brokers are active
		c.inSync()
		for _, id := range []int32{1, 2, 3} {
			w.note("without %d", id)
			w.kill(id)
			c.progress(15 * time.Second)
			c.consumes()
			w.start(id)
			c.inSync()
		}
	})
}
