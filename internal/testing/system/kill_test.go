package system

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
)

const (
	killPartitions = 4
	killProducers  = 8
	killsByDefault = 4  // CHRONIK_KILLS sets another number
	killRate       = 20 // records per millisecond: enough that some are always in flight, and few enough to read all after each kill
)

// killTopics are created before the load, one for each durability profile. A kill does not affect
// the kernel's page cache, so no profile may lose a record.
func killTopics() map[string]string {
	return map[string]string{"kill-sync": "sync", "kill-high": "high", "kill-interval": "interval", "kill-os": "os"}
}

// spot is the position of a record.
type spot struct {
	topic     string
	partition int32
	offset    int64
}

// ledger has the producers' results.
type ledger struct {
	mu     sync.Mutex
	acked  map[spot]string // value by position
	topics []string        // topics for the producers, the newest last
	failed []error
}

func (l *ledger) done(r *kgo.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := spot{r.Topic, r.Partition, r.Offset}
	switch before, twice := l.acked[at]; {
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
	case err != nil:
		l.failed = append(l.failed, fmt.Errorf("%s: %w", r.Value, err))
	case twice:
		l.failed = append(l.failed, fmt.Errorf("%s and %s were both acknowledged at %v", before, r.Value, at))
	default:
		l.acked[at] = string(r.Value)
	}
}

// snapshot returns the records acknowledged so far, and all topics.
func (l *ledger) snapshot() (acked map[spot]string, topics []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acked = make(map[spot]string, len(l.acked))
	for at, v := range l.acked {
		acked[at] = v
	}
	return acked, append(topics, l.topics...)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

func (l *ledger) addTopic(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics = append(l.topics, name)
}

// topic returns a topic for the n-th record, with a preference for new ones.
func (l *ledger) topic(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n%3 == 0 {
		return l.topics[len(l.topics)-1]
	}
	return l.topics[n%len(l.topics)]
}

// The real binary is killed with SIGKILL under load repeatedly, also while it recovers and while
// topics are deleted, and the same idempotent producers continue. After each start every
// acknowledged record is at its offset with its value, no record is duplicated, and each producer's
// are in order. No start needs help.
func TestKillLosesAndDuplicatesNothing(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	kills := killsByDefault
	if v := os.Getenv("CHRONIK_KILLS"); v != "" {
		n, err := strconv.Atoi(v)
		must.OK(t, err)
		kills = n
	}
	addr, err := ports.Loopback()
	must.OK(t, err)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	broker := restart(t, dir, addr)
	l := &ledger{acked: make(map[spot]string)}
	makeTopics(t, addr, l)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pace := newPacer()
	defer pace.stop()
	var producers sync.WaitGroup
	for id := range killProducers {
		producers.Go(func() { produceUntil(ctx, t, addr, id, l, pace.tokens) })
	}
	var doomed int
	producers.Go(func() { doomed = doom(ctx, t, addr, pace.tokens) })
	inRecovery := 0
	for n := 0; n < kills; n++ {
		l.addTopic(fmt.Sprintf("kill-auto-%d", n)) // auto-created by its first producer
		load(t, l)
		pause(t.Context(), time.Duration(random.Int64N(int64(100*time.Millisecond))))
		kill(t, broker)
		for n+1 < kills && random.IntN(4) == 0 {
			n, inRecovery = n+1, inRecovery+1
			killInRecovery(t, dir, addr, time.Duration(random.Int64N(int64(20*time.Millisecond))))
		}
		acked, topics := l.snapshot()
		broker = restart(t, dir, addr)
		pace.pause()
		check(t, addr, topics, acked)
		pace.resume()
		if t.Failed() {
			t.Fatalf("after %d kills, seed %d", n+1, seed)
		}
	}
	load(t, l)
	stop()
	producers.Wait()
	if len(l.failed) > 0 {
		t.Errorf("producers failed: %v", errors.Join(l.failed[:min(5, len(l.failed))]...))
	}
	acked, topics := l.snapshot()
	check(t, addr, topics, acked)
	if err := broker.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, broker.logged())
	}
	t.Logf("%d kills, %d of them in recovery: %d records acknowledged in %d topics, %d topics deleted under load; seed %d",
		kills, inRecovery, len(acked), len(topics), doomed, seed)
}

// load returns when the producers make progress.
func load(t *testing.T, l *ledger) {
	t.Helper()
	before := l.count()
	deadline := time.Now().Add(startTime)
	for l.count() < before+10*killProducers {
		if time.Now().After(deadline) {
			t.Fatalf("stopped at %d acknowledged records for %v; failures %v", l.count(), startTime, l.failed)
		}
		pause(t.Context(), time.Millisecond)
	}
}

func kill(t *testing.T, p *process) {
	t.Helper()
	if err := p.end(syscall.SIGKILL); err == nil {
		t.Fatalf("the broker ended on its own:\n%s", p.logged())
	}
	if bad := p.errors(); len(bad) > 0 {
		t.Errorf("the broker logged errors: %v", bad)
	}
}

// killInRecovery starts the broker and kills it some time later, ready or not.
func killInRecovery(t *testing.T, dir, addr string, after time.Duration) {
	t.Helper()
	p, err := launch(dir, nil, "--listen", addr, "--admin-listen", "off")
	must.OK(t, err)
	pause(t.Context(), after)
	kill(t, p)
}

// restart starts the broker with the same directory and address.
func restart(t *testing.T, dir, addr string) *process {
	t.Helper()
	p, err := start(dir, nil, "--listen", addr, "--admin-listen", "off")
	must.OK(t, err)
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	return p
}

func makeTopics(t *testing.T, addr string, l *ledger) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	must.OK(t, err)
	defer cl.Close()
	for name, profile := range killTopics() {
		configs := map[string]*string{"chronik.durability.profile": &profile, "segment.bytes": kadm.StringPtr("1048576")}
		if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), killPartitions, 1, configs, name); err != nil {
			t.Fatal(err)
		}
		l.addTopic(name)
	}
}

// produceUntil is an idempotent producer that numbers its records.
func produceUntil(ctx context.Context, t *testing.T, addr string, id int, l *ledger, tokens <-chan struct{}) {
	cl, err := kgo.NewClient(outlives(addr, kgo.AllowAutoTopicCreation(), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(256),
		// By default kgo gives a topic up after five answers without it. That is 50 ms here, and
		// the creation of a topic may take longer on a busy machine.
		kgo.UnknownTopicRetries(-1))...)
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	for n := 0; ; n++ {
		select {
		case <-tokens:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		cl.Produce(ctx, &kgo.Record{Topic: l.topic(id + n), Key: fmt.Append(nil, id), Value: fmt.Appendf(nil, "%d/%d", id, n)}, l.done)
	}
	// Records in flight when the producers stop may still be acknowledged.
	last, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if err := cl.Flush(last); err != nil {
		t.Errorf("producer %d: flush: %v", id, err)
	}
}

// outlives returns the options of a client that lives while its brokers are killed and started
// again: it comes back soon, and no end of a connection makes it give up. By default franz-go takes
// a connection that ends before its first answer for one to a port with TLS or SASL, and fails all
// records that it has buffered. A broker that is killed ends connections at any time, these too.
// Brokers that stop in an orderly way do not; see TestRestartsFailNoRecords.
func outlives(addrs string, opts ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(strings.Split(addrs, ",")...), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })}, opts...)
}

// pacer allows producers killRate records per millisecond.
type pacer struct {
	tokens chan struct{}
	held   atomic.Bool
	quit   chan struct{}
	done   chan struct{}
}

func newPacer() *pacer {
	p := &pacer{tokens: make(chan struct{}, killRate), quit: make(chan struct{}), done: make(chan struct{})}
	go p.run()
	return p
}

func (p *pacer) run() {
	defer close(p.done)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
		}
		for i := 0; i < killRate && !p.held.Load(); i++ {
			select {
			case p.tokens <- struct{}{}:
			default: // the producers wait for the broker
			}
		}
	}
}

func (p *pacer) pause()  { p.held.Store(true) }
func (p *pacer) resume() { p.held.Store(false) }
func (p *pacer) stop()   { close(p.quit); <-p.done }

// pause waits; it asserts nothing.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
