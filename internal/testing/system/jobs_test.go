package system

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl"
)

// ctl runs chronikctl with an operator's yes, against the brokers that run, and returns its exit
// code and what it printed.
func (c *nodes) ctl(ctx context.Context, line string) (code int, text string) {
	return operate(ctx, c.running(), line)
}

// running returns the addresses of the brokers that run.
func (c *nodes) running() string {
	var running []string
	for i, p := range c.run {
		if p != nil {
			running = append(running, c.seeds[i])
		}
	}
	return strings.Join(running, ",")
}

// operate is ctl for brokers with some addresses.
func operate(ctx context.Context, brokers, line string) (code int, text string) {
	var out, errs bytes.Buffer
	getenv := func(name string) string { return map[string]string{"CHRONIKCTL_BROKERS": brokers}[name] }
	code = ctl.Main(ctx, append([]string{"--yes", "--admin", "off"}, strings.Fields(line)...), "test",
		ctl.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: getenv})
	return code, out.String() + errs.String()
}

// does runs chronikctl until it succeeds and prints some text.
func (c *nodes) does(line, want string) {
	c.t.Helper()
	c.eventually("chronikctl "+line, func(ctx context.Context) string {
		if code, text := c.ctl(ctx, line); code != 0 || !strings.Contains(text, want) {
			return fmt.Sprintf("code %d, %q is not in: %s", code, want, text)
		}
		return ""
	})
}

// refusesTo runs a command that must fail at once, with some text.
func (c *nodes) refusesTo(line, want string) {
	c.t.Helper()
	if code, text := c.ctl(c.t.Context(), line); code == 0 || !strings.Contains(text, want) {
		c.t.Errorf("%s: code %d, %q is not in: %s", line, code, want, text)
	}
}

// A broker is added, gets its share, is prepared for a restart and restarted, and dies for good.
// Then its replicas are copied to the others, and it is unregistered. A producer writes all the
// time, and no acknowledged record is lost or doubled.
func TestOneToolDoesTheJobsOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections and sessions most of the time
	c := newNodes(t, 4)
	c.voters, c.expected = 3, append(slices.Clone(othersEnd), "unclean leader election",
		`"subject":"connection to broker `) // a killed broker may be fenced so late on a busy machine that others name it first
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	c.does("topic create t --partitions 4 --replication-factor 1", "t created")
	c.write("t", 4)
	written := c.writes("t")
	for p := range 4 { // as after the growth from one broker
		c.does(fmt.Sprintf("topic move t:%d 1", p), "t")
	}
	c.does("topic alter t --replication-factor 3", "moved 4 partitions")
	c.does("broker rebalance --dry-run", "preferred leader from broker 1 to")
	c.does("broker rebalance --dry-run", "would be led by broker 2, not by broker 1")
	c.does("broker rebalance", "t moved")
	c.does("broker rebalance", "the brokers are balanced")
	c.shareLeads("t", 3)

	c.launch(3)
	c.await(3)
	c.does("broker list", "  4  ")
	c.does("broker fill 4 --at-a-time 1 --throttle 10MiB", "t moved 3 partitions")
	c.does("broker fill 4", "has its share")
	if code, text := c.ctl(t.Context(), "topic describe t"); code != 0 || strings.Contains(text, "throttled") {
		t.Errorf("the limit of the copies stays: %s", text)
	}
	c.does("topic alter t --replication-factor 4", "moved 4 partitions")
	c.does("topic alter t --replication-factor 3", "moved 4 partitions")
	c.does("broker rebalance --dry-run", "") // the replicas are spread, also on the new broker
	c.does("topic move", "no partition is being moved")
	c.refusesTo("topic move t:9 1", "t has no partition 9")
	c.refusesTo("topic move t:0 9", "INVALID_REPLICA_ASSIGNMENT")
	c.does("topic move t:0 1,2,4", "t")
	c.does("topic move t:0 1,2,4", "t-0 is on brokers 1,2,4")

	c.does("broker maintain 2", "broker 2 can be stopped: it leads 0 partitions")
	c.refusesTo("broker unregister 2", "broker drain 2 moves them")
	c.end(syscall.SIGKILL, 1)
	c.does("broker list", "fenced")
	c.refusesTo("broker maintain 2 --end --wait 1ms", "maintain broker 2")
	c.launch(1)
	c.await(1)
	c.does("broker maintain 2 --end", "broker 2 is in sync and leads")
	c.refusesTo("broker maintain 2 -- false", "false: exit status 1; when the broker runs, chronikctl broker maintain 2 --end")
	c.refusesTo("broker maintain 2 --wait 5s -- true", "broker 2 has not restarted")
	c.maintain(2)

	c.does("topic create lone --replication-factor 1", "lone created")
	c.does("topic move lone:0 4", "lone")
	c.end(syscall.SIGKILL, 3)
	c.does("broker list", "fenced")
	c.refusesTo("topic move lone:0 1", "move lone-0: it has no leader to copy from")
	c.does("topic move", "lone  ")
	c.refusesTo("topic move lone:0 --cancel", "gives up no replica")
	c.does("topic elect --unclean", "lone-0 is led by broker 1")
	c.does("broker drain 4", "moved")
	c.does("broker drain 4", "broker 4 has no replicas")
	c.does("broker drain 4 --end", "broker 4 gets replicas again")
	c.does("broker drain 4", "broker 4 has no replicas")
	c.does("broker unregister 4", "broker 4 unregistered")
	c.refusesTo("broker unregister 4", "BROKER_ID_NOT_REGISTERED")
	c.refusesTo("broker unregister 3", "broker drain 3 moves them")
	c.write("t", 4)
	acknowledged := written()
	ends := listed(t, func(ctx context.Context) (kadm.ListedOffsets, error) { return c.admin(0).ListEndOffsets(ctx, "t") })
	var found int64
	ends.Each(func(o kadm.ListedOffset) { found += o.Offset })
	if found != acknowledged+8 { // two calls of write, too
		t.Errorf("t has %d records, and %d were acknowledged", found, acknowledged+8)
	}
	c.end(syscall.SIGTERM, 0, 1, 2)
}

// maintain restarts a broker while chronikctl waits for the command that does so.
func (c *nodes) maintain(id int) {
	c.t.Helper()
	dir := c.t.TempDir()
	begun, restarted := filepath.Join(dir, "begun"), filepath.Join(dir, "restarted")
	must.OK(c.t, os.WriteFile(filepath.Join(dir, "restart"),
		fmt.Appendf(nil, "#!/bin/sh\n>%s\nuntil [ -e %s ]; do sleep 0.05; done\n", begun, restarted), 0o700))
	answered, brokers := make(chan string, 1), c.running()
	go func() {
		code, text := operate(c.t.Context(), brokers, fmt.Sprintf("broker maintain %d -- %s", id, filepath.Join(dir, "restart")))
		answered <- fmt.Sprintf("code %d, %s", code, text)
	}()
	c.eventually("the command runs", func(context.Context) string {
		if _, err := os.Stat(begun); err != nil {
			return err.Error()
		}
		return ""
	})
	m, err := c.admin(0).Metadata(c.t.Context(), "t")
	must.OK(c.t, err)
	for _, p := range m.Topics["t"].Partitions {
		if p.Leader == int32(id) {
			c.t.Errorf("broker %d leads t-%d while it may be stopped", id, p.Partition)
		}
	}
	c.end(syscall.SIGTERM, id-1)
	c.launch(id - 1)
	c.await(id - 1)
	must.OK(c.t, os.WriteFile(restarted, nil, 0o600))
	if got := <-answered; !strings.HasPrefix(got, "code 0,") || !strings.Contains(got, fmt.Sprintf("broker %d is in sync and leads", id)) {
		c.t.Errorf("broker maintain: %s", got)
	}
}

// writePause is enough for records during each change, and leaves processors to other tests.
const writePause = 10 * time.Millisecond

// writes begins to write one record after the other to a topic, all of which must be acknowledged,
// until the result is called, which returns their number.
func (c *nodes) writes(topic string) func() int64 {
	c.t.Helper()
	cl, err := c.client(kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	var stopped atomic.Bool
	var acknowledged int64
	ended := make(chan error, 1)
	go func() {
		for !stopped.Load() {
			if err := cl.ProduceSync(context.Background(), kgo.StringRecord("one")).FirstErr(); err != nil {
				ended <- err
				return
			}
			acknowledged++
			time.Sleep(writePause)
		}
		ended <- nil
	}()
	return func() int64 {
		stopped.Store(true)
		if err := <-ended; err != nil {
			c.t.Errorf("after %d records: %v", acknowledged, err)
		}
		return acknowledged
	}
}

// shareLeads waits until each of the first brokers leads its share of a topic's partitions.
func (c *nodes) shareLeads(topic string, brokers int) {
	c.t.Helper()
	c.eventually("leaders of "+topic, func(ctx context.Context) string {
		m, err := c.admin(0).Metadata(ctx, topic)
		if err != nil {
			return err.Error()
		}
		got, all := map[int32]int{}, m.Topics[topic].Partitions
		for _, p := range all {
			got[p.Leader]++
		}
		for id := range int32(brokers) {
			if n := got[id+1]; n < len(all)/brokers || n > len(all)/brokers+1 {
				return fmt.Sprint(got)
			}
		}
		return ""
	})
}
