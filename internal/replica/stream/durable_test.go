package stream

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// weakTrio is three for a topic that acknowledges written records. Its logs sync on their own 5 s
// after a record.
func weakTrio(t testing.TB) (w *world, leader *node) {
	w = newWorld(t, 1)
	w.profile, w.keeps = "os", crashfs.DropUnsynced
	w.assign(1, 1, 1, 2, 3)
	leader = w.start(1)
	w.start(2)
	w.start(3)
	return w, leader
}

// losePower stops all brokers at once, and returns the log end of each.
func (w *world) losePower() map[int32]int64 {
	for id := range int32(4) {
		if w.nodes[id] != nil {
			w.stop(id, true)
		}
	}
	w.assign(1, 2, 1, 2, 3) // the test reads the logs before the followers can copy the leader's
	w.isolate(true)
	ends := map[int32]int64{}
	for id := int32(1); id <= 3; id++ {
		ends[id] = w.start(id).partition(0).Log().Ends().LogEnd
	}
	w.isolate(false)
	return ends
}

// mark appends a marker that commits the transaction of producer 7, and abort one that aborts it.
func (n *node) mark() *outcome  { return n.endTransaction(record.Commit) }
func (n *node) abort() *outcome { return n.endTransaction(record.Abort) }

func (n *node) endTransaction(kind record.ControlType) *outcome {
	d := &outcome{ended: make(chan struct{})}
	d.LeaderEpoch, d.Acks, d.Kind, d.Durable = -1, replica.AcksAll, storage.Marker, true
	d.Batches = record.Accepted{Bytes: record.EndTxnMarker(7, 1, kind, 0, 1), Batches: 1, Records: 1}
	d.Done = func(*replica.Append) { close(d.ended) }
	n.partition(0).Append(&d.Append, nil)
	return d
}

// A marker that counts is on every replica in sync after all have lost power, although the topic
// acknowledges written records (D3). It waits for no sync that would come anyway.
func TestAMarkerSurvivesThePowerOfAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := weakTrio(t)
		defer w.close()
		must(t, l.produce(0, replica.AcksAll, 1, 10).wait(t))
		begin := time.Now()
		must(t, l.mark().wait(t))
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s", took)
		}
		must(t, l.produce(0, replica.AcksAll, 3, 10).wait(t))
		for id, end := range w.losePower() {
			if end < 2 {
				t.Errorf("the log of broker %d ends at %d", id, end)
			}
		}
	})
}

// After a flush the records before it are on every replica in sync, also on one that subscribed
// again in between, and whatever was lost of the records after it.
func TestAFlushSurvivesThePowerOfAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, l := weakTrio(t)
		defer w.close()
		must(t, l.produce(0, replica.AcksAll, 4, 10).wait(t))
		w.isolate(true)
		done := make(chan error, 1)
		begin := time.Now()
		l.partition(0).Flush(l.partition(0).LeaderEpoch(), 7, 0, func(err error) { done <- err })
		time.Sleep(time.Second)
		if len(done) > 0 {
			t.Error("it does not wait for the followers")
		}
		w.isolate(false)
		must(t, <-done)
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
		must(t, l.produce(0, replica.AcksAll, 3, 10).wait(t))
		for id, end := range w.losePower() {
			if end < 4 {
				t.Errorf("the log of broker %d ends at %d", id, end)
			}
		}
	})
}
