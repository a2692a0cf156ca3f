package app

import (
	"errors"
	"io"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/security/certs"
)

// Silent returns why a broker did not answer at the address that it advertises, and what to do. It
// tells apart an address where nothing can be reached, a certificate that is refused, and a broker
// that closes connections: each has another remedy.
func Silent(err error) (why, remedy string) {
	if remedy := QuotaRemedy(err); remedy != "" {
		return err.Error(), remedy
	}
	var eof *kgo.ErrFirstReadEOF
	if remedy := tlsRemedy(certs.Explain(err), false); remedy != "" {
		return err.Error(), remedy
	}
	closed := errors.Is(err, io.EOF) || errors.As(err, &eof) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	if closed && !Unconnected(err) {
		return "it closes the connection without an answer",
			"see its findings (check refused) and its log: a limit of connections such as max.connections may be reached; " +
				"on the machine of the broker, chronikctl connects also above it. Otherwise compare its settings of TLS and logins with these"
	}
	return BrokerError(err).Error(),
		"start it if it does not run; if it runs, it advertises an address that clients cannot reach (chronikd --advertise HOST:PORT)"
}
