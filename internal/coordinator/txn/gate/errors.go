package gate

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Error is why the gate refuses a batch. It matches Code, an error of the protocol as coordinators
// know it: older versions of Produce don't have all of them.
type Error struct {
	Code *kerr.Error
	msg  string
}

// Error implements error.
func (e *Error) Error() string { return e.msg }

// Unwrap makes the error match Code.
func (e *Error) Unwrap() error { return e.Code }

func refusal(code *kerr.Error, format string, args ...any) error {
	return &Error{Code: code, msg: fmt.Sprintf(format, args...)}
}

// String describes the producer in errors.
func (p Producer) String() string {
	return fmt.Sprintf("producer %d with epoch %d of transactional id %q", p.ID, p.Epoch, p.TransactionalID)
}

// errRefused is the final answer of a coordinator.
func errRefused(p Producer, err *kerr.Error) error {
	switch err {
	case kerr.InvalidProducerIDMapping:
		return refusal(err, "%s: the transactional id has another producer id, or is unknown or expired; start the producer again", p)
	case kerr.ProducerFenced, kerr.InvalidProducerEpoch:
		return refusal(err, "%s is fenced: a newer producer has the id, or the transaction took longer than its timeout", p)
	}
	return refusal(kerr.TransactionAbortable, "%s: the partition is not in an open transaction; abort the transaction", p)
}

// errUnanswered ends a batch that got only temporary answers until its deadline.
func errUnanswered(p Producer, err *kerr.Error) error {
	return refusal(kerr.NotEnoughReplicas, "%s: the transaction coordinator has not permitted the batch yet (%s); send it again",
		p, err.Message)
}

func errOutdated(p Producer, err error) error {
	return refusal(kerr.NotEnoughReplicas, "%s: the transaction coordinator's permits are outdated (%v); send the batch again", p, err)
}

func errFull(p Producer) error {
	return refusal(kerr.NotEnoughReplicas, "%s: %d batches wait for the transaction coordinator already; send the batch again later",
		p, maxQueue)
}

func errClosed() error {
	return refusal(kerr.NotLeaderForPartition, "this broker is stopping: send the batch to the new leader")
}

// errGone ends a batch whose sender can't receive an answer.
func errGone() error {
	return refusal(kerr.NetworkException, "the connection ended while the batch waited for the transaction coordinator")
}
