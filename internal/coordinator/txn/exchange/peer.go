package exchange

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/outbound"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
)

const (
	// maxWaiting bounds the orders that wait for a broker, and maxQuestions the questions.
	maxWaiting   = 100_000
	maxQuestions = 100_000
	// maxCall bounds the orders of a call, and the partitions of the questions of one.
	maxCall = 1000
	// orderTime is how long the receiver of a call waits for its orders. Those that are not done
	// then get an error, so that a partition that hangs does not hold up the answers of the others
	// for longer. askTime is the same for questions.
	orderTime = 2 * time.Second
	askTime   = time.Second
	// callTime bounds a call. It is longer, because a call that ends without an answer is dead.
	callTime = 10 * time.Second
	// askCalls is how many calls with questions to one broker are on the way at a time: a question
	// may wait for a transaction that is about to end.
	askCalls = 4
)

// peer is another broker, as this one asks it.
type peer struct {
	x    *Exchange
	node int32
	asks *outbound.Queue[*question]
	// orders has one call on the way, and so has slowOrders: orders for the partitions in slow,
	// which the others must not wait for.
	orders, slowOrders *outbound.Queue[*job]

	mu   sync.Mutex
	slow map[txn.Partition]struct{} // the last marker was not done in time
	// Calls with orders have numbers. A call that ended without an answer is dead, and so are all
	// before it that the receiver has not begun.
	number, dead uint64
}

// peer returns the peer for a broker.
func (x *Exchange) peer(node int32) *peer {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.peers[node]
	if p == nil {
		p = &peer{x: x, node: node, slow: map[txn.Partition]struct{}{}}
		p.asks = outbound.NewQueue(x.work, askCalls, maxQuestions, maxCall, p.sendQuestions)
		p.orders = outbound.NewQueue(x.work, 1, maxWaiting, maxCall, p.sendOrders)
		p.slowOrders = outbound.NewQueue(x.work, 1, maxWaiting, maxCall, p.sendOrders)
		x.peers[node] = p
	}
	return p
}

// order sends an order.
func (p *peer) order(j *job) {
	p.mu.Lock()
	_, slow := p.slow[j.partition]
	p.mu.Unlock()
	to := p.orders
	if slow {
		to = p.slowOrders
	}
	if !to.Add(j) {
		j.done(verdict{err: kerr.RequestTimedOut})
	}
}

// sendOrders sends orders in one call and waits for their results.
func (p *peer) sendOrders(list []*job) {
	verdicts, err := p.callOrders(list)
	if !errors.Is(err, errSelf) { // the other broker was not asked
		p.x.markers.Note(p.node, len(list), err)
	}
	if err != nil {
		for _, j := range list {
			j.done(verdict{err: kerr.NetworkException})
		}
		return
	}
	p.mu.Lock()
	for i, v := range verdicts {
		if v.err == kerr.RequestTimedOut {
			p.slow[list[i].partition] = struct{}{}
		} else {
			delete(p.slow, list[i].partition)
		}
	}
	p.mu.Unlock()
	for i, v := range verdicts {
		list[i].done(v)
	}
}

// errSelf is why no broker is asked: this one is not registered, which its membership reports.
var errSelf = errors.New("this broker is not registered")

func (p *peer) callOrders(list []*job) ([]verdict, error) {
	img := p.x.opt.Image()
	self, ok := img.Broker(p.x.opt.Self)
	if !ok {
		return nil, errSelf
	}
	p.mu.Lock()
	p.number++
	c := orderCall{life: self.Epoch, number: p.number, dead: p.dead}
	p.mu.Unlock()
	for _, j := range list {
		c.orders = append(c.orders, j.order)
	}
	answer, err := p.call(c.encode())
	var verdicts []verdict
	if err == nil {
		verdicts, err = decodeVerdicts(answer, len(list))
	}
	if err != nil {
		p.mu.Lock()
		p.dead = max(p.dead, c.number)
		p.mu.Unlock()
	}
	return verdicts, err
}

func (p *peer) call(body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(p.x.work.Context(), callTime)
	defer cancel()
	return p.x.opt.Call(ctx, p.node, body)
}

// sendQuestions sends questions in one call and waits for their answers.
func (p *peer) sendQuestions(list []*question) {
	for len(list) > 0 {
		n, partitions := 0, 0
		for n < len(list) && (n == 0 || partitions+len(list[n].Partitions) <= maxCall) {
			partitions += len(list[n].Partitions)
			n++
		}
		p.sendSome(list[:n])
		list = list[n:]
	}
}

func (p *peer) sendSome(list []*question) {
	c := askCall{now: time.Now()}
	for _, q := range list {
		c.questions = append(c.questions, q.Question)
	}
	answer, err := p.call(c.encode())
	var answers []gate.Answer
	if err == nil {
		answers, err = decodeAnswers(answer, c.questions)
	}
	p.x.questions.Note(p.node, len(list), err)
	for i, q := range list {
		if err != nil {
			q.done(gate.Answer{Err: kerr.CoordinatorNotAvailable})
		} else {
			q.done(answers[i])
		}
	}
}
