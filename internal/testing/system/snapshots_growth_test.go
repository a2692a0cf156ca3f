package system

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// A cluster with a group, transactions, one of which is open, and old records that only the store
// has, is restored as one broker, which then becomes the first of three as docs/snapshots.md says.
// All partitions are on all three, and the first one is not needed any more.
func TestARestoredBrokerGrowsToThree(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	url := "file://" + t.TempDir()
	settings := []string{"archive.url=" + url, "snapshot.interval.ms=0", "remote.log.manager.task.interval.ms=50",
		"log.retention.check.interval.ms=50"}
	original := newNodes(t, 1)
	original.set, original.expected = settings, []string{`"logger":"health"`}
	original.launch(0)
	original.await(0)
	had := original.fill(0, 1)
	original.does("topic create old --partitions 1 --config remote.storage.enable=true --config segment.bytes=1048576 "+
		"--config local.retention.bytes=1 --config file.delete.delay.ms=0", "old created")
	want := sendTransactions(t, original, "old")
	original.onlyStored("old")
	open, err := original.client(kgo.TransactionalID("open"))
	must.OK(t, err)
	defer open.Close()
	must.OK(t, open.BeginTransaction())
	must.OK(t, open.ProduceSync(t.Context(), &kgo.Record{Topic: "old", Value: []byte("of the open transaction")}).FirstErr())
	original.does("snapshot create", "uploaded")
	original.end(syscall.SIGKILL, 0)

	c := newNodes(t, 3)
	c.set, c.expected = settings, append([]string{`"logger":"health"`}, othersEnd...)
	all := []int{0, 1, 2}
	var args []string
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	p, err := launch(c.dirs[0], nil, append([]string{"restore", url, "--data-dir", "d"}, args...)...)
	must.OK(t, err)
	if err := <-p.done; err != nil {
		t.Fatalf("restore: %v\n%s", err, p.logged())
	}
	c.launchAlone(0, args...)
	c.await(0)
	x, err := c.content(t.Context(), 0)
	must.OK(t, err)
	if x.cluster == had.cluster {
		t.Errorf("the restored cluster has the id of the original, %s", x.cluster)
	}
	had.cluster = x.cluster
	check := func(i int) {
		t.Helper()
		c.holds(i, had)
		if got := valuesOf(t, c.seeds[i], "old"); !slices.Equal(got, want) {
			t.Fatalf("broker %d returns %d old records, %d were committed", i+1, len(got), len(want))
		}
	}
	check(0)
	c.end(syscall.SIGTERM, 0)

	c.launch(1, 2)
	c.launch(0)
	c.await(all...)
	for _, i := range all {
		c.eventually(fmt.Sprintf("the quorum of broker %d", i+1), func(ctx context.Context) string { return c.quorum(ctx, i) })
	}
	for _, topic := range []string{"t", "old"} {
		c.does("topic alter "+topic+" --replication-factor 3", topic)
	}
	c.eventually("three replicas of each partition", func(ctx context.Context) string {
		topics, err := c.admin(0).ListTopicsWithInternal(ctx)
		if err != nil {
			return err.Error()
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if len(p.ISR) != 3 {
					return fmt.Sprintf("%s-%d is on %v, in sync %v", topic.Topic, p.Partition, p.Replicas, p.ISR)
				}
			}
		}
		return ""
	})
	for _, i := range all {
		check(i)
	}
	c.end(syscall.SIGKILL, 0) // for good
	c.eventually("the others lead", func(ctx context.Context) string {
		topics, err := c.admin(1).ListTopicsWithInternal(ctx)
		if err != nil {
			return err.Error()
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if p.Leader < 2 {
					return fmt.Sprintf("broker %d leads %s-%d", p.Leader, topic.Topic, p.Partition)
				}
			}
		}
		return ""
	})
	check(1)
	c.end(syscall.SIGTERM, 1, 2)
}
