package coordinator

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestResponseWaitsUntilRecordsAreCommitted(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "get").want(t, "has ", nil)
	})
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.held = true })
		a := submit(rt, "a")
		a.want(t, "", nil)
		// A reader sees uncommitted records, so its response must also wait.
		get := submit(rt, "get")
		get.want(t, "", nil)
		log.end(nil)
		a.want(t, "1", nil)
		get.want(t, "has a", nil)
	})
}

func TestEventsDuringAppendsShareABatch(t *testing.T) {
	run(t, Options{MaxInFlight: 1}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.held = true })
		submit(rt, "a").want(t, "", nil)
		b, c, d := submit(rt, "b"), submit(rt, "two c d"), submit(rt, "e")
		d.want(t, "", nil)
		if got := log.sizes(); !slices.Equal(got, []int{1}) {
			t.Fatalf("batches %v", got)
		}
		log.end(nil)
		d.want(t, "", nil)
		if got := log.sizes(); !slices.Equal(got, []int{1, 4}) {
			t.Fatalf("batches %v", got)
		}
		log.end(nil)
		b.want(t, "2", nil)
		c.want(t, "added", nil)
		d.want(t, "5", nil)
	})
}

func TestFullBatchBlocksFurtherRequests(t *testing.T) {
	run(t, Options{MaxInFlight: 1, MaxBatchBytes: 2 * recordOverhead}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.held = true })
		var all []*result
		for i := range 10 {
			all = append(all, submit(rt, fmt.Sprint("w", i)))
		}
		for synctest.Wait(); !all[9].answered(); synctest.Wait() {
			log.set(func(l *fakeLog) {
				if len(l.waiting) != 1 {
					t.Fatalf("%d appends in flight", len(l.waiting))
				}
			})
			log.end(nil)
		}
		for i, r := range all {
			r.want(t, fmt.Sprint(i+1), nil)
		}
		for _, n := range log.sizes() {
			if n > 3 {
				t.Errorf("batches %v", log.sizes())
			}
		}
	})
}

// The log may call back in any order: a response is sent when all earlier batches are committed.
func TestCompletionsOutOfOrder(t *testing.T) {
	run(t, Options{MaxInFlight: 3}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.held = true })
		var all []*result
		for _, w := range []string{"a", "b", "c"} {
			all = append(all, submit(rt, w))
			synctest.Wait()
		}
		log.set(func(l *fakeLog) { slices.Reverse(l.waiting) })
		log.end(nil, nil)
		all[0].want(t, "", nil)
		all[2].want(t, "", nil)
		log.end(nil)
		for i, r := range all {
			r.want(t, fmt.Sprint(i+1), nil)
		}
	})
}

func TestParkedRequestIsAnsweredByALaterEvent(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		wait := submit(rt, "wait")
		wait.want(t, "", nil)
		submit(rt, "a").want(t, "1", nil)
		wait.want(t, "woken", nil)
	})
}

// After a failed append, no response that depends on it reports success, the state is that of the
// log, and the load waits for the appends behind it.
func TestFailedAppendReloadsTheShard(t *testing.T) {
	run(t, Options{MaxInFlight: 2}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "kept").want(t, "1", nil)
		log.set(func(l *fakeLog) { l.held = true })
		wait := submit(rt, "wait")
		synctest.Wait()
		lost := submit(rt, "lost")
		synctest.Wait()
		behind := submit(rt, "behind")
		synctest.Wait()
		open := submit(rt, "open") // in the open batch
		get := submit(rt, "get")
		get.want(t, "", nil)

		log.set(func(l *fakeLog) { l.batches = append(l.batches[:1:1], l.batches[2:]...) })
		log.end(errDisk)
		for _, r := range []*result{lost, behind, open, get, wait} {
			synctest.Wait()
			r.want(t, "", ErrNotCoordinator)
		}
		submit(rt, "get").want(t, "", ErrLoading) // "behind" may still get into the log
		if log.loads != 1 {
			t.Fatalf("%d loads with an append in flight", log.loads)
		}
		log.end(nil)
		synctest.Wait()
		submit(rt, "get").want(t, "has kept behind", nil)
		if s := rt.Stats()[0]; s.Failures != 1 || s.State != "active" || s.Waiting != 0 || s.Loaded != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestEveryAppendFails(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.fail = errDisk })
		for range 3 {
			submit(rt, "a").want(t, "", ErrNotCoordinator)
			submit(rt, "get").want(t, "has ", nil)
			submit(rt, "a").want(t, "", ErrRefused)
			time.Sleep(mostPause)
		}
		log.set(func(l *fakeLog) { l.fail = nil })
		submit(rt, "a").want(t, "1", nil)
	})
}

func TestResignAndLeadAgain(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "a").want(t, "1", nil)
		wait := submit(rt, "wait")
		synctest.Wait()
		rt.Resign(0, 2)
		wait.want(t, "", ErrNotCoordinator)
		submit(rt, "get").want(t, "", ErrNotCoordinator)
		rt.Lead(0, 1, log) // a late call for an older epoch
		submit(rt, "get").want(t, "", ErrNotCoordinator)
		rt.Lead(0, 3, log)
		synctest.Wait()
		submit(rt, "b").want(t, "2", nil)
		log.set(func(l *fakeLog) {
			if !slices.Equal(l.epochs, []int32{1, 3}) {
				t.Errorf("appended in epochs %v", l.epochs)
			}
		})
		rt.Resign(0, 2) // late, too
		submit(rt, "get").want(t, "has a b", nil)
	})
}

func TestPartitionIsRemovedAndCreatedAgain(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		rt.Lead(0, 7, log)
		synctest.Wait()
		log.set(func(l *fakeLog) { l.held = true })
		a := submit(rt, "a")
		a.want(t, "", nil)
		rt.Remove(0)
		a.want(t, "", ErrNotCoordinator)
		submit(rt, "get").want(t, "", ErrNotCoordinator)
		next := &fakeLog{}
		rt.Lead(0, 0, next)
		synctest.Wait()
		submit(rt, "b").want(t, "1", nil)
		log.end(nil)
		submit(rt, "get").want(t, "has b", nil)
		rt.Remove(5)
	})
}

// The epoch of a partition was raised although this broker still leads: records may have been
// truncated.
func TestNewEpochReloads(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.held = true })
		a := submit(rt, "a")
		synctest.Wait()
		log.set(func(l *fakeLog) { l.batches = nil })
		rt.Lead(0, 2, log)
		a.want(t, "", ErrNotCoordinator)
		log.end(errDisk)
		log.set(func(l *fakeLog) { l.held = false })
		synctest.Wait()
		submit(rt, "b").want(t, "1", nil)
		if s := rt.Stats()[0]; s.Failures != 0 || s.Epoch != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestFailedLoadIsRetried(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "a").want(t, "1", nil)
		log.set(func(l *fakeLog) { l.load = errDisk })
		rt.Lead(0, 2, log)
		synctest.Wait()
		for range 3 {
			submit(rt, "get").want(t, "", ErrLoading)
			time.Sleep(time.Second)
		}
		log.set(func(l *fakeLog) { l.load = nil })
		time.Sleep(mostPause)
		submit(rt, "get").want(t, "has a", nil)
	})
}

// A load that another leader or epoch overtakes is no failure that an operator has to know.
func TestOvertakenLoadIsNoFailure(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	run(t, Options{Logger: zap.New(core)}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.load = fmt.Errorf("read: %w", ErrNotCoordinator) })
		rt.Lead(0, 2, log)
		time.Sleep(mostPause)
		if s := rt.Stats()[0]; s.Failures != 0 || s.State != "loading" {
			t.Errorf("%+v", s)
		}
		log.set(func(l *fakeLog) { l.load = nil })
		rt.Lead(0, 3, log)
		synctest.Wait()
		submit(rt, "a").want(t, "1", nil)
	})
	if logged.Len() > 0 {
		t.Errorf("%v", logged.All())
	}
}

// What is unavailable, and why, is said at first and not with each try.
func TestALoadThatFailsIsSaid(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	said := func() (list []string) {
		for _, e := range logged.TakeAll() {
			list = append(list, fmt.Sprint(e.Level, ": ", e.Message, ", ", e.ContextMap()["error"]))
		}
		return list
	}
	run(t, Options{Logger: zap.New(core), Serves: "pigeons"}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		said()
		log.set(func(l *fakeLog) { l.load = errDisk })
		rt.Lead(0, 2, log)
		synctest.Wait()
		want := []string{"error: the log of a coordinator can't be loaded: its pigeons are unavailable until a retry succeeds, disk removed"}
		if got := said(); !slices.Equal(got, want) {
			t.Errorf("logged %q", got)
		}
		time.Sleep(time.Hour)
		if n := len(said()); n > 12 {
			t.Errorf("%d lines in an hour", n)
		}
		rt.Lead(0, 3, log) // leading in another epoch is another series
		synctest.Wait()
		if got := said(); !slices.Equal(got, want) {
			t.Errorf("logged %q", got)
		}
		log.set(func(l *fakeLog) { l.load = nil })
		time.Sleep(mostPause)
		if got := said(); !slices.Equal(got, []string{"info: coordinator loaded, <nil>"}) {
			t.Errorf("logged %q", got)
		}
	})
}

func TestUnknownRecordKeepsTheShardUnavailable(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.batches = [][]Record{{{Key: []byte("bad")}}} })
		rt.Lead(0, 2, log)
		time.Sleep(time.Minute)
		submit(rt, "get").want(t, "", ErrLoading)
		if s := rt.Stats()[0]; s.Failures < 5 || s.State != "loading" {
			t.Errorf("%+v", s)
		}
	})
}

func TestTimersFireInOrderAndOnce(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 5s late").want(t, "set", nil)
		submit(rt, "after 1s early").want(t, "set", nil)
		submit(rt, "after 2s never").want(t, "set", nil)
		time.Sleep(500 * time.Millisecond)
		submit(rt, "after 3s early").want(t, "set", nil) // extended to 3.5 s
		submit(rt, "cancel never").want(t, "canceled", nil)
		time.Sleep(2500 * time.Millisecond)
		submit(rt, "get").want(t, "has ", nil)
		submit(rt, "after 100ms soon").want(t, "set", nil)
		time.Sleep(time.Second)
		submit(rt, "get").want(t, "has soon early", nil)
		time.Sleep(time.Minute)
		submit(rt, "get").want(t, "has soon early late", nil)
	})
}

func TestTimerIsBroughtForward(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 50s other").want(t, "set", nil)
		submit(rt, "after 20s word").want(t, "set", nil)
		submit(rt, "after 1s word").want(t, "set", nil)
		time.Sleep(2 * time.Second)
		submit(rt, "get").want(t, "has word", nil)
	})
}

func TestTimersEndWithTheLeadership(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 5s late").want(t, "set", nil)
		rt.Lead(0, 2, log)
		time.Sleep(time.Minute)
		submit(rt, "a").want(t, "1", nil)
	})
}

func TestTooManyRequests(t *testing.T) {
	run(t, Options{MaxWaiting: 2}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "wait").want(t, "", nil)
		log.set(func(l *fakeLog) { l.held = true })
		a := submit(rt, "a")
		a.want(t, "", nil)
		submit(rt, "b").want(t, "", ErrBusy)
		log.end(nil)
		a.want(t, "1", nil)
		log.set(func(l *fakeLog) { l.held = false })
		submit(rt, "c").want(t, "2", nil)
	})
}

func TestBroadcastAndInitialEvent(t *testing.T) {
	hello := func(int32) any { return "hello" }
	run(t, Options{InitialEvent: hello}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		rt.Broadcast("news")
		submit(rt, "get").want(t, "has hello news", nil)
		r := &result{}
		rt.Submit(7, "get", r.done)
		r.want(t, "", ErrNotCoordinator)
	})
}

// A machine does not get what was announced before its initial event was made.
func TestAnnouncementsDoNotGoBack(t *testing.T) {
	var rt *Runtime
	states := 0
	initial := func(int32) any {
		if states++; rt != nil && states == 2 { // the shard's goroutine handles it after this event
			rt.Announce("hello")
		}
		return "news"
	}
	run(t, Options{InitialEvent: initial}, func(t *testing.T, started *Runtime, log *fakeLog) {
		rt = started
		rt.Lead(0, 2, log)
		synctest.Wait()
		submit(rt, "get").want(t, "has news news", nil) // one of each machine
		rt.Announce("hello")
		submit(rt, "get").want(t, "has news news hello", nil)
	})
}

func TestCloseInEveryPhase(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) { // with waiting requests and appends
		log.set(func(l *fakeLog) { l.held = true })
		wait := submit(rt, "wait")
		synctest.Wait()
		a := submit(rt, "a")
		a.want(t, "", nil)
		rt.Close()
		a.want(t, "", ErrNotCoordinator)
		wait.want(t, "", ErrNotCoordinator)
		submit(rt, "get").want(t, "", ErrNotCoordinator)
		rt.Lead(0, 5, log)
		log.end(nil) // the append ends after all; no client waits for it
	})
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) { // during a load
		log.set(func(l *fakeLog) { l.gate = make(chan struct{}) })
		rt.Lead(0, 2, log)
		submit(rt, "get").want(t, "", ErrLoading)
	})
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) { // between two loads
		log.set(func(l *fakeLog) { l.load = errDisk })
		rt.Lead(0, 2, log)
		time.Sleep(time.Second)
	})
}

func TestResignDuringALoad(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		gate := make(chan struct{})
		log.set(func(l *fakeLog) { l.gate = gate })
		rt.Lead(0, 2, log)
		synctest.Wait()
		rt.Resign(0, 3)
		submit(rt, "get").want(t, "", ErrNotCoordinator)
		log.set(func(l *fakeLog) { l.gate = nil })
		rt.Lead(0, 4, log)
		synctest.Wait()
		submit(rt, "a").want(t, "1", nil)
	})
}

// Many concurrent clients, with changing leadership and failing appends: every request is answered
// exactly once, and every acknowledged word is in the log.
func TestManyConcurrentClients(t *testing.T) {
	rt, log := NewRuntime(Options{New: newTally, MaxBatchBytes: 500}), &fakeLog{}
	rt.Lead(0, 1, log)
	var clients, chaos sync.WaitGroup
	var mu sync.Mutex
	var over atomic.Bool // the chaos has ended
	acked := map[string]bool{}
	for c := range 8 {
		clients.Go(func() {
			for i, after := 0, 0; after < 20; i++ {
				if over.Load() {
					after++
				}
				word, answered := fmt.Sprint(c, "-", i), make(chan error, 1)
				rt.Submit(0, word, func(_ any, err error) { answered <- err })
				if err := <-answered; err == nil {
					mu.Lock()
					acked[word] = true
					mu.Unlock()
				}
			}
		})
	}
	chaos.Go(func() {
		for i := range 40 {
			switch i % 4 {
			case 0:
				log.set(func(l *fakeLog) { l.fail = errDisk })
			case 1:
				log.set(func(l *fakeLog) { l.fail = nil })
			case 2:
				rt.Resign(0, int32(10+2*i))
			case 3:
				rt.Lead(0, int32(10+2*i), log)
			}
			time.Sleep(200 * time.Microsecond)
		}
	})
	chaos.Wait()
	log.set(func(l *fakeLog) { l.fail = nil })
	rt.Lead(0, 1000, log)
	over.Store(true)
	clients.Wait()
	rt.Close()
	stored := map[string]int{}
	for _, b := range log.batches {
		for _, r := range b {
			stored[string(r.Key)]++
		}
	}
	for word := range acked {
		if stored[word] != 1 {
			t.Errorf("%s was acknowledged and is in the log %d times", word, stored[word])
		}
	}
	if len(acked) == 0 {
		t.Error("nothing was acknowledged")
	}
}

func TestPartitionForMatchesKafka(t *testing.T) {
	// abs("…".hashCode()) % 50, as Java computes it.
	for key, want := range map[string]int32{"": 0, "a": 47, "group": 47, "console-consumer-50018": 35, "grüße": 23} {
		if got := PartitionFor(key, 50); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
	// "polygenelubricants".hashCode() is -2^31, which has no absolute value.
	if got := PartitionFor("polygenelubricants", 50); got != 0 {
		t.Error(got)
	}
}
