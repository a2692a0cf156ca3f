package brokers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// fault is a fault that a walk can choose.
type fault struct {
	name  string
	often int
	do    func(c *clients, id int32)
}

func faults() []fault {
	return append(diskFaults(), []fault{
		{"kill", 4, func(c *clients, id int32) { c.w.kill(id) }},
		{"kill and start", 3, func(c *clients, id int32) { c.w.kill(id); c.w.start(id) }},
		{"power loss", 4, func(c *clients, id int32) { c.w.powerLoss(id, c.w.mode()) }},
		{"power loss of all", 1, func(c *clients, _ int32) {
			for id := range c.w.size() {
				c.w.powerLoss(id+1, c.w.mode())
			}
		}},
		{"power loss of two", 1, func(c *clients, id int32) {
			c.w.powerLoss(id, c.w.mode())
			c.w.powerLoss(c.w.other(id), c.w.mode())
		}},
		{"wipe", 2, (*clients).wipeIfInSync},
		{"old log directory", 2, func(c *clients, id int32) { c.oldDisk(id, false) }},
		{"old disk", 2, func(c *clients, id int32) { c.oldDisk(id, true) }},
		{"stop", 2, func(c *clients, id int32) { c.w.stop(id) }},
		{"restart", 2, func(c *clients, id int32) { c.w.stop(id); c.w.start(id) }},
		{"pause", 3, func(c *clients, id int32) { c.w.pause(id, time.Duration(c.w.random.Int64N(int64(15*time.Second)))) }},
		{"isolate", 3, func(c *clients, id int32) { c.w.isolate(id) }},
		{"cut what it sends", 2, func(c *clients, id int32) {
			for o := range c.w.size() {
				c.w.net.Cut(ip(id), ip(o+1), true)
			}
		}},
		{"cut what it receives", 2, func(c *clients, id int32) {
			for o := range c.w.size() {
				c.w.net.Cut(ip(o+1), ip(id), true)
			}
		}},
		{"cut one way", 3, func(c *clients, id int32) { c.w.net.Cut(ip(id), ip(c.w.other(id)), true) }},
		{"cut off clients", 1, func(c *clients, id int32) { c.w.net.Cut(ip(id), clientIP, true) }},
		{"log directory fails", 1, func(c *clients, id int32) { c.w.breakDisk(id, "/data/logs/") }},
		{"metadata fail", 1, func(c *clients, id int32) { c.w.breakDisk(id, "/data/metadata/") }},
		{"metadata hang", 3, func(c *clients, id int32) { c.w.hang(id, "/data/metadata/", c.w.seconds(20)) }},
		{"metadata fail for a while", 2, func(c *clients, id int32) { c.w.failDisk(id, "/data/metadata/", c.w.seconds(10)) }},
		{"relays end", 3, func(c *clients, id int32) { c.w.relays(id, false) }},
		{"relay to it ends", 2, func(c *clients, id int32) { c.w.net.Relay(ip(c.w.other(id)), ip(id), false) }},
		{"reassign", 4, (*clients).reassign},
		{"heal", 8, func(c *clients, _ int32) { c.w.heal() }},
	}...)
}

// isolate cuts a broker off from the others, but not from clients.
func (w *world) isolate(id int32) {
	for o := range w.size() {
		w.net.Cut(ip(id), ip(o+1), true)
		w.net.Cut(ip(o+1), ip(id), true)
	}
}

// other returns another broker.
func (w *world) other(id int32) int32 { return 1 + (id+w.random.Int32N(w.size()-1))%w.size() }

// mode returns what a power loss leaves of unsynced writes.
func (w *world) mode() crashfs.Mode { return crashfs.Modes()[w.random.IntN(len(crashfs.Modes()))] }

// wipeIfInSync replaces the disk of a broker if the two others have everything: nothing survives
// the loss of more disks than that.
func (c *clients) wipeIfInSync(id int32) {
	if bad := c.needs(id); bad != "" {
		c.w.note("not wiped: %s", bad)
		return
	}
	c.w.wipe(id)
	c.w.start(id)
}

// needs returns why the others need the disk of a broker; "" if they have everything.
func (c *clients) needs(id int32) string {
	if c.w.damaged != 0 && c.w.damaged != id {
		return fmt.Sprintf("the disk of broker %d may be damaged", c.w.damaged)
	}
	if c.w.profile != "" && time.Since(c.w.unpowered) < 3*controller.DefaultSessionTimeout {
		return "a broker that lost power may still be in the ISR, and lack records"
	}
	for o := range c.w.size() {
		// The registration of its former process is shown until the session ends, with the ISRs
		// that it was in, although its disk may have been replaced since.
		if o+1 != id && c.w.process(o+1) == nil {
			return fmt.Sprintf("broker %d does not serve", o+1)
		}
	}
	from := c.w.other(id)
	if _, bad := c.state(from); bad != "" {
		return bad
	}
	switch {
	case id > c.w.seeds(): // it has no vote
		return ""
	case c.w.seeds() == 1:
		return "no other broker has a vote"
	}
	return c.badQuorum(from)
}

// reassign moves a partition to other brokers, or its leadership.
func (c *clients) reassign(id int32) {
	to := []int32{id, c.w.other(id)}
	if c.w.random.IntN(3) == 0 {
		to = []int32{id, 1 + id%c.w.size(), 1 + (id+1)%c.w.size()}
	}
	c.move(to...)
}

// move assigns a partition to brokers, and asks for preferred leaders.
func (c *clients) move(to ...int32) {
	c.w.moved = true
	a := kadm.NewClient(c.admin)
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	moves := kadm.AlterPartitionAssignmentsReq{}
	moves.Assign(c.w.moving(), 0, to)
	_, err := a.AlterPartitionAssignments(within, moves)
	_, preferred := a.ElectLeaders(within, kadm.ElectPreferredReplica, nil)
	c.w.note("moved-0 to %v: %v, preferred leaders: %v", to, err, preferred)
}

// badQuorum returns why a further voter of the metadata must not lose its disk.
func (c *clients) badQuorum(broker int32) string {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	q := kmsg.NewPtrDescribeQuorumRequest()
	t, p := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	t.Topic, t.Partitions = "__cluster_metadata", append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	resp, err := c.admin.Broker(int(broker)).Request(within, q)
	if err != nil {
		return err.Error()
	}
	r := resp.(*kmsg.DescribeQuorumResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return "no leader of the metadata"
	}
	voters := r.Topics[0].Partitions[0].CurrentVoters
	if len(voters) != int(c.w.seeds()) {
		return fmt.Sprintf("%d voters", len(voters))
	}
	for _, v := range voters {
		if v.ReplicaID < 1 || v.LastCaughtUpTimestamp < time.Now().Add(-time.Second).UnixMilli() {
			return fmt.Sprintf("a voter of broker %d is behind", v.ReplicaID)
		}
	}
	return ""
}

// breakDisk makes all writes below a directory fail until the process ends.
func (w *world) breakDisk(id int32, dir string) {
	w.mayLose()
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		n.process.fs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, Err: syscall.EIO,
			When: func(call errfs.Call) bool { return strings.HasPrefix(call.Path, dir) }})
		n.broken = true
	}
}

// seconds returns a random time of up to a number of seconds.
func (w *world) seconds(most int) time.Duration {
	return time.Duration(w.random.Int64N(int64(most) * int64(time.Second)))
}

// hang makes writes and syncs below a directory wait, for a time or until heal.
func (w *world) hang(id int32, dir string, d time.Duration) {
	healed := make(chan struct{})
	w.disturb(id, d, func(p *process) errfs.Rule {
		return errfs.Rule{Before: func(errfs.Call) {
			select {
			case <-healed:
			case <-p.gone:
			}
		}}
	}, dir, func() { close(healed) })
}

// failDisk makes writes and syncs below a directory fail, for a time or until heal.
func (w *world) failDisk(id int32, dir string, d time.Duration) {
	w.disturb(id, d, func(*process) errfs.Rule { return errfs.Rule{Err: syscall.ENOSPC} }, dir, func() {})
}

// disturb disturbs writes and syncs below a directory of a broker that runs, for a time or until
// heal.
func (w *world) disturb(id int32, d time.Duration, rule func(*process) errfs.Rule, dir string, end func()) {
	n := w.nodes[id]
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	if p == nil {
		return
	}
	r := rule(p)
	r.Ops = errfs.Write | errfs.Datasync
	r.When = func(call errfs.Call) bool { return strings.HasPrefix(call.Path, dir) }
	fault := p.fs.Add(r)
	over, early := context.WithTimeout(context.Background(), d)
	w.mu.Lock()
	w.healing = append(w.healing, early)
	w.mu.Unlock()
	w.ending.Go(func() {
		select {
		case <-over.Done():
		case <-p.gone:
		}
		early()
		fault.Off()
		end()
		w.note("%s of broker %d works again", dir, id)
	})
}

// relays ends or starts the relays through which a broker and the others dial each other.
func (w *world) relays(id int32, run bool) {
	for o := range w.size() {
		if o+1 != id {
			w.net.Relay(ip(id), ip(o+1), run)
			w.net.Relay(ip(o+1), ip(id), run)
		}
	}
}

// step is a fault of a history.
type step struct {
	after  time.Duration // after the one before
	fault  fault
	broker int32
	random *rand.Rand // of the fault's own choices, which depend on what the brokers do
}

// pick returns one of a list of faults.
func pick(random *rand.Rand, all []fault) fault {
	sum := 0
	for _, f := range all {
		sum += f.often
	}
	at := random.IntN(sum)
	for _, f := range all {
		if at -= f.often; at < 0 {
			return f
		}
	}
	panic("unreachable")
}

// plan returns the faults of a seed. They depend on nothing else. What operators do, and the
// brokers beyond the third one, are drawn from another source: a seed has the same faults of other
// kinds with them and without.
func plan(seed uint64, k kind) (list []step) {
	random, extra := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 10))
	for i := range uint64(4 + random.IntN(8)) {
		s := step{after: time.Duration(random.Int64N(int64(4 * time.Second))), broker: 1 + random.Int32N(3),
			random: rand.New(rand.NewPCG(seed, 1000+i))}
		s.fault = pick(random, faults())
		if more := k.size() - 3; more > 0 && extra.IntN(2) == 0 {
			s.broker = 4 + extra.Int32N(more)
		}
		list = append(list, s)
		if extra.IntN(6) == 0 {
			list = append(list, step{after: time.Duration(extra.Int64N(int64(4 * time.Second))), broker: 1 + extra.Int32N(k.holders()),
				random: rand.New(rand.NewPCG(seed, 2000+i)), fault: pick(extra, operations())})
		}
	}
	return list
}

// walk causes random faults at random times. In between it copies disks, which may be put back.
func (c *clients) walk() {
	random := c.random(12)
	for _, s := range plan(c.w.seed, c.w.kind) {
		time.Sleep(s.after)
		if id := 1 + random.Int32N(c.w.size()); !c.w.hasSnapshot(id) {
			c.w.snapshotDisk(id, random)
		}
		c.w.note("%s: %d", s.fault.name, s.broker)
		c.w.random = s.random
		s.fault.do(c, s.broker)
	}
}
