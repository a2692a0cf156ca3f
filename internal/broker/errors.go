package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
)

// errTimedOut: something did not happen within the request's timeout.
var errTimedOut = errors.New("timed out")

// codes maps the errors that the called packages return to those of the protocol. It is searched in
// order; the first match counts.
var codes = []struct {
	err  error
	code *kerr.Error
}{
	// First, because a coordinator's error may match that of its log, which members don't
	// expect: with NOT_ENOUGH_REPLICAS or FENCED_LEADER_EPOCH they end.
	{coordinator.ErrNotCoordinator, kerr.NotCoordinator},
	{coordinator.ErrLoading, kerr.CoordinatorLoadInProgress},
	{coordinator.ErrRefused, kerr.CoordinatorNotAvailable},
	{coordinator.ErrBusy, kerr.CoordinatorLoadInProgress}, // every client backs off on this code
	{errTimedOut, kerr.RequestTimedOut},
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
	{metadata.ErrClosed, kerr.NotLeaderForPartition},
	{metadata.ErrUnavailable, kerr.RequestTimedOut},
	{metadata.ErrUnknown, kerr.RequestTimedOut},
	{metadata.ErrConflict, kerr.RequestTimedOut}, // with too many others at the same time; nothing was changed
	// NOT_CONTROLLER would make clients look for another controller, and no broker answers it.
	{controller.ErrNotController, kerr.RequestTimedOut},
	{context.Canceled, kerr.NotLeaderForPartition},
	{context.DeadlineExceeded, kerr.RequestTimedOut},
}

// codeByID is code for requests that name their topics by id: a deleted topic gets the error that
// later requests will get.
func codeByID(err error) int16 {
	if errors.Is(err, replica.ErrDeleted) {
		return kerr.UnknownTopicID.Code
	}
	return code(err)
}

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

// code returns the protocol error for an error, 0 for nil. An error that is in no table is
// UNKNOWN_SERVER_ERROR, never success.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	if c := kafkaError(err); c != nil && c.Code != 0 {
		return c.Code
	}
	return kerr.UnknownServerError.Code
}

func kafkaError(err error) *kerr.Error {
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
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return nil
}

// refusal is a protocol error with a message of its own.
type refusal struct {
	code *kerr.Error
	msg  string
}

func (r *refusal) Error() string { return r.msg }

func (r *refusal) Unwrap() error { return r.code }

// maxMessage bounds the message of an error in an answer, which may quote the request. The older
// encodings can't represent a message longer than 32,767 bytes.
const maxMessage = 8 << 10

// message returns the message of an error for an answer.
func message(err error) string {
	s := err.Error()
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-len("…")], "") + "…"
}

// protocolErrorf returns an error that clients receive with this code and message.
func protocolErrorf(code *kerr.Error, format string, args ...any) error {
	return &refusal{code: code, msg: fmt.Sprintf(format, args...)}
}
