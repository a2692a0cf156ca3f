package txn

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// A maximum that was lowered concerns new producers. A transaction keeps its timeout, and so does a
// producer that has no other.
func TestALoweredMaximumLeavesTransactionsTheirTimeout(t *testing.T) {
	d := newDesk(t)
	d.bring(Ongoing, 2)
	d.cfg.MaxTimeout = time.Second
	d.reload()
	if got := d.init(none, none).Err; got != kerr.InvalidTransactionTimeout || d.state().state != Ongoing {
		t.Errorf("a producer with the former timeout: %v, %v", got, d.state().state)
	}
	d.add(2, a(2))
	d.advance(59 * time.Second)
	if got := d.state().state; got != Ongoing {
		t.Errorf("before its timeout the transaction is %v", got)
	}
	d.advance(time.Second)
	if got := d.state().state; got != PrepareAbort {
		t.Errorf("after its timeout the transaction is %v", got)
	}
	d.answer(nil)
	d.add(2, a(0)) // with the timeout that it has
	d.advance(59 * time.Second)
	if got := d.state().state; got != Ongoing {
		t.Errorf("before its timeout the next transaction is %v", got)
	}
}

// An id expires while its next producer waits for a producer id, because the epochs are used up. It
// gets that id, and the last producer is fenced.
func TestAnIDExpiresWhileItsNextProducerWaits(t *testing.T) {
	d := newDesk(t)
	d.init(none, none)
	v := *d.state()
	v.epoch = maxEpoch
	d.shard.now, d.shard.out = d.now, &coordinator.Effects{}
	d.shard.emit("x", v)
	d.take(d.shard.out)
	var out coordinator.Effects
	d.shard.Handle(d.now, 1000, InitProducerID{ID: "x", Timeout: 60_000, ProducerID: none, Epoch: none}, &out)
	if len(out.Calls) != 1 || len(out.Replies) > 0 {
		t.Fatalf("%+v", out)
	}
	d.advance(8 * 24 * time.Hour)
	if d.shard.ids["x"] != nil {
		t.Fatal("the id has not expired")
	}
	d.take(&out) // the call has its result now
	got, ok := d.got[1000].(Identity)
	if !ok || got.Err != nil || got.ProducerID == v.pid || got.Epoch != 0 {
		t.Errorf("the next producer is %+v", d.got[1000])
	}
	zombie := Add{ID: "x", ProducerID: v.pid, Epoch: maxEpoch, Version: 2, Partitions: []AddedPartition{{Partition: a(0)}}}
	if err := ask[Added](d, zombie).Err; err != kerr.InvalidProducerIDMapping {
		t.Errorf("an add of the last producer: %v", err)
	}
}
