package system

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// A partition whose only replica in sync is dead has no leader, until an operator accepts that
// records are lost: then the replica that is left leads, and the log says so.
func TestAnOperatorElectsALeaderThatLacksRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	c := newNodes(t, 3)
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	c.pair("t", false)
	c.pair("permitted", true)
	c.write("t", 1)
	c.write("permitted", 1)
	c.end(syscall.SIGKILL, 1)
	for _, topic := range []string{"t", "permitted"} {
		c.shows(0, topic, "leader 1 isr [1]")
	}
	c.write("t", 1) // the dead one lacks this
	c.end(syscall.SIGKILL, 0)
	c.launch(1)
	c.await(1)
	c.shows(1, "permitted", "leader 2 isr [2]") // without an operator
	c.shows(1, "t", "leader -1 isr []")
	c.does("topic elect --unclean --dry-run", "t-0 would get a leader: broker 1 may have acknowledged records that the other replicas lack")
	c.does("topic elect t --unclean", "t-0 is led by broker 2, elected now")
	c.shows(1, "t", "leader 2 isr [2]")
	for _, by := range []string{"an operator", "the configuration"} {
		c.eventually("a log line about the loss that "+by+" permitted", func(context.Context) string { // it follows the change
			all := c.run[1].logged() + c.run[2].logged()
			if !strings.Contains(all, "unclean leader election: acknowledged records may be lost") || !strings.Contains(all, by) {
				return "it is not logged"
			}
			return ""
		})
	}
	c.eventually("the end offset of the new leader", func(ctx context.Context) string { // when its log notes its epoch
		ends, err := c.admin(1).ListEndOffsets(ctx, "t")
		end := ends["t"][0]
		switch {
		case err != nil:
			return err.Error()
		case end.Err != nil:
			return end.Err.Error()
		case end.Offset != 1:
			t.Errorf("%+v", end)
		}
		return ""
	})
	c.launch(0) // its log has a record more, which it gives up
	c.await(0)
	c.shows(0, "t", "leader 2 isr [1 2]")
	c.write("t", 1)
}

// pair makes a topic with a partition on the first two brokers, of which one suffices for writes.
func (c *nodes) pair(name string, unclean bool) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds[0]))
	must.OK(c.t, err)
	defer cl.Close()
	req, topic := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	for key, value := range map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": fmt.Sprint(unclean)} {
		conf := kmsg.NewCreateTopicsRequestTopicConfig()
		conf.Name, conf.Value = key, &value
		topic.Configs = append(topic.Configs, conf)
	}
	on := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	on.Replicas = []int32{1, 2}
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, on)
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 30_000
	resp, err := req.RequestWith(c.t.Context(), cl)
	must.OK(c.t, err)
	must.OK(c.t, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	c.shows(0, name, "leader 1 isr [1 2]")
}

// shows waits until a broker shows the leader and the ISR of partition 0 of a topic.
func (c *nodes) shows(i int, topic, want string) {
	c.t.Helper()
	admin := c.admin(i)
	c.eventually(fmt.Sprintf("%q at broker %d", want, i+1), func(ctx context.Context) string {
		m, err := admin.Metadata(ctx, topic)
		if err != nil {
			return err.Error()
		}
		p, ok := m.Topics[topic].Partitions[0]
		if !ok {
			return "no partition"
		}
		if got := fmt.Sprintf("leader %d isr %v", p.Leader, slices.Sorted(slices.Values(p.ISR))); got != want {
			return got
		}
		return ""
	})
}
