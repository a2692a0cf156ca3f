package observe

import (
	"context"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/view"
)

// Transactions returns the source of the transactions that a broker coordinates.
func Transactions(c *service.Transactions, x *exchange.Exchange, g *gate.Gate) func() view.Transactions {
	return func() view.Transactions {
		ctx, cancel := context.WithTimeout(context.Background(), censusTime)
		defer cancel()
		f := c.Survey(ctx)
		now := view.Transactions{IDs: map[string]int{}, Shards: map[string]int{}, Waiting: x.Waiting(), Parked: f.Parked,
			Gate: g.Waiting(), Raised: c.Raised(), MaxTimeout: c.MaxTimeout()}
		for state, n := range f.IDs {
			now.IDs[state.String()] = n
		}
		for _, s := range c.Stats() {
			now.Shards[s.State]++
		}
		for _, u := range f.Undone {
			x := view.Undone{ID: u.ID, Commit: u.Commit, Since: time.UnixMilli(u.SinceMs), Missing: len(u.Missing)}
			if len(u.Missing) > 0 {
				x.Partition = u.Missing[0].Topic + "-" + strconv.Itoa(int(u.Missing[0].Index))
			} else if p, ok := c.Partition(u.ID); ok {
				x.Partition = c.Topic() + "-" + strconv.Itoa(int(p))
			}
			if u.LastError != nil {
				x.Error = u.LastError.Message
			}
			now.Undone = append(now.Undone, x)
		}
		return now
	}
}
