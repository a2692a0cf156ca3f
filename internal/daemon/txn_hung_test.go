package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// torn is a broker with a transaction that is committed in one log directory, while the disk of the
// other one has hung since before its markers.
type torn struct {
	*Broker
	client       *kgo.Client
	admin        *kadm.Client
	whole, stuck []int32 // partitions of "t", by what happens to their directory
	free         chan struct{}
	answers      answers
}

// answers counts those to Produce that reach a client.
type answers struct{ n atomic.Int64 }

func (a *answers) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == kmsg.Produce.Int16() && err == nil {
		a.n.Add(1)
	}
}

// commitTorn commits a transaction in all partitions. The directory without __transaction_state
// hangs.
func commitTorn(t *testing.T) *torn {
	t.Helper()
	errs := errfs.New(vfs.Memory())
	cfg, err := resolve.Load(config.Input{Set: []string{"log.dirs=/one,/two", "transaction.state.log.num.partitions=1"},
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "off"}})
	must.OK(t, err)
	b, err := Start(t.Context(), Options{Config: cfg, FS: errs, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20,
		JournalBytes: 16 << 20, stop: times{drain: 5 * time.Second, disk: 100 * time.Millisecond, grace: 100 * time.Millisecond}})
	must.OK(t, err)
	x := &torn{Broker: b, free: make(chan struct{})}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.WithHooks(&x.answers), kgo.TransactionalID("x"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(1),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
	must.OK(t, err)
	x.client, x.admin = cl, kadm.NewClient(cl)
	if _, err := x.admin.CreateTopic(t.Context(), 4, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	must.OK(t, cl.BeginTransaction())
	for p := range int32(4) {
		must.OK(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte("v")}).FirstErr())
	}
	hung := x.places(t)
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync,
		When:   func(c errfs.Call) bool { return strings.HasPrefix(c.Path, hung+"/") },
		Before: func(errfs.Call) { <-x.free }})
	must.OK(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
	return x
}

// release has the disk answer again. A stop after it has no reason to leave a directory open.
func (x *torn) release() {
	close(x.free)
	x.times.disk = time.Minute
}

// places finds out which partitions are in the directory of the coordinator, and returns the other
// directory.
func (x *torn) places(t *testing.T) (hung string) {
	t.Helper()
	all, err := x.admin.DescribeAllLogDirs(t.Context(), nil)
	must.OK(t, err)
	for _, dirs := range all {
		for name, dir := range dirs {
			var here []int32
			for p := range dir.Topics["t"] {
				here = append(here, p)
			}
			if len(dir.Topics["__transaction_state"]) > 0 {
				x.whole = here
			} else {
				x.stuck, hung = here, name
			}
		}
	}
	if len(x.whole) == 0 || len(x.stuck) == 0 {
		t.Fatalf("the partitions %v and %v are in the directories", x.whole, x.stuck)
	}
	return hung
}

// stable returns the last stable offset of each partition.
func (x *torn) stable(t *testing.T) (list [4]int64) {
	t.Helper()
	ends, err := x.admin.ListCommittedOffsets(t.Context(), "t")
	must.OK(t, err)
	ends.Each(func(o kadm.ListedOffset) { list[o.Partition] = o.Offset })
	return list
}

// next begins the next transaction in a partition, which waits for the markers of the one before.
func (x *torn) next(t *testing.T, partition int32) <-chan error {
	t.Helper()
	must.OK(t, x.client.BeginTransaction())
	done := make(chan error, 1)
	x.client.Produce(context.Background(), &kgo.Record{Topic: "t", Partition: partition, Value: []byte("next")},
		func(_ *kgo.Record, err error) { done <- err })
	return done
}

// Markers of partitions in other directories do not wait for a disk that hangs. The next
// transaction does, and begins when the disk has answered.
func TestADiskThatHangsUnderMarkersHoldsUpOnlyItsPartitions(t *testing.T) {
	x := commitTorn(t)
	defer x.client.Close()
	eventually(t, "the markers of the other directory are there", func() bool {
		for _, p := range x.whole {
			if x.stable(t)[p] != 2 {
				return false
			}
		}
		return true
	})
	next := x.next(t, x.whole[0])
	eventually(t, "the next transaction waits", func() bool { return x.components.coordinators.Gate.Waiting() > 0 })
	for _, p := range x.stuck {
		if got := x.stable(t)[p]; got != 0 {
			t.Errorf("the last stable offset of %d is %d while its disk hangs", p, got)
		}
	}
	if len(next) > 0 {
		t.Errorf("the next transaction began before the markers: %v", <-next)
	}
	x.release()
	if err := <-next; err != nil {
		t.Error(err)
	}
	if err := x.client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Error(err)
	}
	want := [4]int64{2, 2, 2, 2}
	want[x.whole[0]] = 4
	eventually(t, "all markers are there", func() bool { return x.stable(t) == want })
	if err := x.Broker.Close(); err != nil {
		t.Error(err)
	}
}

// A commit that waits for a partition ends when the partition's topic is deleted, and the topic
// that is created under the name gets no marker of it.
func TestADeletedTopicEndsACommitThatWaitsForIt(t *testing.T) {
	x := commitTorn(t)
	defer x.client.Close()
	state := func() string {
		d, err := x.admin.DescribeTransactions(t.Context(), "x")
		must.OK(t, err)
		return d["x"].State
	}
	if got := state(); got != "PrepareCommit" {
		t.Fatalf("the transaction is %s while a disk hangs", got)
	}
	x.admin.SetTimeoutMillis(1) // the deletion waits for the disk
	if _, err := x.admin.DeleteTopics(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	x.release()
	x.admin.SetTimeoutMillis(15_000)
	eventually(t, "the transaction has ended", func() bool { return state() == "CompleteCommit" })
	eventually(t, "the topic is created again", func() bool {
		got, err := x.admin.CreateTopic(t.Context(), 4, 1, nil, "t")
		return err == nil && got.Err == nil
	})
	x.client.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(x.Addrs()[0]), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.OK(t, err)
	defer cl.Close()
	x.client, x.admin = cl, kadm.NewClient(cl)
	must.OK(t, cl.BeginTransaction())
	for p := range int32(4) {
		must.OK(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p, Value: []byte("v")}).FirstErr())
	}
	if got := x.stable(t); got != [4]int64{} {
		t.Errorf("the new topic is stable up to %v in its first transaction", got)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Error(err)
	}
	eventually(t, "all markers are there", func() bool { return x.stable(t) == [4]int64{2, 2, 2, 2} })
	if err := x.Broker.Close(); err != nil {
		t.Error(err)
	}
}

// A stop answers the requests that wait for a transaction, and leaves nothing behind when the disk
// answers at last; TestMain looks for goroutines.
func TestAStopEndsRequestsThatWaitForATransaction(t *testing.T) {
	x := commitTorn(t)
	next := x.next(t, x.whole[0])
	eventually(t, "the next transaction waits", func() bool { return x.components.coordinators.Gate.Waiting() > 0 })
	before := x.answers.n.Load()
	err := x.Broker.Close()
	if err == nil || !strings.HasPrefix(err.Error(), "stop: log directory /") {
		t.Errorf("a stop with a disk that hangs: %v", err)
	}
	if x.answers.n.Load() == before {
		t.Error("the request had no answer")
	}
	x.client.Close()
	if err := <-next; err == nil {
		t.Error("the next transaction began")
	}
	close(x.free)
}
