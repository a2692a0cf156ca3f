package shareleader

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

var unfinished = []window.State{window.Available, window.Acquired, window.Delayed, window.Archiving}

// operated is the result of an operator's request; "waits": there is none yet.
type operated struct {
	window.Operated
	result
}

func (r *operated) String() string {
	if s := r.result.String(); s != "ok" {
		return s
	}
	return fmt.Sprintf("%d changed, %d available, %d finished, %d below, %d beyond", r.Changed, r.Available, r.Finished, r.Below, r.Beyond)
}

func (w *world) operate(by window.AckType, first, last int64) *operated {
	r := &operated{}
	b := w.leader()
	b.Partition(w.key, b.view, w.settings).Operate(by, first, last, func(o window.Operated, code *kerr.Error) {
		r.Operated = o
		r.set(code)
	})
	return r
}

// inspectRecords shows what an operator sees.
func (w *world) inspectRecords(from, most int64, states ...window.State) (text string) {
	if states == nil {
		states = unfinished
	}
	b := w.leader()
	b.Partition(w.key, b.view, w.settings).InspectRecords(from, most, states, func(s Seen, code *kerr.Error) {
		if code != nil {
			text = code.Message
			return
		}
		text = fmt.Sprintf("[%d,%d,%d)", s.Start, s.End, s.Limit)
		for _, r := range s.Runs {
			text += fmt.Sprintf(" %d-%d:%s:%d", r.First, r.Last, r.State, r.Count)
			if r.Left > 0 {
				text += fmt.Sprintf(":%s%v", r.Member, r.Left)
			}
		}
		if s.Next >= 0 {
			text += fmt.Sprintf(" next %d", s.Next)
		}
	})
	synctest.Wait()
	return text
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v\nwant %v", what, got, want)
	}
}

// TestOperator releases and rejects records that members hold, and that none holds.
func TestOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.put(5, false)
		w.put(3, false)
		a := w.join(w.leader(), "a")
		a.fetch(5)
		time.Sleep(10 * time.Second)
		expect(t, "in flight", w.inspectRecords(0, 100), "[0,5,8) 0-4:acquired:1:a20s 5-7:available:0")
		expect(t, "page", w.inspectRecords(1, 3), "[0,5,8) 1-3:acquired:1:a20s next 4")
		expect(t, "next page", w.inspectRecords(4, 2), "[0,5,8) 4-4:acquired:1:a20s 5-5:available:0 next 6")
		expect(t, "a state", w.inspectRecords(0, 100, window.Available), "[0,5,8) 5-7:available:0")
		expect(t, "beyond the end", w.inspectRecords(math.MaxInt64, 100), "[0,5,8)")

		released := w.operate(window.Release, 1, 2)
		rejected := w.operate(window.Reject, 2, 3)
		synctest.Wait()
		expect(t, "release", released, "2 changed, 0 available, 0 finished, 0 below, 0 beyond")
		expect(t, "reject", rejected, "2 changed, 0 available, 0 finished, 0 below, 0 beyond")
		b := w.join(w.leader(), "b")
		expect(t, "released", show(b.fetch(1)), "1-1:2")
		late := a.ack(3, 3, window.Accept)
		kept := a.ack(0, 0, window.Accept)
		synctest.Wait()
		expect(t, "an acknowledgement of what was rejected", late, "INVALID_RECORD_STATE")
		expect(t, "one of what was not", kept, "ok")

		huge := w.operate(window.Release, 0, math.MaxInt64)
		synctest.Wait()
		expect(t, "a huge range", huge, fmt.Sprintf("2 changed, 0 available, 2 finished, 1 below, %d beyond", math.MaxInt64-5))
		expect(t, "at last", w.inspectRecords(0, 100), "[1,5,8) 1-1:available:2 4-4:available:1 5-7:available:0")
		time.Sleep(time.Minute)
		again := w.operate(window.Release, 1, 1)
		synctest.Wait()
		expect(t, "a release of what no member holds", again, "0 changed, 1 available, 0 finished, 0 below, 0 beyond")
	})
}

// TestOperatorLoads: a share partition that no member uses is loaded, and one without a state is an
// error.
func TestOperatorLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.close()
		w.put(3, false)
		a := w.join(w.leader(), "a")
		a.fetch(3)
		w.elect(1, false, 0)
		rejected := w.operate(window.Reject, 0, 1)
		synctest.Wait()
		// The new leader knows of no acquisition that was not finished, so it has no window yet.
		expect(t, "reject", rejected, "0 changed, 0 available, 0 finished, 0 below, 2 beyond")
		w.key.Group = "unknown"
		expect(t, "a group without a state", w.inspectRecords(0, 10), "UNKNOWN_TOPIC_OR_PARTITION")
		synctest.Wait()
		none := w.operate(window.Reject, 0, 1)
		synctest.Wait()
		expect(t, "a reject without a state", none, "UNKNOWN_TOPIC_OR_PARTITION")
	})
}

// TestOperatorWaits: a result is reported when it is stored, and if that is not known, so.
func TestOperatorWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.close()
		w.put(4, false)
		a := w.join(w.leader(), "a")
		a.fetch(4)
		var held []func()
		w.desk.Deliver(func(k sharetest.Kind, do, _, _ func()) {
			if k == sharetest.Write {
				held = append(held, do)
				return
			}
			do()
		})
		first := w.operate(window.Reject, 0, 0)
		synctest.Wait()
		second := w.operate(window.Reject, 0, 1)
		synctest.Wait()
		expect(t, "a reject that is not stored", first, "waits")
		expect(t, "its repetition", second, "waits")
		w.desk.Deliver(nil)
		w.elect(1, false, 0)
		w.notify(w.brokers[0])
		time.Sleep(10 * time.Second)
		expect(t, "a reject of a former leader", first, "REQUEST_TIMED_OUT")
		expect(t, "another one", second, "REQUEST_TIMED_OUT")
		b := w.join(w.leader(), "b")
		got := show(b.fetch(10))
		if got != "0-3:1" && got != "1-3:1" && got != "2-3:2" && got != "0-3:2" && got != "2-3:1" {
			t.Errorf("the next leader delivers %s", got)
		}
	})
}

// TestOperatorsWaitForALoad: a few wait for a load that takes long, and none for longer than its
// sender. Those that have no answer then are not carried out.
func TestOperatorsWaitForALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.close()
		w.put(4, false)
		a := w.join(w.leader(), "a")
		a.fetch(4)
		synctest.Wait()
		var held []func()
		w.desk.Deliver(func(k sharetest.Kind, do, _, lose func()) {
			if k == sharetest.Open {
				held = append(held, lose)
				return
			}
			do()
		})
		w.elect(1, false, 0)
		var first []*operated
		for range mostWaiting {
			first = append(first, w.operate(window.Reject, 0, 3))
		}
		tooMany := w.operate(window.Reject, 0, 0)
		synctest.Wait()
		expect(t, "one too many", tooMany, "COORDINATOR_LOAD_IN_PROGRESS")
		time.Sleep(operatorTime)
		late := w.operate(window.Reject, 0, 0)
		synctest.Wait()
		for _, r := range first {
			expect(t, "one that has waited", r, "COORDINATOR_LOAD_IN_PROGRESS")
		}
		w.desk.Deliver(nil)
		for _, lose := range held {
			lose()
		}
		time.Sleep(operatorTime / 2)
		synctest.Wait()
		expect(t, "a later one", late, "0 changed, 0 available, 0 finished, 0 below, 1 beyond")
	})
}

// TestOperatorRejectsToDeadLetters: what an operator rejects is copied as what a member rejects.
func TestOperatorRejectsToDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		w := newWorld(t, 1, d.with)
		defer w.close()
		w.settings.Letters.Topic = "dlq"
		w.put(3, false)
		w.put(1, false)
		a := w.join(w.leader(), "a")
		a.fetch(3)
		a.ack(1, 1, window.Release)
		synctest.Wait()
		rejected := w.operate(window.Reject, 0, 3)
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, "reject", rejected, "3 changed, 0 available, 0 finished, 0 below, 1 beyond")
		expect(t, "copies", fmt.Sprint(d.copies), "map[0:1 1:1 2:1]")
		expect(t, "at last", w.inspectRecords(0, 10), "[3,3,4) 3-3:available:0")
	})
}
