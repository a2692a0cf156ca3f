package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// fault is a way to hurt the brokers whose indices it gets in random order. All brokers run again,
// and all disks and networks are whole, when hurt returns. The number in the name is the one of the
// promise that it checks: 22 leaders, 23 followers that diverged, 24 followers that lost or delay
// everything, 25 metadata without a quorum, 26 the last replicas, 27 restarts, 28 streams, 29 the
// removal, 30 the clock, and 1 to 8 the disk.
type fault struct {
	name  string
	wires bool // it requires hosts of their own
	clock bool // it requires a broker whose clock is wrong
	logs  bool // it requires that all brokers hold logs
	heals bool // the next fault comes after all replicas are in sync again
	ends  bool // it may end every broker, also the last one of the order
	// strict: no client with the settings by default may report an error.
	strict bool
	hurt   func(*torture, []int)
}

var faults = []fault{
	{name: "22 a broker is killed", hurt: func(c *torture, order []int) { c.again(syscall.SIGKILL, order[:1]) }},
	{name: "22 the metadata leader is killed", ends: true, hurt: func(c *torture, _ []int) { c.again(syscall.SIGKILL, []int{c.controller()}) }},
	{name: "22 two brokers are killed", hurt: func(c *torture, order []int) { c.again(syscall.SIGKILL, order[:2]) }},
	{name: "22 a broker is paused", hurt: func(c *torture, order []int) { c.pauses(order[0]) }},
	{name: "22 the metadata leader is paused", hurt: func(c *torture, _ []int) { c.pauses(c.controller()) }},
	{name: "22 a broker is cut off from all others", wires: true, hurt: func(c *torture, order []int) {
		c.cuts(both(order[0], order[1], order[2]), order[0])
	}},
	{name: "22 the metadata leader is cut off from all others", wires: true, hurt: func(c *torture, order []int) {
		i := c.controller()
		c.cuts(both(i, without(order, i)...), i)
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
	{name: "24 the disk of a broker is too slow", logs: true, heals: true, hurt: (*torture).lags},
	{name: "25 all brokers are cut off from each other", wires: true, hurt: func(c *torture, order []int) {
		c.cuts(append(both(order[0], order[1], order[2]), both(order[1], order[2])...), order...)
	}},
	{name: "25 the metadata loses its quorum", heals: true, hurt: (*torture).losesQuorum},
	{name: "26 all brokers are killed", ends: true, hurt: func(c *torture, order []int) { c.again(syscall.SIGKILL, order) }},
	{name: "26 the last brokers in sync are killed and come back last", ends: true, logs: true, heals: true, hurt: (*torture).lastInSync},
	{name: "27 rolling restart", ends: true, strict: true, hurt: func(c *torture, order []int) {
		for _, i := range order {
			c.again(syscall.SIGTERM, []int{i})
			c.inSync()
		}
	}},
	{name: "27 brokers are stopped one after the other", ends: true, strict: true, hurt: func(c *torture, order []int) {
		for _, i := range order {
			c.again(syscall.SIGTERM, []int{i})
		}
	}},
	{name: "27 all brokers are stopped", ends: true, hurt: func(c *torture, order []int) { c.again(syscall.SIGTERM, order) }},
	{name: "28 streams break again and again", wires: true, hurt: (*torture).breaks},
	{name: "29 a broker is removed and comes back", logs: true, hurt: (*torture).removes},
	{name: "30 the clock of a broker is wrong", clock: true, heals: true, hurt: func(c *torture, order []int) { c.misleads(order[0]) }},
	{name: "30 the clock of the metadata leader is wrong", ends: true, clock: true, heals: true, hurt: func(c *torture, _ []int) {
		c.misleads(c.controller())
	}},
	{name: "1 a broker loses power", heals: true, hurt: func(c *torture, order []int) { c.power(order[:1]) }},
	{name: "1 two brokers lose power", heals: true, hurt: func(c *torture, order []int) { c.power(order[:2]) }},
	{name: "1 all brokers lose power", ends: true, heals: true, hurt: func(c *torture, order []int) { c.power(order) }},
	{name: "3 one sync of a broker fails", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.spoils("one-sync-fails", order[0])
	}},
	{name: "3 the syncs of a broker fail", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.spoils("syncs-fail", order[0])
	}},
	{name: "3 the writes of a broker fail", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.spoils("writes-fail", order[0])
	}},
	{name: "3 the disks of all brokers fail", ends: true, logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.spoils("syncs-fail", order...)
	}},
	{name: "4 the disk of a broker is full", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.continues("full", order[0])
	}},
	{name: "4 the log directory of a broker hangs", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.continues("logs-hang", order[0])
	}},
	{name: "7 bytes of a broker's segments change", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.rots(order[0], true)
	}},
	{name: "7 bytes of a stopped broker's segments change", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.rots(order[0], false)
	}},
	{name: "8 segments of a broker are cut short", logs: true, heals: true, hurt: func(c *torture, order []int) { c.cutsShort(order[:1]) }},
	{name: "8 segments of two brokers are cut short", logs: true, heals: true, hurt: func(c *torture, order []int) {
		c.cutsShort(order[:2])
	}},
	{name: "8 a partition's directory is removed", logs: true, heals: true, hurt: func(c *torture, order []int) { c.removesLog(order[0]) }},
	{name: "25 the metadata disk of a broker hangs", heals: true, hurt: func(c *torture, order []int) {
		c.staleMetadata("metadata-hangs", without(order, c.controller())[0])
	}},
	{name: "25 the metadata disk of the metadata leader hangs", ends: true, heals: true, hurt: func(c *torture, _ []int) {
		c.staleMetadata("metadata-hangs", c.controller())
	}},
	{name: "25 the metadata disk of a broker fails", heals: true, hurt: func(c *torture, order []int) {
		c.staleMetadata("metadata-fails", order[0])
	}},
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

// cuts cuts wires for longer than a session lasts. Brokers without a controller refuse acks=1 then,
// because another one may lead.
func (c *torture) cuts(wires []wire, alone ...int) {
	c.wires.set(wires, nil)
	pause(c.t.Context(), tortureStop)
	if len(alone) > 0 {
		c.refusesAcksOfOne(alone...)
	}
	c.wires.set(nil, nil)
}

// removes unregisters a broker that is stopped and has no replicas any longer. It is refused when
// it comes back, says so, and joins again with an empty directory.
func (c *torture) removes(order []int) {
	i, rest := order[0], order[1:]
	c.inSync()
	c.end(syscall.SIGTERM, i)
	c.replicas(rest[0], rest...)
	cl, err := c.client(kgo.SeedBrokers(c.seeds[rest[0]]))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	c.eventually("the removal", func(ctx context.Context) string {
		resp, err := cl.Broker(rest[0]+1).RetriableRequest(ctx, &kmsg.UnregisterBrokerRequest{BrokerID: int32(i + 1)})
		if err != nil {
			return err.Error()
		}
		if err := kerr.ErrorForCode(resp.(*kmsg.UnregisterBrokerResponse).ErrorCode); err != nil {
			return err.Error()
		}
		return ""
	})
	c.goOn("a broker was removed")
	c.launch(i)
	c.eventually("the refusal", func(context.Context) string {
		if refused.MatchString(c.run[i].logged()) {
			return ""
		}
		return "its log: " + c.run[i].logged()
	})
	c.goOn("the broker that was removed came back")
	c.end(syscall.SIGTERM, i)
	if err := os.RemoveAll(filepath.Join(c.dirs[i], "d")); err != nil {
		c.t.Fatal(err)
	}
	c.launch(i)
	c.await(i)
	c.replicas(rest[0], order...)
	c.inSync()
	for n := range c.seeds {
		c.eventually("the quorum", func(ctx context.Context) string { return c.quorum(ctx, n) })
	}
}

// replicas moves all partitions to these brokers, and waits until they have them. It asks broker i.
func (c *torture) replicas(i int, on ...int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("replicas on %v", on), func(ctx context.Context) string {
		m, err := c.admins[i].Metadata(ctx)
		if err != nil {
			return err.Error()
		}
		var move kadm.AlterPartitionAssignmentsReq
		wrong := ""
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				to := slices.DeleteFunc(slices.Clone(p.Replicas), func(b int32) bool { return !slices.Contains(on, int(b)-1) })
				for _, b := range on { // those that stay keep their order
					if !slices.Contains(to, int32(b+1)) {
						to = append(to, int32(b+1))
					}
				}
				if !slices.Equal(to, p.Replicas) {
					move.Assign(topic.Topic, p.Partition, to)
				}
				if !slices.Equal(to, p.Replicas) || len(p.ISR) != len(on) {
					wrong = fmt.Sprintf("%s-%d: replicas %v, in sync %v", topic.Topic, p.Partition, p.Replicas, p.ISR)
				}
			}
		}
		if len(move) > 0 {
			_, err = c.admins[i].AlterPartitionAssignments(ctx, move)
		}
		if err != nil {
			return err.Error()
		}
		return wrong
	})
}

// misleads restarts a broker with a clock that is hours ahead, or less than an hour behind: with an
// older clock, it would refuse the records of the producers as too far in the future. Another fault
// of it follows before the clock is right again.
func (c *torture) misleads(i int) {
	c.ahead[i] = time.Duration(c.random.Int64N(int64(9*time.Hour))) + time.Minute
	if c.random.IntN(2) == 0 {
		c.ahead[i] = -time.Minute - time.Duration(c.random.Int64N(int64(50*time.Minute)))
	}
	c.t.Logf("the clock of broker %d is %v ahead", i+1, c.ahead[i])
	was := map[*process]int{}
	for _, p := range c.run {
		was[p] = len(p.logged())
	}
	c.again(syscall.SIGTERM, []int{i})
	c.inSync()
	c.measure()
	c.eventually("a finding about the clock", func(context.Context) string {
		for _, p := range c.run {
			if skewed.MatchString(p.logged()[was[p]:]) {
				return ""
			}
		}
		return "no broker reports that its clock is not that of the metadata leader"
	})
	c.again(syscall.SIGKILL, []int{i})
	c.goOn("a restart with a wrong clock")
	delete(c.ahead, i)
	c.again(syscall.SIGKILL, []int{i})
}

// refused is the line of the log with what a broker that was removed waits for.
var refused = regexp.MustCompile(`"msg":"waiting","for":"[^"]*was unregistered from the cluster; start it with an empty data directory`)

// skewed is the line of the log with the finding about a clock.
var skewed = regexp.MustCompile(`"check":"skew","subject":"clock"`)

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

// refusesAcksOfOne waits until brokers refuse to write with acks=1 to all partitions.
func (c *torture) refusesAcksOfOne(which ...int) {
	c.t.Helper()
	c.eventually("acks=1 is refused", func(ctx context.Context) string { return c.acksOfOne(ctx, which) })
}

// acksOfOne asks brokers to write with acks=1 to all partitions, and returns which were
// acknowledged, and which broker did not answer.
func (c *torture) acksOfOne(ctx context.Context, which []int) (acked string) {
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = tortureAlone
	for p := range int32(torturePartitions) {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p, oneRecord()
		topic.Partitions = append(topic.Partitions, part)
	}
	for _, i := range which {
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
