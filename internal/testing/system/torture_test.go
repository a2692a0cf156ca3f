package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/testing/shareload"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

const (
	torturePartitions = 6
	tortureRounds     = 3               // CHRONIK_CLUSTER_ROUNDS sets another number, or how long rounds begin
	tortureStop       = 5 * time.Second // longer than a session's timeout
)

// torture is a cluster with clients while faults are caused.
type torture struct {
	*nodes
	*tortureBook
	jobs   *jobs  // of share groups; nil: none
	wires  *wires // nil: all brokers are on this machine's loopback
	random *rand.Rand
	admins []*kadm.Client                // one for each broker
	took   map[string][][3]time.Duration // what the rounds of a fault took
	probes availability
	limits map[string]*string // further configs of the topics
	store  string             // the directory that has old records; empty: there is none
}

// inTorture leaves a test to make cluster-torture: it takes long, and other tests have parts of it.
func inTorture(t *testing.T) {
	t.Helper()
	if os.Getenv("CHRONIK_CLUSTER_ROUNDS") == "" {
		t.Skip("make cluster-torture runs it")
	}
}

// Brokers of a cluster are killed, paused, stopped, wiped and cut off, and their disks and networks
// fail, while idempotent producers write with acks=all, consumers read, and a group commits
// offsets. No acknowledged record is lost, none is in a log twice, producers' records are in order,
// no consumer saw a record that is not in the log, no acknowledged commit is lost, and the logs of
// all brokers are the same at the end. Two share groups keep the promises that check.Share judges.
func TestClusterUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	underFaults(t, 3)
}

// The same of two brokers that hold logs and a third one that only votes. One of the two continues
// alone.
func TestAWitnessUnderFaults(t *testing.T) {
	inTorture(t)
	underFaults(t, 2, "min.insync.replicas=1")
}

func underFaults(t *testing.T, holders int, set ...string) {
	t.Parallel() // it waits for elections and sessions most of the time
	rounds, seed := tries.Of(t, "CHRONIK_CLUSTER_ROUNDS", tortureRounds), fromEnv(t, "CHRONIK_CLUSTER_SEED", rand.Uint64())
	t.Logf("CHRONIK_CLUSTER_SEED=%d repeats this schedule", seed)
	c := &torture{nodes: newNodes(t, 3), tortureBook: newTortureBook(), random: rand.New(rand.NewPCG(seed, 0))}
	c.expected = []string{`"logger":"health"`} // the health reports what is caused here
	c.faulty, c.took, c.ahead = map[int]bool{}, map[string][][3]time.Duration{}, map[int]time.Duration{}
	c.skewed = os.Getenv("CHRONIKD_SKEWED")
	c.holders, c.set = holders, set
	c.tiered()
	c.set = append(c.set, "chronik.log.scrub.interval.ms=10000") // damage is found without a reader
	c.set = append(c.set, shareload.Settings()...)
	c.apart(seed)
	c.oneAddress("127.0.0.1:9")
	possible := c.possible()
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clients := c.load(ctx)
	c.startJobs(ctx, seed)
	for i := range c.seeds {
		for p := range int32(torturePartitions) {
			clients.Go(func() { c.probes.probe(ctx, t, c.client, i, p) })
		}
	}
	c.inSync()
	c.goOn("the start")
	for n := range rounds {
		f := possible[n%len(possible)] // first each one, then random ones
		if n >= len(possible) {
			f = possible[c.random.IntN(len(possible))]
		}
		t.Run(fmt.Sprintf("%d: %s", n+1, f.name), func(t *testing.T) { c.round(t, f) })
		if t.Failed() {
			break
		}
	}
	c.table()
	t.Logf("the producer by default reported %d records as failed", c.refusals[byDefault])
	c.judge(t, stop, clients)
}

// load creates the topics, and starts the clients, which end with ctx.
func (c *torture) load(ctx context.Context) *sync.WaitGroup {
	for i := range c.seeds {
		c.admins = append(c.admins, c.admin(i))
	}
	c.eventually("create the topics", func(ctx context.Context) string {
		for _, topic := range []string{tortureTopic, tortureAlone} {
			configs := map[string]*string{"segment.ms": kadm.StringPtr("10000")}
			maps.Copy(configs, c.limits)
			_, err := c.admins[0].CreateTopic(ctx, torturePartitions, int16(c.holders), configs, topic)
			if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				return err.Error()
			}
		}
		return ""
	})
	clients, t := &sync.WaitGroup{}, c.t // each round has another one
	through := connect(c.client)
	if c.one != "" {
		through = c.through
	}
	for id, client := range []connect{c.client, c.client, through} {
		clients.Go(func() { c.produce(ctx, t, client, id) })
	}
	clients.Go(func() { c.consume(ctx, t, c.client, "") })
	clients.Go(func() { c.consume(ctx, t, through, "2") })
	clients.Go(func() { c.commit(ctx, t, through) })
	return clients
}

// judge ends the clients and the brokers, and compares what is in the logs with what was
// acknowledged and seen.
func (c *torture) judge(t *testing.T, stop func(), clients *sync.WaitGroup) {
	c.inSync()
	c.jobs.judge()
	stop()
	clients.Wait()
	c.readsWhatWasSeen(t, c.client)
	c.commitsAreKept()
	c.end(syscall.SIGTERM, 0, 1, 2)
	if c.store != "" {
		c.inStore(t)
	} else {
		c.sameLogs(t, c.dirs[:c.holders])
	}
	c.report(t)
}

// fromEnv returns the number that an environment variable has.
func fromEnv(t *testing.T, name string, unset uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// apart gives each broker a host of its own, where this process may make network namespaces.
func (c *torture) apart(seed uint64) {
	w, err := newWires(c.t, len(c.seeds)+1, seed)
	if err != nil {
		c.t.Logf("the brokers share one network, and faults of the network are left out: %v", err)
		return
	}
	c.wires, c.net = w, w
	c.set = append(c.set, "admin.remote=true") // their addresses are not those of loopback
	for i := range c.seeds {
		c.seeds[i] = net.JoinHostPort(w.hosts[i].addr.String(), "9092")
		c.ports[i] = net.JoinHostPort(w.hosts[i].addr.String(), "9644")
	}
}

// possible returns the faults that can be caused here. CHRONIK_CLUSTER_FAULT selects those whose
// name contains it, or one of several texts that "|" separates.
func (c *torture) possible() (all []fault) {
	wanted := strings.Split(os.Getenv("CHRONIK_CLUSTER_FAULT"), "|")
	for _, f := range faults {
		if (c.wires != nil || !f.wires) && (c.skewed != "" || !f.clock) && (c.holders == len(c.seeds) || !f.logs) &&
			slices.ContainsFunc(wanted, func(text string) bool { return strings.Contains(f.name, text) }) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		c.t.Fatal("no fault has a name that contains CHRONIK_CLUSTER_FAULT, or none is possible here")
	}
	return all
}

// round causes a fault and waits until the clients continue.
func (c *torture) round(t *testing.T, f fault) {
	c.measure()
	defer func(outer *testing.T) { c.t = outer }(c.t)
	c.t = t
	defer c.heal()
	c.mayRefuse(!f.strict)
	began := time.Now()
	f.hurt(c, c.random.Perm(len(c.seeds)))
	hurt := time.Since(began)
	c.goOn(f.name)
	going, waits, gap := time.Since(began), c.longest(), c.probes.worst()
	if os.Getenv("CHRONIK_CLUSTER_FAULT") != "" {
		c.everyoneLeads()
	} else if c.random.IntN(2) == 0 || f.heals {
		c.inSync()
	}
	const ms = time.Millisecond
	t.Logf("%v; clients continue after %v, ready for the next fault after %v; unavailable for %v, producers wait for %v, by default %v",
		hurt.Round(ms), going.Round(ms), time.Since(began).Round(ms), gap.Round(ms), waits[impatient].Round(ms), waits[byDefault].Round(ms))
	c.took[f.name] = append(c.took[f.name], [3]time.Duration{gap, waits[impatient], waits[byDefault]})
	c.commitsAreKept()
	c.report(t)
}

// heal ends what a failed round has left: brokers that wait for a disk do not end, and none that is
// cut off gives its state.
func (c *torture) heal() {
	if !c.t.Failed() {
		return
	}
	if c.wires != nil {
		c.wires.set(nil, nil)
	}
	for i, p := range c.run {
		if p == nil {
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		if p.console != nil {
			if err := p.console.do("heal"); err != nil {
				c.t.Logf("broker %d: heal: %v", i+1, err)
			}
		}
	}
}

// measure begins the measurements of the unavailability.
func (c *torture) measure() {
	c.longest()
	c.probes.begin()
}

// table logs for each fault the medians and the maxima of what was measured in its rounds.
func (c *torture) table() {
	var text strings.Builder
	text.WriteString("\n| fault | rounds | unavailable | maximum | producer | maximum | by default | maximum |\n")
	text.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, f := range faults {
		took := c.took[f.name]
		if len(took) == 0 {
			continue
		}
		fmt.Fprintf(&text, "| %s | %d |", f.name, len(took))
		for kind := range took[0] {
			slices.SortFunc(took, func(a, b [3]time.Duration) int { return cmp.Compare(a[kind], b[kind]) })
			fmt.Fprintf(&text, " %.1f s | %.1f s |", took[(len(took)-1)/2][kind].Seconds(), took[len(took)-1][kind].Seconds())
		}
		text.WriteString("\n")
	}
	c.t.Log(text.String())
}

// controller returns the index of the metadata leader.
func (c *torture) controller() (i int) {
	c.eventually("the metadata leader", func(ctx context.Context) string {
		m, err := c.admins[0].BrokerMetadata(ctx)
		if err != nil {
			return err.Error()
		}
		if i = int(m.Controller) - 1; i < 0 {
			return "unknown"
		}
		return ""
	})
	return i
}

// inSync waits until all replicas are in sync.
func (c *torture) inSync() {
	c.t.Helper()
	c.isr("with all brokers", func(isr []int32) bool { return len(isr) == c.holders })
}

// isr waits until all brokers that run show leaders and such in-sync replicas for all partitions.
func (c *torture) isr(what string, is func([]int32) bool) {
	c.t.Helper()
	c.eventually("in-sync replicas "+what, func(ctx context.Context) string {
		for i := range c.seeds {
			if c.run[i] == nil {
				continue
			}
			m, err := c.admins[i].Metadata(ctx, tortureTopic)
			if err != nil {
				return err.Error()
			}
			for _, p := range m.Topics[tortureTopic].Partitions {
				if p.Err != nil || p.Leader < 1 || !is(p.ISR) {
					return fmt.Sprintf("broker %d: %+v", i+1, p)
				}
			}
		}
		return ""
	})
}

// everyoneLeads waits until every replica is in sync and every partition has its preferred leader,
// so that a fault hurts as much in each round.
func (c *torture) everyoneLeads() {
	c.t.Helper()
	c.inSync()
	c.eventually("preferred leaders", func(ctx context.Context) string {
		results, err := c.admins[0].ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
		if err != nil {
			return err.Error()
		}
		for _, partitions := range results {
			for _, p := range partitions {
				if p.Err != nil && !errors.Is(p.Err, kerr.ElectionNotNeeded) {
					return p.Err.Error()
				}
			}
		}
		return ""
	})
}

// writes waits until records of each partition that were sent after the call are acknowledged.
func (c *torture) writes(after string) {
	c.t.Helper()
	sent, _ := c.progress()
	c.eventually("records after "+after, func(context.Context) string {
		if missing := c.acknowledged(sent); len(missing) > 0 {
			return fmt.Sprintf("partitions without an acknowledgement: %v", missing)
		}
		return ""
	})
}

// goOn waits until records of each partition that were written after the call are acknowledged and
// read, and commits and acknowledgements of share groups too.
func (c *torture) goOn(after string) {
	c.t.Helper()
	sent, commits := c.progress()
	acknowledged := c.jobs.counts()
	c.eventually("after "+after, func(context.Context) string {
		acked, committed := c.reached(sent)
		if len(acked) > 0 {
			return fmt.Sprintf("partitions without an acknowledgement or a reader: %v", acked)
		}
		if committed < commits+2 {
			return "no offsets are committed"
		}
		return c.jobs.more(acknowledged)
	})
}

// commitsAreKept reads the group's offsets.
func (c *torture) commitsAreKept() {
	c.t.Helper()
	want := c.commits()
	c.eventually("committed offsets", func(ctx context.Context) string {
		have, err := c.admins[0].FetchOffsets(ctx, tortureGroup)
		if err != nil {
			return err.Error()
		}
		for p, at := range want {
			o, ok := have.Lookup(tortureTopic, p)
			if o.Err != nil {
				return o.Err.Error()
			}
			if !ok || o.At < at {
				c.fail("partition %d: offset %d was committed, %d is there", p, at, o.At)
			}
		}
		return ""
	})
}

// sameLogs compares the logs of all brokers, which are stopped, with each other and with what was
// acknowledged.
func (c *torture) sameLogs(t *testing.T, dirs []string) {
	var logs []map[int32][]logRecord
	for _, dir := range dirs {
		logs = append(logs, dumped(t, filepath.Join(dir, "d")))
	}
	for p := range int32(torturePartitions) {
		for _, l := range logs {
			l[p] = slices.DeleteFunc(l[p], func(r logRecord) bool { return r.offset < c.judged[p].end })
		}
		first := logs[0][p]
		for i, l := range logs {
			if !slices.Equal(l[p], first) {
				n := 0
				for n < min(len(l[p]), len(first)) && l[p][n] == first[n] {
					n++
				}
				c.fail("partition %d: brokers 1 and %d have %d and %d records, the first %d are the same: %v %v", p, i+1,
					len(first), len(l[p]), n, tail(first, n), tail(l[p], n))
			}
		}
		c.compare(p, first, "in the log")
	}
}

func tail(l []logRecord, n int) []logRecord { return l[max(0, min(n-1, len(l))):min(n+2, len(l))] }
