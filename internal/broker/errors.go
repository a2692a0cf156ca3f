package broker

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/errcode"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/text"
)

// errTimedOut: something did not happen within the request's timeout.
var errTimedOut = protocolErrorf(kerr.RequestTimedOut, "timed out")

// codeByID is code for requests that name their topics by id: a deleted topic gets the error that
// later requests will get.
func codeByID(err error) int16 {
	if errors.Is(err, replica.ErrDeleted) {
		return kerr.UnknownTopicID.Code
	}
	return code(err)
}

// code returns the code of an error, see errcode.Of; 0 for nil.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	return errcode.Of(err).Code
}

// code is the package's code, for an answer to a request.
func (b *Handler) code(r *network.Request, err error) int16 {
	return b.answered(protocol.NameOf(r.Key), err, code(err))
}

// codeByID is the package's codeByID, for an answer to a request.
func (b *Handler) codeByID(r *network.Request, err error) int16 {
	return b.answered(protocol.NameOf(r.Key), err, codeByID(err))
}

// answered returns c, the code of err, and logs an error that has none of its own: the answer does
// not say what it was. An error that is UNKNOWN_SERVER_ERROR itself is logged where it arose.
func (b *Handler) answered(to string, err error, c int16) int16 {
	if c != kerr.UnknownServerError.Code || errors.Is(err, kerr.UnknownServerError) {
		return c
	}
	if n, say := b.unknown.Failed(to, err); say {
		b.opt.Logger.Error("a request failed with an error that the protocol has no code for", zap.String("request", to),
			zap.Int("failures", n), zap.Error(err))
	}
	return c
}

// refusal is a protocol error with a message of its own.
type refusal struct {
	code *kerr.Error
	msg  string
}

func (r *refusal) Error() string { return r.msg }

func (r *refusal) Unwrap() error { return r.code }

// maxMessage bounds the message of an error in an answer, which may quote the request. The older
// encodings can't represent a message longer than 32,767 bytes.
const maxMessage = 8 << 10

// message returns the message of an error for an answer.
func message(err error) string {
	s := err.Error()
	if len(s) <= maxMessage {
		return s
	}
	return text.Cut(s, maxMessage-len("…")) + "…"
}

// protocolErrorf returns an error that clients receive with this code and message.
func protocolErrorf(code *kerr.Error, format string, args ...any) error {
	return &refusal{code: code, msg: fmt.Sprintf(format, args...)}
}
