package record

import (
	"errors"
	"fmt"
)

// ErrShort is returned by Next and PeekSize if p ends before the batch does: the bytes so far may
// be valid. A scan of a file meets it at a torn end. A client that sends such bytes has sent no
// batch (EmptySet).
var ErrShort = errors.New("record batch is incomplete")

// Kind is the reason for which a batch was rejected. The broker maps each Kind to a protocol error
// code in one place.
type Kind uint8

// The zero Kind is unused, so that an unset Kind does not look like a reason.
const (
	// Corrupt: the bytes are not what their writer meant to write: a length outside the data, an
	// unknown magic, a wrong CRC. Sending the batch again may help (CORRUPT_MESSAGE).
	Corrupt Kind = iota + 1
	// TooLarge: the batch exceeds max.message.bytes, as sent or after re-compression, or its
	// inflated size exceeds the broker's limit. Producers split the batch and send it again
	// (MESSAGE_TOO_LARGE).
	TooLarge
	// InvalidRecord: the bytes are undamaged but break a rule of the format or of the topic;
	// sending them again does not help (INVALID_RECORD).
	InvalidRecord
	// InvalidTimestamp: a timestamp outside the topic's limits, or a timestamp type that a producer
	// may not set (INVALID_TIMESTAMP).
	InvalidTimestamp
	// UnsupportedCodec: the attributes name a codec that does not exist
	// (UNSUPPORTED_COMPRESSION_TYPE).
	UnsupportedCodec
	// UnsupportedFormat: a message set of format 0 or 1, which Kafka 4 does not accept either
	// (KIP-724); the remedy is a newer client library.
	UnsupportedFormat
	// EmptySet: there is no whole batch although exactly one is required. As in Kafka this is the
	// client's fault, and sending it again does not help (INVALID_RECORD).
	EmptySet
)

// String returns the name of the kind for logs.
func (k Kind) String() string {
	names := [...]string{Corrupt: "corrupt", TooLarge: "too large", InvalidRecord: "invalid record",
		InvalidTimestamp: "invalid timestamp", UnsupportedCodec: "unsupported codec", UnsupportedFormat: "unsupported format",
		EmptySet: "empty set"}
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Finding is the reason for which one record was rejected; a produce response lists the findings
// (KIP-467).
type Finding struct {
	Index int32 // position of the record in its batch, from 0
	Msg   string
}

// MaxFindings is the largest number of records that an Error lists; if all records of a batch are
// wrong, a longer list does not help.
const MaxFindings = 32

// Error is the reason for which a batch was rejected. Msg is meant for the client: the cause, with
// the numbers that show it.
type Error struct {
	Kind  Kind
	Batch int // position of the batch in the data, from 0
	// Record is the position of the first wrong record, -1 if the batch as a whole is wrong.
	Record int32
	Msg    string
	// Records lists the wrong records in order, at most MaxFindings, beginning with Record. It is
	// empty if Record is -1.
	Records []Finding
}

// Error returns kind, position and cause in one line.
func (e *Error) Error() string {
	if e.Record >= 0 {
		return fmt.Sprintf("record batch: %s: record %d: %s", e.Kind, e.Record, e.Msg)
	}
	return fmt.Sprintf("record batch: %s: %s", e.Kind, e.Msg)
}

// refuse returns an Error about a batch as a whole.
func refuse(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Record: -1, Msg: fmt.Sprintf(format, args...)}
}

// refuseAt returns an Error about one record.
func refuseAt(k Kind, index int32, format string, args ...any) *Error {
	msg := fmt.Sprintf(format, args...)
	return &Error{Kind: k, Record: index, Msg: msg, Records: []Finding{{index, msg}}}
}
