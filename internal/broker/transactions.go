package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
)

// askTransaction passes an event to the coordinator of a transactional id. done receives its
// response, or the error, once, on any goroutine.
func askTransaction[A any](b *Handler, id string, event any, done func(A, *kerr.Error)) {
	b.opt.Transactions.Submit(id, event, func(answer any, err error) {
		a, ok := answer.(A)
		done(a, b.coordinatorError(event, answer, ok, err))
	})
}

// fencedBefore returns the error for a version of an API: versions below first know
// INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED (KIP-588).
func fencedBefore(first, version int16, err *kerr.Error) *kerr.Error {
	if err == kerr.ProducerFenced && version < first {
		return kerr.InvalidProducerEpoch
	}
	return err
}

// abortableBefore returns the error for a version of an API: versions below first know
// INVALID_TXN_STATE instead of TRANSACTION_ABORTABLE (KIP-890).
func abortableBefore(first, version int16, err *kerr.Error) *kerr.Error {
	if err == kerr.TransactionAbortable && version < first {
		return kerr.InvalidTxnState
	}
	return err
}

// setCode sets the error of an answer and the request's code for metrics.
func setCode(r *network.Request, field *int16, err *kerr.Error) {
	if err != nil {
		*field, r.Code = err.Code, err.Code
	}
}

// partitionsOf returns the partitions of a topic that a request names.
func partitionsOf(topic string, indexes []int32) []txn.Partition {
	list := make([]txn.Partition, len(indexes))
	for i, p := range indexes {
		list[i] = txn.Partition{Topic: topic, Index: p}
	}
	return list
}

// addable returns why a client can't add a partition to a transaction, nil if it can.
func addable(img *metadata.Image, p txn.Partition) *kerr.Error {
	t := img.Topic(p.Topic)
	switch {
	case t == nil || t.Partitions.At(p.Index) == nil:
		return kerr.UnknownTopicOrPartition
	case t.Internal:
		return kerr.InvalidTopicException
	}
	return nil
}

// errorCode returns the code of a protocol error, 0 for nil.
func errorCode(err *kerr.Error) int16 {
	if err == nil {
		return 0
	}
	return err.Code
}
