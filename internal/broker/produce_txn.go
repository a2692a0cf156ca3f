package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/view"
)

// The versions of Produce that matter to transactions (KIP-890).
const (
	// From abortableProduce on clients know TRANSACTION_ABORTABLE.
	abortableProduce = 11
	// From addingProduce on the leader adds the partition to the transaction, and each transaction
	// has a producer epoch of its own.
	addingProduce = 12
)

// beginTurn prepares the request's turn at the gate if it has transactional batches. An error
// refuses the request as a whole, as in Kafka. Plain batches may be in the same request.
func (op *produceOp) beginTurn() error {
	var from gate.Producer
	found := false
	for t := range op.view.Topics {
		for _, vp := range op.view.Topics[t].Partitions {
			id, epoch, ok := record.Transaction(vp.Records)
			if ok && found && (id != from.ID || epoch != from.Epoch) {
				return protocolErrorf(kerr.InvalidProducerIDMapping,
					"the request has transactional batches of producer %d with epoch %d and of producer %d with epoch %d; send one request for each",
					from.ID, from.Epoch, id, epoch)
			}
			if ok {
				from.ID, from.Epoch, found = id, epoch, true
			}
		}
	}
	switch id := op.view.TransactionalID; {
	case !found:
		return nil
	case id != nil && op.b.rights(op.r).transaction(acl.Write, string(id)) != nil:
		return denied(kerr.TransactionalIDAuthorizationFailed)
	case op.view.Acks != int16(replica.AcksAll):
		return protocolErrorf(kerr.InvalidRequiredAcks,
			"acks is %d: transactional batches need acks=all, since a committed transaction must be whole", op.view.Acks)
	case id == nil:
		return protocolErrorf(kerr.TransactionalIDAuthorizationFailed,
			"the request has transactional batches but no transactional id; set it in the request")
	case len(id) == 0:
		return protocolErrorf(kerr.InvalidRequest, "the transactional id is empty; set transactional.id in the producer's configuration")
	case len(id) > protocol.MaxName: // its request is read in place, without the guard
		return protocolErrorf(kerr.InvalidRequest, "the transactional id has %d bytes, more than %d; use a shorter transactional.id",
			len(id), protocol.MaxName)
	}
	from.TransactionalID, from.Bumps = string(op.view.TransactionalID), op.view.Version >= addingProduce
	op.turn = gate.Turn{Gate: op.b.opt.Gate, From: from, Client: gate.Client{ID: view.Cut(op.r.ClientID), Address: op.r.Peer},
		Deadline: op.r.Received.Add(milliseconds(op.view.TimeoutMillis))}
	return nil
}

// watch ends the batches that wait at the gate when their connection has ended.
func (op *produceOp) watch() {
	var waiting []*gate.Entry
	for i := range op.parts {
		if e := op.parts[i].wait; e != nil {
			waiting = append(waiting, e)
		}
	}
	if len(waiting) > 0 {
		op.unwatch = op.r.OnClose(func() { // maybe when the op has another request
			for _, e := range waiting {
				e.Leave()
			}
		})
	}
}

// code is the protocol error for an error, as the request's version knows it.
func (op *produceOp) code(err error) int16 {
	switch {
	case errors.Is(err, kerr.ProducerFenced):
		return kerr.InvalidProducerEpoch.Code // what producers expect from Produce
	case errors.Is(err, kerr.TransactionAbortable), errors.Is(err, storage.ErrUnverified):
		if op.view.Version < abortableProduce {
			return kerr.InvalidTxnState.Code
		}
		return kerr.TransactionAbortable.Code
	case op.view.Version >= 13:
		return op.b.codeByID(op.r, err)
	}
	return op.b.code(op.r, err)
}
