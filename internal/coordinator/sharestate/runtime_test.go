package sharestate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// slowLog is a log whose appends end when the test decides. What has not ended is lost with the
// power.
type slowLog struct {
	records []coordinator.Record
	waiting []func(error)
}

func (l *slowLog) Append(_ int32, records []coordinator.Record, _ time.Time, _ *groupcommit.Batch, done func(error)) {
	l.waiting = append(l.waiting, func(err error) {
		if err == nil {
			l.records = append(l.records, records...)
		}
		done(err)
	})
}

func (l *slowLog) Ready(int32, bool) error { return nil }

func (l *slowLog) Load(_ context.Context, _ int32, apply func(coordinator.Record) error) error {
	for _, r := range l.records {
		if err := apply(r); err != nil {
			return err
		}
	}
	return nil
}

// end ends all appends, in their order.
func (l *slowLog) end(err error) {
	for synctest.Wait(); len(l.waiting) > 0; synctest.Wait() {
		done := l.waiting[0]
		l.waiting = l.waiting[1:]
		done(err)
	}
}

// History 1: a write is answered when its record is committed, and not if the power fails before.
func TestHistory01AnswersWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, exists := &slowLog{}, topics{keyOf(0).Topic: 0}
		rt := coordinator.NewRuntime(coordinator.Options{New: func(int32) coordinator.Machine { return New(config()) },
			InitialEvent: func(int32) any { return TopicsChanged{Topics: exists} },
			Send:         func(_, _ int32, _ any, _ *groupcommit.Batch, done func(any)) { done(Notified{}) }})
		defer rt.Close()
		rt.Lead(0, 1, log)
		synctest.Wait()
		var response any
		var failure error
		submit := func(event any) {
			response, failure = nil, nil
			rt.Submit(0, event, func(r any, err error) { response, failure = r, err })
			if synctest.Wait(); response != nil {
				t.Errorf("%T is answered before its records are committed", event)
			}
		}
		submit(Initialize{{keyOf(0), 1, 0, 0}})
		log.end(nil)
		rt.Submit(0, Peek{keyOf(0)}, func(r any, err error) { response, failure = r, err })
		synctest.Wait()
		o := Opening{Key: keyOf(0), ID: response.([]Peeked)[0].ID, Recorded: -1, Leader: 0, Cut: -1, Epochs: beginning(0)}
		submit(Open{o})
		log.end(nil)
		accept := Write{of(o, 0, mark(0, 9, window.Acknowledged, 1))}
		submit(accept)
		log.end(errors.New("the power fails"))
		if response != nil || !errors.Is(failure, coordinator.ErrNotCoordinator) {
			t.Errorf("a write that is lost: %v, %v", response, failure)
		}
		time.Sleep(time.Minute) // the shard loads again
		submit(accept)          // it is repeated
		log.end(nil)
		if r := response.([]*kerr.Error); r[0] != nil || failure != nil {
			t.Errorf("its repetition: %v, %v", r[0], failure)
		}
		if got := len(log.records); got != 3 {
			t.Errorf("%d records", got)
		}
	})
}
