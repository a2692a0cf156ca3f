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

// A log that refuses costs each writing request its response, and nothing else: the shard and its
// waiting requests stay, readers are answered, and one line is logged.
func TestRefusalAnswersOneRequest(t *testing.T) {
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

// Each append that fails although the log was ready costs one load, so the pauses grow. Readers are
// answered meanwhile.
func TestPausesGrowWhileAppendsFail(t *testing.T) {
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
		time.Sleep(mostPause)
		log.set(func(l *fakeLog) { l.fail = nil })
		submit(rt, "a").want(t, "1", nil)
		log.set(func(l *fakeLog) { l.fail = errDisk })
		submit(rt, "b").want(t, "", ErrNotCoordinator)
		time.Sleep(firstPause) // the first failure after a success counts as the first again
		log.set(func(l *fakeLog) { l.fail = nil })
		submit(rt, "c").want(t, "2", nil)
	})
	if n := logged.Len(); n > 2 { // failures and refusals
		t.Errorf("%d lines: %v", n, logged.All())
	}
}

// Every message of the limited log has its first line at once, and one in each interval, for all
// partitions together.
func TestTheFirstLineIsAlwaysLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.InfoLevel)
		a := limited(zap.New(core))
		b := a.With(zap.Int32("partition", 1))
		say := func() {
			for range 1000 {
				a.Warn("coordinator log accepts no records, refusing requests that write")
				b.Warn("coordinator log accepts no records, refusing requests that write")
				a.Warn("append to coordinator log failed, reloading the shard")
				b.Info("coordinator log accepts records again")
			}
		}
		say()
		if n := logged.Len(); n != 3 {
			t.Errorf("%d lines of three messages", n)
		}
		time.Sleep(limitedInterval)
		say()
		if n := logged.Len(); n != 6 {
			t.Errorf("%d lines in two intervals", n)
		}
	})
}

// No timer fires if its records would be refused, and no session expires meanwhile.
func TestNoTimerFiresWhileTheLogRefuses(t *testing.T) {
	run(t, Options{}, func(t *testing.T, rt *Runtime, log *fakeLog) {
		submit(rt, "after 6s gone").want(t, "set", nil)
		time.Sleep(4 * time.Second)
		log.set(func(l *fakeLog) { l.shut, l.fail = errFull, errFull })
		submit(rt, "a").want(t, "", ErrRefused)
		time.Sleep(time.Hour + haltCheckInterval/2) // the shard checks every haltCheckInterval, last an hour after the gate closed
		log.set(func(l *fakeLog) { l.shut, l.fail = nil, nil })
		submit(rt, "get").want(t, "has ", nil)
		time.Sleep(1900 * time.Millisecond) // the timer had two seconds left when the halt began
		submit(rt, "get").want(t, "has ", nil)
		time.Sleep(100*time.Millisecond + haltCheckInterval)
		submit(rt, "get").want(t, "has gone", nil)
		if log.loads != 1 {
			t.Errorf("%d loads", log.loads)
		}
	})
}

// sessions is a machine that gives every member 10 s to be heard from, also after a load: "in" is a
// member, "out" is recorded when its time is over.
type sessions struct{ tally }

func (m *sessions) Loaded(now time.Time, _ int32, out *Effects) {
	if len(m.words) == 1 {
		out.Set(TimerKey{Kind: 1, Owner: "out"}, now.Add(10*time.Second))
	}
}

func newSessions(int32) Machine { return &sessions{tally{after: map[string]string{}}} }

// A reload gives no member a new session: a dead member expires in time, however often appends
// fail.
func TestSessionsContinueAcrossReloads(t *testing.T) {
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
		time.Sleep(4 * time.Second) // plus the pauses after the failures
		submit(rt, "get").want(t, "has in out", nil)
		if log.loads != 5 {
			t.Errorf("%d loads", log.loads)
		}
	})
}

// The time of a slow load does not count, and members get some time afterwards.
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
		time.Sleep(stallGrace)
		submit(rt, "get").want(t, "has in", nil)
		time.Sleep(2 * time.Second)
		submit(rt, "get").want(t, "has in out", nil)
		rt.Resign(0, 3) // a newer epoch of another broker
		rt.Lead(0, 4, log)
		synctest.Wait()
		submit(rt, "get").want(t, "has in out", nil)
	})
}

// Every machine is ended exactly once: loaded or not, with its shard or with the runtime.
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
		rt.Remove(0) // during a load
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
