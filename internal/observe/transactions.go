package observe

import (
	"context"

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
		now := c.Survey(ctx)
		now.Waiting, now.Gate = x.Waiting(), g.Waiting()
		return now
	}
}
