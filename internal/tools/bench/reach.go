package bench

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/security/certs"
)

// Secure returns the TLS configuration of clients that trust the authorities in a PEM file; nil
// without a file. It offers TLS 1.3 and the key exchange X25519 only, which Kafka has too, so that
// all brokers do the same work.
func Secure(authorities string) (*tls.Config, error) {
	if authorities == "" {
		return nil, nil //nolint:nilnil // no TLS
	}
	text, err := os.ReadFile(authorities)
	if err != nil {
		return nil, cli.Usage("--tls-ca: %w; name the PEM file of the authority that signed the broker's certificate", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, cli.Usage("--tls-ca: %s has no certificate; name the PEM file of the authority that signed the broker's certificate",
			authorities)
	}
	c := certs.Base()
	c.RootCAs, c.MinVersion, c.CurvePreferences = pool, tls.VersionTLS13, []tls.CurveID{tls.X25519}
	return c, nil
}

// Explain adds the remedy to an error of the first requests of a run: the brokers' addresses may be
// wrong, or no broker may be running, which has its own exit code.
func Explain(brokers []string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("%s (--bootstrap-servers): %w; name with --tls-ca the authority that "+
			"signed the broker's certificate, and an address that the certificate has", strings.Join(brokers, ","), err))
	case unanswered(err) && slices.ContainsFunc(brokers, func(at string) bool {
		return cli.SpeaksHTTP(context.Background(), new(net.Dialer).DialContext, at)
	}):
		return cli.WithCode(cli.ExitUnreachable,
			fmt.Errorf("no response from %s (--bootstrap-servers): an HTTP server listens there, perhaps the admin port; "+
				"name the port for clients", strings.Join(brokers, ",")))
	case unanswered(err):
		return cli.WithCode(
			cli.ExitUnreachable,
			fmt.Errorf(
				"no response from %s (--bootstrap-servers): %w; check that a broker is running there",
				strings.Join(brokers, ","),
				err,
			),
		)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%w; add --create-topic to create it, or name another with --topic", err)
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return fmt.Errorf("%w; choose another --replication-factor", err)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("%w; choose another --topic, of 1 to 249 letters, digits, '.', '_' and '-'", err)
	case errors.Is(err, kerr.InvalidConfig):
		return fmt.Errorf("%w; choose another --topic-config", err)
	}
	return err
}

// unanswered reports whether err is not a response of a broker.
func unanswered(err error) bool {
	var op *net.OpError
	var kind *kerr.Error
	switch {
	case errors.As(err, &kind):
		return false
	case errors.As(err, &op), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF):
		return true
	}
	return strings.Contains(err.Error(), "the beginning of an HTTP response") // the client's error has no exported name
}

// refusal is a broker's error in its own words without the final period, because a remedy follows.
type refusal struct {
	err     error
	message string // the broker's text in addition to the error's name; may be empty
}

func (r *refusal) Unwrap() error { return r.err }

func (r *refusal) Error() string {
	text := r.err.Error()
	if k := (*kerr.Error)(nil); errors.As(r.err, &k) {
		text = k.Message + ": " + cmp.Or(r.message, k.Description)
	}
	return strings.TrimRight(text, ". ")
}
