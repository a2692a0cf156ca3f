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

// errTimedOut: something did not happen within the request's time.
var errTimedOut = errors.New("timed out")

// codes maps every error that the rooms below can return to the protocol's. It
// is searched in order; the first match counts.
func codes() []struct {
	err  error
	code *kerr.Error
} {
	return []struct {
		err  error
		code *kerr.Error
	}{
		{errTimedOut, kerr.RequestTimedOut},
		{replica.ErrTimedOut, kerr.RequestTimedOut},
		{replica.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
		{replica.ErrOffline, kerr.KafkaStorageError},
		{replica.ErrDeleted, kerr.UnknownTopicOrPartition}, // it is ErrNotLeader too
		{replica.ErrNotLeader, kerr.NotLeaderForPartition},
		{replica.ErrFencedEpoch, kerr.FencedLeaderEpoch},
		{replica.ErrUnknownEpoch, kerr.UnknownLeaderEpoch},
		{replica.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
		{replica.ErrNotEnoughReplicasAfterAppend, kerr.NotEnoughReplicasAfterAppend},
		{replica.ErrOffsetNotAvailable, kerr.OffsetNotAvailable},
		{replica.ErrPolicy, kerr.PolicyViolation},
		{coordinator.ErrNotCoordinator, kerr.NotCoordinator},
		{coordinator.ErrLoading, kerr.CoordinatorLoadInProgress},
		{coordinator.ErrRefused, kerr.CoordinatorNotAvailable},
		{coordinator.ErrBusy, kerr.CoordinatorLoadInProgress}, // every client backs off on it
		{storage.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
		{storage.ErrCorrupt, kerr.CorruptMessage},
		// A log that is closed was deleted, or its broker is on the way down:
		// clients look for it anew.
		{storage.ErrClosed, kerr.NotLeaderForPartition},
		{storage.ErrStaleEpoch, kerr.NotLeaderForPartition},
		{storage.ErrFailed, kerr.KafkaStorageError},
		{storage.ErrLowSpace, kerr.KafkaStorageError}, // clients take it for passing, and repeat
		{storage.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
		{storage.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
		{metadata.ErrClosed, kerr.NotLeaderForPartition},
		{context.Canceled, kerr.NotLeaderForPartition},
		{context.DeadlineExceeded, kerr.RequestTimedOut},
	}
}

// codeByID is code for requests that name their topics by id: one that is gone is
// answered as they would be from now on.
func codeByID(err error) int16 {
	if errors.Is(err, replica.ErrDeleted) {
		return kerr.UnknownTopicID.Code
	}
	return code(err)
}

// recordKinds maps what can be wrong with a client's batch.
var recordKinds = map[record.Kind]*kerr.Error{
	record.Corrupt:           kerr.CorruptMessage,
	record.TooLarge:          kerr.MessageTooLarge,
	record.InvalidRecord:     kerr.InvalidRecord,
	record.InvalidTimestamp:  kerr.InvalidTimestamp,
	record.UnsupportedCodec:  kerr.UnsupportedCompressionType,
	record.UnsupportedFormat: kerr.InvalidRecord,
	record.EmptySet:          kerr.InvalidRecord,
	record.Transactional:     kerr.TransactionalIDAuthorizationFailed,
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
}

// code returns the protocol error for an error, 0 for nil. An error that nobody
// thought of is UNKNOWN_SERVER_ERROR, never success.
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
	for _, c := range codes() {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return nil
}

// refusal is an error of the protocol with words of its own.
type refusal struct {
	code *kerr.Error
	msg  string
}

func (r *refusal) Error() string { return r.msg }

func (r *refusal) Unwrap() error { return r.code }

// maxWords bounds the words of an error in an answer, which may repeat what the
// request said. In the protocol's older encoding more than 32,767 bytes have no
// length.
const maxWords = 8 << 10

// words are an error's, as an answer has them.
func words(err error) string {
	s := err.Error()
	if len(s) <= maxWords {
		return s
	}
	return strings.ToValidUTF8(s[:maxWords-len("…")], "") + "…"
}

func refuse(code *kerr.Error, format string, args ...any) error {
	return &refusal{code: code, msg: fmt.Sprintf(format, args...)}
}
