package system

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

const (
	movers       = 6  // producers of transfers, half of them with the protocol before KIP-890
	moverBatch   = 60 // committed transfers between two kills
	accounts     = 4  // partitions of each topic
	txnKills     = 1  // CHRONIK_KILLS sets another number
	moverTimeout = 20 * time.Second
)

// mortal is a broker that can be killed and started again at the same address. Instead of chronikd
// it may be Apache Kafka: CHRONIK_TXN_KAFKA is its address, and CHRONIK_TXN_RESTART a command that
// ends it as SIGKILL does and starts it again. This shows that the test judges rightly.
type mortal struct {
	addr   string // of its brokers, separated by commas
	kill   func(testing.TB)
	end    func(testing.TB)
	random *rand.Rand
}

func newMortal(t *testing.T, random *rand.Rand, args ...string) *mortal {
	t.Helper()
	if addr := os.Getenv("CHRONIK_TXN_KAFKA"); addr != "" {
		return &mortal{addr: addr, random: random, end: func(testing.TB) {}, kill: func(t testing.TB) {
			t.Helper()
			if out, err := exec.Command("sh", "-c", os.Getenv("CHRONIK_TXN_RESTART")).CombinedOutput(); err != nil {
				t.Fatalf("CHRONIK_TXN_RESTART: %v\n%s", err, out)
			}
		}}
	}
	addr, err := ports.Loopback()
	must.OK(t, err)
	m := &mortal{addr: addr, random: random}
	dir := t.TempDir()
	args = append([]string{"--listen", addr, "--admin-listen", "off"}, args...)
	var broker *process
	begin := func(t testing.TB) {
		t.Helper()
		if broker, err = start(dir, nil, args...); err != nil {
			t.Fatal(err)
		}
	}
	begin(t)
	t.Cleanup(func() { _ = broker.end(syscall.SIGKILL) })
	m.kill = func(t testing.TB) {
		t.Helper()
		slay(t, broker)
		for random.IntN(4) == 0 { // and while it recovers
			p, err := launch(dir, nil, args...)
			must.OK(t, err)
			pause(t.Context(), time.Duration(random.Int64N(int64(20*time.Millisecond))))
			slay(t, p)
		}
		begin(t)
	}
	m.end = func(t testing.TB) {
		t.Helper()
		if err := broker.end(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v\n%s", err, broker.logged())
		}
		if bad := broker.errors(); len(bad) > 0 {
			t.Errorf("the broker logged errors: %v", bad)
		}
	}
	return m
}

func slay(t testing.TB, p *process) {
	t.Helper()
	if err := p.end(syscall.SIGKILL); err == nil {
		t.Fatalf("the broker ended on its own:\n%s", p.logged())
	}
	if bad := p.errors(); len(bad) > 0 {
		t.Errorf("the broker logged errors: %v", bad)
	}
}

// txnKillCount returns the number of kills of a test.
func txnKillCount(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CHRONIK_KILLS"), strconv.Itoa(txnKills)))
	must.OK(t, err)
	return n
}

// The real binary is killed with SIGKILL while producers move amounts between partitions, in both
// protocols. Clients also die, and come back as zombies. A read_committed reader has the sum 0
// whenever it has seen no transfer in part. Between kills, and in the end, it has seen each
// committed transfer once and whole, and nothing of an aborted one.
func TestKillKeepsTransfersWhole(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	seed := rand.Uint64()
	keepsTransfersWhole(t, seed, newMortal(t, rand.New(rand.NewPCG(seed, 0))))
}

// keepsTransfersWhole kills m again and again.
func keepsTransfersWhole(t *testing.T, seed uint64, m *mortal) {
	t.Helper()
	kills, random := txnKillCount(t), m.random
	l := newTransfers(t, m.addr)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	live := l.follow(ctx, t)
	var running sync.WaitGroup
	for id := range movers {
		running.Go(func() { l.move(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(id+1)))) })
	}
	for n := range kills {
		l.progress(t, moverBatch)
		pause(t.Context(), time.Duration(random.Int64N(int64(50*time.Millisecond))))
		m.kill(t)
		l.progress(t, 1) // the clients have recovered
		l.hold.Lock()    // between transactions
		live.catchUp(t)
		problems := live.view.Problems(true)
		l.hold.Unlock()
		if len(problems) > 0 {
			t.Fatalf("after %d kills, seed %d:\n%s", n+1, seed, strings.Join(problems[:min(10, len(problems))], "\n"))
		}
	}
	l.progress(t, moverBatch)
	l.ending.Store(true)
	running.Wait()
	live.catchUp(t)
	fresh := l.follow(ctx, t)
	fresh.catchUp(t)
	for name, f := range map[string]*follower{"that was there all the time": live, "of the end": fresh} {
		if problems := f.view.Problems(true); len(problems) > 0 {
			t.Errorf("the reader %s, seed %d:\n%s", name, seed, strings.Join(problems[:min(10, len(problems))], "\n"))
		}
	}
	committed, aborted, unknown := l.history.Counts()
	t.Logf("%d kills: %d transfers committed, %d aborted, %d without an answer; seed %d", kills, committed, aborted, unknown, seed)
	l.spoke.both(t)
	stop()
	live.done.Wait()
	fresh.done.Wait()
	m.end(t)
}

// tv1 caps a client at the protocol before KIP-890: no epoch per transaction, partitions are added
// by requests.
func tv1() kgo.Opt { return kgo.MaxVersions(kversion.V3_8_0()) }

// spoken counts what clients asked for, to show which protocols they really used. Only clients of
// the one before KIP-890 ask for partitions to be added.
type spoken struct{ added [2]atomic.Int64 } // by protocol: transaction.version 2, and before

// hook counts the requests of one client.
func (s *spoken) hook(old bool) kgo.Opt {
	n := &s.added[0]
	if old {
		n = &s.added[1]
	}
	return kgo.WithHooks(&adds{n})
}

// both fails the test unless each client used the protocol that it was made for.
func (s *spoken) both(t *testing.T) {
	t.Helper()
	if now, before := s.added[0].Load(), s.added[1].Load(); now > 0 || before == 0 {
		t.Errorf("clients of transaction.version 2 added partitions %d times, want 0; older ones %d times, want more than 0",
			now, before)
	}
}

type adds struct{ n *atomic.Int64 }

func (a *adds) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == kmsg.AddPartitionsToTxn.Int16() || key == kmsg.AddOffsetsToTxn.Int16() {
		a.n.Add(1)
	}
}

// txnClient returns a client that comes back soon after its broker was killed.
func txnClient(addr string, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(outlives(addr, append([]kgo.Opt{kgo.ProducerLinger(0)}, opts...)...)...)
}

// txnTopics creates topics with a partition for each account, and waits until they are led.
func txnTopics(t *testing.T, addr string, partitions int32, names ...string) {
	t.Helper()
	cl, err := txnClient(addr)
	must.OK(t, err)
	defer cl.Close()
	ledTopics(t, cl, partitions, names...)
}

func ledTopics(t *testing.T, cl *kgo.Client, partitions int32, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), partitions, -1, nil, name); err != nil {
			t.Fatal(err)
		}
	}
	endOffsets(t, cl, names)
}

// uniqueName returns a name that no earlier test has left in the broker.
func uniqueName(name string) string { return fmt.Sprintf("%s-%x", name, rand.Uint32()) }
