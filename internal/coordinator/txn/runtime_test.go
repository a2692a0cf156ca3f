package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// shakyLog is a log whose appends sometimes fail, sometimes although the records are in the log,
// and that sometimes refuses.
type shakyLog struct {
	mu      sync.Mutex
	records []coordinator.Record
	calm    bool
}

var errShaky = errors.New("the write failed")

func (l *shakyLog) Append(_ int32, records []coordinator.Record, _ time.Time, _ *groupcommit.Batch, done func(error)) {
	l.mu.Lock()
	fails := !l.calm && rand.N(20) == 0
	if !fails || rand.N(2) == 0 {
		l.records = append(l.records, records...)
	}
	l.mu.Unlock()
	time.AfterFunc(rand.N(2*time.Millisecond), func() {
		if fails {
			done(errShaky)
		} else {
			done(nil)
		}
	})
}

func (l *shakyLog) Ready(int32, bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.calm && rand.N(20) == 0 {
		return errShaky
	}
	return nil
}

func (l *shakyLog) Load(_ context.Context, _ int32, apply func(coordinator.Record) error) error {
	l.mu.Lock()
	records := l.records
	l.mu.Unlock()
	for _, r := range records {
		if err := apply(r); err != nil {
			return err
		}
	}
	return nil
}

// shakySender writes markers, late or not at all, and answers.
type shakySender struct {
	mu      sync.Mutex
	calm    bool
	written map[string]bool // "partition pid epoch": commits
	wrong   []string
}

func (s *shakySender) send(_, epoch int32, request any, _ *groupcommit.Batch, done func(any)) {
	time.AfterFunc(rand.N(5*time.Millisecond), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		m := request.(WriteMarker)
		if !s.calm && rand.N(4) == 0 {
			done(Marked{m, kerr.NotLeaderForPartition})
			return
		}
		key := fmt.Sprint(m.Partition, m.ProducerID, m.Epoch)
		if before, again := s.written[key]; again && before != m.Commit || m.CoordinatorEpoch != epoch {
			s.wrong = append(s.wrong, key)
		}
		s.written[key] = m.Commit
		done(Marked{m, nil})
	})
}

// runProducer runs transactions of version 2 and returns the markers that acknowledged commits
// need.
func runProducer(rt *coordinator.Runtime, id string, transactions int) (need []string) {
	ask := func(event any) any {
		c := make(chan any, 1)
		rt.Submit(0, event, func(response any, err error) {
			if err != nil {
				response = err
			}
			c <- response
		})
		r := <-c
		if _, failed := r.(error); failed {
			time.Sleep(10 * time.Millisecond)
		}
		return r
	}
	for range transactions {
		var me Identity
		for {
			var ok bool
			if me, ok = ask(InitProducerID{ID: id, Timeout: 60_000, ProducerID: none, Epoch: none}).(Identity); ok && me.Err == nil {
				break
			}
		}
		for begun := false; !begun; {
			e := Add{ID: id, ProducerID: me.ProducerID, Epoch: me.Epoch, Version: 2, Deadline: time.Now().Add(time.Second)}
			for i := range int32(3) {
				e.Partitions = append(e.Partitions, AddedPartition{Partition: a(i)})
			}
			added, ok := ask(e).(Added)
			begun = ok && added.Err == nil
		}
		for {
			ended, ok := ask(End{id, me.ProducerID, me.Epoch, true, 2}).(Identity)
			if ok && ended.Err == nil {
				for i := range int32(3) {
					need = append(need, fmt.Sprint(a(i), me.ProducerID, me.Epoch+1))
				}
				break
			}
			if ok && ended.Err != kerr.ConcurrentTransactions {
				return append(need, "error "+ended.Err.Message)
			}
		}
	}
	return need
}

// Every acknowledged commit gets all of its markers, and no abort among them, while appends fail,
// the log refuses, markers are refused, and the coordinator moves.
func TestCommitsOnTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pids int64
		cfg := DefaultConfig()
		cfg.ProducerID = func(context.Context) (int64, error) { pids++; return pids, nil } // calls run one at a time
		log, out := &shakyLog{}, &shakySender{written: map[string]bool{}}
		rt := coordinator.NewRuntime(coordinator.Options{
			New: func(int32) coordinator.Machine { return New(cfg) }, Send: out.send,
			InitialEvent: func(int32) any { return TopicsChanged{Topics: fakeTopics{"a": 3}, Tagged: true} },
		})
		defer rt.Close()
		rt.Lead(0, 1, log)
		var work sync.WaitGroup
		var mu sync.Mutex
		var need []string
		for i := range 8 {
			work.Go(func() {
				list := runProducer(rt, fmt.Sprint("p", i), 20)
				mu.Lock()
				need = append(need, list...)
				mu.Unlock()
			})
		}
		for epoch := range int32(20) {
			time.Sleep(20 * time.Millisecond)
			rt.Lead(0, 2+epoch, log)
		}
		work.Wait()
		log.mu.Lock()
		log.calm = true
		log.mu.Unlock()
		out.mu.Lock()
		out.calm = true
		out.mu.Unlock()
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		for _, key := range need {
			if commits, ok := out.written[key]; !ok || !commits {
				t.Errorf("%s: written %t, commits %t", key, ok, commits)
			}
		}
		if len(need) != 8*20*3 || len(out.wrong) > 0 {
			t.Errorf("%d markers, wrong %v", len(need), out.wrong)
		}
		last := New(cfg)
		for _, r := range log.records {
			must.OK(t, last.Apply(r))
		}
		for id, x := range last.ids {
			if x.state != CompleteCommit {
				t.Errorf("%s ends in %v", id, x.state)
			}
		}
	})
}
