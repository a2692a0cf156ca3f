package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// transacting starts a broker with one log directory, /logs, and one partition of coordinators.
func transacting(t *testing.T, fsys vfs.FS) *Broker {
	t.Helper()
	cfg, err := resolve.Load(config.Input{Set: []string{"log.dirs=/logs", "transaction.state.log.num.partitions=1"},
		Flags: map[string]string{config.KeyDataDir: "/data", config.KeyListen: "127.0.0.1:0", config.KeyAdminListen: "off"}})
	must.OK(t, err)
	b, err := Start(t.Context(), Options{Config: cfg, FS: fsys, Log: zap.NewNop(), Version: "test", JournalFileSize: 1 << 20,
		JournalBytes: 16 << 20})
	must.OK(t, err)
	return b
}

// instance is a producer with the transactional id x.
func instance(t *testing.T, b *Broker) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.AlwaysRetryEOF())
	must.OK(t, err)
	return cl
}

// begin begins a transaction and writes a record to t-0.
func begin(t *testing.T, cl *kgo.Client, value string) {
	t.Helper()
	must.OK(t, cl.BeginTransaction())
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
}

func commit(t *testing.T, cl *kgo.Client) {
	t.Helper()
	must.OK(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
}

// shown returns what a reader of committed records sees in t-0, up to an offset.
func shown(t *testing.T, b *Broker, end int64) (values []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()[0]), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
	must.OK(t, err)
	defer cl.Close()
	for next := int64(0); next < end; {
		fetches := cl.PollFetches(t.Context())
		must.OK(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}

// endsOf returns the last stable offset and the end of t-0.
func endsOf(t *testing.T, adm *kadm.Client) (stable, end int64) {
	t.Helper()
	committed, err := adm.ListCommittedOffsets(t.Context(), "t")
	all, err2 := adm.ListEndOffsets(t.Context(), "t")
	must.OK(t, errors.Join(err, err2, committed.Error(), all.Error()))
	return committed["t"][0].Offset, all["t"][0].Offset
}

// positions returns the positions of the batches of a segment.
func positions(t *testing.T, fsys vfs.FS, name string) (list []int64) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	for at := int64(0); err == nil && len(b) > 0; {
		var x record.Batch
		if x, b, err = record.Next(b); err == nil {
			list, at = append(list, at), at+int64(len(x))
		}
	}
	must.OK(t, err)
	return list
}

// spoil flips a bit in a batch of a segment.
func spoil(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.Open(name)
	must.OK(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at+40)
	_, err2 := f.WriteAt([]byte{b[0] ^ 0x10}, at+40)
	must.OK(t, errors.Join(err, err2, f.Close()))
}

// repair carries out a repair of /logs and returns its plan.
func repair(t *testing.T, fsys vfs.FS) *inspect.Plan {
	t.Helper()
	r, err := inspect.Begin(context.Background(), inspect.Options{FS: fsys, Locations: []storage.Location{{Path: "/logs"}}}, "repair")
	must.OK(t, err)
	plan := r.Plan()
	must.OK(t, errors.Join(r.Do(context.Background(), "/backup"), r.Close()))
	return plan
}

// A repair gives up the end of __transaction_state, at every batch of it, while the partitions know
// of later transactions of the id. Its next producer continues, and the committed records stay
// committed. The open transaction is ended by the coordinator if it still knows it, and
// otherwise by an administrator.
func TestARepairGivesUpTheEndOfTheTransactionState(t *testing.T) {
	t.Parallel()
	const state = "/logs/__transaction_state-0/00000000000000000000.log"
	disk := crashfs.New(1)
	b := transacting(t, disk)
	cl := instance(t, b)
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		begin(t, cl, fmt.Sprint(i))
		commit(t, cl)
	}
	begin(t, cl, "open")
	cl.CloseAllowingRebalance()
	must.OK(t, b.Close())
	batches := positions(t, disk, state)
	if len(batches) < 6 {
		t.Fatalf("__transaction_state has %d batches", len(batches))
	}
	for kept := range batches {
		t.Run(fmt.Sprintf("%d batches are left", kept), func(t *testing.T) {
			t.Parallel()
			fsys := disk.KillImage(uint64(kept))
			for _, at := range batches[kept:] {
				spoil(t, fsys, state, at)
			}
			if plan := repair(t, fsys); len(plan.Left) > 0 || len(plan.Loses()) == 0 {
				t.Fatalf("%+v", plan)
			}
			b := transacting(t, fsys)
			defer b.Close()
			cl := instance(t, b)
			defer cl.Close()
			begin(t, cl, "after")
			commit(t, cl)
			adm := kadm.NewClient(cl)
			abortHanging(t, adm)
			eventually(t, "no transaction is open", func() bool { stable, end := endsOf(t, adm); return stable == end })
			_, end := endsOf(t, adm)
			if got, want := shown(t, b, end), strings.Fields("0 1 2 after"); !slices.Equal(got, want) {
				t.Errorf("readers of committed records see %q, not %q", got, want)
			}
		})
	}
}

// abortHanging does what chronikctl txn find-hanging and abort do for t-0.
func abortHanging(t *testing.T, adm *kadm.Client) {
	t.Helper()
	var set kadm.TopicsSet
	set.Add("t", 0)
	found, err := adm.DescribeProducers(t.Context(), set)
	must.OK(t, err)
	known, err := adm.DescribeTransactions(t.Context(), "x")
	must.OK(t, err)
	for _, p := range found.SortedProducers() {
		if p.CurrentTxnStartOffset < 0 || p.ProducerID == known["x"].ProducerID {
			continue
		}
		m := kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: max(0, p.CoordinatorEpoch)}
		m.Topics.Add("t", 0)
		got, err := adm.WriteTxnMarkers(t.Context(), m)
		if err = errors.Join(err, got[p.ProducerID].Topics["t"].Partitions[0].Err); err != nil {
			t.Error(err)
		}
	}
}
