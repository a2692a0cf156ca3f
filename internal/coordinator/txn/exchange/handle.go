package exchange

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/outbound"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/groupcommit"
)

// sender is another broker that sends calls with orders.
type sender struct {
	// mu is held while a call is begun, so that calls are begun one after another.
	mu sync.Mutex
	// life is the registration of the newest process that was heard of, and dead the number up to
	// which its calls must not begin any longer.
	life int64
	dead uint64
}

// errDead: the sender does not wait for the answer any longer.
var errDead = errors.New("the call was given up by its sender")

// Handle handles a call of another broker's Exchange, until ctx ends. body is not kept.
func (x *Exchange) Handle(ctx context.Context, from int32, body []byte) ([]byte, error) {
	kind, err := kindOf(body)
	if err != nil {
		return nil, err
	}
	if kind == callAsks {
		c, err := decodeAsks(body)
		if err != nil {
			return nil, err
		}
		return x.handleAsks(ctx, c.questions), nil
	}
	c, err := decodeOrders(body)
	if err != nil {
		return nil, err
	}
	return x.handleOrders(ctx, from, &c)
}

// handleOrders carries out orders and returns their verdicts.
func (x *Exchange) handleOrders(ctx context.Context, from int32, c *orderCall) ([]byte, error) {
	verdicts := outbound.NewCollector[verdict](len(c.orders))
	expire, err := x.beginCall(from, c, verdicts.Set)
	if err != nil {
		return nil, err
	}
	verdicts.Wait(ctx, orderTime)
	expire()
	return encodeVerdicts(verdicts.Take(verdict{err: kerr.RequestTimedOut})), nil
}

// beginCall queues the orders of a call with their partitions, unless the call is dead. A call that
// begins later finds its orders behind them.
func (x *Exchange) beginCall(from int32, c *orderCall, done func(int, verdict)) (expire func(), err error) {
	x.mu.Lock()
	s := x.senders[from]
	if s == nil {
		s = &sender{}
		x.senders[from] = s
	}
	x.mu.Unlock()
	var batch groupcommit.Batch
	s.mu.Lock()
	switch {
	case c.life > s.life:
		s.life, s.dead = c.life, c.dead
	case c.life == s.life:
		s.dead = max(s.dead, c.dead)
	}
	if c.life < s.life || c.number <= s.dead {
		s.mu.Unlock()
		return nil, fmt.Errorf("call %d of broker %d: %w", c.number, from, errDead)
	}
	expire = x.begin(c.orders, &batch, done)
	s.mu.Unlock()
	batch.HandOff()
	return expire, nil
}

// handleAsks asks the coordinators of this broker.
func (x *Exchange) handleAsks(ctx context.Context, questions []gate.Question) []byte {
	answers := outbound.NewCollector[gate.Answer](len(questions))
	list := make([]*question, len(questions))
	for i, q := range questions {
		q.Deadline = limitedTo(q.Deadline, parkTime)
		list[i] = &question{q, func(a gate.Answer) { answers.Set(i, a) }}
	}
	x.askHere(list)
	answers.Wait(ctx, askTime)
	return encodeAnswers(answers.Take(gate.Answer{Err: kerr.CoordinatorNotAvailable}))
}
