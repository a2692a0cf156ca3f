package observe

import (
	"context"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metrics"
)

// Transactions returns the source of the metrics of transactions.
func Transactions(c *service.Transactions, x *exchange.Exchange, g *gate.Gate) func() metrics.Transactions {
	return func() metrics.Transactions {
		ctx, cancel := context.WithTimeout(context.Background(), censusTime)
		defer cancel()
		f := c.Survey(ctx)
		shown := metrics.Transactions{IDs: map[string]int{}, Shards: map[string]int{}, Waiting: map[string]int{}, Parked: f.Parked,
			Undone: len(f.Undone), Gate: g.Waiting(), Raised: c.Raised(), MaxTimeoutSeconds: c.MaxTimeout().Seconds()}
		for i := range f.Undone {
			shown.UndoneSeconds = max(shown.UndoneSeconds, time.Since(time.UnixMilli(f.Undone[i].SinceMs)).Seconds())
		}
		for state, n := range f.IDs {
			shown.IDs[state.String()] = n
		}
		for _, s := range c.Stats() {
			shown.Shards[s.State]++
		}
		for broker, n := range x.Waiting() {
			shown.Waiting[strconv.Itoa(int(broker))] = n
		}
		return shown
	}
}

// Undone returns the source of decided transactions that do not end.
func Undone(c *service.Transactions) checks.SlowSource {
	return func(s *checks.Slow) {
		ctx, cancel := context.WithTimeout(context.Background(), censusTime)
		defer cancel()
		for _, u := range c.Survey(ctx).Undone {
			x := checks.Undone{ID: u.ID, Commit: u.Commit, Since: time.UnixMilli(u.SinceMs), Missing: len(u.Missing)}
			if len(u.Missing) > 0 {
				x.Partition = u.Missing[0].Topic + "-" + strconv.Itoa(int(u.Missing[0].Index))
			} else if p, ok := c.Partition(u.ID); ok {
				x.Partition = c.Topic() + "-" + strconv.Itoa(int(p))
			}
			if u.LastError != nil {
				x.Error = u.LastError.Message
			}
			s.Undone = append(s.Undone, x)
		}
	}
}
