package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Subject is what brokers talk about on the metadata lane, and the method of these requests. The
// package of a subject defines their bodies.
type Subject uint16

// The subjects. Their numbers are part of the format of links.
const (
	// Transactions are those of transaction coordinators and the leaders of partitions
	// (coordinator/txn/exchange).
	Transactions Subject = 64 + iota
	// Shares are those of leaders of partitions and group coordinators to share coordinators
	// (coordinator/sharestate/desk).
	Shares
	// Letters are dead letters of share groups (shareleader/deadletter).
	Letters
	// Snapshots are those of the controller to the brokers whose logs are in a snapshot
	// (archive/snapshots).
	Snapshots
	subjectsEnd
)

// Handler handles a request of another broker about a subject. It must not keep body.
type Handler func(ctx context.Context, from int32, body []byte) ([]byte, error)

// Serve sets what handles the requests of other brokers about a subject. Before that, they are
// refused, and the others try again.
func (c *Cluster) Serve(s Subject, handle Handler) { c.subjects[s-Transactions].Store(&handle) }

// Ask returns what sends a request about a subject to another broker, and waits for the answer
// until ctx ends. The request is not handled any longer after that.
func (c *Cluster) Ask(s Subject) func(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error) {
	return func(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error) {
		to, ok := img.Broker(broker)
		if !ok {
			return nil, fmt.Errorf("broker %d is not registered", broker)
		}
		return c.book.Call(ctx, to.Member, uint16(s), body)
	}
}

// handleSubject handles a request if method is a subject.
func (c *Cluster) handleSubject(ctx context.Context, from int32, method uint16, body []byte) (answer []byte, is bool, err error) {
	if method < uint16(Transactions) || method >= uint16(subjectsEnd) {
		return nil, false, nil
	}
	handle := c.subjects[method-uint16(Transactions)].Load()
	if handle == nil {
		return nil, true, errors.New("what handles the request is not open yet on this broker")
	}
	answer, err = (*handle)(ctx, from, body)
	return answer, true, err
}
