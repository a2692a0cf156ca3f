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
	return c.askCoordinators(ctx, img, broker, methodTransactions, body)
}

func (c *Cluster) handleTransactions(ctx context.Context, from int32, body []byte) ([]byte, error) {
	return handleCoordinators(ctx, c.transactions.Load(), from, body)
}

// methodShares is the method of the metadata lane with which leaders of partitions and group
// coordinators talk to share coordinators. Package coordinator/sharestate/desk defines the bodies.
const methodShares uint16 = 65

// SharesHandler handles a request of another broker to the share coordinators of this one. It must
// not keep body.
type SharesHandler func(ctx context.Context, from int32, body []byte) ([]byte, error)

// ServeShares sets what handles the requests of other brokers to share coordinators. Before that,
// they are refused, and the others try again.
func (c *Cluster) ServeShares(handle SharesHandler) { c.shares.Store(&handle) }

// AskShares sends a request to the share coordinators of another broker, and waits for the answer
// until ctx ends. The request is not handled any longer after that.
func (c *Cluster) AskShares(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error) {
	return c.askCoordinators(ctx, img, broker, methodShares, body)
}

func (c *Cluster) handleShares(ctx context.Context, from int32, body []byte) ([]byte, error) {
	return handleCoordinators(ctx, c.shares.Load(), from, body)
}

// methodLetters is the method of the metadata lane with which leaders of partitions copy dead
// letters of share groups. Package shareleader/deadletter defines the bodies.
const methodLetters uint16 = 66

// ServeLetters sets what handles the requests of other brokers about dead letters. Before that,
// they are refused, and the others try again.
func (c *Cluster) ServeLetters(handle SharesHandler) { c.letters.Store(&handle) }

// AskLetters sends a request about dead letters to another broker, and waits for the answer until
// ctx ends. The request is not handled any longer after that.
func (c *Cluster) AskLetters(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error) {
	return c.askCoordinators(ctx, img, broker, methodLetters, body)
}

func (c *Cluster) handleLetters(ctx context.Context, from int32, body []byte) ([]byte, error) {
	return handleCoordinators(ctx, c.letters.Load(), from, body)
}

func (c *Cluster) askCoordinators(ctx context.Context, img *metadata.Image, broker int32, method uint16, body []byte) ([]byte, error) {
	to, ok := img.Broker(broker)
	if !ok {
		return nil, fmt.Errorf("broker %d is not registered", broker)
	}
	return c.book.Call(ctx, to.Member, method, body)
}

func handleCoordinators[H ~func(context.Context, int32, []byte) ([]byte, error)](ctx context.Context, handle *H, from int32,
	body []byte,
) ([]byte, error) {
	if handle == nil {
		return nil, errors.New("the coordinators of this broker are not open yet")
	}
	return (*handle)(ctx, from, body)
}
