package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
)

// Log is the partition behind a shard, as its leader sees it.
type Log interface {
	// Append appends records in a leader epoch: as one batch, or one for each marker and each run
	// of records with the same producer, which it splits between events if it is large; all of them
	// or none. The log checks no producers. Append calls done exactly once, from any goroutine and
	// possibly before it returns: with nil when the high watermark covers the batches under the
	// topic's durability profile, otherwise with an error. After an error they may or may not be in
	// the log. The log commits when batch runs. Append does not block.
	Append(epoch int32, records []Record, now time.Time, batch *groupcommit.Batch, done func(error))
	// Ready returns why the log would refuse an append in a leader epoch now, or nil: the broker
	// does not lead (ErrNotCoordinator), too few replicas are in sync, space is low, the disk
	// failed. marker: the append has a Marker, which is accepted while space is low. Ready does not
	// block and is cheap. An append may fail although Ready returned nil.
	Ready(epoch int32, marker bool) error
	// Load calls apply for every record and marker from the log start to the log end at the time of
	// the call, and waits for each until it is committed. The slices are valid until apply returns.
	// Load fails with apply's error, when ctx ends, or with ErrNotCoordinator when the broker no
	// longer leads in that epoch.
	Load(ctx context.Context, epoch int32, apply func(Record) error) error
}

// Errors that a request may get instead of its response. All are retriable.
var (
	// ErrNotCoordinator: the broker does not lead the shard, or the records of the request could
	// not be committed (NOT_COORDINATOR).
	ErrNotCoordinator = errors.New("this broker is not the coordinator")
	// ErrNoShard is ErrNotCoordinator from a partition that leads in no epoch, perhaps not yet. The
	// event had no effect.
	ErrNoShard = fmt.Errorf("%w: its partition does not lead", ErrNotCoordinator)
	// ErrRefused: the log accepts no records now, and the event had no effect
	// (COORDINATOR_NOT_AVAILABLE). The error also matches its cause.
	ErrRefused = errors.New("the coordinator's log accepts no records")
	// ErrLoading: the shard is being loaded (COORDINATOR_LOAD_IN_PROGRESS).
	ErrLoading = errors.New("the coordinator is loading its state")
	// ErrBusy: too many requests are waiting, and the event had no effect
	// (COORDINATOR_LOAD_IN_PROGRESS, on which every client backs off and retries).
	ErrBusy = errors.New("too many requests are waiting for the coordinator")
)
