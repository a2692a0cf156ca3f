package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Refused returns an error that says what was attempted, why it failed, and the remedy. message is
// the broker's own message, or empty.
func Refused(what string, err error, message string) error {
	return RefusedFor(what, err, message, "")
}

// RefusedFor is Refused with the remedy of one command. If it is empty, that of the error applies.
func RefusedFor(what string, err error, message, remedy string) error {
	return fmt.Errorf("%s: %w", what, &refusal{err, message, remedy})
}

// OrEmpty returns the text that a broker may leave out, such as its message, or "".
func OrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Fixed begins a broker's message about configs that do not change while it runs.
const Fixed = "Cannot update these configs dynamically"

// refusal is an error with the broker's message and a remedy, which is empty if that of err fits.
type refusal struct {
	err     error
	message string
	remedy  string
}

func (r *refusal) Unwrap() error { return r.err }

func (r *refusal) Error() string {
	text := r.err.Error()
	if k := (*kerr.Error)(nil); errors.As(r.err, &k) {
		text = k.Message + ": " + Description(k)
		if r.message != "" {
			text = k.Message + ": " + r.message
		}
	}
	missing := (*noTopic)(nil)
	if errors.As(r.err, &missing) {
		return missing.Error() + "; " + missing.remedy()
	}
	text = strings.TrimRight(strings.ReplaceAll(text, "\n", " "), ". ")
	remedy := cmp.Or(r.remedy, Remedy(r.err))
	switch {
	case strings.HasPrefix(r.message, Fixed) && r.remedy == "":
		remedy = "they change with the broker's own configuration and a restart"
	case strings.Contains(r.message, "collides with"): // names that differ in '.' and '_' only
		remedy = "choose another name, or delete the other topic"
	case r.message != "" && errors.Is(r.err, kerr.PolicyViolation):
		remedy = "" // the broker's message names the policy
	}
	if remedy != "" {
		text += "; " + remedy
	}
	return text
}

// Description returns what an error of the protocol means.
func Description(k *kerr.Error) string {
	if k.Code == kerr.LeaderNotAvailable.Code {
		return "no broker leads the partition now" // Kafka's text promises an election, which an offline partition does not have
	}
	return strings.TrimRight(k.Description, ".")
}

// Remedy returns the remedy for an error, or "" if its text suffices.
func Remedy(err error) string {
	var k *kerr.Error
	switch {
	case QuotaRemedy(err) != "":
		return QuotaRemedy(err)
	case unanswered(err):
		return "the broker did not answer in time: try again, or allow more with --timeout"
	case errors.Is(err, errSilent):
		return "start the broker there, or repair the network to it; chronikctl cluster health shows more"
	case unsupported(err):
		return "this broker does not support that API; chronikctl api-versions lists the supported ones"
	case err.Error() == "unknown broker": // an error of the client without an exported name
		return "no active broker has this id; chronikctl broker list shows whether it is fenced, which means that it does not run or is cut off"
	case !errors.As(err, &k):
		return ""
	}
	if right, ok := Missing(err); ok {
		return permission(right.String())
	}
	if r := remedies()[k.Code]; r != "" {
		return r
	}
	if k.Retriable {
		return "this is usually temporary: try again"
	}
	return ""
}

// permission returns the remedy for a missing right.
func permission(right string) string {
	return "ask for the permission " + right + ", or use another user (--sasl-user)"
}

// unanswered reports whether a client's wait for an answer ended.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries)
}

// IsUnknown reports whether a change with this error may still be done: the wait of the client, or
// that of the broker for its controller, ended before the answer.
func IsUnknown(err error) bool {
	return err != nil && (unanswered(err) || errors.Is(err, kerr.RequestTimedOut))
}

// unsupported also recognizes the client's own errors, which have no exported names.
func unsupported(err error) bool {
	if errors.Is(err, kerr.UnsupportedVersion) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "request key is unknown") || strings.Contains(text, "broker is too old")
}

// IsUnsupported reports whether the broker lacks the API.
func IsUnsupported(err error) bool { return err != nil && unsupported(err) }

// remedies returns the remedies by error code. They fit every command; a command with a better one
// reports another error, as group reset does.
func remedies() map[int16]string {
	const (
		changing = "the group's members are changing: try again"
		offline  = "the partition's log or its directory is offline, or the disk is full: chronikctl cluster health and the broker's log " +
			"show the cause"
		damaged = "a stored batch is damaged: chronikctl log verify, with the broker stopped or on a copy of its directory, lists the " +
			"damage, " +
			"and chronikctl log repair removes it"
	)
	const coordinator = "the group's coordinator is loading its offsets, or cannot write them: try again; if it persists, chronikctl " +
		"cluster health shows the cause"
	const fenced = "another producer has taken the transactional id, or the transaction was open for longer than its timeout: " +
		"chronikctl txn describe shows the id"
	const leaderless = "an election takes a second or two; chronikctl topic describe TOPIC and chronikctl cluster health say what " +
		"an offline partition waits for"
	const timedOut = "try again; if it persists, chronikctl cluster health says which brokers are missing"
	return map[int16]string{
		kerr.LeaderNotAvailable.Code:                 leaderless,
		kerr.RequestTimedOut.Code:                    timedOut,
		kerr.TopicAlreadyExists.Code:                 "choose another name, or add --if-not-exists",
		kerr.UnknownTopicOrPartition.Code:            "chronikctl topic list shows the topics, topic describe their partitions",
		kerr.InvalidTopicException.Code:              "use 1 to 249 letters, digits, '.', '_' and '-'",
		kerr.InvalidPartitions.Code:                  "chronikctl topic describe shows how many there are",
		kerr.InvalidReplicationFactor.Code:           "chronikctl broker list shows how many brokers there are; give fewer replicas (--replication-factor), or lower default.replication.factor if none were given",
		kerr.InvalidConfig.Code:                      "chronikctl config describe shows each config and its bounds",
		kerr.MessageTooLarge.Code:                    "raise the topic's max.message.bytes (chronikctl config set), or send less at a time (--max-batch-bytes)",
		kerr.NonEmptyGroup.Code:                      "stop its members first; chronikctl group describe shows them",
		kerr.GroupIDNotFound.Code:                    "chronikctl group list shows the groups",
		kerr.GroupSubscribedToTopic.Code:             "stop the members that read the topic first; chronikctl group describe shows them",
		kerr.InvalidGroupID.Code:                     "give a name that is not empty",
		kerr.CoordinatorNotAvailable.Code:            coordinator,
		kerr.CoordinatorLoadInProgress.Code:          coordinator,
		kerr.UnknownMemberID.Code:                    changing,
		kerr.RebalanceInProgress.Code:                changing,
		kerr.OffsetOutOfRange.Code:                   "chronikctl topic describe shows which offsets there are",
		kerr.PolicyViolation.Code:                    "a policy of the broker forbids it, see its message; chronikctl cluster health reports whether its disk is full",
		kerr.TopicDeletionDisabled.Code:              "the broker has delete.topic.enable=false",
		kerr.KafkaStorageError.Code:                  offline,
		kerr.CorruptMessage.Code:                     damaged,
		kerr.NotEnoughReplicas.Code:                  "too few replicas are in sync: chronikctl cluster health names the partitions",
		kerr.TopicAuthorizationFailed.Code:           permission("on the topic"),
		kerr.GroupAuthorizationFailed.Code:           permission("on the group"),
		kerr.ClusterAuthorizationFailed.Code:         permission("on the cluster"),
		kerr.SaslAuthenticationFailed.Code:           "check --sasl, --sasl-user and the password",
		kerr.UnsupportedSaslMechanism.Code:           "choose another mechanism with --sasl",
		kerr.InvalidTimestamp.Code:                   "chronikctl config describe topic NAME message.timestamp.type shows which timestamps the topic accepts",
		kerr.UnsupportedCompressionType.Code:         "choose another --compression",
		kerr.PreferredLeaderNotAvailable.Code:        "its first replica is not active, not in sync, or low on space: chronikctl topic describe shows it; wait until it has caught up",
		kerr.EligibleLeadersNotAvailable.Code:        "start a broker that has a replica (chronikctl topic describe names them); if the only one is lost, chronikctl topic move adds one first",
		kerr.ReassignmentInProgress.Code:             "wait until its replicas have moved",
		kerr.UnstableOffsetCommit.Code:               "a transaction has not ended yet: try again",
		kerr.BrokerIDNotRegistered.Code:              "chronikctl broker list shows the brokers",
		kerr.TransactionalIDAuthorizationFailed.Code: permission("on the transactional id"),
		kerr.ProducerFenced.Code:                     fenced,
		kerr.InvalidProducerEpoch.Code:               fenced,
		kerr.InvalidTxnState.Code:                    fenced,
		kerr.ConcurrentTransactions.Code:             "the transaction before has not ended: try again; chronikctl txn describe shows which markers are missing",
		kerr.InvalidTransactionTimeout.Code:          "choose a shorter timeout; the broker's transaction.max.timeout.ms bounds it",
		kerr.ListenerNotFound.Code: "the partition's leader has no listener of the name of the one that was dialed: " +
			"chronikctl cluster health names the brokers that lack it",
		kerr.TransactionCoordinatorFenced.Code: "the partition knows a later coordinator: run chronikctl txn find-hanging again",
	}
}

// RequestFailed returns the error of a request if no broker answered any part of it. If only some
// did, for example because partitions have no leader, the missing parts are not in the answer.
func RequestFailed(err error) error {
	if s := (*kadm.ShardErrors)(nil); errors.As(err, &s) && !s.AllFailed {
		return nil
	}
	return err
}

// NoneAnswered reports whether an error means that no broker answered. Partitions without a leader
// do not count, even if no others were requested.
func NoneAnswered(err error) bool {
	return RequestFailed(err) != nil && !errors.Is(err, kerr.LeaderNotAvailable)
}

// BrokerError unwraps the broker's error from the errors that the client library wraps around it.
func BrokerError(err error) error {
	if s := (*kadm.ShardErrors)(nil); errors.As(err, &s) && len(s.Errs) > 0 {
		return s.Errs[0].Err
	}
	return err
}
