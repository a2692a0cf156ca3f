package record

import (
	"errors"
	"fmt"
)

// ErrShort is returned by Next and PeekSize when p ends before the batch does:
// the bytes so far are not wrong, there are too few of them. A scan of a file
// meets it at a torn end; a client that sends it has sent no batch (EmptySet).
var ErrShort = errors.New("record batch is cut short")

// Kind says in which way a batch was refused. The broker maps a Kind to a
// protocol error code in one place.
type Kind uint8

// The zero Kind is not used, so that a forgotten one cannot look like a cause.
const (
	// Corrupt: the bytes are not what their writer meant to write: a length
	// outside the data, an unknown magic, a CRC that does not match. Sending it
	// again may help (CORRUPT_MESSAGE).
	Corrupt Kind = iota + 1
	// TooLarge: the batch is over max.message.bytes, as sent or after
	// re-compression, or inflates to more than the broker is willing to inflate.
	// Producers split the batch and send it again (MESSAGE_TOO_LARGE).
	TooLarge
	// InvalidRecord: the bytes arrived whole but break a rule of the format or of
	// the topic; sending them again will not help (INVALID_RECORD).
	InvalidRecord
	// InvalidTimestamp: a timestamp outside the topic's limits, or a timestamp
	// type a producer may not set (INVALID_TIMESTAMP).
	InvalidTimestamp
	// UnsupportedCodec: the attributes name a codec that does not exist
	// (UNSUPPORTED_COMPRESSION_TYPE).
	UnsupportedCodec
	// UnsupportedFormat: a message set of format 0 or 1, which Kafka 4 takes from
	// nobody (KIP-724); a newer client library is the remedy.
	UnsupportedFormat
	// EmptySet: no whole batch where exactly one is required. As in Kafka the client is at
	// fault, and sending it again will not help (INVALID_RECORD).
	EmptySet
	// Transactional: a transactional batch where Rules.AllowTransactional is off.
	Transactional
)

// String returns the name of the kind as it is written in logs.
func (k Kind) String() string {
	switch k {
	case Corrupt:
		return "corrupt"
	case TooLarge:
		return "too large"
	case InvalidRecord:
		return "invalid record"
	case InvalidTimestamp:
		return "invalid timestamp"
	case UnsupportedCodec:
		return "unsupported codec"
	case UnsupportedFormat:
		return "unsupported format"
	case EmptySet:
		return "empty set"
	case Transactional:
		return "transactional"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Finding names one record for which a batch was refused, and why; a produce
// response lists them (KIP-467).
type Finding struct {
	Index int32 // position of the record in its batch, from 0
	Msg   string
}

// MaxFindings is the number of records that an Error lists; a batch of which
// every record is wrong needs no longer list to be understood.
const MaxFindings = 32

// Error says what is wrong with a batch. Msg is meant for the client: the cause,
// with the numbers that show it.
type Error struct {
	Kind  Kind
	Batch int // position of the batch in the data, from 0
	// Record is the position of the first wrong record, -1 when the batch as a
	// whole is at fault.
	Record int32
	Msg    string
	// Records lists the wrong records in order, at most MaxFindings, the first
	// of them being Record. It is empty when Record is -1.
	Records []Finding
}

// Error returns kind, place and cause in one line.
func (e *Error) Error() string {
	if e.Record >= 0 {
		return fmt.Sprintf("record batch: %s: record %d: %s", e.Kind, e.Record, e.Msg)
	}
	return fmt.Sprintf("record batch: %s: %s", e.Kind, e.Msg)
}

// refuse makes an Error about a batch as a whole.
func refuse(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Record: -1, Msg: fmt.Sprintf(format, args...)}
}

// refuseAt makes an Error about one record.
func refuseAt(k Kind, index int32, format string, args ...any) *Error {
	msg := fmt.Sprintf(format, args...)
	return &Error{Kind: k, Record: index, Msg: msg, Records: []Finding{{index, msg}}}
}
