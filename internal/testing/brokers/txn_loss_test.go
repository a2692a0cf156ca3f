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

// ask asks for the end of the transaction.
func (l *lossy) ask(commit bool) error {
	q := kmsg.NewPtrEndTxnRequest()
	q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = "x", l.tr.pid, l.tr.epoch, commit
	var v verdict
	_ = until(patience, func() bool {
		l.connect()
		v = l.tr.ask(q, func(r kmsg.Response) int16 {
			a := r.(*kmsg.EndTxnResponse)
			if a.ErrorCode == 0 && l.tr.version >= 2 {
				l.tr.pid, l.tr.epoch, l.tr.next = a.ProducerID, a.ProducerEpoch, map[*partition]int32{}
			}
			return a.ErrorCode
		})
		return v.err == nil || isAnswer(v.err)
	})
	return v.err
}

// end asks for a commit, and then for an abort.
func (l *lossy) end(t *testing.T) {
	t.Helper()
	for _, commit := range []bool{true, false} {
		err := l.ask(commit)
		refused := errors.Is(err, kerr.TransactionAbortable) || errors.Is(err, kerr.InvalidTxnState)
		if refused != commit || !commit && err != nil {
			t.Errorf("commit %t: %v", commit, err)
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

// alone stops the broker that follows in the partition, and returns it and the leader.
func (l *lossy) alone() (leader, other int32) {
	both := l.inSync(2)
	l.w.kill(both[1])
	l.inSync(1)
	return both[0], both[1]
}

// inSync waits until so many replicas are in sync, and returns them.
func (l *lossy) inSync(n int) (list []int32) {
	if until(patience, func() bool { list = l.isr(); return len(list) == n }) != nil {
		l.w.Fatalf("%v are in sync", list)
	}
	return list
}

// replace stops the leader and starts the other broker, which is elected uncleanly.
func (l *lossy) replace(leader, other int32) {
	l.w.kill(leader)
	l.w.start(other)
	if until(patience, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.unclean > 0 }) != nil {
		l.w.Fatal("no unclean election")
	}
	if until(patience, func() bool { return slices.Contains(l.isr(), other) }) != nil {
		l.w.Fatalf("%v are in sync", l.isr())
	}
}

// An unclean election of a topic with the sync profile.
func TestAnUncleanElectionInATransaction(t *testing.T) {
	inTransaction(t, kind{unclean: true}, 2, func(l *lossy) {
		leader, other := l.alone()
		l.write()
		l.replace(leader, other)
	})
}

// An unclean election loses the marker of an aborted transaction and nothing else. The producer's
// next transaction commits its own record, and none of the aborted ones.
func TestAnUncleanElectionLosesAMarker(t *testing.T) {
	for version := int16(1); version <= 2; version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, 1)
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, kind{unclean: true})
				l := begin(t, w, version, 2)
				defer l.stop()
				l.inSync(2)
				l.write()
				leader, other := l.alone()
				if err := l.ask(false); err != nil {
					t.Fatalf("abort: %v", err)
				}
				why := ""
				if until(patience, func() bool { _, _, why = l.committedLog(leader, l.p); return why == "" }) != nil {
					t.Fatal(why)
				}
				l.replace(leader, other)
				value := l.tr.value(2, l.p)
				if until(patience, func() bool { l.connect(); return l.tr.add(l.p) }) != nil {
					t.Fatal("the partition is not added")
				}
				if err := l.tr.send(l.p, value); err != nil {
					t.Fatal(err)
				}
				if err := l.ask(true); err != nil {
					t.Fatalf("commit: %v", err)
				}
				var list []check.Record
				if until(patience, func() bool { list, _, why = l.committedLog(other, l.p); return why == "" }) != nil {
					t.Fatal(why)
				}
				if len(list) != 1 || list[0].Value != value {
					t.Errorf("committed are %+v, want %s", list, value)
				}
			})
		})
	}
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
