package gate

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
)

// Coordinators asks the coordinator of a transactional id, on this broker or another one.
type Coordinators interface {
	// Ask calls done exactly once, from any goroutine and possibly before it returns. Neither may
	// block.
	Ask(q Question, done func(Answer))
}

// Question asks whether a batch may join a producer's transaction.
type Question struct {
	ID         string // transactional id
	ProducerID int64
	Epoch      int16
	// Add: the partition is added to the transaction, and one is begun if none is open
	// (transaction.version 2). Otherwise the answer is yes only if it is in the open one.
	Add       bool
	Partition txn.AddedPartition
	// Deadline is until when an Add may wait for the end of the transaction before.
	Deadline time.Time
}

// Answer is the answer to a Question. Err is nil for yes. NOT_COORDINATOR,
// COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS and CONCURRENT_TRANSACTIONS are
// temporary; the other errors are final. CoordinatorEpoch is valid with a yes.
type Answer struct {
	Err              *kerr.Error
	CoordinatorEpoch int32
}
