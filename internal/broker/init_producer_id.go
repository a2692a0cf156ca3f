package broker

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// InitProducerId (key 22), versions 0 to 5: ids for idempotent producers, and id and epoch of a
// transactional one, which ends the transaction of its predecessor.
func initProducerIDAPI() api {
	return apiDef[*kmsg.InitProducerIDRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.InitProducerID), Max: 5},
		asks: asks[*kmsg.InitProducerIDRequest]{whole: func(m rights, req *kmsg.InitProducerIDRequest) *kerr.Error {
			if req.TransactionalID != nil {
				return m.transaction(acl.Write, *req.TransactionalID)
			}
			return m.idempotentWrite()
		}},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toTransactions(transactionBegun),
		handle:     later(atProducerID, initProducerID),
	}.api()
}

func atProducerID(b *Handler, req *kmsg.InitProducerIDRequest) (*network.Waiter, string) {
	if req.TransactionalID == nil {
		return b.at.ids, ""
	}
	return b.at.transaction, *req.TransactionalID
}

func initProducerID(c call, req *kmsg.InitProducerIDRequest) {
	b := c.b
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		c.respond(producerIDAnswer(c, -1, protocolErrorf(kerr.InvalidRequest,
			"producer id %d with producer epoch %d: set both or neither", req.ProducerID, req.ProducerEpoch)))
		return
	}
	if req.TransactionalID != nil {
		initTransactional(c, req)
		return
	}
	// An idempotent producer that names its last id and epoch (KIP-360) gets a new id, as in Kafka:
	// only a transactional one keeps its id.
	if id, ok := b.producerIDs.take(b.reserveProducerIDs); ok {
		c.respond(producerIDAnswer(c, id, nil))
		return
	}
	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, changeTimeout)
		defer cancel()
		id, err := b.ProducerID(ctx)
		c.respond(producerIDAnswer(c, id, err))
	})
}

// initTransactional asks the coordinator of a transactional id. As with FindCoordinator, the first
// request creates the topic of the coordinators: a client need not ask for one. It is answered with
// NOT_COORDINATOR, as in Kafka.
func initTransactional(c call, req *kmsg.InitProducerIDRequest) {
	if *req.TransactionalID != "" {
		if err := c.b.opt.Transactions.Ensure(); err != nil {
			c.b.opt.Logger.Debug("there is no transaction coordinator yet", zap.Error(err)) // the answer has no text
		}
	}
	e := txn.InitProducerID{ID: *req.TransactionalID, Timeout: req.TransactionTimeoutMillis, ProducerID: req.ProducerID,
		Epoch: req.ProducerEpoch}
	askTransaction(c.b, e.ID, e, func(got txn.Identity, err *kerr.Error) {
		resp := respondTo(c.r, kmsg.NewPtrInitProducerIDResponse())
		if err == nil {
			err = fencedBefore(4, req.Version, got.Err)
		}
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		if setCode(c.r, &resp.ErrorCode, err); err == nil {
			resp.ProducerID, resp.ProducerEpoch = got.ProducerID, got.Epoch
		}
		c.respond(resp)
	})
}

// ProducerID returns a producer id that was never used. It waits for the controller if all reserved
// ids are used up.
func (b *Handler) ProducerID(ctx context.Context) (int64, error) {
	return b.producerIDs.wait(ctx, b.reserveProducerIDs)
}

func producerIDAnswer(c call, id int64, err error) kmsg.Response {
	resp := respondTo(c.r, kmsg.NewPtrInitProducerIDResponse())
	resp.ProducerID, resp.ProducerEpoch = id, 0
	if err != nil {
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		switch err := changeError(err); {
		case errors.Is(err, kerr.NotController):
			resp.ErrorCode = kerr.CoordinatorNotAvailable.Code // retried, on another broker if there is one
		default:
			if resp.ErrorCode = c.b.code(c.r, err); resp.ErrorCode == kerr.RequestTimedOut.Code { // on which older clients give up
				resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
			}
		}
		c.r.Code = resp.ErrorCode
	}
	return resp
}

// producerIDs returns ids from blocks that the controller has reserved. The next block is loaded
// while the last tenth of the current one is in use, so that requests hardly ever wait for the
// disk. The rest of a block is never used after a stop. The zero value has none.
type producerIDs struct {
	mu          sync.Mutex
	block       idBlock
	spare       idBlock
	low         int64         // how many ids are left when the next block is loaded
	loading     chan struct{} // closed when the current load ends; nil if there is none
	loadFailure error         // of the last load
}

type idBlock struct{ next, end int64 }

func (b idBlock) left() int64 { return b.end - b.next }

// take returns an id if there is one, and calls load when the ids run low. load runs in the
// background and ends by calling loaded.
func (p *producerIDs) take(load func()) (id int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(load)
}

func (p *producerIDs) takeLocked(load func()) (id int64, ok bool) {
	if p.block.left() == 0 {
		p.block, p.spare = p.spare, idBlock{}
	}
	if p.block.left() > 0 {
		id, ok = p.block.next, true
		p.block.next++
	}
	if p.block.left() <= p.low && p.spare.left() == 0 && p.loading == nil {
		p.loading = make(chan struct{})
		load()
	}
	return id, ok
}

// wait waits for an id. The error is that of the load that it waited for, or the context's.
func (p *producerIDs) wait(ctx context.Context, load func()) (int64, error) {
	for {
		p.mu.Lock()
		id, ok := p.takeLocked(load)
		loading := p.loading
		p.mu.Unlock()
		if ok {
			return id, nil
		}
		select {
		case <-loading:
		case <-ctx.Done():
			return -1, ctx.Err()
		}
		p.mu.Lock()
		err := p.loadFailure
		p.mu.Unlock()
		if err != nil {
			return -1, err
		}
	}
}

// loaded stores the result of a load.
func (p *producerIDs) loaded(first, count int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loadFailure = err; err == nil {
		p.spare, p.low = idBlock{first, first + count}, count/10
	}
	close(p.loading)
	p.loading = nil
}

// reserveProducerIDs loads a block in the background.
func (b *Handler) reserveProducerIDs() {
	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, changeTimeout)
		defer cancel()
		b.producerIDs.loaded(b.opt.Controller.ProducerIDBlock(ctx))
	})
}
