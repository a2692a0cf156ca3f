package shareleader

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// surveyed has what is surveyed of the only share partition.
func (w *world) surveyed() string {
	s := w.leader().Survey()
	text := fmt.Sprintf("%d of g, %d partitions", s.Sessions["g"], len(s.Partitions))
	for _, p := range s.Partitions {
		text += fmt.Sprintf("; failed %t, loaded %t, loading %v, full %v, writing %v", p.Failed != nil, p.Loaded, p.Loading, p.Full,
			p.Writing)
		if p.Unloaded != "" {
			text += ": " + p.Unloaded
		}
	}
	return text
}

// A window that does not move is full for as long as that; an acknowledgement ends it.
func TestASurveyShowsWhatTakesLong(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Locks = 4
		w.put(4, false)
		w.put(4, false)
		a := w.join(w.leader(), "a")
		release := w.hold(sharetest.Open)
		loads := a.begin(10, func([]taken) {})
		synctest.Wait()
		time.Sleep(3 * time.Second)
		loading := w.surveyed()
		release()
		synctest.Wait()
		loads.stop()
		a.fetch(10)
		time.Sleep(7 * time.Second)
		full := w.surveyed()
		finish := w.hold(sharetest.Write)
		a.ack(0, 1, window.Accept)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		writing := w.surveyed()
		finish()
		synctest.Wait()
		return differ(loading, "1 of g, 1 partitions; failed false, loaded false, loading 3s, full 0s, writing 0s",
			full, "1 of g, 1 partitions; failed false, loaded true, loading 0s, full 7s, writing 0s",
			writing, "1 of g, 1 partitions; failed false, loaded true, loading 0s, full 0s, writing 2s")
	})
}

// What has happened to records is not forgotten when the memory is dropped.
func TestCountsOutliveALoad(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(6, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(10)
		a.ack(0, 1, window.Accept)
		a.ack(2, 2, window.Reject)
		synctest.Wait()
		before := w.leader().Inspect(w.key, w.leader().view)
		w.desk.Initialize(w.key, 2, 3) // an administrator alters the offsets
		w.leader().Changed(w.key, sharestate.Identity{StateEpoch: 2}, -1)
		synctest.Wait()
		again := a.fetch(10)
		after := w.leader().Inspect(w.key, w.leader().view)
		s := w.leader().Survey()
		want := window.Counts{Delivered: 9, Acknowledged: [5]int64{0, 2, 0, 1, 0}}
		return differ(show(got), "0-5:1", before.Acquired, 3, before.Counts.Archived(), 1, before.High, 6, show(again), "3-5:1",
			after.Start, 3, after.Counts, want, s.Totals["g"], want, s.Loads, 2)
	})
}

// Lags need the log start: the start offset of a state may be far below it.
func TestALeaderReturnsTheLogStart(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(6, false)
		w.trim(4)
		before := w.leader().Inspect(w.key, w.leader().view)
		w.join(w.leader(), "a").fetch(10)
		after := w.leader().Inspect(w.key, w.leader().view)
		s := w.leader().Survey()
		return differ(before.Loaded, false, before.LogStart, 4, after.Loaded, true, after.LogStart, 4, len(s.Partitions), 1,
			s.Partitions[0].LogStart, 4, s.Partitions[0].High, 6)
	})
}

// A state that cannot be used is remembered for as long as members ask for it.
func TestASurveyShowsAStateThatCannotBeUsed(t *testing.T) {
	check(t, 1, func(w *world) string {
		a := w.join(w.leader(), "a")
		p := a.partition()
		p.lock()
		p.fail(kerr.KafkaStorageError, refusal(kerr.KafkaStorageError))
		p.unlock()
		failed := w.surveyed()
		time.Sleep(failedTime + time.Second)
		return differ(failed, "1 of g, 1 partitions; failed true, loaded false, loading 1ns, full 0s, writing 0s: "+
			"records of its stored state are missing or invalid (KAFKA_STORAGE_ERROR)", w.surveyed(), "1 of g, 0 partitions")
	})
}

// Another broker does not answer for a partition that it does not lead.
func TestOnlyTheLeaderIsInspected(t *testing.T) {
	check(t, 2, func(w *world) string {
		other := w.brokers[1].Inspect(w.key, w.brokers[1].view)
		here := w.leader().Inspect(w.key, w.leader().view)
		return differ(other.Err, kerr.NotLeaderForPartition, here.Err, error(nil), here.Loaded, false)
	})
}
