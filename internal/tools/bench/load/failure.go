package load

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// noOffset is the failure of a response with error 0 and without a valid offset.
const noOffset = "answer: no valid offset"

// codeName returns Kafka's name of an error code other than 0.
func codeName(code int16) string { return FailureName(kerr.ErrorForCode(code)) }

// FailureName maps an error to one of a few names, so that a table of failures stays short.
func FailureName(err error) string {
	var kafka *kerr.Error
	var timeout net.Error
	switch {
	case errors.As(err, &kafka):
		return kafka.Message
	case errors.Is(err, wire.ErrAnswer), errors.Is(err, wire.ErrFrame):
		return "answer: malformed"
	case errors.Is(err, wire.ErrOther):
		return wire.ErrOther.Error()
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		return "client: gave up after retries"
	case errors.Is(err, kgo.ErrMaxBuffered):
		return "client: buffer full"
	case errors.Is(err, kgo.ErrClientClosed), errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return "connection: closed by us at the end"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection: refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection: reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection: closed by the broker"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "connection: no answer in time"
	default:
		return "connection: other"
	}
}
