package journal

import (
	"testing"
	"testing/synctest"
)

// heldOwner is an Owner whose Durable returns when the test allows it.
type heldOwner struct {
	*recorder
	hold chan struct{}
}

func (o heldOwner) Durable(e *Entry, err error) {
	<-o.hold
	o.recorder.Durable(e, err)
}

// Rotate returns after every owner was notified, however many groups the notifier is behind: a
// checkpoint of the returned position releases the earlier files.
func TestRotateWaitsUntilEveryOwnerIsNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), nil)
		s, o := newStream(1), heldOwner{newRecorder(), make(chan struct{})}
		for i := range int64(3) {
			ok(t, j.Submit(nil, entry(s, i, 100, eager, o)))
			synctest.Wait() // a group of its own, durable and not reported
		}
		rotated := make(chan Position, 1)
		go func() {
			at, err := j.Rotate()
			if err != nil {
				t.Error(err)
			}
			rotated <- at
		}()
		for n := range 3 {
			synctest.Wait()
			if len(rotated) > 0 {
				t.Fatalf("Rotate returned when %d of 3 owners were notified", n)
			}
			o.hold <- struct{}{}
		}
		at := <-rotated
		if o.count() != 3 || j.Notified() != 3 || at.LSN != 4 {
			t.Errorf("%d reported, notified %d, the file begins at %d", o.count(), j.Notified(), at.LSN)
		}
		ok(t, j.Close())
	})
}
