package txn

import (
	"fmt"
	"slices"
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

// A client that makes up a transactional id for each transaction pushes out its own ids, the most
// idle first. Ids of open transactions, and those that were used recently, stay; without any other
// new ones are refused, and the search for room does not cost much.
func TestIDsAreBounded(t *testing.T) {
	const most = 40
	type crowd struct {
		removed int
		idle    time.Duration
	}
	var seen []crowd
	d := newDesk(t, func(c *Config) {
		c.MaxIDs = most
		c.Crowded = func(removed int, idle time.Duration) { seen = append(seen, crowd{removed, idle}) }
	})
	d.bring(Ongoing, 2) // "x", with a timeout of a minute
	begin := func(id int) Identity {
		t.Helper()
		return ask[Identity](d, InitProducerID{ID: fmt.Sprint(id), Timeout: 60_000, ProducerID: none, Epoch: none})
	}
	for id := range most - 1 {
		if got := begin(id); got.Err != nil {
			t.Fatalf("id %d: %v", id, got.Err)
		}
		d.advance(time.Millisecond)
	}
	for range 100 {
		if got := begin(1000); got.Err != kerr.CoordinatorLoadInProgress {
			t.Fatalf("one more: %+v", got)
		}
	}
	if got := begin(0); got.Err != nil || got.Epoch != 1 {
		t.Errorf("an id that is there: %+v", got)
	}
	if !slices.Equal(seen, []crowd{{}}) || len(d.shard.ids) != most {
		t.Fatalf("observed %v with %d ids", seen, len(d.shard.ids))
	}
	d.advance(minIdle)
	d.answer(nil) // the markers of the transaction that timed out
	if got := begin(1000); got.Err != nil || len(d.shard.ids) != most-1 {
		t.Fatalf("%+v with %d ids", got, len(d.shard.ids))
	}
	if len(seen) != 2 || seen[1].removed != 2 || seen[1].idle < minIdle {
		t.Errorf("observed %v", seen)
	}
	for id, gone := range map[string]bool{"x": false, "0": false, "1": true, "2": true, "3": false, "1000": false} {
		if (d.shard.ids[id] == nil) != gone {
			t.Errorf("id %s: gone %t, want %t", id, !gone, gone)
		}
	}
}
