package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/groupcommit"
)

// shakyLog is a log whose appends sometimes fail, sometimes although the records are in the log,
// and end a little later than they begin.
type shakyLog struct {
	mu      sync.Mutex
	records []coordinator.Record
	ends    sync.WaitGroup
	calm    bool
}

var errShaky = errors.New("the write failed")

func (l *shakyLog) Append(_ int32, records []coordinator.Record, _ time.Time, _ *groupcommit.Batch, done func(error)) {
	l.mu.Lock()
	fails := !l.calm && rand.N(40) == 0
	if !fails || rand.N(2) == 0 {
		l.records = append(l.records, records...)
	}
	l.mu.Unlock()
	l.ends.Go(func() {
		time.Sleep(rand.N(200 * time.Microsecond))
		if fails {
			done(errShaky)
		} else {
			done(nil)
		}
	})
}

func (l *shakyLog) Ready(int32, bool) error { return nil }

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

// submit hands an event to the runtime and waits.
func submit(rt *coordinator.Runtime, event any) (any, error) {
	type answer struct {
		response any
		err      error
	}
	c := make(chan answer, 1)
	rt.Submit(0, event, func(response any, err error) { c <- answer{response, err} })
	a := <-c
	return a.response, a.err
}

// Committed offsets never decrease, for any client, while appends fail and the coordinator moves:
// no acknowledged commit is lost, and no client sees an offset that is later rolled back.
func TestCommittedOffsetsNeverDecrease(t *testing.T) {
	defer goleak.VerifyNone(t)
	log := &shakyLog{}
	rt := coordinator.NewRuntime(coordinator.Options{
		New:          func(int32) coordinator.Machine { return New(DefaultConfig()) },
		InitialEvent: func(int32) any { return TopicsChanged{Topics: fakeTopics{}, All: true} },
	})
	rt.Lead(0, 1, log)
	var clients sync.WaitGroup
	seen := []int64{-1, -1, -1, -1} // by group: the highest offset that any client has seen
	var mu sync.Mutex
	see := func(i int, offset int64, from int64) {
		mu.Lock()
		defer mu.Unlock()
		if offset < from {
			t.Errorf("group %d went back from %d to %d", i, from, offset)
		}
		seen[i] = max(seen[i], offset)
	}
	for i := range seen {
		name := fmt.Sprint("g", i)
		clients.Go(func() { // commits increasing offsets
			for offset := int64(1); offset <= 300; offset++ {
				req := commitOf("", -1, "t", offset)
				req.Group = name
				for {
					resp, err := submit(rt, request(req))
					if err == nil && resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0 {
						see(i, offset, offset)
						break
					}
				}
			}
		})
		clients.Go(func() { // another client reads
			for range 600 {
				mu.Lock()
				from := seen[i]
				mu.Unlock()
				g := kmsg.NewOffsetFetchRequestGroup()
				g.Group, g.Topics = name, []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
				if resp, err := submit(rt, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{g}}); err == nil {
					see(i, resp.([]kmsg.OffsetFetchResponseGroup)[0].Topics[0].Partitions[0].Offset, from)
				}
			}
		})
	}
	for epoch := range int32(20) {
		time.Sleep(2 * time.Millisecond)
		rt.Lead(0, 2+epoch, log)
	}
	clients.Wait()
	rt.Close()
	log.ends.Wait()
}
