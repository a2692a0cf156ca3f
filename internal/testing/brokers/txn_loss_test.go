package brokers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/check"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// lossy is an open transaction with acknowledged records in a partition that loses them.
type lossy struct {
	*clients
	p  *partition
	tr *transactor
}

// inTransaction writes three records to a partition in a transaction and lets it lose them. A
// producer of either protocol that continues, with a record or with nothing, can't commit it, and
// can abort it.
func inTransaction(t *testing.T, k kind, replicas int16, lose func(l *lossy)) {
	for version := int16(1); version <= 2; version++ {
		for _, more := range []bool{false, true} {
			t.Run(fmt.Sprintf("version %d, writes more %t", version, more), func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, 1)
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1, k)
					l := begin(t, w, version, replicas)
					defer l.stop()
					lose(l)
					if more {
						err := error(kerr.NotLeaderForPartition)
						_ = until(patience, func() bool { err = l.tr.send(l.p, l.tr.value(1, l.p)); return err == nil || isAnswer(err) })
						t.Log("one more record: ", err) // a log that knows a producer of version 2 no more refuses it
					}
					l.end(t)
				})
			})
		}
	}
}

// begin begins the transaction.
func begin(t *testing.T, w *world, version int16, replicas int16) *lossy {
	if until(patience, w.allRun) != nil {
		t.Fatal("not all brokers serve")
	}
	l := &lossy{clients: &clients{w: w, admin: w.client(w.direct()), topics: map[string]existence{}, payments: check.NewTransactions(),
		unpaid: map[string]bool{}}}
	t.Cleanup(l.admin.Close)
	l.ctx, l.clients.stop = context.WithCancel(context.Background())
	w.mu.Lock()
	w.lose = l.clients.lose
	w.mu.Unlock()
	l.p = l.create(payments, 1, replicas)[0]
	l.tr = &transactor{c: l.clients, id: "x", version: version, random: rand.New(rand.NewPCG(1, 1)), timeout: 10 * time.Minute}
	l.connect()
	if !l.tr.init() {
		t.Fatal("no producer id")
	}
	return l
}

// connect gives the producer a client that knows no coordinator: this one does not ask for another
// when a broker is down.
func (l *lossy) connect() {
	cl := l.w.client(kgo.MaxVersions(versions(l.tr.version)))
	l.w.Cleanup(cl.Close)
	l.tr.cl[1], l.tr.cl[2] = cl, cl
}

// write writes the records.
func (l *lossy) write() {
	if until(patience, func() bool { l.connect(); return l.tr.add(l.p) }) != nil {
		l.w.Fatal("the partition is not added")
	}
	for range 3 {
		if err := l.tr.send(l.p, l.tr.value(1, l.p)); err != nil {
			l.w.Fatalf("a record is not acknowledged: %v", err)
		}
		l.tr.next[l.p]++
	}
}

// end asks for a commit, and then for an abort.
func (l *lossy) end(t *testing.T) {
	t.Helper()
	for _, commit := range []bool{true, false} {
		q := kmsg.NewPtrEndTxnRequest()
		q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = "x", l.tr.pid, l.tr.epoch, commit
		var v verdict
		_ = until(patience, func() bool {
			l.connect()
			v = l.tr.ask(q, func(r kmsg.Response) int16 { return r.(*kmsg.EndTxnResponse).ErrorCode })
			return v.err == nil || isAnswer(v.err)
		})
		refused := errors.Is(v.err, kerr.TransactionAbortable) || errors.Is(v.err, kerr.InvalidTxnState)
		if refused != commit || !commit && v.err != nil {
			t.Errorf("commit %t: %v", commit, v.err)
		}
	}
	list := []check.Record{}
	why := ""
	if until(patience, func() bool { list, _, why = l.committedLog(l.leader(), l.p); return why == "" }) != nil || len(list) > 0 {
		t.Errorf("%d records are committed; %s", len(list), why)
	}
}

// isr returns the replicas of the partition that are in sync.
func (l *lossy) isr() (list []int32) {
	for id := int32(1); id <= l.w.size(); id++ {
		if all, _ := l.state(id); all[payments] != nil {
			return all[payments][0]
		}
	}
	return nil
}

func (l *lossy) leader() int32 {
	if list := l.isr(); len(list) > 0 {
		return list[0]
	}
	return 1
}

// An unclean election of a topic with the sync profile.
func TestAnUncleanElectionInATransaction(t *testing.T) {
	inTransaction(t, kind{unclean: true}, 2, func(l *lossy) {
		w := l.w
		shrinks := func(to int) []int32 {
			var list []int32
			if until(patience, func() bool { list = l.isr(); return len(list) == to }) != nil {
				w.Fatalf("%v are in sync", list)
			}
			return list
		}
		both := shrinks(2)
		other := both[1]
		w.kill(other)
		shrinks(1)
		l.write()
		w.kill(both[0])
		w.start(other)
		if until(patience, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.unclean > 0 }) != nil {
			w.Fatal("no unclean election")
		}
		if until(patience, func() bool { return slices.Contains(l.isr(), other) }) != nil {
			w.Fatalf("%v are in sync", l.isr())
		}
	})
}

// A loss of power with a profile that acknowledges before records are durable: of one broker
// without a cluster, and of three.
func TestThePowerFailsInATransaction(t *testing.T) {
	for _, brokers := range []int32{1, 3} {
		t.Run(fmt.Sprint("brokers ", brokers), func(t *testing.T) {
			inTransaction(t, kind{profile: "os", brokers: brokers}, 3, func(l *lossy) {
				l.write()
				for id := int32(1); id <= l.w.size(); id++ {
					l.w.powerLoss(id, crashfs.DropUnsynced)
				}
				for id := int32(1); id <= l.w.size(); id++ {
					l.w.start(id)
				}
				if until(patience, l.w.allRun) != nil {
					l.w.Fatal("not all brokers serve again")
				}
			})
		})
	}
}
