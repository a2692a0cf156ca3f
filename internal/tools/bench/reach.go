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
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/seeds"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
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

// reachTime bounds how long the brokers that a user has named may take to answer.
const reachTime = 10 * time.Second

// Reachable returns the brokers for the clients of a run: the first one that answers, and those
// that were not asked. Without it, each client would wait many seconds for a broker that hangs. If
// none answers, Reachable returns an error with a remedy.
func Reachable(ctx context.Context, brokers []string, secure *tls.Config) ([]string, error) {
	cl, err := kgo.NewClient(load.Reach(brokers, secure)...)
	if err != nil {
		return nil, cli.Usage("--bootstrap-servers: create a client for %v: %w", brokers, err)
	}
	defer cl.Close()
	within, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	left, failed := seeds.Reach(within, cl, brokers, reachTime)
	switch {
	case failed == nil:
		return left, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !slices.ContainsFunc(failed, func(err error) bool { return !seeds.Late(err) }):
		return nil, Explain(brokers, fmt.Errorf("no answer within %v: %w", reachTime, context.DeadlineExceeded))
	}
	return nil, Explain(brokers, seeds.Join(brokers, failed))
}

// Explain adds the remedy to an error of the first requests of a run: the brokers' addresses may be
// wrong, or no broker may be running, which has its own exit code.
func Explain(brokers []string, err error) error {
	switch {
	case err == nil:
		return nil
	case tlsRemedy(err) != "":
		return cli.WithCode(cli.ExitUnreachable, fmt.Errorf("%s (--bootstrap-servers): %w; %s",
			strings.Join(brokers, ","), err, tlsRemedy(err)))
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

// tlsRemedy returns what to change if TLS failed, else "".
func tlsRemedy(err error) string {
	switch certs.Explain(err) {
	case certs.NoFailure:
		if errors.Is(err, seeds.ErrAlert) {
			return "it uses TLS: name with --tls-ca the authority that signed its certificate"
		}
		return ""
	case certs.PlainText, certs.Disagreed:
		return "it does not use TLS 1.3 there: remove --tls-ca, or name its port for TLS"
	case certs.OursMissing, certs.OursRefused, certs.OursExpired, certs.OursAuthority:
		return "it requires a certificate of clients, and chronik-bench has none: name another port"
	case certs.OtherVersion, certs.OtherAlert:
		return "it does not accept TLS 1.3 as chronik-bench offers it; its log says more"
	}
	return "name with --tls-ca the authority that signed the broker's certificate, and an address that the certificate has"
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
