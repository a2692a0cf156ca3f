package system

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	judge "github.com/chronik-io/chronik/internal/testing/check"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// transfers is a load of transactions, and their known outcomes.
type transfers struct {
	addr    string
	dial    []kgo.Opt // how clients connect
	topics  []string
	history *judge.Transfers
	spoke   spoken
	hold    sync.RWMutex // producers hold it for reading from a transaction's begin to its end
	ending  atomic.Bool
	// most is how many committed transfers there may be, approximately; 0: no bound. See allow.
	most atomic.Int64
}

func newTransfers(t *testing.T, addr string, dial ...kgo.Opt) *transfers {
	t.Helper()
	l := &transfers{addr: addr, dial: dial, history: judge.NewTransfers(), topics: []string{uniqueName("bank"), uniqueName("purse")}}
	cl, err := l.connect()
	must.OK(t, err)
	defer cl.Close()
	ledTopics(t, cl, accounts, l.topics...)
	return l
}

func (l *transfers) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	return txnClient(l.addr, append(slices.Clone(l.dial), opts...)...)
}

// progress returns when n more transfers were committed.
func (l *transfers) progress(t *testing.T, n int) {
	t.Helper()
	before, _, _ := l.history.Counts()
	for deadline := time.Now().Add(startTime); ; pause(t.Context(), time.Millisecond) {
		now, _, _ := l.history.Counts()
		if now >= before+n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("stopped at %d committed transfers for %v", now, startTime)
		}
	}
}

// allow lets producers commit about n more transfers and then wait: a load whose size does not
// depend on the time that the rest takes.
func (l *transfers) allow(n int) {
	now, _, _ := l.history.Counts()
	l.most.Store(int64(now + n))
}

// allowed waits until another transfer may begin, or the load ends.
func (l *transfers) allowed(ctx context.Context) {
	for !l.ending.Load() && ctx.Err() == nil {
		now, _, _ := l.history.Counts()
		if most := l.most.Load(); most == 0 || int64(now) < most {
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// mover is one producer. Its clients come and go.
type mover struct {
	*transfers
	id     string
	opts   []kgo.Opt
	client *kgo.Client
	random *rand.Rand
}

// move makes transfers until the load ends.
func (l *transfers) move(ctx context.Context, t *testing.T, id int, random *rand.Rand) {
	name := uniqueName("mover")
	m := &mover{transfers: l, id: name, random: random, opts: []kgo.Opt{kgo.TransactionalID(name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(moverTimeout)}}
	m.opts = append(m.opts, l.spoke.hook(id%2 == 1))
	if id%2 == 1 {
		m.opts = append(m.opts, tv1())
	}
	defer func() { m.replace(ctx, t) }() // so that no transaction remains open
	for n := 0; !l.ending.Load() && ctx.Err() == nil; n++ {
		l.allowed(ctx)
		l.hold.RLock()
		if m.client == nil && !m.replace(ctx, t) {
			l.hold.RUnlock()
			return
		}
		m.transfer(ctx, t, judge.Transfer{Producer: name, Number: n})
		// Nothing is open when the load is held.
		if m.client == nil && !m.replace(ctx, t) {
			l.hold.RUnlock()
			return
		}
		l.hold.RUnlock()
	}
	if m.client != nil { // it has begun
		m.client.Close()
	}
}

// replace makes a new client, whose producer id fences the former one's transactions. It returns
// false if the test ends.
func (m *mover) replace(ctx context.Context, t *testing.T) bool {
	cl, err := m.connect(m.opts...)
	if err != nil {
		t.Error(err)
		return false
	}
	for deadline := time.Now().Add(startTime); ; pause(ctx, 10*time.Millisecond) {
		if _, _, err = cl.ProducerID(ctx); err == nil {
			m.client = cl
			return true
		}
		if ctx.Err() != nil {
			cl.Close()
			return false
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: no producer id: %v", m.id, err)
			cl.Close()
			return false
		}
	}
}

// leave ends the client without a word: its transaction remains open.
func (m *mover) leave() {
	m.client.Close()
	m.client = nil
}

// transfer makes one transaction.
func (m *mover) transfer(ctx context.Context, t *testing.T, id judge.Transfer) {
	records := m.records(id)
	if err := m.client.BeginTransaction(); err != nil {
		m.history.Aborted(id)
		m.leave()
		return
	}
	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	sent := m.client.ProduceSync(ctx, records...).FirstErr() == nil
	switch fate := m.random.IntN(100); {
	case !sent || fate < 10:
		m.history.Aborted(id)
		if err := m.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
			m.leave()
		}
	case fate < 14: // it dies
		m.history.Aborted(id)
		m.leave()
	case fate < 18: // it is a zombie when it asks for the commit
		zombie := m.client
		defer zombie.Close()
		m.history.Aborted(id)
		if m.replace(ctx, t) && zombie.EndTransaction(ctx, kgo.TryCommit) == nil {
			m.history.Committed(id)
		}
	case fate < 22: // it dies when it has asked for the commit, or shortly before
		short, stop := context.WithTimeout(ctx, time.Duration(m.random.Int64N(int64(3*time.Millisecond))))
		defer stop()
		if m.client.EndTransaction(short, kgo.TryCommit) == nil {
			m.history.Committed(id)
		}
		m.leave()
	default:
		if err := m.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
			m.leave() // it may be committed
			return
		}
		m.history.Committed(id)
	}
}

// records notes the beginning of a transaction, and returns its records: one to four, with the sum
// 0, in partitions of both topics.
func (m *mover) records(id judge.Transfer) []*kgo.Record {
	n := 2 + m.random.IntN(3)
	amounts := make([]int64, n)
	for i := range n - 1 {
		amounts[i] = m.random.Int64N(1000) + 1
		amounts[n-1] -= amounts[i]
	}
	m.history.Begin(id, amounts...)
	records := make([]*kgo.Record, n)
	for i, a := range amounts {
		records[i] = &kgo.Record{Topic: m.topics[m.random.IntN(len(m.topics))], Partition: m.random.Int32N(accounts),
			Value: fmt.Appendf(nil, "%s %d %d %d", id.Producer, id.Number, i, a)}
	}
	return records
}

// follower is a read_committed reader of all partitions from their start.
type follower struct {
	l      *transfers
	client *kgo.Client
	view   *judge.View
	done   sync.WaitGroup
	mu     sync.Mutex
	next   map[string]int64 // by partition: the offset after the last one that it read
}

// follow starts a reader. It ends with ctx.
func (l *transfers) follow(ctx context.Context, t *testing.T) *follower {
	t.Helper()
	from := map[string]map[int32]kgo.Offset{}
	for _, topic := range l.topics {
		from[topic] = map[int32]kgo.Offset{}
		for p := range int32(accounts) {
			from[topic][p] = kgo.NewOffset().AtStart()
		}
	}
	cl, err := l.connect(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond))
	must.OK(t, err)
	f := &follower{l: l, client: cl, view: l.history.View(), next: map[string]int64{}}
	f.done.Go(func() {
		defer cl.Close()
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { f.take(t, r) })
		}
	})
	return f
}

func (f *follower) take(t *testing.T, r *kgo.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	partition := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
	f.next[partition] = r.Offset + 1
	if r.Attrs.IsControl() {
		return
	}
	var piece judge.Piece
	if _, err := fmt.Sscanf(string(r.Value), "%s %d %d %d", &piece.Producer, &piece.Number, &piece.Index, &piece.Amount); err != nil {
		t.Errorf("%s offset %d has %q: %v", partition, r.Offset, r.Value, err)
		return
	}
	f.view.Read(judge.Position{Partition: partition, Offset: r.Offset}, piece)
}

// catchUp waits until no transaction is open and the reader has read everything. Nothing may be
// written meanwhile.
func (f *follower) catchUp(t *testing.T) {
	t.Helper()
	var missing string
	for deadline := time.Now().Add(startTime); ; pause(t.Context(), 5*time.Millisecond) {
		if missing = f.missing(t); missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the reader stands for %v: %s", startTime, missing)
		}
	}
}

// missing returns what the reader still waits for.
func (f *follower) missing(t *testing.T) string {
	t.Helper()
	adm := kadm.NewClient(f.client)
	ends := endOffsets(t, f.client, f.l.topics)
	stable, err := adm.ListCommittedOffsets(t.Context(), f.l.topics...)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var missing string
	ends.Each(func(end kadm.ListedOffset) {
		s, _ := stable.Lookup(end.Topic, end.Partition)
		next := f.next[fmt.Sprintf("%s-%d", end.Topic, end.Partition)]
		if s.Offset != end.Offset || next < end.Offset {
			missing = fmt.Sprintf("%s-%d ends at %d, is stable up to %d, and was read up to %d", end.Topic, end.Partition, end.Offset,
				s.Offset, next)
		}
	})
	return missing
}
