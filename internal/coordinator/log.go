package coordinator

import (
	"context"
	"errors"
	"time"
)

// Log is the partition behind a shard, as its leader sees it.
type Log interface {
	// Append appends records as one batch in a leader epoch. done is called exactly
	// once, from any goroutine, maybe before Append returns: with nil when the high
	// watermark covers the batch under the topic's profile, else with an error,
	// after which the batch may or may not be in the log. Append does not block.
	Append(epoch int32, records []Record, now time.Time, done func(error))
	// Ready returns why an append in a leader epoch would be refused now, nil if it
	// would be taken: the role, too few replicas in sync, no space, a failed disk. It
	// does not block and costs little. An append may fail all the same.
	Ready(epoch int32) error
	// Load calls apply for every record from the log's start to the end that the log
	// has when Load is called, after waiting until all of that is committed. The
	// slices are valid until apply returns. It fails with apply's error, when ctx
	// ends, or when the broker no longer leads in that epoch.
	Load(ctx context.Context, epoch int32, apply func(Record) error) error
}

// What a request can meet instead of its answer. All are retriable.
var (
	// ErrNotCoordinator: the broker does not lead the shard, or what the request
	// changed could not be committed (NOT_COORDINATOR).
	ErrNotCoordinator = errors.New("this broker is not the coordinator")
	// ErrRefused: the log takes no records now, and the event had no effect
	// (COORDINATOR_NOT_AVAILABLE).
	ErrRefused = errors.New("the coordinator's log accepts no records")
	// ErrLoading: the shard is being loaded (COORDINATOR_LOAD_IN_PROGRESS).
	ErrLoading = errors.New("the coordinator is loading its state")
	// ErrBusy: too many requests wait already, and the event had no effect
	// (COORDINATOR_LOAD_IN_PROGRESS, with which every client backs off and asks again).
	ErrBusy = errors.New("too many requests wait for the coordinator")
)
