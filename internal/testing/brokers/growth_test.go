package brokers

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// growing is a broker without seeds that becomes the first of three.
type growing struct {
	*clients
	cluster string // its cluster id
	records int
}

// grow runs the history of such a broker with a fault at the n-th call of its file system since its
// start with seeds. fault starts the three brokers. It returns how many calls its last process made
// by then, and how many of them changed something.
func grow(t *testing.T, seed uint64, n int, fault func(g *growing, n int)) (calls, changes int) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, kind{brokers: 1})
		if until(patience, w.allRun) != nil {
			t.Fatal("the broker does not serve")
		}
		g := &growing{clients: &clients{w: w, admin: w.client(w.direct())}}
		t.Cleanup(g.admin.Close)
		g.ctx, g.clients.stop = context.WithCancel(context.Background())
		defer g.clients.stop()
		g.write()
		w.stop(1)
		w.mu.Lock()
		w.brokers = 3
		w.mu.Unlock()
		for id := int32(2); id <= 3; id++ {
			w.nodes[id] = &node{id: id, disk: crashfs.New(seed<<4 + uint64(id))}
		}
		before := w.at(1).Ops()
		fault(g, n)
		g.inSync()
		if p := w.process(1); p != nil {
			calls, changes = p.fs.Calls(errfs.Any), w.at(1).Ops()-before
		}
		w.stop(1) // a log that it could not open stays offline until then
		w.start(1)
		g.inSync()
		g.unchanged()
		for _, problem := range w.wrong() {
			t.Errorf("call %d: %s", n, problem)
		}
	})
	return calls, changes
}

// startAll starts all brokers.
func (g *growing) startAll() {
	for id := range g.w.size() {
		g.w.start(id + 1)
	}
}

// write gives the broker a topic with records.
func (g *growing) write() {
	g.parts = g.create(topic, 1, 1)
	cl := g.w.client(kgo.DefaultProduceTopic(topic))
	defer cl.Close()
	for g.records < 20 {
		if err := cl.ProduceSync(g.ctx, kgo.StringRecord(fmt.Sprint(g.records))).FirstErr(); err != nil {
			g.w.Fatal(err)
		}
		g.records++
	}
	g.cluster = g.identity(1)
}

// identity returns the cluster id that a broker shows.
func (g *growing) identity(broker int32) string {
	cl := g.w.client(kgo.SeedBrokers(ip(broker) + ":9092"))
	defer cl.Close()
	within, cancel := context.WithTimeout(g.ctx, patience)
	defer cancel()
	m, err := kadm.NewClient(cl).BrokerMetadata(within)
	if err != nil {
		g.w.problem("broker %d: %v", broker, err)
	}
	return m.Cluster
}

// unchanged notes what of the broker the cluster does not have.
func (g *growing) unchanged() {
	for id := range g.w.size() {
		if got := g.identity(id + 1); got != g.cluster {
			g.w.problem("broker %d belongs to the cluster %s, the first one belonged to %s", id+1, got, g.cluster)
		}
	}
	p := g.parts[0]
	if until(patience, func() bool {
		list, _, err := g.fetch(g.ctx, g.admin, 1, p, 0)
		return err == nil && len(list) == g.records
	}) != nil {
		g.w.problem("%v has not the %d records that were acknowledged", p, g.records)
	}
}

// A call of the file system fails, or the power does, while a broker without seeds becomes the
// first of three. When it has started again, the three have what it had. CHRONIK_SIM_CALLS is the
// number of histories of each kind or how long they take.
func TestABrokerBecomesTheFirstOfThree(t *testing.T) {
	calls, changes := grow(t, 1, 0, func(g *growing, _ int) { g.startAll() })
	for name, c := range map[string]struct {
		most  int
		fault func(g *growing, n int)
	}{
		"an error": {calls, func(g *growing, n int) {
			g.w.nodes[1].arm = func(p *process) { p.fs.Add(errfs.Rule{From: n, Count: 1, Err: syscall.EIO}) }
			g.startAll()
		}},
		"a loss of power": {changes, func(g *growing, n int) { g.w.crashAtCall(1, n, g.w.mode(), g.startAll) }},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds(t, "CHRONIK_SIM_CALLS", tries.Some(6, 1)) {
				n := 1 + int(seed)*37%c.most // as many histories as there are calls have a fault at each
				t.Run(fmt.Sprint("call ", n), func(t *testing.T) { grow(t, seed, n, c.fault) })
			}
			t.Logf("there are %d calls", c.most)
		})
	}
}
