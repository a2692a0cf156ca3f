package service

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// life is one run of a broker with a transaction coordinator and real partitions.
type life struct {
	*broker
	t         *testing.T
	tr        *Transactions
	x         *exchange.Exchange
	cutOff    atomic.Bool // what the coordinator sends gets lost
	topic     *metadata.Topic
	terminate func()
	// between, if set, is called with each request of the coordinator and sends it.
	between func(request any, send func(done func(any)), done func(any))
}

// lives starts a broker on a file system.
func lives(t *testing.T, fs vfs.FS) *life {
	t.Helper()
	l := &life{t: t}
	var stop func()
	l.broker, stop = startWith(t, fs, func(b *broker) {
		l.broker = b
		l.x = exchange.New(exchange.Options{
			Self: 1, Topic: TransactionsTopic, Offsets: OffsetsTopic,
			Image:     func() *metadata.Image { return l.tr.Image() },
			Submit:    func(id string, event any, done func(any, error)) { l.tr.Submit(id, event, done) },
			Partition: func(topic [16]byte, i int32) (exchange.Partition, error) { return b.replicas.Partition(topic, i) },
			Fenced:    func(partition, epoch, known int32) { l.tr.Fenced(partition, epoch, known) },
		})
		var err error
		l.tr, err = NewTransactions(TransactionsOptions{
			Options: Options{Self: 1, Replicas: b.replicas, Controller: b.control, Logger: zap.NewNop()},
			Configs: b.configs, Settings: b.settings,
			ProducerID: func(context.Context) (int64, error) { return 77, nil },
			Version:    (*metadata.Image).TransactionVersion,
			Send: func(partition, epoch int32, request any, _ *groupcommit.Batch, done func(any)) {
				send := func(done func(any)) { // on any goroutine
					var batch groupcommit.Batch
					l.x.Send(partition, epoch, request, &batch, done)
					batch.HandOff()
				}
				switch {
				case l.cutOff.Load():
				case l.between != nil:
					l.between(request, send, done)
				default:
					send(done)
				}
			},
		})
		must(t, err)
		b.add(l.tr.Service)
	})
	l.topic = l.applier.Image().Topic("data")
	l.terminate = func() {
		l.tr.Close()
		l.x.Close()
		stop()
	}
	return l
}

// create creates the topic of the test.
func (l *life) create(partitions int32) {
	l.t.Helper()
	made, err := l.control.CreateTopic(l.t.Context(), controller.TopicSpec{Name: "data", Partitions: partitions, ReplicationFactor: 1})
	must(l.t, err)
	must(l.t, l.applier.WaitFor(l.t.Context(), made.Revision))
	l.topic = l.applier.Image().Topic("data")
}

func (l *life) part(i int32) *replica.Partition {
	l.t.Helper()
	p, err := l.replicas.Partition(l.topic.ID, i)
	must(l.t, err)
	return p
}

// begin appends a record to each partition of the topic, in a transaction.
func (l *life) begin(p txn.Identity) {
	l.t.Helper()
	q := gate.Question{ID: "id", ProducerID: p.ProducerID, Epoch: p.Epoch, Add: true, Deadline: time.Now().Add(time.Minute)}
	guards := map[int32]*producers.Guard{}
	for i := range l.topic.Partitions.All() {
		q.Partitions = append(q.Partitions, txn.AddedPartition{Partition: txn.Partition{Topic: "data", Index: i}})
		guards[i] = l.part(i).Log().Guard(p.ProducerID)
	}
	answers := make(chan gate.Answer, 1)
	l.x.Ask(q, func(a gate.Answer) { answers <- a })
	a := <-answers
	if a.Err != nil {
		l.t.Fatal(a.Err)
	}
	for i := range l.topic.Partitions.All() {
		b := record.NewBuilder(record.BatchOptions{Transactional: true, Producer: &record.Producer{ID: p.ProducerID, Epoch: p.Epoch}})
		b.Append(1, nil, []byte("v"), nil)
		batch, err := b.Build()
		must(l.t, err)
		outcome := make(chan error, 1)
		l.part(i).Append(&replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll,
			Permit:  producers.Permit{Guard: guards[i], CoordinatorEpoch: a.CoordinatorEpoch, Bumps: true},
			Batches: record.Accepted{Bytes: batch, Batches: 1, Records: 1, MaxTimestamp: 1, AppendTime: -1},
			Done:    func(a *replica.Append) { outcome <- a.Err }}, nil)
		must(l.t, <-outcome)
	}
}

// commit ends the transaction.
func (l *life) commit(p txn.Identity) txn.Identity {
	l.t.Helper()
	answers := make(chan any, 1)
	l.tr.Submit("id", txn.End{ID: "id", ProducerID: p.ProducerID, Epoch: p.Epoch, Commit: true, Version: 2}, func(a any, err error) {
		if err != nil {
			a = err
		}
		answers <- a
	})
	got, ok := (<-answers).(txn.Identity)
	if !ok || got.Err != nil {
		l.t.Fatalf("%+v", got)
	}
	return got
}

// completed waits until the transaction has all its markers, and checks that readers see it.
func (l *life) completed() {
	l.t.Helper()
	state := ""
	for end := time.Now().Add(time.Minute); state != txn.CompleteCommit.String(); time.Sleep(time.Millisecond) {
		answers := make(chan any, 1)
		l.tr.Submit("id", txn.Describe{IDs: []string{"id"}}, func(a any, err error) { answers <- a })
		if list, ok := (<-answers).([]txn.Description); ok {
			state = list[0].State.String()
		}
		if time.Now().After(end) {
			l.t.Fatalf("the transaction is in state %s", state)
		}
	}
	for i := range l.topic.Partitions.All() {
		if e := l.part(i).Ends(); e.LastStable != 2 || e.HighWatermark != 2 {
			l.t.Errorf("partition %d: %+v", i, e)
		}
	}
}

func disk(t *testing.T) *errfs.FS {
	t.Helper()
	fs := errfs.New(vfs.Memory())
	must(t, vfs.MakeDir(fs, "/metadata"))
	must(t, vfs.MakeDir(fs, "/logs"))
	return fs
}

// The markers of a transaction share the syncs of the journal: with 100 partitions, the end of a
// transaction costs a handful of them. The disk is so slow that all markers arrive during a sync.
func TestTheEndOfATransactionSharesSyncs(t *testing.T) {
	fs := disk(t)
	l := lives(t, fs)
	defer l.terminate()
	const partitions = 100
	l.create(partitions)
	p := initialize(t, l.tr, "id")
	l.begin(p)
	var logs []*storage.Log
	for i := range int32(partitions) {
		logs = append(logs, l.part(i).Log())
	}
	arriving := func() bool { // some have their marker, and others do not
		n := 0
		for _, log := range logs {
			if log.Ends().LogEnd == 2 {
				n++
			}
		}
		return n > 0 && n < partitions
	}
	slow := fs.Add(errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) {
		for end := time.Now().Add(time.Minute); arriving() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}})
	before := fs.Calls(errfs.Datasync)
	if next := l.commit(p); next != (txn.Identity{ProducerID: p.ProducerID, Epoch: p.Epoch + 1}) {
		t.Errorf("%+v", next)
	}
	l.completed()
	slow.Off()
	if n := fs.Calls(errfs.Datasync) - before; n < 3 || n > 10 { // without sharing, there are over 100
		t.Errorf("%d syncs", n)
	}
}

// A coordinator that loads a decided transaction sends its markers: those of its predecessor may
// not have arrived.
func TestMarkersFollowAfterARestart(t *testing.T) {
	fs := disk(t)
	l := lives(t, fs)
	l.create(3)
	p := initialize(t, l.tr, "id")
	l.begin(p)
	l.cutOff.Store(true)
	l.commit(p)
	if e := l.part(0).Ends(); e.LastStable != 0 {
		t.Errorf("before the marker: %+v", e)
	}
	l.terminate()
	l = lives(t, fs)
	defer l.terminate()
	l.completed()
}

// The disk fails from the moment on that a commit is decided. Its markers land when the disk works
// again, and until then the transaction is neither lost nor complete. The producer's next
// transaction follows.
func TestMarkersLandWhenTheDiskWorksAgain(t *testing.T) {
	for name, rule := range map[string]errfs.Rule{
		"no space":        {Ops: errfs.Write | errfs.Allocate, Err: syscall.ENOSPC},
		"a failing sync":  {Ops: errfs.Datasync, Err: syscall.EIO},
		"a failing write": {Ops: errfs.Write, Err: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			fs := disk(t)
			l := lives(t, fs)
			defer l.terminate()
			l.create(2)
			p := initialize(t, l.tr, "id")
			l.begin(p)
			rule.When = func(c errfs.Call) bool { return strings.HasPrefix(c.Path, "/logs/") }
			var once sync.Once
			var fault *errfs.Fault
			failed := make(chan error, 100)
			l.between = func(_ any, send func(func(any)), done func(any)) {
				once.Do(func() { fault = fs.Add(rule) })
				send(func(result any) {
					if m, ok := result.(txn.Marked); ok && m.Err != nil {
						select {
						case failed <- m.Err:
						default:
						}
					}
					done(result)
				})
			}
			next := l.commit(p)
			for range 2 {
				t.Log(<-failed)
			}
			for i := range l.topic.Partitions.All() {
				if e := l.part(i).Ends(); e.LastStable != 0 {
					t.Errorf("partition %d without its marker: %+v", i, e)
				}
			}
			fault.Off()
			l.completed()
			l.begin(next)
			l.commit(next)
		})
	}
}

// C7: a partition knows a later coordinator than there is.
func TestAFencedTransactionEndsUnderAHigherEpoch(t *testing.T) {
	l := lives(t, disk(t))
	defer l.terminate()
	l.create(1)
	p := initialize(t, l.tr, "id")
	l.begin(p)
	marker := record.EndTxnMarker(p.ProducerID, p.Epoch, record.Abort, 50, 1)
	outcome := make(chan error, 1)
	l.part(0).Append(&replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll, Kind: storage.Marker,
		Batches: record.Accepted{Bytes: marker, Batches: 1, Records: 1, MaxTimestamp: 1, AppendTime: -1},
		Done:    func(a *replica.Append) { outcome <- a.Err }}, nil)
	must(t, <-outcome)
	l.commit(p)
	index, _ := l.tr.Partition("id")
	want := 50 + metadata.Gap(l.applier.Image().Generation()) // no one knows which epochs were given after 50
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		q, _ := l.part(0).Log().Producer(p.ProducerID)
		leads := l.applier.Image().Topic(TransactionsTopic).Partitions.At(index).LeaderEpoch
		if q.CoordinatorEpoch == want && leads == want {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%+v, the coordinator leads in epoch %d", q, leads)
		}
	}
}
