package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Refused says what was tried, why it failed, and what to do. message is what
// the broker said beyond the error's name; empty for nothing.
func Refused(what string, err error, message string) error {
	return fmt.Errorf("%s: %w", what, &refusal{err, message})
}

// refusal is an error with the broker's own words and a remedy.
type refusal struct {
	err     error
	message string
}

func (r *refusal) Unwrap() error { return r.err }

func (r *refusal) Error() string {
	text := r.err.Error()
	if k := (*kerr.Error)(nil); errors.As(r.err, &k) {
		text = k.Message + ": " + k.Description
		if r.message != "" {
			text = k.Message + ": " + r.message
		}
	}
	missing := (*noTopic)(nil)
	if errors.As(r.err, &missing) {
		return missing.Error() + "; " + missing.remedy()
	}
	text = strings.TrimRight(strings.ReplaceAll(text, "\n", " "), ". ")
	remedy := Remedy(r.err)
	switch {
	case strings.HasPrefix(r.message, "Cannot update these configs dynamically"):
		remedy = "they change with the broker's own configuration and a restart"
	case r.message != "" && errors.Is(r.err, kerr.PolicyViolation):
		remedy = "" // the broker has said which policy it is
	}
	if remedy != "" {
		text += "; " + remedy
	}
	return text
}

// Remedy is what to do about an error; empty where its text says all there is.
func Remedy(err error) string {
	var k *kerr.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		return "the broker did not answer in time: try again, or allow more with --timeout"
	case unsupported(err):
		return "this broker does not offer that API; chronikctl api-versions lists what it offers"
	case err.Error() == "unknown broker": // the client's; it has no exported name
		return "chronikctl broker list shows the brokers"
	case !errors.As(err, &k):
		return ""
	}
	if r := remedies()[k.Code]; r != "" {
		return r
	}
	if k.Retriable {
		return "this passes as a rule: try again"
	}
	return ""
}

// unsupported recognises the client's own verdicts, which have no exported
// names, beside the broker's.
func unsupported(err error) bool {
	if errors.Is(err, kerr.UnsupportedVersion) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "request key is unknown") || strings.Contains(text, "broker is too old")
}

// IsUnsupported says whether the broker has no API for it.
func IsUnsupported(err error) bool { return err != nil && unsupported(err) }

// remedies are by error code. They hold for every command that meets the code: one that knows
// better reports another error, as group reset does.
func remedies() map[int16]string {
	const (
		changing = "the group's members are changing: try again"
		offline  = "the partition's log or its directory is offline, or the disk is full: chronikctl cluster health and the broker's log " +
			"name the cause"
		damaged = "a stored batch is damaged: chronikctl log verify, with the broker stopped or on a copy of its directory, lists the damage, " +
			"and chronikctl log repair removes it"
	)
	const coordinator = "the group's coordinator loads its offsets, or cannot write them: try again; if it stays so, chronikctl cluster health names the cause"
	const user = "ask for the right to it, or use another user (--sasl-user)"
	return map[int16]string{
		kerr.TopicAlreadyExists.Code:                 "choose another name, or add --if-not-exists",
		kerr.UnknownTopicOrPartition.Code:            "chronikctl topic list shows the topics, topic describe their partitions",
		kerr.InvalidTopicException.Code:              "use 1 to 249 letters, digits, '.', '_' and '-'",
		kerr.InvalidPartitions.Code:                  "chronikctl topic describe shows how many there are",
		kerr.InvalidReplicationFactor.Code:           "chronikctl broker list shows how many brokers there are; -1 takes the broker's default",
		kerr.InvalidConfig.Code:                      "chronikctl config describe shows each config with its bounds",
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
		kerr.PolicyViolation.Code:                    "a rule of the broker forbids it: its words say which; chronikctl cluster health says whether its disk is full",
		kerr.TopicDeletionDisabled.Code:              "the broker has delete.topic.enable=false",
		kerr.KafkaStorageError.Code:                  offline,
		kerr.CorruptMessage.Code:                     damaged,
		kerr.NotEnoughReplicas.Code:                  "too few replicas are in sync: chronikctl cluster health names the partitions",
		kerr.TopicAuthorizationFailed.Code:           user,
		kerr.GroupAuthorizationFailed.Code:           user,
		kerr.ClusterAuthorizationFailed.Code:         user,
		kerr.SaslAuthenticationFailed.Code:           "check --sasl, --sasl-user and the password",
		kerr.UnsupportedSaslMechanism.Code:           "choose another mechanism with --sasl",
		kerr.InvalidTimestamp.Code:                   "chronikctl config describe topic NAME message.timestamp.type says which timestamps it takes",
		kerr.UnsupportedCompressionType.Code:         "choose another --compression",
		kerr.ReassignmentInProgress.Code:             "wait until its replicas have moved",
		kerr.UnstableOffsetCommit.Code:               "a transaction has not ended yet: try again",
		kerr.BrokerIDNotRegistered.Code:              "chronikctl broker list shows the brokers",
		kerr.TransactionalIDAuthorizationFailed.Code: user,
	}
}

// RequestFailed is the error of a request of which no part was answered. What the client does not
// get from one broker, as of partitions without a leader, is missing in the answer.
func RequestFailed(err error) error {
	if s := (*kadm.ShardErrors)(nil); errors.As(err, &s) && !s.AllFailed {
		return nil
	}
	return err
}

// Words splits what the client library wraps around a broker's verdict: its
// error, and nothing of the library's own.
func Words(err error) error {
	if s := (*kadm.ShardErrors)(nil); errors.As(err, &s) && len(s.Errs) > 0 {
		return s.Errs[0].Err
	}
	return err
}
