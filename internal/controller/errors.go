package controller

import "fmt"

// Kind is the reason of a refusal.
type Kind uint8

// The kinds of refusal, named like the corresponding protocol errors.
const (
	InvalidTopic Kind = iota + 1
	TopicExists
	UnknownTopic   // no topic of that name
	UnknownTopicID // no topic with that id
	InvalidPartitions
	InvalidReplicationFactor
	InvalidReplicaAssignment
	InvalidConfig
	InvalidRequest
	PolicyViolation
	BrokerNotRegistered
	InconsistentClusterID
	UnsupportedVersion
	DuplicateBroker  // another process uses the broker id
	StaleBrokerEpoch // the process is not the registered one, or no longer
	UnknownMember    // it was unregistered
	ElectionNotNeeded
	PreferredLeaderNotAvailable
	EligibleLeadersNotAvailable
	NoReassignmentInProgress
	InvalidFeature // no such level of a feature
	ResourceNotFound

	// EndOfKinds is one more than the last kind.
	EndOfKinds
)

// Error is a refusal: nothing was changed, and retrying will not help.
type Error struct {
	Kind Kind
	Msg  string // for the client
	// Other is the topic that Msg names although the request does not: the name of the new topic
	// collides with it. Empty for other errors.
	Other string
}

func (e *Error) Error() string { return e.Msg }

// done reports whether a refusal means that what was asked for is the case.
func (e *Error) done() bool { return e.Kind == ElectionNotNeeded }

func refuse(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}

// brokerNotRegistered is in Kafka's words, which its tools print.
func brokerNotRegistered(id int32) error {
	return refuse(BrokerNotRegistered, "Broker ID %d is not currently registered", id)
}
