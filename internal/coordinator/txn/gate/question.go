package gate

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
)

// Coordinators asks the coordinator of a transactional id, on this broker or another one.
type Coordinators interface {
	// Ask calls done exactly once, from any goroutine and possibly before it returns. Neither may
	// block. The Question must not be changed afterwards.
	Ask(q Question, done func(Answer))
}

// Question asks whether batches may join a producer's transaction.
type Question struct {
	ID         string // transactional id
	ProducerID int64
	Epoch      int16
	// Add: the partitions are added to the transaction, all of them or none, and one is begun if
	// none is open (transaction.version 2). Otherwise the answer says for each of them whether it
	// is in the open one.
	Add        bool
	Partitions []txn.AddedPartition // at least one
	// Deadline is until when an Add may wait for the end of the transaction before.
	Deadline time.Time
}

// Answer is the answer to a Question: nil errors mean yes.
//
// INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE and
// TRANSACTION_ABORTABLE are final. After any other error the gate asks again.
type Answer struct {
	Err *kerr.Error // the Question as a whole is refused
	// Partitions has an error for each partition of the Question, in the same order. Nil: Err
	// counts for all.
	Partitions []*kerr.Error
	// CoordinatorEpoch is valid with a yes.
	CoordinatorEpoch int32
}

// of returns the error for the partition at an index of the Question.
func (a *Answer) of(i int) *kerr.Error {
	if a.Err != nil || i >= len(a.Partitions) {
		return a.Err
	}
	return a.Partitions[i]
}
