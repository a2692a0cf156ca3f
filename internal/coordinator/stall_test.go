package coordinator

import (
	"testing"
	"testing/synctest"
	"time"
)

// While an append is slow no response is sent, so waiting clients can't be heard from: the time
// does not count for them.
func TestSlowAppendExtendsTimers(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		log.set(func(l *fakeLog) { l.held = true })
		time.Sleep(2 * time.Second)
		a := submit(rt, "a")
		time.Sleep(20 * time.Second) // the disk hangs
		b := submit(rt, "get")
		log.set(func(l *fakeLog) { l.held = false })
		log.end(nil)
		a.want(t, "1", nil)
		b.want(t, "has a", nil)
		time.Sleep(3 * time.Second)
		submit(rt, "get").want(t, "has a", nil)
		time.Sleep(2 * time.Second)
		submit(rt, "get").want(t, "has a gone", nil)
	})
}

// Overlapping appends: each second counts once.
func TestOverlappingAppendsCountOnce(t *testing.T) {
	run(t, Options{MaxInFlight: 2}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		log.set(func(l *fakeLog) { l.held = true })
		submit(rt, "a").want(t, "", nil)
		time.Sleep(5 * time.Second)
		submit(rt, "b").want(t, "", nil)
		time.Sleep(5 * time.Second)
		log.set(func(l *fakeLog) { l.held = false })
		log.end(nil, nil)
		synctest.Wait()
		time.Sleep(5 * time.Second)
		submit(rt, "get").want(t, "has a b", nil)
		time.Sleep(2 * time.Second)
		submit(rt, "get").want(t, "has a b gone", nil)
	})
}

// Appends that are not slow extend no timer.
func TestShortAppendsExtendNothing(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 3s gone").want(t, "set", nil)
		log.set(func(l *fakeLog) { l.held = true })
		for range 3 {
			submit(rt, "a")
			time.Sleep(900 * time.Millisecond)
			log.end(nil)
			synctest.Wait()
		}
		time.Sleep(400 * time.Millisecond)
		log.set(func(l *fakeLog) { l.held = false })
		log.end(nil) // the record of the timer
		submit(rt, "get").want(t, "has a a a gone", nil)
	})
}

// A shard that did not run for a while, as on a frozen machine, first handles the requests sent
// meanwhile.
func TestLateAlarmExpiresNobody(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		frozen := submit(rt, "freeze 30s")
		time.Sleep(29 * time.Second)
		renewed := submit(rt, "after 6s gone")
		time.Sleep(time.Second)
		frozen.want(t, "thawed", nil)
		renewed.want(t, "set", nil)
		time.Sleep(5 * time.Second)
		submit(rt, "get").want(t, "has ", nil)
		time.Sleep(2 * time.Second)
		submit(rt, "get").want(t, "has gone", nil)
	})
}

// A client that stays silent afterwards still expires.
func TestTimersExpireSoonAfterALateAlarm(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		submit(rt, "freeze 30s").want(t, "", nil)
		time.Sleep(30*time.Second + stallGrace - time.Millisecond)
		submit(rt, "get").want(t, "has ", nil)
		time.Sleep(time.Millisecond)
		synctest.Wait() // the alarm for this moment has been handled
		submit(rt, "get").want(t, "has gone", nil)
	})
}
