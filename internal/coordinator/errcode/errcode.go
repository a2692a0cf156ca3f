// Package errcode maps errors to those of Kafka's protocol: the one table of the broker's handlers
// and of what coordinators and partitions answer on links. An error that the table does not have is
// UNKNOWN_SERVER_ERROR, never success. It does not know which request an error answers: what a
// single API answers differently is with that API.
//
// The package is below internal/coordinator because the coordinators' own packages search the
// table, too: anywhere else, the imports of the two folders would form a circle.
package errcode

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
)

// line maps what matches err to code.
type line struct {
	err  error
	code *kerr.Error
}

// The table has two parts. It is searched in order, and the first match counts: coordinators, then
// others.
var (
	// First, because a coordinator's error may match that of its log, which members don't
	// expect: with NOT_ENOUGH_REPLICAS or FENCED_LEADER_EPOCH they end.
	coordinators = []line{
		{coordinator.ErrNotCoordinator, kerr.NotCoordinator},
		{coordinator.ErrLoading, kerr.CoordinatorLoadInProgress},
		{coordinator.ErrRefused, kerr.CoordinatorNotAvailable},
		{coordinator.ErrBusy, kerr.CoordinatorLoadInProgress}, // every client backs off on this code
	}
	others = []line{
		{replica.ErrTimedOut, kerr.RequestTimedOut},
		{replica.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
		{replica.ErrCreating, kerr.NotLeaderForPartition}, // it matches ErrOffline too; no disk has failed
		{replica.ErrOffline, kerr.KafkaStorageError},
		{replica.ErrDeleted, kerr.UnknownTopicOrPartition}, // it matches ErrNotLeader too
		{replica.ErrNotLeader, kerr.NotLeaderForPartition},
		{replica.ErrFencedEpoch, kerr.FencedLeaderEpoch},
		{replica.ErrUnknownEpoch, kerr.UnknownLeaderEpoch},
		{replica.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
		{replica.ErrNotEnoughReplicasAfterAppend, kerr.NotEnoughReplicasAfterAppend},
		{replica.ErrOffsetNotAvailable, kerr.OffsetNotAvailable},
		{replica.ErrPolicy, kerr.PolicyViolation},
		{replica.ErrTier, kerr.KafkaStorageError},
		{storage.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
		{storage.ErrCorrupt, kerr.CorruptMessage},
		// A closed log was deleted, or its broker is stopping: clients look for the leader again.
		{storage.ErrClosed, kerr.NotLeaderForPartition},
		{storage.ErrFencedEpoch, kerr.NotLeaderForPartition},
		// As Kafka answers what it does not lead at this moment. It is led again, in a later epoch,
		// within moments, and no disk has failed.
		{storage.ErrMoving, kerr.NotLeaderForPartition},
		{storage.ErrFailed, kerr.KafkaStorageError},
		{storage.ErrLowSpace, kerr.KafkaStorageError}, // clients treat it as temporary and retry
		{storage.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
		{storage.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
		{storage.ErrTransactionOpen, kerr.InvalidTxnState},
		{storage.ErrUnverified, kerr.InvalidTxnState},
		{storage.ErrTooManyTransactions, kerr.NotEnoughReplicas}, // clients retry; other transactions end meanwhile
		{storage.ErrCoordinatorFenced, kerr.TransactionCoordinatorFenced},
		{storage.ErrForeignMarker, kerr.InvalidRequest}, // no coordinator would send it
		{metadata.ErrFailed, kerr.KafkaStorageError},    // it may match ErrUnknown too
		{metadata.ErrTooLarge, kerr.PolicyViolation},
		{metadata.ErrClosed, kerr.NotLeaderForPartition},
		{metadata.ErrUnavailable, kerr.RequestTimedOut},
		{metadata.ErrUnknown, kerr.RequestTimedOut},
		{metadata.ErrConflict, kerr.RequestTimedOut}, // with too many others at the same time; nothing was changed
		// NOT_CONTROLLER would make clients look for another controller, while this broker asks the
		// one that there is. Brokers answer it only if they stop, or have too many such requests.
		{controller.ErrNotController, kerr.RequestTimedOut},
		{context.Canceled, kerr.NotLeaderForPartition},
		{context.DeadlineExceeded, kerr.RequestTimedOut},
	}
)

// recordKinds maps the reasons for refusing a client's batch.
var recordKinds = map[record.Kind]*kerr.Error{
	record.Corrupt:           kerr.CorruptMessage,
	record.TooLarge:          kerr.MessageTooLarge,
	record.InvalidRecord:     kerr.InvalidRecord,
	record.InvalidTimestamp:  kerr.InvalidTimestamp,
	record.UnsupportedCodec:  kerr.UnsupportedCompressionType,
	record.UnsupportedFormat: kerr.InvalidRecord,
	record.EmptySet:          kerr.InvalidRecord,
}

// controllerKinds maps the reasons for refusing a change of the metadata.
var controllerKinds = map[controller.Kind]*kerr.Error{
	controller.InvalidTopic:             kerr.InvalidTopicException,
	controller.TopicExists:              kerr.TopicAlreadyExists,
	controller.UnknownTopic:             kerr.UnknownTopicOrPartition,
	controller.UnknownTopicID:           kerr.UnknownTopicID,
	controller.InvalidPartitions:        kerr.InvalidPartitions,
	controller.InvalidReplicationFactor: kerr.InvalidReplicationFactor,
	controller.InvalidReplicaAssignment: kerr.InvalidReplicaAssignment,
	controller.InvalidConfig:            kerr.InvalidConfig,
	controller.InvalidRequest:           kerr.InvalidRequest,
	controller.PolicyViolation:          kerr.PolicyViolation,
	controller.BrokerNotRegistered:      kerr.BrokerIDNotRegistered,

	controller.ElectionNotNeeded:           kerr.ElectionNotNeeded,
	controller.PreferredLeaderNotAvailable: kerr.PreferredLeaderNotAvailable,
	controller.EligibleLeadersNotAvailable: kerr.EligibleLeadersNotAvailable,
	controller.NoReassignmentInProgress:    kerr.NoReassignmentInProgress,
	controller.InvalidFeature:              kerr.InvalidUpdateVersion,
	controller.ResourceNotFound:            kerr.ResourceNotFound,
}

// Of returns the protocol's error for an error, nil for nil. What matches an error of the protocol
// is that error. An error that is in no table is UNKNOWN_SERVER_ERROR, never success.
func Of(err error) *kerr.Error {
	if err == nil {
		return nil
	}
	if c := find(err); c != nil && c.Code != 0 {
		return c
	}
	return kerr.UnknownServerError
}

// OfCoordinator is Of for an event that a coordinator has not handled. Its sender repeats the
// request whatever the reason, and expects the errors of coordinators only. The others, such as
// those of the creation of its topic, are COORDINATOR_NOT_AVAILABLE.
func OfCoordinator(err error) *kerr.Error {
	switch c := Of(err); c {
	case nil, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress:
		return c
	}
	return kerr.CoordinatorNotAvailable
}

// OfMarker is Of for a marker or a flush. Those who send WriteTxnMarkers expect the errors of a
// partition, also from a coordinator's: they repeat NOT_LEADER_OR_FOLLOWER, but take
// NOT_COORDINATOR for final. So an error that matches both a coordinator's and one of its log is
// the latter. The request names no leader epoch, so that no sender expects an error about one.
func OfMarker(err error) *kerr.Error {
	switch c := search(others, err); c {
	case nil:
		return Of(err)
	case kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch:
		return kerr.NotLeaderForPartition
	default:
		return c
	}
}

func find(err error) *kerr.Error {
	var bad *record.Error
	var refused *controller.Error
	var conf *configdef.Error
	var direct *kerr.Error
	switch {
	case errors.As(err, &bad):
		return recordKinds[bad.Kind]
	case errors.As(err, &refused):
		return controllerKinds[refused.Kind]
	case errors.As(err, &conf):
		return kerr.InvalidConfig
	case errors.As(err, &direct):
		return direct
	}
	if c := search(coordinators, err); c != nil {
		return c
	}
	return search(others, err)
}

// search returns the code of the first line that an error matches, nil if there is none.
func search(lines []line, err error) *kerr.Error {
	for _, l := range lines {
		if errors.Is(err, l.err) {
			return l.code
		}
	}
	return nil
}
