package brokers

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sources counts the batches that a client gets from each broker.
type sources struct {
	mu   sync.Mutex
	from map[int32]int
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (s *sources) OnFetchBatchRead(broker kgo.BrokerMetadata, _ string, _ int32, _ kgo.FetchBatchMetrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from[broker.NodeID]++
}

// A consumer reads from the replicas in its rack (KIP-392). When their broker is killed, it reads
// from the leaders, and from the rack again when they are back in sync.
func TestConsumersReadInTheirRack(t *testing.T) {
	historyOf(t, 46, kind{strict: true}, func(w *world, c *clients) {
		c.inSync()
		for id := int32(1); id <= w.size(); id++ {
			s := &sources{from: map[int32]int{}}
			cl := w.client(kgo.Rack(rack(id)), kgo.ConsumeTopics(topic), kgo.WithHooks(s), kgo.RecheckPreferredReplicaInterval(time.Second),
				w.direct(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			reads := func(what string, ok func(from map[int32]int) bool) {
				t.Helper()
				if until(patience, func() bool {
					s.mu.Lock()
					clear(s.from)
					s.mu.Unlock()
					for end := time.Now().Add(time.Second); time.Now().Before(end); {
						within, cancel := context.WithDeadline(c.ctx, end)
						cl.PollFetches(within)
						cancel()
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					return ok(s.from)
				}) != nil {
					w.problem("a consumer of rack %d does not read from %s: batches from %v", id, what, s.from)
				}
			}
			near := func(from map[int32]int) bool { return from[id] > 0 && len(from) == 1 }
			reads("its rack", near)
			w.kill(id)
			reads("the leaders", func(from map[int32]int) bool { return len(from) > 0 && from[id] == 0 })
			w.start(id)
			c.inSync()
			reads("its rack again", near)
			cl.Close()
		}
	})
}
