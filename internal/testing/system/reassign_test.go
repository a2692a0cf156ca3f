package system

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// reassign moves all partitions of the topic to brokers, whose first is the preferred leader; none
// cancels. It does not wait for the copies.
func (c *torture) reassign(to ...int32) {
	c.t.Helper()
	c.eventually("a reassignment", func(ctx context.Context) string {
		var req kadm.AlterPartitionAssignmentsReq
		for p := range int32(torturePartitions) {
			if len(to) == 0 {
				req.CancelAssign(tortureTopic, p)
			} else {
				req.Assign(tortureTopic, p, to)
			}
		}
		resp, err := c.admins[0].AlterPartitionAssignments(ctx, req)
		if err != nil {
			return err.Error()
		}
		wrong := ""
		resp.Each(func(r kadm.AlterPartitionAssignmentsResponse) {
			if r.Err != nil && !errors.Is(r.Err, kerr.NoReassignmentInProgress) {
				wrong = fmt.Sprintf("partition %d: %v %s", r.Partition, r.Err, r.ErrMessage)
			}
		})
		return wrong
	})
}

// moved waits until all partitions are on brokers, and in sync.
func (c *torture) moved(to ...int32) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("the move to %v", to), func(ctx context.Context) string {
		left, err := app.Moves(ctx, c.admins[1])
		if err != nil {
			return err.Error()
		}
		if len(left) > 0 {
			return fmt.Sprintf("in progress: %+v", left)
		}
		m, err := c.admins[0].Metadata(ctx, tortureTopic)
		if err != nil {
			return err.Error()
		}
		for _, p := range m.Topics[tortureTopic].Partitions {
			if p.Err != nil || !slices.Equal(p.Replicas, to) || len(p.ISR) != len(to) || p.Leader < 1 {
				return fmt.Sprintf("%+v", p)
			}
		}
		return ""
	})
}

// Partitions get more replicas, move to other brokers, and lose replicas, while clients work and
// brokers are killed in the middle. Nothing acknowledged is lost, and brokers that have left delete
// their logs.
func TestPartitionsMoveUnderLoad(t *testing.T) {
	inTorture(t)
	t.Parallel() // it waits for elections and sessions most of the time
	c := &torture{nodes: newNodes(t, 4), tortureBook: newTortureBook(), random: rand.New(rand.NewPCG(1, 0))}
	c.voters = 3
	c.launch(0, 1, 2, 3)
	c.await(0, 1, 2, 3)
	for i := range c.seeds {
		c.admins = append(c.admins, c.admin(i))
	}
	c.eventually("create the topic", func(ctx context.Context) string {
		_, err := c.admins[0].CreateTopic(ctx, torturePartitions, 1, nil, tortureTopic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err.Error()
		}
		return ""
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for id := range 2 {
		clients.Go(func() { c.produce(ctx, t, c.client, id) })
	}
	clients.Go(func() { c.consume(ctx, t, c.client, "") })
	clients.Go(func() { c.commit(ctx, t, c.client) })
	c.goOn("the start")

	c.reassign(1, 2, 3)
	c.moved(1, 2, 3)
	c.goOn("more replicas")

	c.reassign(4, 2, 3)
	c.again(syscall.SIGKILL, []int{3})
	c.moved(4, 2, 3)
	c.goOn("a move to a broker that was killed")

	c.reassign(1, 4, 3)
	c.reassign()
	c.reassign(3, 1, 4)
	c.again(syscall.SIGKILL, []int{c.controller()})
	c.moved(3, 1, 4)
	c.goOn("a move that another controller has completed")

	c.reassign(2) // the leader also leaves
	c.moved(2)
	c.reassign(4, 1, 2)
	c.moved(4, 1, 2)
	c.goOn("a move by a single copy")

	stop()
	clients.Wait()
	c.readsWhatWasSeen(t, c.client)
	c.commitsAreKept()
	c.eventually("deletion of the logs that have left", func(context.Context) string {
		if left := dumped(t, c.dirs[2]+"/d"); len(left) > 0 {
			return fmt.Sprintf("broker 3 has logs of %d partitions", len(left))
		}
		return ""
	})
	c.end(syscall.SIGTERM, 0, 1, 2, 3)
	c.sameLogs(t, []string{c.dirs[0], c.dirs[1], c.dirs[3]})
	c.report(t)
}
