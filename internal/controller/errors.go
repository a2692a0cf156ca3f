package controller

import "fmt"

// Kind is what is wrong with what was asked for.
type Kind uint8

// The kinds of refusal, named like the protocol errors that they become.
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
)

// Error is a refusal: nothing was changed, and asking again will not help.
type Error struct {
	Kind Kind
	Msg  string // for the client
}

func (e *Error) Error() string { return e.Msg }

func refuse(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}
