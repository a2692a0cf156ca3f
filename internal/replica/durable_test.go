package replica

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// weak returns a partition that acknowledges written records, and whose log syncs on its own after
// 5 s at the earliest. The clock of the test stands still.
func weak(t *testing.T) *Partition {
	t.Helper()
	p := loneWith(t, vfs.Memory(), "os")
	synctest.Wait()
	if !p.log.AcksWritten() {
		t.Fatal("the profile does not apply")
	}
	return p
}

// weakRole is roleFor with the profile of weak.
func weakRole(p *Partition, epoch int32, isr ...int32) *Role {
	r := roleFor(p, self, epoch, []int32{1, 2, 3}, isr)
	r.View.Written = true
	return r
}

// subscribed begins a follower's subscription at an end that is only written.
func subscribed(t *testing.T, p *Partition, follower int32, end int64) progress.Handle {
	t.Helper()
	h, _, err := p.Subscribe(p.LeaderEpoch(), progress.Subscription{
		Broker: follower, BrokerEpoch: 1, Dir: p.log.Dir().ID(), Serial: serials.Add(1), Written: end, WriteThrough: true,
	})
	must(t, err)
	return h
}

// beginMarker appends a marker for a producer that the log does not know.
func beginMarker(p *Partition) *outcome {
	d := &outcome{ended: make(chan struct{}, 8)}
	d.LeaderEpoch, d.Acks, d.Kind, d.Durable = -1, AcksAll, storage.Marker, true
	d.Batches = record.Accepted{Bytes: record.EndTxnMarker(7, 1, record.Commit, 0, 1), Batches: 1, Records: 1}
	d.Done = func(*Append) { d.times++; d.ended <- struct{}{} }
	p.Append(&d.Append, nil)
	return d
}

// flush returns the outcome of a flush in a leader epoch.
func flush(p *Partition, leaderEpoch int32) chan error {
	c := make(chan error, 2)
	p.Flush(leaderEpoch, 7, 0, func(err error) { c <- err })
	return c
}

// A marker counts when it is durable on every in-sync replica, also where records of clients count
// when they are written (D3). The own log syncs at once for it.
func TestAMarkerCountsWhenItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := weak(t)
		p.SetRole(weakRole(p, 4, 1, 2))
		h := subscribed(t, p, 2, 0)
		data := begin(t, p, AcksAll, 1)
		synctest.Wait()
		if e := p.log.Ends(); e.Written != 1 || e.Durable != 0 || p.SyncTo() != 0 {
			t.Fatalf("%+v, to be synced up to %d", e, p.SyncTo())
		}
		p.Acknowledged(h, 1, 0)
		if data.pending() {
			t.Fatal("a record waits to be durable")
		}
		marker := beginMarker(p)
		synctest.Wait()
		if e := p.log.Ends(); e.Durable != 2 || p.SyncTo() != 2 {
			t.Errorf("%+v, to be synced up to %d", e, p.SyncTo())
		}
		p.Acknowledged(h, 2, 1)
		if high := p.Ends().HighWatermark; high != 2 || !marker.pending() || p.DurableHigh() != 1 {
			t.Errorf("high watermark %d, durable %d; the marker waits: %t", high, p.DurableHigh(), marker.pending())
		}
		p.Acknowledged(h, 2, 2)
		if marker.pending() || marker.Err != nil || p.DurableHigh() != 2 {
			t.Errorf("durable %d: %v", p.DurableHigh(), marker.Err)
		}
	})
}

// A log that has nothing to sync yet syncs for a marker as soon as that is written.
func TestAMarkerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := weak(t)
		p.SetRole(roleFor(p, self, 4, []int32{1}, []int32{1}))
		marker := beginMarker(p)
		synctest.Wait()
		if marker.pending() || marker.Err != nil || p.log.Ends().Durable != 1 {
			t.Errorf("%+v: %v", p.log.Ends(), marker.Err)
		}
	})
}

// A flush makes what is in the log durable on all replicas in sync, and no other.
func TestAFlushWaitsForAllReplicasInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := weak(t)
		p.SetRole(weakRole(p, 4, 1, 2, 3))
		h2, h3 := subscribed(t, p, 2, 0), subscribed(t, p, 3, 0)
		must(t, begin(t, p, AcksLeader, 2).wait(t))
		done := flush(p, 4)
		begin(t, p, AcksLeader, 1) // comes later, and need not be durable
		synctest.Wait()
		if d := p.log.Ends().Durable; d < 2 || p.SyncTo() != 2 {
			t.Errorf("durable end %d, to be synced up to %d", d, p.SyncTo())
		}
		p.Acknowledged(h2, 3, 2)
		p.Acknowledged(h3, 3, 1)
		if len(done) != 0 {
			t.Error("it waits for one replica only")
		}
		p.Acknowledged(h3, 3, 2)
		if len(done) != 1 || <-done != nil {
			t.Error("it does not end, or fails")
		}
		if again := flush(p, 4); len(again) != 0 {
			t.Error("the record after it is durable already")
		}
	})
}

// A flush fails with the leadership, and where no append would be accepted.
func TestAFlushFailsLikeAnAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := weak(t)
		if err := <-flush(p, p.LeaderEpoch()); !errors.Is(err, ErrNotLeader) {
			t.Error(err)
		}
		p.SetRole(weakRole(p, 4, 1, 2))
		must(t, begin(t, p, AcksLeader, 2).wait(t))
		done := flush(p, 4)
		p.release()
		if err := <-done; !errors.Is(err, ErrNotLeader) {
			t.Error(err)
		}
		done = flush(p, 4)
		p.SetRole(roleFor(p, 2, 5, pair, pair))
		if err := <-done; !errors.Is(err, ErrNotLeader) {
			t.Error(err)
		}
	})
}

// A flush counts in the epoch that the caller knows, in no earlier and no later one: what a later
// leader makes durable may lack records (D2).
func TestAFlushFailsInAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := weak(t)
		p.SetRole(weakRole(p, 6, 1))
		must(t, begin(t, p, AcksLeader, 1).wait(t))
		for epoch, want := range map[int32]error{5: ErrFencedEpoch, 6: nil, 7: ErrUnknownEpoch} {
			if err := <-flush(p, epoch); !errors.Is(err, want) {
				t.Errorf("epoch %d: %v", epoch, err)
			}
		}
		p.SetRole(weakRole(p, 6, 1, 2))
		h := subscribed(t, p, 2, 0)
		begin(t, p, AcksLeader, 1)
		synctest.Wait()
		done := flush(p, 6)
		p.SetRole(weakRole(p, 7, 1))
		p.Acknowledged(h, 2, 2)
		synctest.Wait()
		if err := <-done; err == nil {
			t.Error("the leader of the next epoch has ended it")
		}
	})
}
