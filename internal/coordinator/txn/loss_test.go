package txn

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// lose drops the log's last records and loads the rest.
func (d *desk) lose(records int) {
	d.t.Helper()
	d.log = d.log[:len(d.log)-records]
	d.lost = len(d.log)
	d.reload()
}

// A log that may have lost the later records of an id gives its epochs to no one: the producer may
// have had them, and partitions would take new records for old ones. The id gets another producer
// id, also if the coordinator is loaded again before.
func TestNoEpochIsGivenOutTwiceAfterALoss(t *testing.T) {
	for _, state := range []State{Empty, CompleteCommit, CompleteAbort} {
		for version := int16(1); version <= 2; version++ {
			for _, loads := range []int{0, 2} {
				d := newDesk(t)
				d.bring(state, version)
				pid, epoch := d.state().identity()
				d.init(none, none) // lost
				d.init(none, none)
				d.lose(2)
				for range loads {
					d.reload()
				}
				for _, e := range []int16{epoch, epoch + 1} {
					p := []AddedPartition{{Partition: a(0)}}
					err := ask[Added](d, Add{ID: "x", ProducerID: pid, Epoch: e, Version: version, Partitions: p}).Err
					if err != kerr.ProducerFenced {
						t.Errorf("%v, version %d: an add of epoch %d: %v", state, version, e, err)
					}
				}
				got := d.init(none, none)
				if got.Err != nil || got.ProducerID == pid || got.Epoch != 0 {
					t.Fatalf("%v, version %d: the next producer is %+v after pid %d epoch %d", state, version, got, pid, epoch)
				}
				d.reload() // the record of the new id is from after the loss
				d.add(version, a(0))
				if again := d.init(got.ProducerID, got.Epoch); again.Err != kerr.ConcurrentTransactions {
					t.Errorf("%v, version %d: %+v", state, version, again)
				}
			}
		}
	}
}

// A transaction that is open according to a log that may have lost its end is aborted, in all
// partitions that are known, and in any epoch.
func TestAnOpenTransactionIsAbortedAfterALoss(t *testing.T) {
	for version := int16(1); version <= 2; version++ {
		reasons := []Reason{}
		d := newDesk(t, func(c *Config) {
			c.Decided = func(_ bool, r Reason, _ time.Duration) { reasons = append(reasons, r) }
		})
		d.bring(Ongoing, version)
		pid, epoch := d.state().identity()
		d.add(version, a(2)) // lost
		d.lose(1)
		want := []string{}
		for i := range 2 {
			want = append(want, fmt.Sprintf("a-%d pid %d epoch %d commit false v%d ce %d", i, pid, math.MaxInt16, version, d.epoch))
		}
		if got := sentMarkers(d); !slices.Equal(got, want) || !slices.Equal(reasons, []Reason{ByLoss}) {
			t.Fatalf("version %d: markers %q for the reasons %v, want %q", version, got, reasons, want)
		}
		if got := d.end(version, pid, epoch, true).Err; got != kerr.ProducerFenced {
			t.Errorf("version %d: a commit: %v", version, got)
		}
		d.answer(nil)
		if got := d.init(none, none); d.state().state != Empty || got.ProducerID == pid || got.Epoch != 0 {
			t.Errorf("version %d: the next producer is %+v", version, got)
		}
	}
}

// A decided transaction keeps its outcome, and its producer id is not used again.
func TestADecidedTransactionStaysSoAfterALoss(t *testing.T) {
	for _, state := range []State{PrepareCommit, PrepareAbort} {
		for version := int16(1); version <= 2; version++ {
			d := newDesk(t)
			d.bring(state, version)
			pid, epoch := d.state().pid, d.state().epoch
			d.answer(nil) // lost
			d.lose(1)
			for _, m := range d.sent {
				if m := m.(WriteMarker); m.Commit != state.commits() || m.Epoch != epoch {
					t.Errorf("%v, version %d: %+v", state, version, m)
				}
			}
			d.answer(nil)
			if got := d.state().state; got != state+2 {
				t.Errorf("%v, version %d: it is %v", state, version, got)
			}
			if got := d.init(none, none); got.ProducerID == pid || got.Epoch != 0 {
				t.Errorf("%v, version %d: the next producer is %+v", state, version, got)
			}
		}
	}
}

// A partition knows a later epoch of the producer: records of __transaction_state were lost. The
// coordinator aborts what is open there, and gives the id another producer id.
func TestAPartitionThatKnowsALaterEpoch(t *testing.T) {
	for _, state := range []State{PrepareCommit, PrepareAbort} {
		for version := int16(1); version <= 2; version++ {
			var seen []string
			d := newDesk(t, func(c *Config) {
				c.Overtaken = func(id string, p Partition) { seen = append(seen, fmt.Sprint(id, " ", p)) }
			})
			d.bring(state, version)
			pid, epoch := d.state().pid, d.state().epoch
			d.handle(0, Marked{d.sent[0].(WriteMarker), kerr.InvalidProducerEpoch}, false)
			d.handle(0, Marked{d.sent[1].(WriteMarker), nil}, false)
			d.sent = nil
			d.advance(firstPause)
			want := []string{fmt.Sprintf("a-0 pid %d epoch %d commit false v%d ce %d", pid, math.MaxInt16, version, d.epoch)}
			if got := sentMarkers(d); !slices.Equal(got, want) || len(seen) != 1 || seen[0] != "x {a 0}" {
				t.Fatalf("%v, version %d: markers %q, want %q; observed %q", state, version, got, want, seen)
			}
			d.reload() // the next coordinator does not know it yet
			again := fmt.Sprintf("a-0 pid %d epoch %d commit %t v%d ce %d", pid, epoch, state.commits(), version, d.epoch)
			if got := sentMarkers(d); !slices.Contains(got, again) {
				t.Fatalf("%v, version %d: markers after a load are %q", state, version, got)
			}
			d.answer(kerr.InvalidProducerEpoch)
			d.advance(firstPause)
			d.answer(nil)
			if got := d.state(); got.state != state+2 || got.pid != pid {
				t.Fatalf("%v, version %d: %+v", state, version, got)
			}
			for _, e := range []int16{epoch, epoch + 1} {
				p := []AddedPartition{{Partition: a(0)}}
				err := ask[Added](d, Add{ID: "x", ProducerID: pid, Epoch: e, Version: version, Partitions: p}).Err
				if err != kerr.ProducerFenced {
					t.Errorf("%v, version %d: an add of epoch %d: %v", state, version, e, err)
				}
			}
			if got := d.init(none, none); got.Err != nil || got.ProducerID == pid || got.Epoch != 0 {
				t.Errorf("%v, version %d: the next producer is %+v", state, version, got)
			}
		}
	}
}

// What a partition may have lost since it was added is not committed, whatever the profile, the
// protocol, and when the coordinator was loaded: a later question does not count as the add. A loss
// from before the add and one of a topic of the same name mean nothing.
func TestI12ACommitNeedsAllRecordsSinceTheAdd(t *testing.T) {
	type step func(d *desk)
	again := func(version int16) step { // the next record of the producer
		return func(d *desk) {
			for _, p := range d.state().partitions {
				e := d.addOf(version, p)
				if version == 1 {
					ask[Verified](d, Verify{e.ID, e.ProducerID, e.Epoch, e.Partitions})
				} else {
					ask[Added](d, e)
				}
			}
		}
	}
	elect := func(loses bool) step {
		return func(d *desk) {
			for _, topic := range []string{"a", "weak"} {
				d.topics.elect(topic, loses)
			}
			d.change("a", "weak")
		}
	}
	load := func(d *desk) { d.reload() }
	for version := int16(1); version <= 2; version++ {
		more := again(version)
		for name, c := range map[string]struct {
			before step
			steps  []step
			lost   bool
		}{
			"nothing":                   {},
			"a clean election":          {steps: []step{elect(false), more}},
			"a loss":                    {steps: []step{elect(true)}, lost: true},
			"a loss, and a record":      {steps: []step{elect(true), more}, lost: true},
			"a loss, a load, a record":  {steps: []step{elect(true), load, more}, lost: true},
			"a load, a loss, a record":  {steps: []step{load, elect(true), more}, lost: true},
			"a load, a record, a loss":  {steps: []step{load, more, elect(true)}, lost: true},
			"a loss, a clean election":  {steps: []step{elect(true), elect(false), more}, lost: true},
			"a loss before":             {before: elect(true), steps: []step{more}},
			"a loss before, and a load": {before: elect(true), steps: []step{load}, lost: true}, // when it was is not known
		} {
			for _, p := range []Partition{a(0), {"weak", 0}} {
				d := newDesk(t)
				d.topics["leader of a"], d.topics["leader of weak"] = 4, 6
				d.change()
				if c.before != nil {
					c.before(d)
				}
				d.bring(Empty, version)
				d.add(version, p)
				for _, f := range c.steps {
					f(d)
				}
				pid, epoch := d.state().identity()
				to := d.send(End{ID: "x", ProducerID: pid, Epoch: epoch, Commit: true, Version: version})
				for d.got[to] == nil {
					d.answer(nil)
				}
				want, state := (*kerr.Error)(nil), PrepareCommit
				if c.lost {
					want, state = kerr.TransactionAbortable, PrepareAbort
				}
				if got := d.got[to].(Identity).Err; got != want || d.state().state != state {
					t.Errorf("version %d, %s, %s: %v in %v", version, p.Topic, name, got, d.state().state)
				}
			}
		}
	}
	d := newDesk(t)
	d.bring(Ongoing, 2)
	d.topics["a"] += 100
	d.topics.elect("a", true)
	d.change("a")
	if got := d.end(2, 100, 3, true).Err; got != nil {
		t.Errorf("after the topic was created again: %v", got)
	}
}
