package coordinator

import (
	"container/heap"
	"time"
)

// timers are a shard's timers. A timer that is extended, as every heartbeat does, keeps its
// position in the queue and moves when that is reached: a heartbeat costs two map lookups and no
// heap operation.
//
// All times are stored less delayed, so extending all timers is one addition.
type timers struct {
	byKey   map[TimerKey]*timer
	queue   timerQueue
	delayed time.Duration
}

type timer struct {
	key   TimerKey
	at    time.Time // when it fires
	due   time.Time // its position in the queue, never after at
	index int
}

func newTimers() *timers { return &timers{byKey: map[TimerKey]*timer{}} }

// set sets or cancels a timer.
func (t *timers) set(s Timer) {
	old := t.byKey[s.Key]
	at := s.At.Add(-t.delayed)
	switch {
	case s.At.IsZero() && old == nil:
	case s.At.IsZero():
		delete(t.byKey, s.Key)
		heap.Remove(&t.queue, old.index)
	case old == nil:
		n := &timer{key: s.Key, at: at, due: at}
		t.byKey[s.Key] = n
		heap.Push(&t.queue, n)
	default:
		old.at = at
		if at.Before(old.due) {
			old.due = at
			heap.Fix(&t.queue, old.index)
		}
	}
}

// next removes and returns a due timer.
func (t *timers) next(now time.Time) (TimerKey, bool) {
	now = now.Add(-t.delayed)
	for len(t.queue) > 0 && !t.queue[0].due.After(now) {
		first := t.queue[0]
		if first.at.After(now) { // was extended
			first.due = first.at
			heap.Fix(&t.queue, 0)
			continue
		}
		heap.Pop(&t.queue)
		delete(t.byKey, first.key)
		return first.key, true
	}
	return TimerKey{}, false
}

// delay extends all timers.
func (t *timers) delay(by time.Duration) { t.delayed += by }

// inherit sets timers to the times that timers with the same keys have in old, plus by.
func (t *timers) inherit(old *timers, by time.Duration) {
	for key, one := range old.byKey {
		if t.byKey[key] != nil {
			t.set(Timer{Key: key, At: one.at.Add(old.delayed + by)})
		}
	}
}

// wake returns when to check the timers next; ok is false if there are none.
func (t *timers) wake() (at time.Time, ok bool) {
	if len(t.queue) == 0 {
		return time.Time{}, false
	}
	return t.queue[0].due.Add(t.delayed), true
}

// timerQueue implements container/heap, ordered by due.
type timerQueue []*timer

func (q timerQueue) Len() int           { return len(q) }
func (q timerQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *timerQueue) Push(x any) {
	t := x.(*timer)
	t.index = len(*q)
	*q = append(*q, t)
}

// Pop implements heap.Interface.
func (q *timerQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
