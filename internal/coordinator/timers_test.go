package coordinator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Timers fire in order and on time, whatever is set, canceled and extended in between: compared
// with a list that is searched.
func TestTimersMatchAList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	timers, list, now := newTimers(), map[TimerKey]time.Time{}, time.Unix(1000, 0)
	for range 20_000 {
		key := TimerKey{Owner: fmt.Sprint(rnd.IntN(50))}
		switch rnd.IntN(10) {
		case 0:
			timers.set(Timer{Key: key})
			delete(list, key)
		case 1:
			by := time.Duration(rnd.IntN(1000)) * time.Millisecond
			timers.delay(by)
			for k, at := range list {
				list[k] = at.Add(by)
			}
		case 2:
			next := newTimers()
			next.delay(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			for k := range list {
				next.set(Timer{Key: k, At: now.Add(time.Hour)})
			}
			next.inherit(timers, time.Second)
			for k, at := range list {
				list[k] = at.Add(time.Second)
			}
			timers = next
		case 3, 4:
			now = now.Add(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			for key, ok := timers.next(now); ok; key, ok = timers.next(now) {
				at, set := list[key]
				if !set || at.After(now) {
					t.Fatalf("%v fires at %v, is due at %v", key, now, at)
				}
				delete(list, key)
			}
			for key, at := range list {
				if !at.After(now) {
					t.Fatalf("%v has not fired at %v, is due at %v", key, now, at)
				}
			}
		default:
			at := now.Add(time.Duration(1+rnd.IntN(20_000)) * time.Millisecond)
			timers.set(Timer{Key: key, At: at})
			list[key] = at
		}
		if at, ok := timers.wake(); ok {
			for key, due := range list {
				if due.Before(at) {
					t.Fatalf("%v is due at %v, the alarm is at %v", key, due, at)
				}
			}
		} else if len(list) > 0 {
			t.Fatalf("%d timers and no alarm", len(list))
		}
	}
}

// Timers that are due together, as all are after a load, do not become one append: those that do
// not fit wait for an append to end.
func TestTimersThatAreDueTogetherFitAppends(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		const timers, size = 300, 64 << 10
		pad := strings.Repeat("x", size)
		for i := range timers {
			submit(rt, fmt.Sprint("after 5s ", i, pad)).want(t, "set", nil)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		log.set(func(l *fakeLog) {
			records := 0
			for i, b := range l.batches {
				bytes := 0
				for _, r := range b {
					bytes += r.Size()
					if !r.Begins {
						t.Errorf("a record of append %d does not begin an event", i)
					}
				}
				if records += len(b); bytes > 2*defaultMaxBatchBytes+2*size {
					t.Errorf("append %d has %d KiB", i, bytes>>10)
				}
			}
			if records != timers {
				t.Errorf("%d of %d timers have fired", records, timers)
			}
		})
	})
}

// A timer that sets itself again for the present keeps no request waiting.
func TestATimerThatIsAlwaysDue(t *testing.T) {
	rt := NewRuntime(Options{New: newTally}) // in real time: in virtual time, none would pass
	defer rt.Close()
	rt.Lead(0, 1, &fakeLog{})
	for _, event := range []string{"always", "word", "get", "never"} {
		for {
			answered := make(chan error)
			rt.Submit(0, event, func(_ any, err error) { answered <- err })
			if err := <-answered; err == nil {
				break
			} else if !errors.Is(err, ErrLoading) {
				t.Fatal(event, err)
			}
		}
	}
}

// Requests with more records than a batch and the timers' room hold each fill the shard at once.
// Timers that are due fire nevertheless, also those that were set meanwhile: before the next
// request, when an append has ended.
func TestLargeRequestsDoNotKeepTimersWaiting(t *testing.T) {
	const batch, requests = 1 << 10, 50
	run(t, Options{MaxBatchBytes: batch}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 500ms early").want(t, "set", nil)
		log.set(func(l *fakeLog) { l.held = true })
		for i := range requests {
			if i == 10 {
				submit(rt, "after 500ms late")
			}
			submit(rt, strings.Repeat("x", 3*batch))
		}
		synctest.Wait()
		fired := map[string]int{} // after how many appends
		for ended := 0; len(log.waiting) > 0; ended++ {
			time.Sleep(100 * time.Millisecond)
			log.end(nil)
			synctest.Wait()
			log.set(func(l *fakeLog) {
				for _, r := range slices.Concat(l.batches...) {
					if key := string(r.Key); fired[key] == 0 {
						fired[key] = ended + 1
					}
				}
			})
		}
		if early, late := fired["early"], fired["late"]; early < 5 || early > 8 || late < early+5 || late > early+20 {
			t.Errorf("the timers fired after %d and %d of %d appends", early, late, requests)
		}
	})
}
