package system

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// othersEnd are the findings of a broker that follow from the end of others. On a busy machine a
// broker's lease may end before there is another metadata leader, or before it has applied what
// that one made.
var othersEnd = []string{`"check":"quorum"`, `"check":"leaderless"`, `"check":"brokers"`,
	"the controller does not confirm its heartbeats", "its metadata stand still"}

// launchAlone starts a broker without a cluster and does not wait.
func (c *nodes) launchAlone(i int, more ...string) {
	c.t.Helper()
	p, err := launch(c.dirs[i], nil, append([]string{"--data-dir", "d", "--listen", c.seeds[i], "--admin-listen", c.ports[i]}, more...)...)
	must.OK(c.t, err)
	c.run[i] = p
}

// refused waits until a broker has ended because it may not start, and its log says why.
func (c *nodes) refused(i int, why ...string) {
	c.t.Helper()
	p := c.run[i]
	c.run[i] = nil
	select {
	case err := <-p.done:
		p.done <- err
	case <-time.After(startTime):
		c.t.Fatalf("broker %d runs:\n%s", i+1, p.logged())
	}
	for _, text := range why {
		if !strings.Contains(p.logged(), text) {
			c.t.Errorf("broker %d does not say %q:\n%s", i+1, text, p.logged())
		}
	}
}

// content is what clients see of a cluster: its id, the records by partition and offset, committed
// offsets and a topic config.
type content struct {
	cluster, retention string
	records            map[string]string // by partition@offset
	committed          map[int32]int64
}

func (x *content) equal(y *content) bool {
	return x.cluster == y.cluster && x.retention == y.retention && maps.Equal(x.records, y.records) && maps.Equal(x.committed, y.committed)
}

// content reads everything at one broker.
func (c *nodes) content(ctx context.Context, i int) (*content, error) {
	x := &content{records: map[string]string{}, committed: map[int32]int64{}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds[i]), kgo.MetadataMinAge(10*time.Millisecond), kgo.ConsumeTopics("t"),
		kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	meta, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	x.cluster = meta.Cluster
	configs, err := admin.DescribeTopicConfigs(ctx, "t")
	if err != nil {
		return nil, err
	}
	for _, kv := range configs[0].Configs {
		if kv.Key == "retention.ms" {
			x.retention = kv.MaybeValue()
		}
	}
	offsets := committedBy(c.t, admin, "g")
	offsets.Each(func(o kadm.OffsetResponse) { x.committed[o.Partition] = o.At })
	ends := listed(c.t, func(ctx context.Context) (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, "t") })
	want := int64(0)
	ends.Each(func(o kadm.ListedOffset) { want += o.Offset })
	for int64(len(x.records)) < want {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			x.records[fmt.Sprintf("%d@%d", r.Partition, r.Offset)] = string(r.Key) + "=" + string(r.Value)
		})
	}
	return x, nil
}

// holds waits until a broker shows this content.
func (c *nodes) holds(i int, want *content) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("content at broker %d", i+1), func(ctx context.Context) string {
		got, err := c.content(ctx, i)
		if err != nil {
			return err.Error()
		}
		if !got.equal(want) {
			return fmt.Sprintf("%+v, want %+v", got, want)
		}
		return ""
	})
}

// recovers runs chronikd recover for a broker that is stopped.
func (c *nodes) recovers(i int, more ...string) (code int, text string) {
	c.t.Helper()
	args := append([]string{"recover"}, more...)
	p, err := launch(c.dirs[i], nil, append(args, "--data-dir", "d", "--listen", c.seeds[i], "--set", "cluster.name="+c.name,
		"--set", fmt.Sprint("node.id=", i+1), "--set", "cluster.seeds="+strings.Join(c.seeds[:c.voters], ","))...)
	must.OK(c.t, err)
	_ = p.end(syscall.Signal(0)) // its exit code says more
	return p.cmd.ProcessState.ExitCode(), p.logged()
}

// fill makes a topic with a config, writes records to it and commits offsets.
func (c *nodes) fill(i int, replicas int16) *content {
	c.t.Helper()
	const partitions, records = 3, 60
	admin := c.admin(i)
	configs := map[string]*string{"retention.ms": kadm.StringPtr("86400000")}
	if _, err := admin.CreateTopic(c.t.Context(), partitions, replicas, configs, "t"); err != nil {
		c.t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds[i]), kgo.DefaultProduceTopic("t"))
	must.OK(c.t, err)
	defer cl.Close()
	for n := range records {
		r := &kgo.Record{Key: []byte(strconv.Itoa(n)), Value: fmt.Appendf(nil, "value %d", n)}
		must.OK(c.t, cl.ProduceSync(c.t.Context(), r).FirstErr())
	}
	offsets := kadm.Offsets{}
	for p := range int32(partitions) {
		offsets.AddOffset("t", p, int64(p)+3, -1)
	}
	must.OK(c.t, admin.CommitAllOffsets(c.t.Context(), "g", offsets))
	x, err := c.content(c.t.Context(), i)
	must.OK(c.t, err)
	if len(x.records) != records || len(x.committed) != partitions || x.retention != "86400000" || x.cluster == "" {
		c.t.Fatalf("%+v", x)
	}
	return x
}

// A broker with data becomes the first of three, and keeps its cluster id, records, offsets,
// configs and groups. The other two may be started before it or much later, and every broker may
// fail afterwards.
func TestOneBrokerGrowsToThree(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	c := newNodes(t, 3)
	c.expected = othersEnd
	all := []int{0, 1, 2}
	c.launchAlone(0)
	c.await(0)
	had := c.fill(0, 1)
	c.end(syscall.SIGTERM, 0)

	c.launch(1)
	c.waits(1, "waiting for seeds: no answer from "+c.seeds[0])
	c.launch(0)
	c.await(0, 1) // the third seed does not answer
	c.holds(0, had)
	c.end(syscall.SIGKILL, 0)
	c.launch(0)
	c.await(0)
	c.holds(0, had)

	c.launch(2)
	c.await(2)
	for _, i := range all {
		c.eventually(fmt.Sprintf("the quorum of broker %d", i+1), func(ctx context.Context) string { return c.quorum(ctx, i) })
		c.holds(i, had)
	}
	for _, i := range []int{0, 2} {
		c.restart(syscall.SIGKILL, i)
		c.holds(1, had)
	}
	c.end(syscall.SIGTERM, all...)

	c.launchAlone(0)
	c.refused(0, "belongs to a broker of a cluster", "set cluster.name and cluster.seeds")
	c.launch(all...)
	c.await(all...)
	c.holds(1, had)
	c.end(syscall.SIGTERM, all...)
}

// A broker with data does not begin to grow if a seed belongs to another cluster, as one with data
// of its own does, or if its node.id is not that of its records. It then still is what it was.
func TestABrokerWithDataJoinsNoOtherCluster(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	c.expected = othersEnd
	for _, i := range []int{0, 1} {
		c.launchAlone(i, "--set", fmt.Sprint("node.id=", i+1))
	}
	c.await(0, 1)
	had := c.fill(0, 1)
	c.end(syscall.SIGTERM, 0, 1)

	c.launch(0, 1)
	c.refused(0, "belongs to another cluster", had.cluster)
	c.refused(1, "belongs to another cluster", had.cluster)

	c.launchAlone(0, "--set", "cluster.name=test", "--set", "node.id=3", "--set", "cluster.seeds="+strings.Join(c.seeds, ","))
	c.refused(0, "set node.id=1")

	c.launch(1) // the others do not answer
	c.await(1)
	c.launch(0)
	c.refused(0, "belongs to another cluster", had.cluster)

	c.launchAlone(0)
	c.await(0)
	c.holds(0, had)
	c.end(syscall.SIGTERM, 0, 1)
}

// Two more seeds get votes when the brokers have been restarted with the longer list, one after the
// other. Then two brokers may fail at once, also for the metadata.
func TestThreeVotersGrowToFive(t *testing.T) {
	inTorture(t)
	t.Parallel() // it waits for elections and sessions most of the time
	c := newNodes(t, 5)
	c.expected = othersEnd
	c.voters = 3
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	c.voters = 5
	c.launch(3, 4)
	c.await(3, 4)
	for _, i := range []int{0, 1, 2} {
		c.end(syscall.SIGTERM, i)
		c.launch(i)
		c.await(i)
	}
	for i := range 5 {
		c.eventually(fmt.Sprintf("the quorum of broker %d", i+1), func(ctx context.Context) string { return c.quorum(ctx, i) })
	}
	leader := int(c.sees(0, []int{0, 1, 2, 3, 4}, "", 0)) - 1
	other := (leader + 1) % 5
	c.end(syscall.SIGKILL, leader, other)
	rest := slices.DeleteFunc([]int{0, 1, 2, 3, 4}, func(i int) bool { return i == leader || i == other })
	c.sees(rest[0], rest, "", 0)
	c.eventually("create a topic", func(ctx context.Context) string {
		_, err := c.admin(rest[0]).CreateTopic(ctx, 3, 3, nil, "t")
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err.Error()
		}
		return ""
	})
	c.sees(rest[1], rest, "t", 3)
	c.launch(leader, other)
	c.await(leader, other)

	// Back to three: one of the two brokers that leave restarts with the list, the other one stops.
	c.voters, c.observers = 3, 2
	for _, i := range []int{3, 0, 1, 2} {
		c.end(syscall.SIGTERM, i)
		c.launch(i)
		c.await(i)
	}
	c.end(syscall.SIGTERM, 4)
	for i := range 4 {
		c.eventually(fmt.Sprintf("the three voters at broker %d", i+1), func(ctx context.Context) string { return c.quorum(ctx, i) })
	}
	c.end(syscall.SIGTERM, 3)
	c.sees(0, []int{0, 1, 2}, "t", 3)
	c.end(syscall.SIGTERM, 0, 1, 2)
}

// All brokers lose their metadata directories. An older copy of one of them brings back every
// record of the topics that it has; the logs of a topic that was created later are kept.
func TestMetadataAreRestoredFromACopy(t *testing.T) {
	inTorture(t)
	t.Parallel() // it waits for elections and sessions most of the time
	c, all := threeNodes(t)
	c.fill(0, 3)
	copied := filepath.Join(t.TempDir(), "copy")
	must.OK(t, os.CopyFS(copied, os.DirFS(filepath.Join(c.dirs[1], "d", "metadata"))))
	c.write("t", 3)
	had, err := c.content(t.Context(), 0)
	must.OK(t, err)
	if _, err := c.admin(0).CreateTopic(t.Context(), 1, 3, nil, "later"); err != nil {
		t.Fatal(err)
	}
	c.write("later", 1)
	if code, text := c.recovers(0, "--from", copied); code == 0 || !strings.Contains(text, ".lock") {
		t.Errorf("restore beside a running broker: %d %s", code, text)
	}
	c.end(syscall.SIGTERM, 0)
	if code, text := c.recovers(0, "--from", copied); code == 0 || !strings.Contains(text, "may be newer than the copy") {
		t.Errorf("restore over metadata: %d %s", code, text)
	}
	c.loseMetadata(0)
	code, text := c.recovers(0, "--from", copied, "--lost", "1,2,3")
	if code == 0 || !strings.Contains(text, "answers and has the metadata") {
		t.Errorf("restore while others have the metadata: %d %s", code, text)
	}
	c.end(syscall.SIGKILL, 1, 2)
	c.loseMetadata(1, 2)
	if code, text := c.recovers(0, "--from", copied); code != 2 || !strings.Contains(text, "--lost 1,2,3") {
		t.Errorf("restore without the lost ones: %d %s", code, text)
	}
	if code, text := c.recovers(0, "--from", copied, "--lost", "1,2,3"); code != 0 {
		t.Fatalf("restore: %d %s", code, text)
	}
	c.launch(all...)
	c.await(all...)
	c.electAll()
	for _, i := range all {
		c.eventually(fmt.Sprintf("the quorum of broker %d", i+1), func(ctx context.Context) string { return c.quorum(ctx, i) })
		c.holds(i, had)
		if kept, err := filepath.Glob(filepath.Join(c.dirs[i], "d", "logs", "later-0*", "*.log")); len(kept) == 0 || err != nil {
			t.Errorf("broker %d has no log of the later topic: %v", i+1, err)
		}
	}
	c.write("t", 3)
}

// loseMetadata removes the metadata directories of brokers that are stopped.
func (c *nodes) loseMetadata(which ...int) {
	c.t.Helper()
	for _, i := range which {
		must.OK(c.t, os.RemoveAll(filepath.Join(c.dirs[i], "d", "metadata")))
	}
}

// electAll accepts unclean elections of all partitions without a leader.
func (c *nodes) electAll() {
	c.t.Helper()
	c.eventually("elect leaders", func(ctx context.Context) string {
		results, err := c.admin(0).ElectLeaders(ctx, kadm.ElectLiveReplica, nil)
		if err != nil {
			return err.Error()
		}
		for _, partitions := range results {
			for _, r := range partitions {
				if r.Err != nil && !errors.Is(r.Err, kerr.ElectionNotNeeded) {
					return fmt.Sprintf("%s-%d: %v", r.Topic, r.Partition, r.Err)
				}
			}
		}
		return ""
	})
}

// Two of three brokers lose their metadata directories. What is left of the third one, and the logs
// of all, bring every record and offset back.
func TestALostMajorityIsRecovered(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	c, all := threeNodes(t)
	had := c.fill(0, 3)
	if code, text := c.recovers(0); code == 0 || !strings.Contains(text, ".lock") {
		t.Errorf("recover beside a running broker: %d %s", code, text)
	}
	c.end(syscall.SIGTERM, 0)
	if code, text := c.recovers(0, "--lost", "2,3"); code == 0 || !strings.Contains(text, "answers and has a vote") {
		t.Errorf("recover while others answer: %d %s", code, text)
	}
	c.voters = 1
	if code, text := c.recovers(0, "--lost", "2,3"); code == 0 || !strings.Contains(text, "answers and has a vote") {
		t.Errorf("recover while others answer that are no seeds any more: %d %s", code, text)
	}
	c.voters = 3
	c.launch(0)
	c.await(0)
	c.end(syscall.SIGKILL, all...)
	if code, text := c.recovers(2, "--lost", "2"); code != 2 || !strings.Contains(text, "--lost 1,2") {
		t.Errorf("recover without the lost ones: %d %s", code, text)
	}
	if code, text := c.recovers(2, "--lost", "1,2"); code != 0 {
		t.Fatalf("recover: %d %s", code, text)
	}
	c.launch(2, 0)
	c.waits(0, "the metadata was recovered on one end") // it has those of before
	c.end(syscall.SIGTERM, 0)
	c.loseMetadata(0, 1)
	c.launch(0, 1)
	c.await(all...)
	c.electAll()
	for _, i := range all {
		c.eventually(fmt.Sprintf("the quorum of broker %d", i+1), func(ctx context.Context) string { return c.quorum(ctx, i) })
		c.holds(i, had)
	}
	c.write("t", 3)
}
