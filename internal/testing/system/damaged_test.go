package system

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The logs of the coordinators are damaged on the broker that is to lead them. Groups keep their
// offsets and transactions continue, and the broker copies the logs again without a person.
func TestDamagedLogsOfCoordinatorsAreCopiedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections most of the time
	c := newNodes(t, 3)
	c.set = []string{"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"}
	c.expected = append(othersEnd, "damaged", `"logger":"coordinator"`, `"logger":"health"`)
	all := []int{0, 1, 2}
	c.launch(all...)
	c.await(all...)
	c.eventually("create the topic", func(ctx context.Context) string {
		return text(c.admin(0).CreateTopic(ctx, 1, 3, nil, "t"))
	})
	const ids = 10
	commit := func(ctx context.Context, n int64) error {
		for id := range ids {
			offsets := kadm.Offsets{}
			offsets.AddOffset("t", 0, n, -1)
			if err := c.admin(0).CommitAllOffsets(ctx, fmt.Sprint("g", id), offsets); err != nil {
				return err
			}
		}
		return nil
	}
	transact := func(ctx context.Context, n int64) error {
		for id := range ids {
			cl, err := c.client(kgo.TransactionalID(fmt.Sprint("id", id)))
			if err != nil {
				return err
			}
			defer cl.Close()
			if err := cl.BeginTransaction(); err != nil {
				return err
			}
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, n)}).FirstErr(); err != nil {
				return err
			}
			if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
				return err
			}
		}
		return nil
	}
	use := func(n int64) {
		c.eventually(fmt.Sprint("commits of ", n), func(ctx context.Context) string { return text(n, commit(ctx, n)) })
		c.eventually(fmt.Sprint("transactions of ", n), func(ctx context.Context) string { return text(n, transact(ctx, n)) })
	}
	use(1)
	for i, topic := range []string{"__consumer_offsets", "__transaction_state"} {
		leader := c.firstReplica(topic)
		c.end(syscall.SIGTERM, leader)
		c.damage(leader, topic)
		c.launch(leader)
		c.await(leader)
		c.eventually("the copy of "+topic, func(ctx context.Context) string {
			c.prefer(ctx, topic) // what it loads, it reads
			if !strings.Contains(c.run[leader].logged(), "files of a replaced log are removed") {
				return "the log was not made again"
			}
			return c.inSync(ctx, topic)
		})
		for id := range ids {
			got, err := c.admin(leader).FetchOffsets(t.Context(), fmt.Sprint("g", id))
			if o, ok := got.Lookup("t", 0); err != nil || !ok || o.At != int64(i+1) {
				t.Errorf("after damage of %s, group g%d is at %+v, %v", topic, id, o, err)
			}
		}
		use(int64(i + 2))
	}
	c.end(syscall.SIGTERM, all...)
	for i, dir := range c.dirs {
		if out, err := exec.Command("chronikctl", "log", "verify", "--dir", filepath.Join(dir, "d")).CombinedOutput(); err != nil {
			t.Errorf("broker %d: %v\n%s", i+1, err, out)
		}
	}
}

// text returns the text of an error, "" for none.
func text(_ any, err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// firstReplica returns the index of the broker that is to lead partition 0 of a topic, when all
// replicas are in sync.
func (c *nodes) firstReplica(topic string) (first int) {
	c.t.Helper()
	c.eventually("replicas of "+topic, func(ctx context.Context) string {
		m, err := c.admin(0).Metadata(ctx, topic)
		if p, ok := m.Topics[topic].Partitions[0]; err == nil && ok {
			first = int(p.Replicas[0]) - 1
			return c.inSync(ctx, topic)
		}
		return text(nil, err) + "no partition"
	})
	return first
}

// inSync returns which replicas of partition 0 are in sync, "" if all three are.
func (c *nodes) inSync(ctx context.Context, topic string) string {
	m, err := c.admin(0).Metadata(ctx, topic)
	if p := m.Topics[topic].Partitions[0]; err != nil || len(p.ISR) != 3 || p.Leader < 0 {
		return fmt.Sprint(p, err)
	}
	return ""
}

// prefer elects the preferred leader of a topic, if it can lead.
func (c *nodes) prefer(ctx context.Context, topic string) {
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	_, _ = c.admin(0).ElectLeaders(ctx, kadm.ElectPreferredReplica, set) // the caller tries again
}

// damage overwrites bytes in the middle of the records of a topic.
func (c *nodes) damage(broker int, topic string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dirs[broker], "d", "logs", topic+"-0", "*.log"))
	if err != nil || len(files) == 0 {
		c.t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // every write of it is checked
	in, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 64), in.Size()/2)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
