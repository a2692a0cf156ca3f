package system

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	judge "github.com/chronik-io/chronik/internal/testing/check"
	"github.com/chronik-io/chronik/internal/testing/must"
)

const (
	transformers   = 3   // members of the group; one of them has the protocol before KIP-890
	transformBatch = 150 // records between two kills
	transformParts = 3
)

// The real binary is killed with SIGKILL under a group that reads a topic, writes to another one
// and commits its offsets, all in one transaction. Members also die. Each input is in the output
// once.
func TestKillTransformsEachInputOnce(t *testing.T) {
	seed := rand.Uint64()
	transformsEachInputOnce(t, seed, newMortal(t, rand.New(rand.NewPCG(seed, 0)), "--set", "group.initial.rebalance.delay.ms=0"))
}

// transformsEachInputOnce kills m again and again.
func transformsEachInputOnce(t *testing.T, seed uint64, m *mortal) {
	t.Helper()
	kills, random := txnKillCount(t), m.random
	x := &transform{addr: m.addr, in: []string{uniqueName("in")}, out: uniqueName("out"), group: uniqueName("transform"),
		written: map[string]bool{}}
	txnTopics(t, m.addr, transformParts, x.in[0], x.out)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for id := range transformers {
		running.Go(func() { x.run(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(id+1)))) })
	}
	reader := x.read(t)
	for n := range kills {
		x.feed(t, n)
		reader.await(t, (n+1)*transformBatch*2/3) // the rest is under way
		pause(t.Context(), time.Duration(random.Int64N(int64(50*time.Millisecond))))
		m.kill(t)
	}
	x.feed(t, kills)
	reader.await(t, len(x.acknowledged))
	stop()
	running.Wait()
	fresh := x.read(t)
	fresh.await(t, len(x.acknowledged))
	for name, r := range map[string]*transformed{"that was there all the time": reader, "of the end": fresh} {
		if problems := judge.Once(x.written, x.acknowledged, r.values); len(problems) > 0 {
			t.Errorf("the reader %s, seed %d:\n%s", name, seed, strings.Join(problems[:min(10, len(problems))], "\n"))
		}
	}
	t.Logf("%d kills: %d records, read and written in %d transactions by %d members; seed %d", kills, len(x.acknowledged), x.commits,
		x.members, seed)
	x.spoke.both(t)
	m.end(t)
}

// transform is a group that copies topics by transactions. The key of a copy is the source of its
// input.
type transform struct {
	addr, out, group string
	in               []string
	spoke            spoken

	written      map[string]bool
	acknowledged []string

	mu               sync.Mutex
	commits, members int
}

// feed writes the records of the n-th round.
func (x *transform) feed(t *testing.T, n int) {
	t.Helper()
	cl, err := txnClient(x.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.OK(t, err)
	defer cl.Close()
	var records []*kgo.Record
	for i := range transformBatch {
		r := &kgo.Record{Topic: x.in[0], Partition: int32(i % transformParts), Value: fmt.Appendf(nil, "%d/%d", n, i)}
		x.written[string(r.Value)] = true
		records = append(records, r)
	}
	ctx, stop := context.WithTimeout(t.Context(), startTime)
	defer stop()
	must.OK(t, cl.ProduceSync(ctx, records...).FirstErr())
	x.acknowledged = slices.AppendSeq(x.acknowledged[:0], maps.Keys(x.written))
}

// run is one member after the other, until ctx ends.
func (x *transform) run(ctx context.Context, t *testing.T, id int, random *rand.Rand) {
	opts := outlives(x.addr, x.spoke.hook(id == 0),
		kgo.TransactionalID(fmt.Sprintf("%s-%d", x.group, id)), kgo.ConsumerGroup(x.group),
		kgo.ConsumeTopics(x.in...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.TransactionTimeout(moverTimeout), kgo.HeartbeatInterval(50*time.Millisecond), kgo.SessionTimeout(10*time.Second),
		kgo.FetchMaxWait(50*time.Millisecond), kgo.ProducerLinger(0))
	if id == 0 {
		opts = append(opts, tv1())
	}
	for ctx.Err() == nil {
		member, err := kgo.NewGroupTransactSession(opts...)
		if err != nil {
			t.Error(err)
			return
		}
		x.mu.Lock()
		x.members++
		x.mu.Unlock()
		for ctx.Err() == nil && x.turn(ctx, member, random) {
		}
		member.Close()
	}
}

// committed returns the number of transactions of members.
func (x *transform) committed() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.commits
}

// turn makes one transaction. It returns false when the member dies, or must be replaced.
func (x *transform) turn(ctx context.Context, member *kgo.GroupTransactSession, random *rand.Rand) bool {
	polled := member.PollRecords(ctx, 10)
	if polled.NumRecords() == 0 {
		return ctx.Err() == nil
	}
	if member.Begin() != nil {
		return false
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer stop()
	var records []*kgo.Record
	polled.EachRecord(func(r *kgo.Record) {
		records = append(records, &kgo.Record{Topic: x.out, Key: []byte(source(r)), Value: r.Value})
	})
	end := kgo.TryCommit
	switch sent := member.ProduceSync(ctx, records...).FirstErr() == nil; {
	case random.IntN(30) == 0:
		return false // it dies: its transaction remains open until it is replaced
	case !sent, random.IntN(10) == 0:
		end = kgo.TryAbort
	}
	committed, err := member.End(ctx, end)
	if committed {
		x.mu.Lock()
		x.commits++
		x.mu.Unlock()
	}
	return err == nil
}

// source returns the position of a record as the key of its copy.
func source(r *kgo.Record) string { return fmt.Sprintf("%s-%d %d", r.Topic, r.Partition, r.Offset) }

// transformed is a read_committed reader of the output.
type transformed struct {
	client *kgo.Client
	values []string
}

func (x *transform) read(t *testing.T) *transformed {
	t.Helper()
	from := map[int32]kgo.Offset{}
	for p := range int32(transformParts) {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl, err := txnClient(x.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{x.out: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	must.OK(t, err)
	t.Cleanup(cl.Close)
	return &transformed{client: cl}
}

// await reads until there are at least n records, copies included.
func (r *transformed) await(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(startTime); len(r.values) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("read %d of %d records, and none for %v", len(r.values), n, startTime)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		r.client.PollFetches(ctx).EachRecord(func(k *kgo.Record) {
			r.values = append(r.values, string(k.Value))
			deadline = time.Now().Add(startTime)
		})
		stop()
	}
}
