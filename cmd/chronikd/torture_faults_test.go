package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// fault is a way to hurt the brokers whose indices it gets in random order. All brokers run again,
// and all disks and networks are whole, when hurt returns. The number in the name is the one of the
// promise that it checks: 22 leaders, 23 followers that diverged, 24 followers that lost or delay
// everything, 25 metadata without a quorum, 26 the last replicas, 27 restarts, 28 streams, and 2 to
// 4 the disk.
type fault struct {
	name  string
	wires bool // it requires hosts of their own
	heals bool // the next fault comes after all replicas are in sync again
	// strict: no client with the settings by default may report an error.
	strict bool
	hurt   func(*torture, []int)
}

var faults = []fault{
	{name: "22 a broker is killed", hurt: func(c *torture, order []int) { c.again(syscall.SIGKILL, order[:1]) }},
	{name: "22 the metadata leader is killed", hurt: func(c *torture, _ []int) { c.again(syscall.SIGKILL, []int{c.controller()}) }},
	{name: "22 two brokers are killed", hurt: func(c *torture, order []int) { c.again(syscall.SIGKILL, order[:2]) }},
	{name: "22 a broker is paused", hurt: func(c *torture, order []int) { c.pauses(order[0]) }},
	{name: "22 the metadata leader is paused", hurt: func(c *torture, _ []int) { c.pauses(c.controller()) }},
	{name: "22 a broker is cut off from all others", wires: true, hurt: func(c *torture, order []int) {
		c.cuts(both(order[0], order[1], order[2]))
	}},
	{name: "22 the metadata leader is cut off from all others", wires: true, hurt: func(c *torture, order []int) {
		i := c.controller()
		c.cuts(both(i, without(order, i)...))
	}},
	{name: "22 a broker is cut off from the metadata leader", wires: true, hurt: func(c *torture, order []int) {
		i := c.controller()
		c.cuts(both(i, without(order, i)[0]))
	}},
	{name: "22 a broker is cut off from a follower", wires: true, hurt: func(c *torture, order []int) {
		rest := without(order, c.controller())
		c.cuts(both(rest[0], rest[1]))
	}},
	{name: "22 a broker is cut off from all others and from clients", wires: true, hurt: func(c *torture, order []int) {
		c.cuts(both(order[0], order[1], order[2], len(order)))
	}},
	{name: "22 nothing that a broker sends arrives at the others", wires: true, hurt: func(c *torture, order []int) {
		c.cuts([]wire{{order[0], order[1]}, {order[0], order[2]}})
	}},
	{name: "22 nothing that the others send arrives at a broker", wires: true, hurt: func(c *torture, order []int) {
		c.cuts([]wire{{order[1], order[0]}, {order[2], order[0]}})
	}},
	{name: "22 nothing that the metadata leader sends arrives at the others", wires: true, hurt: func(c *torture, order []int) {
		i := c.controller()
		rest := without(order, i)
		c.cuts([]wire{{i, rest[0]}, {i, rest[1]}})
	}},
	{name: "22 nothing that the others send arrives at the metadata leader", wires: true, hurt: func(c *torture, order []int) {
		i := c.controller()
		rest := without(order, i)
		c.cuts([]wire{{rest[0], i}, {rest[1], i}})
	}},
	{name: "22 nothing that a broker sends arrives at the metadata leader", wires: true, hurt: func(c *torture, order []int) {
		i := c.controller()
		c.cuts([]wire{{without(order, i)[0], i}})
	}},
	{name: "22 nothing that the metadata leader sends arrives at a broker", wires: true, hurt: func(c *torture, order []int) {
		i := c.controller()
		c.cuts([]wire{{i, without(order, i)[0]}})
	}},
	{name: "22 the network of a broker is slow and loses packets", wires: true, hurt: func(c *torture, order []int) {
		c.slows(order[0], order)
	}},
	{name: "22 the network of the metadata leader is slow and loses packets", wires: true, hurt: func(c *torture, order []int) {
		c.slows(c.controller(), order)
	}},
	{name: "23 a broker that was cut off is killed and comes back with its tail", wires: true, hurt: (*torture).diverges},
	{name: "24 a broker loses its data directory", hurt: func(c *torture, order []int) { c.wiped(order[0]) }},
	{name: "24 the disk of a broker is too slow", heals: true, hurt: (*torture).lags},
	{name: "25 all brokers are cut off from each other", wires: true, hurt: func(c *torture, order []int) {
		c.cuts(append(both(order[0], order[1], order[2]), both(order[1], order[2])...))
	}},
	{name: "25 the metadata lose their quorum", heals: true, hurt: (*torture).losesQuorum},
	{name: "26 all brokers are killed", hurt: func(c *torture, order []int) { c.again(syscall.SIGKILL, order) }},
	{name: "26 the last brokers in sync are killed and come back last", heals: true, hurt: (*torture).lastInSync},
	{name: "27 rolling restart", strict: true, hurt: func(c *torture, order []int) {
		for _, i := range order {
			c.again(syscall.SIGTERM, []int{i})
			c.inSync()
		}
	}},
	{name: "27 brokers are stopped one after the other", strict: true, hurt: func(c *torture, order []int) {
		for _, i := range order {
			c.again(syscall.SIGTERM, []int{i})
		}
	}},
	{name: "27 all brokers are stopped", hurt: func(c *torture, order []int) { c.again(syscall.SIGTERM, order) }},
	{name: "28 streams break again and again", wires: true, hurt: (*torture).breaks},
	{name: "1 a broker loses power", heals: true, hurt: func(c *torture, order []int) { c.power(order[:1]) }},
	{name: "1 two brokers lose power", heals: true, hurt: func(c *torture, order []int) { c.power(order[:2]) }},
	{name: "1 all brokers lose power", heals: true, hurt: func(c *torture, order []int) { c.power(order) }},
	{name: "3 the syncs of a broker fail", heals: true, hurt: func(c *torture, order []int) { c.spoils(order[0], "syncs-fail") }},
	{name: "3 the writes of a broker fail", heals: true, hurt: func(c *torture, order []int) { c.spoils(order[0], "writes-fail") }},
	{name: "4 the disk of a broker is full", heals: true, hurt: func(c *torture, order []int) { c.spoils(order[0], "full") }},
}

// wire is the direction from one host to another, by their indices.
type wire struct{ from, to int }

// slowness is what a slow wire does to each packet.
type slowness struct {
	delay time.Duration
	loss  float64 // the likelihood that a packet is lost
}

// both returns the wires between a host and others, in both directions.
func both(one int, others ...int) (all []wire) {
	for _, other := range others {
		all = append(all, wire{one, other}, wire{other, one})
	}
	return all
}

// without returns the brokers of order except one.
func without(order []int, one int) []int {
	return slices.DeleteFunc(slices.Clone(order), func(i int) bool { return i == one })
}

// again ends brokers and starts them again.
func (c *torture) again(sig syscall.Signal, which []int) {
	c.end(sig, which...)
	pause(c.t.Context(), time.Duration(c.random.Int64N(int64(time.Second))))
	c.launch(which...)
	c.await(which...)
}

// pauses stops a broker for longer than its session lasts, and lets it continue.
func (c *torture) pauses(i int) {
	c.paused = true
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := c.run[i].cmd.Process.Signal(sig); err != nil {
			c.t.Fatal(err)
		}
		if sig == syscall.SIGSTOP {
			pause(c.t.Context(), tortureStop)
		}
	}
}

// wiped removes the data directory of a broker that is not the last one with a record.
func (c *torture) wiped(i int) {
	c.inSync()
	c.end(syscall.SIGTERM, i)
	if err := os.RemoveAll(filepath.Join(c.dirs[i], "d")); err != nil {
		c.t.Fatal(err)
	}
	c.launch(i)
	c.await(i)
	c.inSync() // before another fault, at which its copy may be missed
	for n := range c.seeds {
		c.eventually("the quorum", func(ctx context.Context) string { return c.quorum(ctx, n) })
	}
}

// cuts cuts wires for longer than a session lasts.
func (c *torture) cuts(wires []wire) {
	c.wires.set(wires, nil)
	pause(c.t.Context(), tortureStop)
	c.wires.set(nil, nil)
}

func (c *torture) slows(i int, order []int) {
	slow := map[wire]slowness{}
	for _, on := range both(i, without(order, i)...) {
		slow[on] = slowness{delay: time.Duration(c.random.Int64N(int64(100 * time.Millisecond))), loss: 0.02}
	}
	c.wires.set(nil, slow)
	pause(c.t.Context(), tortureStop)
	c.wires.set(nil, nil)
}

// diverges lets clients write to a broker that is cut off from the others, which elect new leaders.
func (c *torture) diverges(order []int) {
	c.wires.set(both(order[0], order[1], order[2]), nil)
	pause(c.t.Context(), time.Duration(c.random.Int64N(int64(tortureStop))))
	c.end(syscall.SIGKILL, order[0])
	c.wires.set(nil, nil)
	c.launch(order[0])
	c.await(order[0])
}

// breaks cuts the wires between two brokers for a short time, again and again.
func (c *torture) breaks(order []int) {
	for range 8 {
		a := c.random.IntN(len(order))
		c.wires.set(both(order[a], order[(a+1)%len(order)]), nil)
		pause(c.t.Context(), time.Duration(c.random.Int64N(int64(3*time.Second))))
		c.wires.set(nil, nil)
		pause(c.t.Context(), time.Duration(c.random.Int64N(int64(time.Second))))
	}
}

// lastInSync kills a broker, and the others when they are in sync without it. They come back after
// it.
func (c *torture) lastInSync(order []int) {
	c.inSync()
	c.end(syscall.SIGKILL, order[0])
	c.isr("without the broker that was killed", func(isr []int32) bool { return len(isr) == 2 })
	c.end(syscall.SIGKILL, order[1], order[2])
	for _, i := range order {
		c.launch(i)
		pause(c.t.Context(), time.Second)
	}
	c.await(order...)
}

// disk makes brokers run on a disk that fails on command, or on the system's again.
func (c *torture) disk(faulty bool, which ...int) {
	for _, i := range which {
		if c.faulty[i] == faulty && c.run[i] != nil {
			continue
		}
		if c.run[i] != nil {
			c.inSync()
			c.end(syscall.SIGTERM, i)
		}
		c.faulty[i] = faulty
		c.launch(i)
	}
	c.await(which...)
}

// order orders a faulty disk to do something.
func (c *torture) order(i int, command string) {
	c.t.Helper()
	if err := c.run[i].console.do(command); err != nil {
		c.t.Fatalf("broker %d: %s: %v", i+1, command, err)
	}
}

// power ends brokers at one time. Of what they had not synced, a random part is lost.
func (c *torture) power(which []int) {
	c.disk(true, which...)
	c.inSync()
	c.measure()
	pause(c.t.Context(), time.Duration(c.random.Int64N(int64(time.Second))))
	for _, i := range which {
		_ = c.run[i].console.do("power") // it does not answer
	}
	for _, i := range which {
		p := c.run[i]
		err := <-p.done
		if p.done <- err; !strings.Contains(p.logged(), "the power is lost: <nil>") {
			c.t.Fatalf("broker %d: the disk could not take back what was not synced: %v\n%s", i+1, err, p.logged())
		}
		c.run[i] = nil
	}
	c.disk(false, which...)
}

// spoils makes the disk of a broker fail for longer than a session lasts. A log whose segment could
// not be synced is back only after a restart: what the kernel has kept of it is unknown.
func (c *torture) spoils(i int, command string) {
	c.disk(true, i)
	c.inSync()
	c.measure()
	c.order(i, command)
	pause(c.t.Context(), tortureStop)
	if command != "full" && len(c.run[i].errors()) == 0 { // there may be room in files that exist
		c.fail("broker %d does not report that its disk fails", i+1)
	}
	c.order(i, "heal")
	expected := c.expected
	c.expected = []string{""}
	c.end(syscall.SIGKILL, i)
	c.expected = expected
	c.disk(false, i)
}

// lags makes the syncs of a broker slow. It leaves the in-sync replicas, and comes back.
func (c *torture) lags(order []int) {
	i := order[0]
	c.disk(true, i)
	c.inSync()
	c.measure()
	c.order(i, "slow 4s")
	c.isr(fmt.Sprintf("without broker %d", i+1), func(isr []int32) bool { return !slices.Contains(isr, int32(i+1)) })
	c.order(i, "heal")
	c.inSync()
	c.disk(false, i)
}

// losesQuorum lets two of three metadata logs hang. Records are acknowledged by all replicas in
// sync all the time, but not by the leader alone, because another one may lead.
func (c *torture) losesQuorum(order []int) {
	c.disk(true, order[:2]...)
	c.inSync()
	c.measure()
	for _, i := range order[:2] {
		c.order(i, "metadata-hangs")
	}
	// A log hangs at the next change: this one, which no client requires.
	within, cancel := context.WithTimeout(c.t.Context(), tortureAnswer)
	_, _ = c.admins[order[2]].CreateTopic(within, 1, 3, nil, fmt.Sprint("hangs-", time.Now().UnixNano()))
	cancel()
	c.eventually("acks=1 is refused", c.refusesAcksOfOne)
	c.writes("the metadata lost their quorum")
	for _, i := range order[:2] {
		c.order(i, "heal")
	}
	c.inSync()
	for _, i := range order[:2] {
		c.disk(false, i)
	}
}

// refusesAcksOfOne asks each broker to write with acks=1 to all partitions, and returns which were
// acknowledged, and which broker did not answer.
func (c *torture) refusesAcksOfOne(ctx context.Context) (acked string) {
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = tortureAlone
	for p := range int32(torturePartitions) {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p, oneRecord()
		topic.Partitions = append(topic.Partitions, part)
	}
	for i := range c.seeds {
		cl, err := c.client(kgo.SeedBrokers(c.seeds[i]), kgo.MaxVersions(kversion.V3_0_0()), kgo.RequestRetries(0),
			kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())) // the client sends its own acks in every request
		if err != nil {
			c.t.Fatal(err)
		}
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis, req.Topics = 1, 1000, []kmsg.ProduceRequestTopic{topic}
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		resp, err := cl.SeedBrokers()[0].Request(within, req)
		cancel()
		cl.Close()
		if err != nil {
			acked += fmt.Sprintf("broker %d does not answer: %v; ", i+1, err)
			continue
		}
		for _, p := range resp.(*kmsg.ProduceResponse).Topics[0].Partitions {
			if p.ErrorCode == 0 {
				acked += fmt.Sprintf("broker %d acknowledges partition %d; ", i+1, p.Partition)
			}
		}
	}
	return acked
}
