package storage

import (
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/storage/producers"
)

// Errors that callers distinguish. The broker maps each to a protocol error.
var (
	// ErrOffsetOutOfRange: the offset lies below the log's start or above its end.
	ErrOffsetOutOfRange = errors.New("offset is out of range")
	// ErrFailed: the log or its directory cannot accept or return records now.
	ErrFailed = errors.New("storage failed")
	// ErrLowSpace: the directory has too little free space for new records. The condition is
	// temporary; no offset was assigned.
	ErrLowSpace = errors.New("free space reserve reached")
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = errors.New("stored record batch is damaged")
	// ErrClosed: the log was closed or deleted.
	ErrClosed = errors.New("log is closed")
	// ErrExists: the log already exists.
	ErrExists = errors.New("log already exists")
	// ErrGap: an append from a leader does not continue the log of the follower.
	ErrGap = errors.New("append does not continue the log")
	// ErrOutOfOrderSequence and ErrInvalidProducerEpoch: a batch of an idempotent producer does not
	// follow the producer's last batch in the log.
	ErrOutOfOrderSequence   = producers.ErrOutOfOrderSequence
	ErrInvalidProducerEpoch = producers.ErrInvalidProducerEpoch
	// ErrTransactionOpen, ErrUnverified and ErrTooManyTransactions: a batch does not fit the
	// transactions of its producer. ErrCoordinatorFenced and ErrForeignMarker: a marker does not
	// come from the transaction's coordinator.
	ErrTransactionOpen     = producers.ErrTransactionOpen
	ErrUnverified          = producers.ErrUnverified
	ErrTooManyTransactions = producers.ErrTooManyTransactions
	ErrCoordinatorFenced   = producers.ErrCoordinatorFenced
	ErrForeignMarker       = producers.ErrForeignMarker
	// ErrFencedEpoch: the append was accepted under a leader epoch or a role that the log does not
	// have, or not any longer. No offset was assigned. See Log.SetLeaderEpoch.
	ErrFencedEpoch = errors.New("leader epoch is fenced")
	// ErrLocked: another broker or a tool uses the log directory.
	ErrLocked = errors.New("log directory is in use")
	// ErrForeign: journal, directory and cluster do not belong together.
	ErrForeign = errors.New("journal, directory and cluster do not match")
)

// foreign returns an ErrForeign that reports what does not belong together and how to resolve it.
func foreign(format string, args ...any) error {
	return &foreignError{fmt.Errorf(format, args...)}
}

type foreignError struct{ error }

func (e *foreignError) Unwrap() []error { return []error{ErrForeign, e.error} }

// DirError reports why one of several log directories cannot be used.
type DirError struct {
	Path    string // of the log directory
	Journal string // of its journal, if it is not in the log directory
	// ID is the directory's identity, zero if it could not be read.
	ID  [16]byte
	Err error
	// Replicated: other brokers may have what the directory lacks; see Options.
	Replicated bool
}

// Away returns what lets the broker copy the replicas of the directory from other brokers.
func (e *DirError) Away() string { return away(e.Location()) }

// Location returns the paths of the directory and its journal.
func (e *DirError) Location() Location { return Location{Path: e.Path, Journal: e.Journal} }

// Error names the directory and the cause.
func (e *DirError) Error() string { return "log directory " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DirError) Unwrap() error { return e.Err }
