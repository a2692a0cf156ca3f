package coordinator

import (
	"testing"
	"testing/synctest"
	"time"
)

// While an append takes its time no answer goes out, so nobody who waits for one
// can be heard of: for them that time has not passed.
func TestNoTimeRunsOutWhileNobodyCanBeAnswered(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		log.set(func(l *fakeLog) { l.held = true })
		time.Sleep(2 * time.Second)
		a := submit(rt, "a")
		time.Sleep(20 * time.Second) // the disk
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

// Of appends that overlap, each second counts once.
func TestTimeThatStoodStillIsCountedOnce(t *testing.T) {
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

// An append that takes no longer than they do puts nothing off.
func TestShortAppendsPutNothingOff(t *testing.T) {
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
		log.end(nil) // what the timer wrote
		submit(rt, "get").want(t, "has a a a gone", nil)
	})
}

// A shard that was not running for a while, as on a machine that was frozen, first
// hears what was said meanwhile.
func TestALateAlarmRunsOutForNobody(t *testing.T) {
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

// Who says nothing after that is gone all the same.
func TestAfterALateAlarmTimersRunOutSoon(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		submit(rt, "freeze 30s").want(t, "", nil)
		time.Sleep(30*time.Second + thaw - time.Millisecond)
		submit(rt, "get").want(t, "has ", nil)
		time.Sleep(time.Millisecond)
		synctest.Wait() // the alarm of this moment has been seen to
		submit(rt, "get").want(t, "has gone", nil)
	})
}
