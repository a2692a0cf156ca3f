package tier

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The histories without which a rule seems to be of no use.
func TestHistories(t *testing.T) {
	for name, test := range map[string]func(*testing.T, breakrules.Removed[Rule]) error{
		"an unclean election": reelected,
		"an unclean election of a broker that has the middle of an object": halved,
		"a recovery of the metadata":                                       relisted,
		"a collection during a copy":                                       collected,
		"an open transaction":                                              unstable,
		"records that are only in memory":                                  volatile,
	} {
		t.Run(name, func(t *testing.T) { must.OK(t, test(t, breakrules.Removed[Rule]{})) })
	}
}

func without(broken breakrules.Removed[Rule]) func(*Options) {
	return func(o *Options) { o.Broken = broken }
}

// reelected: an unclean election undoes records that are copied, and others follow.
func reelected(t *testing.T, broken breakrules.Removed[Rule]) error {
	w := newWorld(t, "sync", without(broken))
	w.produce(4, 3)
	w.lone(1, true)
	w.add(8)
	w.brokers[0].copyAll()
	w.lone(2, false)
	b := w.brokers[1]
	w.add(12)
	for range 2 {
		b.copyAll()
		b.retain()
	}
	return errors.Join(b.healthy(), b.check())
}

// halved: the local log of an unclean leader begins within a copied object, and continues only a
// part of the rest.
func halved(t *testing.T, broken breakrules.Removed[Rule]) error {
	w := newWorld(t, "sync", without(broken))
	w.lone(1, true)
	w.add(12)
	w.brokers[0].copyAll()
	w.brokers[0].retainBelow(9)
	w.fetch(12)
	w.lone(2, false)
	b := w.brokers[1]
	if e := b.partition().Ends(); e.LocalStart != 9 || e.LogEnd != 12 {
		t.Fatalf("%+v", e)
	}
	w.add(12)
	if err := b.check(); err != nil { // it has not compared yet
		return err
	}
	b.copyAll()
	b.retain()
	return errors.Join(b.healthy(), b.check())
}

// relisted: the metadata are recovered, and name a list that a collection has deleted.
func relisted(t *testing.T, broken breakrules.Removed[Rule]) error {
	_, b := collectedList(t, 9, broken)
	b.copyAll()
	return errors.Join(b.healthy(), b.check())
}

// collected: a collection lists the object of a copy before the metadata name it.
func collected(t *testing.T, broken breakrules.Removed[Rule]) error {
	w := newWorld(t, "sync", without(broken))
	w.produce(6, 3)
	b := w.brokers[0]
	finish := func() {}
	w.store.Add(faultstore.Rule{Ops: faultstore.Put, Name: prefix + "manifest/*/*/*", Count: 1,
		Before: func(faultstore.Call) { finish = w.collect() }})
	b.copyAll()
	finish()
	b.retain()
	return errors.Join(b.healthy(), b.check())
}

// unstable: a transaction is open, and its records stay on the disk.
func unstable(t *testing.T, broken breakrules.Removed[Rule]) error {
	w := newWorld(t, "sync", without(broken))
	w.lone(1, true)
	b := w.brokers[0]
	w.add(6)
	open := int64(len(w.values))
	b.transact()
	w.add(8)
	b.copyAll()
	must.OK(t, b.healthy())
	if x := w.tier(); x.End == 0 {
		t.Error("nothing is copied")
	} else if x.End > open {
		return fmt.Errorf("records up to %d are copied, and a transaction is open since %d", x.End, open)
	}
	return nil
}

// volatile: records are committed that a loss of power may take back.
func volatile(t *testing.T, broken breakrules.Removed[Rule]) (err error) {
	synctest.Test(t, func(t *testing.T) { // the sync comes some seconds later
		w := newWorld(t, "os", without(broken))
		w.lone(1, true)
		b := w.brokers[0]
		before, durable := int64(0), int64(1)
		for durable > before { // a sync in progress has covered some of them
			before = int64(len(w.values))
			w.add(8)
			durable = b.partition().Log().Ends().Durable
		}
		b.copyAll()
		if x := w.tier(); x.End > durable {
			err = fmt.Errorf("records up to %d are copied, and those up to %d are durable", x.End, durable)
			return
		}
		err = b.check()
	})
	return err
}

type sink chan struct{}

func (s sink) OffsetsAssigned(*storage.Append) { close(s) }

// transact appends a record of a transaction, which stays open.
func (b *broker) transact() {
	t, l := b.w.t, b.partition().Log()
	build := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 7}, Transactional: true})
	build.Append(1, []byte("txn"), nil, nil)
	data, err := build.Build()
	must.OK(t, err)
	done := make(sink)
	a := &storage.Append{LeaderEpoch: b.partition().LeaderEpoch(), Batches: data, Permit: producers.Permit{Guard: l.Guard(7)}, Sink: done}
	l.Append(a, nil)
	<-done
	must.OK(t, a.Err)
	eventually(t, "it is durable", func() bool { return l.AckEnd() == l.Ends().LogEnd })
	b.w.values = append(b.w.values, "txn")
}
