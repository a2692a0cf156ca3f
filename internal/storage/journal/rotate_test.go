package journal

import (
	"testing"
	"testing/synctest"
)

// heldOwner is an Owner whose Durable returns when the test lets it.
type heldOwner struct {
	*told
	hold chan struct{}
}

func (o heldOwner) Durable(e *Entry, err error) {
	<-o.hold
	o.told.Durable(e, err)
}

// Rotate returns after every owner was told, whatever number of groups the notifier is
// behind: a checkpoint of the position that it returns lets go of what came before.
func TestRotateWaitsUntilEveryOwnerWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, memory(t), nil)
		s, o := newStream(1), heldOwner{newTold(), make(chan struct{})}
		for i := range int64(3) {
			ok(t, j.Submit(nil, entry(s, i, 100, eager, o)))
			synctest.Wait() // a group of its own, durable and not told
		}
		rotated := make(chan Position, 1)
		go func() {
			at, err := j.Rotate()
			if err != nil {
				t.Error(err)
			}
			rotated <- at
		}()
		for told := range 3 {
			synctest.Wait()
			if len(rotated) > 0 {
				t.Fatalf("Rotate returned when %d of 3 owners were told", told)
			}
			o.hold <- struct{}{}
		}
		at := <-rotated
		if o.count() != 3 || j.Notified() != 3 || at.LSN != 4 {
			t.Errorf("%d were told, notified %d, the file begins at %d", o.count(), j.Notified(), at.LSN)
		}
		ok(t, j.Close())
	})
}
