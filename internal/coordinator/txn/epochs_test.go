package txn

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// record returns the record of the state of "x".
func (d *desk) record() coordinator.Record {
	return coordinator.Record{Key: encodeKey("x"), Value: d.state().encode(true)}
}

// atLastEpoch returns a desk whose producer 100 is in the given state with the largest epoch.
func atLastEpoch(t *testing.T, state State, version int16) *desk {
	t.Helper()
	d := newDesk(t)
	d.bring(Empty, version)
	d.shard.ids["x"].epoch = maxEpoch
	d.log = append(d.log, d.record())
	if state == Ongoing {
		d.add(version, a(0))
	}
	return d
}

// The producer gets a new id with the end of its transaction, and repeats that request until then
// and afterwards.
func TestEndOfTheLastEpoch(t *testing.T) {
	for _, commit := range []bool{true, false} {
		d := atLastEpoch(t, Ongoing, 2)
		if got := d.end(2, 100, maxEpoch, commit); got != (Identity{nil, 101, 0}) {
			t.Fatalf("%+v", got)
		}
		if v := d.state(); v.pid != 100 || v.epoch != maxEpoch+1 || v.next != 101 || v.previous != none {
			t.Errorf("%+v", v)
		}
		if got := d.end(2, 100, maxEpoch, commit).Err; got != kerr.ConcurrentTransactions {
			t.Error(got)
		}
		if m := d.sent[0].(WriteMarker); m.ProducerID != 100 || m.Epoch != maxEpoch+1 {
			t.Errorf("%+v", m)
		}
		// The next transaction, while the markers are on the way.
		if got := ask[Added](d, d.addOf(2, a(1))).Err; got != kerr.ConcurrentTransactions {
			t.Error(got)
		}
		if got := d.init(101, 0).Err; got != kerr.ConcurrentTransactions {
			t.Error(got)
		}
		d.answer(nil)
		if v := d.state(); v.pid != 101 || v.epoch != 0 || v.next != none || v.previous != 100 {
			t.Errorf("%+v", v)
		}
		for range 2 { // the second time with what a load knows
			if got := d.end(2, 100, maxEpoch, commit); got != (Identity{nil, 101, 0}) {
				t.Errorf("%+v", got)
			}
			if got := d.end(2, 100, maxEpoch, !commit).Err; got != kerr.InvalidTxnState {
				t.Error(got)
			}
			if got := d.init(100, maxEpoch); got != (Identity{nil, 101, 0}) {
				t.Errorf("%+v", got)
			}
			d.reload()
		}
		// The next transaction shows that the answer has arrived. What comes now is late.
		d.add(2, a(1))
		for range 2 {
			if got := d.end(2, 100, maxEpoch, commit).Err; got != kerr.InvalidProducerIDMapping {
				t.Error(got)
			}
			if got := d.init(100, maxEpoch).Err; got != kerr.ProducerFenced {
				t.Error(got)
			}
			if v := d.state(); v.state != Ongoing || v.previous != none {
				t.Errorf("%+v", v)
			}
			d.reload()
		}
	}
}

// A fence in the last epoch: the epoch after it is in markers only.
func TestFenceOfTheLastEpoch(t *testing.T) {
	for _, claims := range []bool{true, false} {
		d := atLastEpoch(t, Ongoing, 2)
		pid, epoch := int64(none), int16(none)
		if claims {
			pid, epoch = 100, maxEpoch
		}
		if got := d.init(pid, epoch).Err; got != kerr.ConcurrentTransactions {
			t.Error(got)
		}
		if m := d.sent[0].(WriteMarker); m.Epoch != maxEpoch+1 {
			t.Errorf("%+v", m)
		}
		d.answer(nil)
		if v := d.state(); v.pid != 100 || v.epoch != maxEpoch+1 {
			t.Errorf("%+v", v)
		}
		if got := ask[Added](d, Add{ID: "x", ProducerID: 100, Epoch: maxEpoch, Version: 2}).Err; got != kerr.ProducerFenced {
			t.Error(got)
		}
		if got := d.init(pid, epoch); got != (Identity{nil, 101, 0}) {
			t.Errorf("%+v", got)
		}
		// Only the producer that had the last epoch may ask for the new id again.
		want := Identity{kerr.ProducerFenced, none, none}
		if claims {
			want = Identity{nil, 101, 0}
		}
		if got := d.init(100, maxEpoch); got != want {
			t.Errorf("claims %t: %+v", claims, got)
		}
	}
}

// A timeout in the last epoch: the producer that aborts afterwards gets a new id, never the epoch
// that is in markers only.
func TestTimeoutInTheLastEpoch(t *testing.T) {
	d := atLastEpoch(t, Ongoing, 2)
	d.advance(time.Minute)
	if got := d.end(2, 100, maxEpoch, true).Err; got != kerr.InvalidTxnState {
		t.Error(got)
	}
	d.answer(nil)
	for range 2 { // the second time with what a load knows
		for range 2 {
			if got := d.end(2, 100, maxEpoch, false); got != (Identity{nil, 101, 0}) {
				t.Fatalf("%+v", got)
			}
		}
		d.reload()
	}
	d.add(2, a(0))
}

// A producer that was replaced in its last epoch must not become its successor.
func TestZombieOfTheLastEpoch(t *testing.T) {
	d := atLastEpoch(t, Empty, 2)
	if got := d.init(none, none); got != (Identity{nil, 101, 0}) { // another instance
		t.Fatalf("%+v", got)
	}
	if got := d.init(100, maxEpoch); got.Err != kerr.ProducerFenced {
		t.Errorf("%+v", got)
	}
	d.add(1, a(0))
	d.end(1, 101, 0, true)
	d.answer(nil)
	if got := d.end(2, 100, maxEpoch, true); got.Err == nil {
		t.Errorf("%+v: the zombie learns of a commit that is not its own", got)
	}
}

// InitProducerID counts up to the last epoch, and continues with a new id.
func TestInitInTheLastEpochs(t *testing.T) {
	d := newDesk(t)
	d.bring(Empty, 2)
	d.shard.ids["x"].epoch = maxEpoch - 1
	d.log = append(d.log, d.record())
	for _, want := range []Identity{{nil, 100, maxEpoch}, {nil, 101, 0}, {nil, 101, 1}} {
		if got := d.init(none, none); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// With version 1, epochs only move by fences.
func TestVersionOneKeepsItsEpoch(t *testing.T) {
	d := atLastEpoch(t, Ongoing, 1)
	if got := d.end(1, 100, maxEpoch, true); got != (Identity{nil, 100, maxEpoch}) {
		t.Errorf("%+v", got)
	}
	d.answer(nil)
	d.add(1, a(0))
}
