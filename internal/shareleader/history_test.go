package shareleader

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// in runs a history in a bubble of its own, and returns what was wrong.
func in(t *testing.T, brokers int, broken Broken, history func(w *world) string, change ...func(*Options)) (bad string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, brokers, append(change, func(o *Options) { o.Broken = broken })...)
		defer w.close()
		bad = history(w)
	})
	return bad
}

// check fails unless a history ends well.
func check(t *testing.T, brokers int, history func(w *world) string, change ...func(*Options)) {
	t.Helper()
	if bad := in(t, brokers, Broken{}, history, change...); bad != "" {
		t.Error(bad)
	}
}

// differ returns how results differ from what is wanted: pairs of both.
func differ(pairs ...any) string {
	var bad []string
	for i := 0; i < len(pairs); i += 2 {
		if got, want := fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1]); got != want {
			bad = append(bad, fmt.Sprintf("%d: %q, want %q", i/2, got, want))
		}
	}
	return strings.Join(bad, "; ")
}

// hold makes the coordinator answer nothing of a kind before release is called.
func (w *world) hold(kind sharetest.Kind) (release func()) {
	var held []func()
	holding := true
	w.desk.Deliver(func(k sharetest.Kind, do, _, _ func()) {
		if k == kind && holding {
			held = append(held, do)
			return
		}
		do()
	})
	return func() {
		holding = false
		for _, do := range held {
			do()
		}
	}
}

func history19(w *world) string {
	w.put(2, false)
	a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
	got := a.fetch(10)
	client := Client{Connection: a.conn}
	// The member's request with the epoch 1 releases. Then it acquires the record again.
	s, code := w.leader().Session("g", "a", 1, client)
	if code != nil {
		return code.Message
	}
	a.s = s
	released := a.ack(0, 1, window.Release)
	synctest.Wait()
	if _, code = w.leader().Session("g", "a", 2, client); code != nil {
		return code.Message
	}
	again := a.fetch(10)
	// A late copy of that request has no effect.
	_, late := w.leader().Session("g", "a", 1, client)
	if late == nil {
		a.ack(0, 1, window.Release)
		synctest.Wait()
	}
	return differ(show(got), "0-1:1", released, "ok", show(again), "0-1:2", show(b.fetch(10)), "")
}

func TestHistory19ALateCopyOfARequestHasNoEffect(t *testing.T) { check(t, 1, history19) }

func history20(w *world) string {
	w.put(2, false)
	old := w.join(w.leader(), "a")
	b := w.join(w.leader(), "b")
	former := old.conn
	// The client connects again.
	now := w.join(w.leader(), "a")
	got := now.fetch(10)
	s, code := w.leader().Session("g", "a", 1, Client{Connection: former})
	if code == nil {
		old.s = s
		old.ack(0, 1, window.Release)
		synctest.Wait()
	}
	return differ(show(got), "0-1:1", show(b.fetch(10)), "")
}

func TestHistory20ARequestOfAFormerConnectionHasNoEffect(t *testing.T) { check(t, 1, history20) }

func TestHistory23TheLockOfAnAcceptedRecordDoesNotEnd(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(1, false)
		a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
		got := a.fetch(10)
		release := w.hold(sharetest.Write)
		accepted := a.ack(0, 0, window.Accept)
		time.Sleep(29 * time.Second)
		before := accepted.String()
		time.Sleep(20 * time.Second) // the lock's deadline has passed, and the request has an answer
		other := b.fetch(10)
		release()
		synctest.Wait()
		again := a.ack(0, 0, window.Accept)
		synctest.Wait()
		return differ(show(got), "0-0:1", before, "waits", accepted, kerr.CoordinatorNotAvailable.Message, show(other), "", again, "ok")
	})
}

func TestHistory24NoDeliveryAboveTheLimit(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(c *consumer)
	}{
		{"release", func(c *consumer) { c.ack(0, 0, window.Release) }},
		{"lock", func(*consumer) { time.Sleep(31 * time.Second) }},
		{"session", func(c *consumer) { c.s.End() }},
		{"release and session", func(c *consumer) { c.ack(0, 0, window.Release); c.s.End() }},
		{"lock and connection", func(c *consumer) { time.Sleep(30 * time.Second); c.end() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, 1, func(w *world) string {
				w.settings.Deliveries = 2
				w.put(1, false)
				deliveries := ""
				for range 4 {
					a := w.join(w.leader(), "a")
					deliveries += show(a.fetch(10)) + " "
					c.end(a)
					synctest.Wait()
				}
				return differ(deliveries, "0-0:1 0-0:2   ")
			})
		})
	}
}

func TestHistory25RetentionPassesRecordsThatAreHeld(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(4, false)
		w.put(4, false)
		a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
		got := a.fetch(10)
		w.trim(6)
		accepted := a.ack(0, 7, window.Accept)
		synctest.Wait()
		w.put(1, false)
		return differ(show(got), "0-3:1 4-7:1", accepted, "ok", show(b.fetch(10)), "8-8:1")
	})
}

func TestHistory28CountsAfterALeaderChange(t *testing.T) {
	for _, stored := range []bool{true, false} {
		check(t, 2, func(w *world) string {
			w.put(1, false)
			a := w.join(w.leader(), "a")
			got := a.fetch(10)
			if !stored {
				w.desk.Deliver(func(_ sharetest.Kind, do, _, lose func()) { lose() })
			}
			released := a.ack(0, 0, window.Release)
			time.Sleep(time.Second)
			w.elect(1, false, 0)
			w.notify(w.brokers[0])
			time.Sleep(2 * writeTime) // the former leader gives up
			w.desk.Deliver(nil)
			synctest.Wait()
			answer, count := "ok", "0-0:2"
			if !stored {
				answer, count = kerr.NotLeaderForPartition.Message, "0-0:1"
			}
			return differ(show(got), "0-0:1", released, answer, show(w.join(w.leader(), "a").fetch(10)), count)
		})
	}
}

func TestHistory29ARequestIsAppliedAsAWhole(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(4, false)
		a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
		got := a.fetch(2) // the batch as a whole
		r := &result{}
		a.ack(3, 3, window.Release)
		synctest.Wait()
		other := b.fetch(10)
		a.partition().Acknowledge(a.s, []window.Ack{{First: 0, Last: 0, Types: []window.AckType{window.Accept}},
			{First: 3, Last: 3, Types: []window.AckType{window.Accept}}}, false, r.set)
		return differ(show(got), "0-3:1", show(other), "3-3:2", r, kerr.InvalidRecordState.Message, a.ack(0, 2, window.Accept), "ok")
	})
}

func history30(w *world) string {
	w.put(1, false)
	w.put(1, false)
	a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
	a.fetch(1)
	stored := 0
	w.desk.Deliver(func(_ sharetest.Kind, _, again, lose func()) { // it is stored, and the answer is lost
		again()
		stored++
		time.AfterFunc(5*time.Second, lose)
	})
	accepted := a.ack(0, 0, window.Accept)
	time.Sleep(6 * time.Second)
	blocked := show(b.fetch(10)) // no one acquires while a write has no answer for long
	time.Sleep(54 * time.Second)
	w.desk.Deliver(nil)
	time.Sleep(6 * time.Second)
	again := a.ack(0, 0, window.Accept)
	synctest.Wait()
	return differ(blocked, "", accepted, kerr.CoordinatorNotAvailable.Message, stored > 5, true, show(b.fetch(10)), "1-1:1",
		again, "ok", w.desk.Summary(w.key).Start, 1)
}

func TestHistory30TheCoordinatorIsAwayForAMinute(t *testing.T) { check(t, 1, history30) }

func TestHistory31RecordsAreAcquiredOnce(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(1, false)
		a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
		p := a.partition()
		synctest.Wait()
		first, second := &fetch{c: a, most: 10, cut: 4}, &fetch{c: b, most: 10, cut: 4}
		first.queued, second.queued = p.Join(first), p.Join(second)
		_, ok, _ := first.queued.Turn(10)
		second.Try() // the other one reads at this moment
		during := show(second.taken)
		first.queued.End()
		synctest.Wait()
		first.Try()
		synctest.Wait()
		first.stop()
		second.stop()
		return differ(ok, true, during, "", len(first.taken)+len(second.taken), 1)
	})
}

func TestHistory32ManyAcknowledgementsAreTwoWrites(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Locks = 2000
		w.put(1000, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(1000)
		release := w.hold(sharetest.Write)
		var all []*result
		for i := range int64(1000) {
			all = append(all, a.ack(i, i, window.Accept))
		}
		before := w.desk.Calls(sharetest.Write)
		release()
		synctest.Wait()
		bad := 0
		for _, r := range all {
			if r.String() != "ok" {
				bad++
			}
		}
		return differ(show(got), "0-999:1", before, 0, bad, 0, w.desk.Calls(sharetest.Write), 2)
	})
}

func history33(w *world) string {
	var mu sync.Mutex
	var got [20]int
	var members []*consumer
	var wait func(i int)
	for i := range got {
		members = append(members, w.join(w.leader(), fmt.Sprint("m", i)))
	}
	wait = func(i int) {
		members[i].begin(1, func(list []taken) {
			mu.Lock()
			got[i]++
			mu.Unlock()
			members[i].ack(list[0].First, list[0].Last, window.Accept)
			w.work.Go(func() { wait(i) })
		})
	}
	for i := range members {
		wait(i)
		synctest.Wait()
	}
	for range 3 * len(got) {
		w.put(1, false)
		time.Sleep(time.Second)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, n := range got {
		if n != 3 {
			return fmt.Sprintf("member %d has got %d of %v", i, n, got)
		}
	}
	return ""
}

func TestHistory33EachWaitingMemberHasItsTurn(t *testing.T) { check(t, 1, history33) }

// smallMemory leaves a share partition about 128 KiB.
func smallMemory(o *Options) { o.Memory = coordinator.NewMemoryBudget(128 << 10) }

func history34(w *world) string {
	w.settings.Locks = 10_000
	w.put(5000, false)
	w.put(5000, false)
	a := w.join(w.leader(), "a")
	m := w.leader().opt.Memory
	got := a.fetch(5000)
	used, n := m.Used(), int64(0)
	for _, t := range got {
		n = max(n, t.Last+1)
	}
	full := a.fetch(1)
	m.Count(m.Size()) // of others
	var results []*result
	for i := int64(0); i < n; i += 2 {
		results = append(results, a.ack(i, i, window.Release))
	}
	synctest.Wait()
	bad := 0
	for _, r := range results {
		if r.String() != "ok" {
			bad++
		}
	}
	full = append(full, a.fetch(1)...)
	rest := a.ack(1, 1, window.Accept)
	for i := int64(3); i < n; i += 2 {
		a.ack(i, i, window.Release)
	}
	synctest.Wait()
	m.Count(-m.Size())
	time.Sleep(time.Second)
	return differ(n > 3000, true, used <= m.Size(), true, bad, 0, show(full), "", rest, "ok",
		strings.HasPrefix(show(a.fetch(5000)), "0-0:2 2-"), true, m.Used() <= m.Size(), true)
}

func TestHistory34AcknowledgementsAreNotRefusedForMemory(t *testing.T) {
	check(t, 1, history34, smallMemory)
}

func history35(w *world) string {
	w.put(1, false)
	a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
	got := a.fetch(1)
	a.end()
	synctest.Wait()
	return differ(show(got), "0-0:1", show(b.fetch(1)), "0-0:2")
}

func TestHistory35TheEndOfAConnectionReleases(t *testing.T) { check(t, 1, history35) }

func history36(w *world) string {
	w.put(1, false)
	old := w.join(w.leader(), "a")
	b := w.join(w.leader(), "b")
	now := w.join(w.leader(), "a")
	got := now.fetch(1)
	old.end()
	synctest.Wait()
	return differ(show(got), "0-0:1", show(b.fetch(1)), "", now.ack(0, 0, window.Accept), "ok")
}

func TestHistory36ALateEndOfAConnectionLeavesTheNewSession(t *testing.T) { check(t, 1, history36) }

func TestHistory37AClosedSessionReleasesWhateverFails(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(2, false)
		a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
		got := a.fetch(1)
		s, code := w.leader().Session("g", "a", CloseSession, Client{Connection: a.conn})
		if code != nil {
			return code.Message
		}
		failed := a.ack(0, 5, window.Accept)
		s.End()
		synctest.Wait()
		_, after := w.leader().Session("g", "a", 1, Client{Connection: a.conn})
		return differ(show(got), "0-1:1", failed, kerr.InvalidRequest.Message, show(b.fetch(1)), "0-1:2", after.Message,
			kerr.ShareSessionNotFound.Message)
	})
}

func history38(w *world) string {
	w.settings.Lock = time.Hour
	w.put(1, false)
	a := w.join(w.leader(), "a")
	got := a.fetch(1)
	b := w.join(w.leader(), "b")
	c := &consumer{w: w, b: w.leader(), id: "c"}
	refused := c.open()
	time.Sleep(sessionIdle)
	opened := c.open() == nil
	_, other := w.leader().Session("g", "b", 1, Client{Connection: b.conn})
	return differ(show(got), "0-0:1", refused, kerr.ShareSessionLimitReached, opened, true, other, kerr.ShareSessionNotFound,
		a.ack(0, 0, window.Accept), "ok")
}

func twoSessions(o *Options) { o.Sessions = 2 }

func TestHistory38IdleSessionsEndForOthers(t *testing.T) { check(t, 1, history38, twoSessions) }

func TestHistory40ABatchThatIsWiderThanTheWindow(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Locks = 200
		w.put(500, false)
		w.put(1, false)
		a := w.join(w.leader(), "a")
		deliveries := ""
		for range 12 {
			f := &fetch{c: a, most: 50, cut: 4, strict: true}
			f.queued = a.partition().Join(f)
			f.Try()
			synctest.Wait()
			f.stop()
			deliveries += show(f.taken) + " "
			for _, x := range f.taken {
				a.ack(x.First, x.Last, window.Accept)
			}
			synctest.Wait()
		}
		return differ(deliveries, "0-49:1 50-99:1 100-149:1 150-199:1 200-249:1 250-299:1 300-349:1 350-399:1 400-449:1 450-499:1 500-500:1  ")
	})
}

func TestHistory41AnAbortedTransactionFillsTheWindow(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Locks = 100
		for range 300 {
			w.put(1, true)
		}
		a := w.join(w.leader(), "a")
		none := show(a.fetch(10))
		time.Sleep(time.Second)
		stored := w.desk.Summary(w.key).Start
		w.put(1, false)
		return differ(none, "", stored, 300, show(a.fetch(10)), "300-300:1")
	})
}

func TestHistory42AReleasedBatchIsCompactedAway(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(2, false)
		w.put(2, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(2)
		a.ack(0, 1, window.Release)
		synctest.Wait()
		v := w.leader().view
		v.log.batches = v.log.batches[1:]
		return differ(show(got), "0-1:1", show(a.fetch(10)), "2-3:1", a.ack(2, 3, window.Accept), "ok", w.desk.Summary(w.key).Start, 4)
	})
}

func TestHistory43AnOpenTransaction(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Committed = true
		w.leader().view.stable = 0
		w.put(1, false)
		a := w.join(w.leader(), "a")
		f := a.begin(1, nil)
		time.Sleep(time.Minute)
		before := show(f.taken)
		v := w.leader().view
		v.mu.Lock()
		v.stable = 1
		v.mu.Unlock()
		w.leader().ring(w)
		synctest.Wait()
		f.stop()
		return differ(before, "", show(f.taken), "0-0:1")
	})
}

func TestHistory44TheLimitOfDeliveriesIsLowered(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(1, false)
		a := w.join(w.leader(), "a")
		for range 3 {
			a.fetch(1)
			a.ack(0, 0, window.Release)
			synctest.Wait()
		}
		w.settings.Deliveries = 2
		w.put(1, false)
		none := show(a.fetch(1))
		time.Sleep(time.Second)
		return differ(none, "1-1:1", w.desk.Summary(w.key).Start, 1)
	})
}

func TestHistory45AnAlteredPositionCountsAtOnce(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(1, false)
		w.put(1, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(1)
		w.desk.Initialize(w.key, 2, 0)
		s := w.desk.Summary(w.key)
		w.leader().Changed(w.key, struct {
			StateEpoch int32
			Created    int64
		}{s.StateEpoch, 0}, -1)
		synctest.Wait()
		return differ(show(got), "0-0:1", show(w.join(w.leader(), "b").fetch(1)), "0-0:1",
			a.ack(0, 0, window.Accept), kerr.InvalidRecordState.Message)
	})
}

// A process that stood still has not read the requests that came meanwhile.
func history54(w *world) string {
	w.put(1, false)
	a, b := w.join(w.leader(), "a"), w.join(w.leader(), "b")
	got := a.fetch(1)
	w.stood.Store(int64(40 * time.Second)) // the alarm comes as late
	time.Sleep(31 * time.Second)
	other := show(b.fetch(1))
	return differ(show(got), "0-0:1", other, "", a.ack(0, 0, window.Accept), "ok")
}

func TestHistory54AStandstillEndsNoLocks(t *testing.T) { check(t, 1, history54) }

func history01(w *world) string {
	w.put(1, false)
	a := w.join(w.leader(), "a")
	a.fetch(1)
	release := w.hold(sharetest.Write)
	accepted := a.ack(0, 0, window.Accept)
	repeated := a.ack(0, 0, window.Accept)
	synctest.Wait()
	before := fmt.Sprint(accepted, repeated)
	release()
	synctest.Wait()
	return differ(before, "waits waits", accepted, "ok", repeated, "ok")
}

func TestHistory01AnAnswerWaitsUntilItIsStored(t *testing.T) { check(t, 1, history01) }

func history13(w *world) string {
	w.put(2, false)
	w.put(2, false)
	a := w.join(w.leader(), "a")
	got := a.fetch(2)
	next := a.fetch(2)
	accepted := a.ack(0, 3, window.Accept)
	synctest.Wait()
	w.elect(1, false, 2)
	w.put(2, false) // other records at the same offsets
	return differ(show(got), "0-1:1", show(next), "2-3:1", accepted, "ok", show(w.join(w.leader(), "a").fetch(2)), "2-3:1")
}

// The log of the next leader has none of the recorded epoch, and ends with records that the leader
// of that epoch had discarded.
func anEarlierLog(w *world) string {
	w.put(2, false)
	w.elect(1, false, 0)
	w.put(2, false)
	w.elect(0, true, 0)
	w.put(2, false)
	a := w.join(w.leader(), "a")
	got := a.fetch(2)
	next := a.fetch(2)
	accepted := a.ack(0, 3, window.Accept)
	synctest.Wait()
	w.elect(1, true, 0)
	return differ(show(got), "0-1:1", show(next), "2-3:1", accepted, "ok", show(w.join(w.leader(), "a").fetch(2)), "2-3:1")
}

func TestHistory13RecordsAtTheOffsetsOfLostOnes(t *testing.T) { check(t, 2, history13) }

func TestHistory13RecordsThatWereDiscardedBefore(t *testing.T) { check(t, 2, anEarlierLog) }

// A broker that leads again has nothing of its former memory.
func ledAgain(w *world) string {
	w.put(1, false)
	first := w.brokers[0]
	a := w.join(first, "a")
	got := a.fetch(1)
	w.elect(1, false, 0) // the first broker is not notified
	b := w.join(w.leader(), "b")
	other := b.fetch(1)
	accepted := b.ack(0, 0, window.Accept)
	synctest.Wait()
	w.elect(0, false, 0)
	a.s.End()
	synctest.Wait()
	return differ(show(got), "0-0:1", show(other), "0-0:1", accepted, "ok", show(w.join(first, "c").fetch(1)), "")
}

func TestABrokerThatLeadsAgainLoads(t *testing.T) { check(t, 2, ledAgain) }

func TestAWriteThatIsRefusedIsFollowedByALoad(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(1, false)
		w.put(1, false)
		a := w.join(w.leader(), "a")
		a.fetch(1)
		w.desk.Initialize(w.key, 2, 1) // an administrator moves the group, and the leader is not notified
		accepted := a.ack(0, 0, window.Accept)
		synctest.Wait()
		return differ(accepted, kerr.NotLeaderForPartition.Message, show(a.fetch(1)), "1-1:1", w.desk.Calls(sharetest.Open), 2)
	})
}

func TestAGroupStartsWhereItsSettingsSay(t *testing.T) {
	for _, c := range []struct {
		change func(*Settings)
		want   string
	}{
		{func(s *Settings) { s.Reset = replica.Earliest }, "0-0:1"},
		{func(s *Settings) { s.Reset = replica.Latest }, "3-3:1"},
		{func(s *Settings) { s.Since = 90 * time.Minute }, "2-2:1"},
		{func(s *Settings) { s.Since = time.Second }, "3-3:1"},
	} {
		check(t, 1, func(w *world) string {
			c.change(&w.settings)
			for range 3 {
				w.put(1, false)
				time.Sleep(time.Hour)
			}
			a := w.join(w.leader(), "a")
			w.desk.Deliver(func(_ sharetest.Kind, do, _, _ func()) { do() })
			a.partition()
			synctest.Wait()
			w.put(1, false)
			return differ(show(a.fetch(1)), c.want)
		})
	}
}

func TestAStateThatDoesNotExist(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.desk.Delete(w.key)
		a := w.join(w.leader(), "a")
		f := a.begin(1, nil)
		synctest.Wait()
		return differ(f.err, kerr.UnknownTopicOrPartition, a.ack(0, 0, window.Accept).String() != "ok", true)
	})
}

func TestIdleSharePartitionsLeaveTheMemory(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.put(1, false)
		a := w.join(w.leader(), "a")
		a.fetch(1)
		a.s.End()
		time.Sleep(time.Minute)
		l := w.leader()
		parts := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.parts)
		}
		before, used := parts(), l.opt.Memory.Used() > 0
		time.Sleep(idleTime)
		return differ(before, 1, used, true, parts(), 0, l.opt.Memory.Used(), 0, w.desk.Summary(w.key).Start, 0)
	})
}

// The work of a fetch and of an acknowledgement does not depend on the width of the window. Package
// window counts the nodes that it visits; here the calls and the memory count.
func TestTheCostOfAWideWindow(t *testing.T) {
	check(t, 1, func(w *world) string {
		w.settings.Locks = 10_000
		a := w.join(w.leader(), "a")
		for range 10_000 {
			w.put(1, false)
		}
		for range 10_000 / 4 {
			a.fetch(4)
		}
		p := a.partition()
		s, _ := p.Stats()
		for i := int64(1); i < 10_000; i += 2 { // each second one, so that the rest are runs of their own
			a.ack(i, i, window.Accept)
		}
		synctest.Wait()
		wide, _ := p.Stats()
		cost := testing.AllocsPerRun(100, func() {
			a.ack(5000, 5000, window.Renew)
			a.fetch(1)
		})
		return differ(s.Offsets[window.Acquired], 10_000, wide.Runs > 9000, true, wide.Bytes < 2<<20, true, cost < 40, true)
	})
}

func TestWaitsEndWithTheLeadership(t *testing.T) {
	check(t, 2, func(w *world) string {
		first := w.brokers[0]
		a := w.join(first, "a")
		f := a.begin(1, nil)
		synctest.Wait()
		before := f.err
		w.elect(1, false, 0)
		w.notify(first)
		synctest.Wait()
		w.put(1, false)
		return differ(before == nil, true, f.err, kerr.NotLeaderForPartition, len(first.parts), 0,
			show(w.join(w.leader(), "a").fetch(1)), "0-0:1")
	})
}

// The walks have found that such a fetch tried for ever.
func TestAFetchEndsWithItsSession(t *testing.T) {
	check(t, 1, func(w *world) string {
		a := w.join(w.leader(), "a")
		f := a.begin(1, nil)
		synctest.Wait()
		a.s.End()
		w.put(1, false)
		synctest.Wait()
		return differ(f.done, true, show(f.taken), "", show(w.join(w.leader(), "b").fetch(1)), "0-0:1")
	})
}
