package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/metadata"
)

// methodTransactions is the method of the metadata lane with which transaction coordinators and the
// leaders of partitions talk to each other. Package coordinator/txn/exchange defines the bodies.
const methodTransactions uint16 = 64

// TransactionsHandler handles a request of another broker about transactions. It must not keep
// body.
type TransactionsHandler func(ctx context.Context, from int32, body []byte) ([]byte, error)

// ServeTransactions sets what handles the requests of other brokers about transactions. Before
// that, they are refused, and the others try again.
func (c *Cluster) ServeTransactions(handle TransactionsHandler) { c.transactions.Store(&handle) }

// AskTransactions sends a request about transactions to another broker, and waits for the answer
// until ctx ends. The request is not handled any longer after that.
func (c *Cluster) AskTransactions(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error) {
	to, ok := img.Broker(broker)
	if !ok {
		return nil, fmt.Errorf("broker %d is not registered", broker)
	}
	return c.book.Call(ctx, to.Member, methodTransactions, body)
}

func (c *Cluster) handleTransactions(ctx context.Context, from int32, body []byte) ([]byte, error) {
	handle := c.transactions.Load()
	if handle == nil {
		return nil, errors.New("the logs of this broker are not open yet")
	}
	return (*handle)(ctx, from, body)
}
