package coordinator

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

var errFull = errors.New("no space left on the disk")

// A log that refuses costs a request that writes its answer, and other requests nothing: the
// shard and what waits in it stay, readers are answered, and one line is logged.
func TestARefusalAnswersOneRequest(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	run(t, Options{Logger: zap.New(core)}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "a").want(t, "1", nil)
		log.set(func(l *fakeLog) { l.shut, l.fail = errFull, errFull })
		wait := submit(rt, "wait")
		for range 300 {
			w := submit(rt, "b")
			w.want(t, "", ErrRefused)
			if !errors.Is(w.err, errFull) {
				t.Fatalf("%v does not name the cause", w.err)
			}
		}
		wait.want(t, "", nil)
		submit(rt, "get").want(t, "has a", nil)
		wait.want(t, "woken", nil)
		log.set(func(l *fakeLog) { l.shut, l.fail = nil, nil })
		submit(rt, "c").want(t, "2", nil)
		if s := rt.Stats()[0]; log.loads != 1 || s.Refused != 300 || s.Failures != 0 || s.Waiting != 0 {
			t.Errorf("%d loads, %+v", log.loads, s)
		}
		if n := logged.Len(); n != 1 {
			t.Errorf("%d lines: %v", n, logged.All())
		}
	})
}

// Appends that fail although the log was ready cost one load each, so they get rarer;
// who reads meanwhile is answered.
func TestAppendsThatFailGetRarer(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	run(t, Options{Logger: zap.New(core)}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		log.set(func(l *fakeLog) { l.fail = errDisk })
		for range 2000 { // 2 s
			submit(rt, "a")
			synctest.Wait()
			submit(rt, "get").want(t, "has ", nil)
			time.Sleep(time.Millisecond)
		}
		if log.loads < 4 || log.loads > 7 {
			t.Errorf("%d loads in 2 s", log.loads)
		}
		time.Sleep(maxRetry)
		log.set(func(l *fakeLog) { l.fail = nil })
		submit(rt, "a").want(t, "1", nil)
		log.set(func(l *fakeLog) { l.fail = errDisk })
		submit(rt, "b").want(t, "", ErrNotCoordinator)
		time.Sleep(minRetry) // the first failure after a success is the first again
		log.set(func(l *fakeLog) { l.fail = nil })
		submit(rt, "c").want(t, "2", nil)
	})
	if n := logged.Len(); n > 2 { // failures and refusals
		t.Errorf("%d lines: %v", n, logged.All())
	}
}

// No timer fires whose records would be refused, and no session runs meanwhile.
func TestNoTimerFiresWhileTheLogRefuses(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		time.Sleep(4 * time.Second)
		log.set(func(l *fakeLog) { l.shut, l.fail = errFull, errFull })
		submit(rt, "a").want(t, "", ErrRefused)
		time.Sleep(time.Hour + shutLook/2) // it looks every shutLook, and did so just an hour after it was shut
		log.set(func(l *fakeLog) { l.shut, l.fail = nil, nil })
		submit(rt, "get").want(t, "has ", nil)
		time.Sleep(1900 * time.Millisecond) // the timer had two seconds left when the log was shut
		submit(rt, "get").want(t, "has ", nil)
		time.Sleep(100*time.Millisecond + shutLook)
		submit(rt, "get").want(t, "has gone", nil)
		if log.loads != 1 {
			t.Errorf("%d loads", log.loads)
		}
	})
}

// sessions is a machine that gives every member 10 s to be heard of, also after a load:
// "in" is a member, and "out" what is recorded when the time is over.
type sessions struct{ tally }

func (m *sessions) Loaded(now time.Time, out *Effects) {
	if len(m.words) == 1 {
		out.Set(TimerKey{Kind: 1, Owner: "out"}, now.Add(10*time.Second))
	}
}

func newSessions(int32) Machine { return &sessions{tally{after: map[string]string{}}} }

// A reload gives no member a new session: who is dead is out in time, however often
// appends fail.
func TestSessionsGoOnOverReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, log := NewRuntime(Options{New: newSessions}), &fakeLog{}
		defer rt.Close()
		log.batches = [][]Record{{{Key: []byte("in")}}}
		rt.Lead(0, 1, log)
		for range 4 {
			time.Sleep(2 * time.Second)
			log.set(func(l *fakeLog) { l.fail = errDisk })
			submit(rt, "lost").want(t, "", ErrNotCoordinator)
			log.set(func(l *fakeLog) { l.fail = nil })
		}
		submit(rt, "get").want(t, "has in", nil)
		time.Sleep(4 * time.Second) // and what the pauses after the failures took
		submit(rt, "get").want(t, "has in out", nil)
		if log.loads != 5 {
			t.Errorf("%d loads", log.loads)
		}
	})
}

// A load that takes its time does not count, and leaves some to be heard of.
func TestTheTimeOfALoadDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, log := NewRuntime(Options{New: newSessions}), &fakeLog{}
		defer rt.Close()
		log.batches = [][]Record{{{Key: []byte("in")}}}
		rt.Lead(0, 1, log)
		time.Sleep(9 * time.Second)
		gate := make(chan struct{})
		log.set(func(l *fakeLog) { l.gate = gate })
		rt.Lead(0, 2, log)
		time.Sleep(time.Minute)
		close(gate)
		synctest.Wait()
		time.Sleep(thaw)
		submit(rt, "get").want(t, "has in", nil)
		time.Sleep(2 * time.Second)
		submit(rt, "get").want(t, "has in out", nil)
		rt.Resign(0, 3) // another broker's word counts from here on
		rt.Lead(0, 4, log)
		synctest.Wait()
		submit(rt, "get").want(t, "has in out", nil)
	})
}

// Every machine is ended, once: loaded or not, with its shard or with the runtime.
func TestEveryMachineIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []*tally
		rt := NewRuntime(Options{New: func(p int32) Machine {
			m := newTally(p).(*tally)
			made = append(made, m)
			return m
		}})
		log := &fakeLog{}
		rt.Lead(0, 1, log)
		synctest.Wait()
		log.set(func(l *fakeLog) { l.load = errDisk })
		rt.Lead(0, 2, log)
		synctest.Wait()
		gate := make(chan struct{})
		log.set(func(l *fakeLog) { l.load, l.gate = nil, gate })
		rt.Lead(0, 3, log)
		synctest.Wait()
		rt.Remove(0) // in a load
		other := &fakeLog{}
		rt.Lead(1, 1, other)
		synctest.Wait()
		rt.Close()
		for i, m := range made {
			if m.ended != 1 {
				t.Errorf("machine %d of %d was ended %d times", i, len(made), m.ended)
			}
		}
	})
}
