package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	judge "github.com/chronik-io/chronik/internal/testing/check"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/ports"
	"github.com/chronik-io/chronik/internal/view"
)

const (
	snapshotRounds = 3   // CHRONIK_SNAPSHOT_ROUNDS sets another number
	snapshotMovers = 4   // two of them have the protocol before KIP-890
	snapshotBatch  = 50  // transfers before a broker is killed
	snapshotMost   = 200 // transfers in a round, approximately: each snapshot that is restored has those of all rounds
	copiers        = 2
)

// Three brokers take a snapshot each second, and others that are asked for. Meanwhile transactions
// move amounts between accounts, a group copies each record exactly once, and brokers are killed.
// Snapshots are restored. In each, every transaction is whole or missing, what was committed before
// the snapshot was asked for is there, and the offsets of the group are those of its copies. No
// transaction hangs. Former and new transactional ids go through, and the group copies the rest.
func TestSnapshotsAreWholeTransactions(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel() // it waits for elections most of the time
	rounds := snapshotRounds
	if v := os.Getenv("CHRONIK_SNAPSHOT_ROUNDS"); v != "" {
		n, err := strconv.Atoi(v)
		must.OK(t, err)
		rounds = n
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	s := newArchived(t, seed)
	for n := range rounds {
		before := s.copies.committed()
		s.transfers.allow(snapshotMost)
		s.transfers.progress(t, snapshotBatch)
		s.cluster.eventually("a transaction of copies", func(context.Context) string {
			if s.copies.committed() > before {
				return ""
			}
			return "there is none"
		})
		pause(t.Context(), time.Duration(random.Int64N(int64(200*time.Millisecond))))
		s.cluster.die(random, s.admins)
		s.transfers.allow(snapshotBatch)
		s.transfers.progress(t, 1) // the clients have recovered
		s.create(fmt.Sprint("after round ", n+1))
	}
	s.end()
	list := slices.DeleteFunc(s.list(), func(x view.Snapshot) bool { return x.Offline > 0 || x.Number < s.first })
	s.cluster.end(syscall.SIGKILL, 0, 1, 2)
	must.OK(t, errors.Join(slices.Collect(func(yield func(error) bool) {
		for _, d := range s.cluster.dirs {
			yield(os.RemoveAll(d))
		}
	})...))

	chosen := []int64{list[len(list)-1].Number}
	for _, i := range random.Perm(len(list) - 1)[:min(rounds, len(list)-1)] {
		chosen = append(chosen, list[i].Number)
	}
	for _, number := range chosen {
		s.restored(number)
	}
	committed, aborted, unknown := s.transfers.history.Counts()
	t.Logf("%d of %d snapshots restored: %d transfers committed, %d aborted, %d without an answer; %d transactions of copies; seed %d",
		len(chosen), len(list), committed, aborted, unknown, s.copies.commits, seed)
}

// archived is a cluster that takes snapshots, and its load.
type archived struct {
	t         *testing.T
	seed      uint64
	url       string
	cluster   *nodes
	admins    []*kadm.Client
	transfers *transfers
	copies    *transform
	stop      context.CancelFunc
	movers    sync.WaitGroup
	copiers   *sync.WaitGroup
	// known are the transfers that were committed before the snapshot of a number was asked for.
	known map[int64]map[judge.Transfer]bool
	first int64 // the number of a snapshot that has the topics and precedes the load
}

func newArchived(t *testing.T, seed uint64) *archived {
	t.Helper()
	s := &archived{t: t, seed: seed, url: "file://" + t.TempDir(), known: map[int64]map[judge.Transfer]bool{}}
	c := newNodes(t, 3)
	c.expected = append([]string{`"logger":"health"`}, othersEnd...)
	c.set = []string{"archive.url=" + s.url, "snapshot.interval.ms=1000", "snapshot.keep=100000", "group.initial.rebalance.delay.ms=0"}
	c.launch(0, 1, 2)
	c.await(0, 1, 2)
	for i := range c.seeds {
		c.isReady(i)
		s.admins = append(s.admins, c.admin(i))
	}
	addr := strings.Join(c.seeds, ",")
	s.cluster, s.transfers = c, newTransfers(t, addr)
	s.copies = &transform{addr: addr, in: s.transfers.topics, out: uniqueName("copies"), group: uniqueName("copiers")}
	txnTopics(t, addr, transformParts, s.copies.out)
	s.first = s.create("before the load")
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	t.Cleanup(stop)
	for id := range snapshotMovers {
		s.movers.Go(func() { s.transfers.move(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(id+1)))) })
	}
	s.copiers = copying(ctx, t, s.copies, seed)
	return s
}

// copying runs the members of a group until ctx ends.
func copying(ctx context.Context, t *testing.T, x *transform, seed uint64) (running *sync.WaitGroup) {
	running = &sync.WaitGroup{}
	for id := range copiers {
		running.Go(func() { x.run(ctx, t, id, rand.New(rand.NewPCG(seed, uint64(100+id)))) })
	}
	return running
}

// end ends the load. The transactions of members may remain open.
func (s *archived) end() {
	s.transfers.ending.Store(true)
	s.movers.Wait()
	s.create("of the end")
	s.stop()
	s.copiers.Wait()
}

// ctl runs chronikctl snapshot, and decodes what it prints.
func (s *archived) ctl(ctx context.Context, to any, args ...string) error {
	var text, log strings.Builder
	all := append([]string{"--brokers", s.transfers.addr, "--admin", "off", "-o", "json", "snapshot"}, args...)
	cmd := exec.CommandContext(ctx, "chronikctl", all...)
	cmd.Stdout, cmd.Stderr = &text, &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, log.String())
	}
	return json.Unmarshal([]byte(text.String()), to)
}

// create takes a snapshot and returns its number.
func (s *archived) create(when string) int64 {
	s.t.Helper()
	var x view.Snapshot
	s.cluster.eventually("a snapshot "+when, func(ctx context.Context) string {
		known := s.transfers.history.Acknowledged()
		if err := s.ctl(ctx, &x, "create"); err != nil {
			return err.Error()
		}
		s.known[x.Number] = known
		return ""
	})
	return x.Number
}

func (s *archived) list() []view.Snapshot {
	s.t.Helper()
	var x view.SnapshotList
	must.OK(s.t, s.ctl(s.t.Context(), &x, "list"))
	return x.Snapshots
}

// restored restores a snapshot, judges it, and lets clients continue.
func (s *archived) restored(number int64) {
	t := s.t
	t.Helper()
	addr, err := ports.Loopback()
	must.OK(t, err)
	dir, err := os.MkdirTemp(t.TempDir(), "restored")
	must.OK(t, err)
	defer func() { must.OK(t, os.RemoveAll(dir)) }() // there may be many
	args := []string{"--data-dir", filepath.Join(dir, "d"), "--listen", addr, "--admin-listen", "127.0.0.1:0", "--set",
		"group.initial.rebalance.delay.ms=0"}
	p, err := launch(dir, nil, append([]string{"restore", s.url, "--snapshot", fmt.Sprint(number)}, args...)...)
	must.OK(t, err)
	if err := <-p.done; err != nil {
		t.Fatalf("restore snapshot %d, seed %d: %v\n%s", number, s.seed, err, p.logged())
	}
	p, err = start(dir, nil, args...)
	must.OK(t, err)
	defer func() {
		if err := p.end(syscall.SIGTERM); err != nil || len(p.errors()) > 0 || t.Failed() {
			t.Errorf("the broker of snapshot %d, seed %d, ended with %v:\n%s", number, s.seed, err, p.logged())
		}
	}()
	problems := s.judge(number, addr)
	problems = append(problems, s.carryOn(addr)...)
	if len(problems) > 0 {
		t.Fatalf("snapshot %d, seed %d:\n%s", number, s.seed, strings.Join(problems[:min(10, len(problems))], "\n"))
	}
}

// judge returns what is wrong with the records and offsets of a snapshot.
func (s *archived) judge(number int64, addr string) (problems []string) {
	t := s.t
	t.Helper()
	known := map[judge.Transfer]bool{}
	for n, list := range s.known {
		if n <= number {
			maps.Copy(known, list)
		}
	}
	f := &follower{view: s.transfers.history.View(), next: map[string]int64{}}
	moved := committed(t, addr, s.transfers.topics...)
	for _, r := range moved {
		f.take(t, r)
	}
	problems = f.view.ProblemsOf(known)

	// The offsets of the group are those of its copies.
	cl, err := txnClient(addr)
	must.OK(t, err)
	defer cl.Close()
	offsets := committedBy(t, kadm.NewClient(cl), s.copies.group)
	below := map[string]string{}
	for _, r := range moved {
		if o, ok := offsets.Lookup(r.Topic, r.Partition); ok && r.Offset < o.At {
			below[source(r)] = string(r.Value)
		}
	}
	for _, r := range committed(t, addr, s.copies.out) {
		if value, ok := below[string(r.Key)]; !ok || value != string(r.Value) {
			problems = append(problems, fmt.Sprintf("offsets: a copy of %s has %q, and below the offsets of the group is %q, or it is there twice",
				r.Key, r.Value, value))
		}
		delete(below, string(r.Key))
	}
	for at, value := range below {
		problems = append(problems, fmt.Sprintf("offsets: there is no copy of %s, %q, which is below the offset of the group", at, value))
	}
	return problems
}

// carryOn lets former and new clients continue in a restored cluster, and returns what they miss.
func (s *archived) carryOn(addr string) (problems []string) {
	t := s.t
	t.Helper()
	producers := map[string]bool{uniqueName("newcomer"): true}
	for _, r := range committed(t, addr, s.transfers.topics...) {
		id, _, _ := strings.Cut(string(r.Value), " ")
		producers[id] = true
	}
	for id := range producers {
		cl, err := txnClient(addr, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		must.OK(t, err)
		ctx, stop := context.WithTimeout(t.Context(), startTime)
		err = cl.BeginTransaction()
		for i, topic := range s.transfers.topics {
			if err == nil {
				err = cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%s restored %d %d", id, i, 1-2*i)}).FirstErr()
			}
		}
		if err == nil {
			err = cl.EndTransaction(ctx, kgo.TryCommit)
		}
		stop()
		cl.Close()
		if err != nil {
			problems = append(problems, fmt.Sprintf("transactional id %s: %v", id, err))
		}
	}
	written, sum := map[string]bool{}, int64(0)
	for _, r := range committed(t, addr, s.transfers.topics...) {
		written[string(r.Value)] = true
		var amount int64
		_, err := fmt.Sscan(string(r.Value[strings.LastIndexByte(string(r.Value), ' ')+1:]), &amount)
		must.OK(t, err)
		sum += amount
	}
	if sum != 0 {
		problems = append(problems, fmt.Sprintf("the sum is %d", sum))
	}
	x := &transform{addr: addr, in: s.copies.in, out: s.copies.out, group: s.copies.group}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	running := copying(ctx, t, x, s.seed)
	x.read(t).await(t, len(written))
	stop()
	running.Wait()
	var values []string
	for _, r := range committed(t, addr, s.copies.out) {
		values = append(values, string(r.Value))
	}
	return append(problems, judge.Once(written, slices.Collect(maps.Keys(written)), values)...)
}

// committed waits until no transaction is open in topics, and returns the records of transactions
// that were committed, each partition's in order. Nothing may be written meanwhile but the ends of
// transactions.
func committed(t *testing.T, addr string, topics ...string) (records []*kgo.Record) {
	t.Helper()
	l := &transfers{addr: addr, topics: topics, history: judge.NewTransfers()}
	f := &follower{l: l, view: l.history.View(), next: map[string]int64{}}
	from := map[string]map[int32]kgo.Offset{}
	cl, err := txnClient(addr)
	must.OK(t, err)
	defer cl.Close()
	f.client = cl
	endOffsets(t, cl, topics).Each(func(o kadm.ListedOffset) {
		if from[o.Topic] == nil {
			from[o.Topic] = map[int32]kgo.Offset{}
		}
		from[o.Topic][o.Partition] = kgo.NewOffset().AtStart()
	})
	reader, err := txnClient(addr, kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond))
	must.OK(t, err)
	defer reader.Close()
	for deadline := time.Now().Add(startTime); ; {
		missing := f.missing(t)
		if missing == "" {
			return records
		}
		if time.Now().After(deadline) {
			t.Fatalf("the reader stands for %v: %s", startTime, missing)
		}
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			f.mu.Lock()
			f.next[fmt.Sprintf("%s-%d", r.Topic, r.Partition)] = r.Offset + 1
			f.mu.Unlock()
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
		stop()
	}
}
