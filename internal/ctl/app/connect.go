package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/contexts"
)

// dialTime bounds the first answer: a command should not wait where no broker is.
const dialTime = 10 * time.Second

// Client connects, and fails quickly where no broker answers. Requests wait for as long
// as their kind needs.
func (a *App) Client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	return a.client(ctx, 0, opts...)
}

// client is Client on whose connections no answer is waited for longer than limit, 0 for
// no such bound.
func (a *App) client(ctx context.Context, limit time.Duration, opts ...kgo.Opt) (*kgo.Client, error) {
	base, err := a.Settings.Options()
	if err != nil {
		return nil, Usage("%w", err)
	}
	d := &dialer{tcp: a.dial, limit: limit}
	if d.tls, err = a.Settings.TLSConfig(); err != nil {
		return nil, Usage("%w", err)
	}
	timeout := a.Settings.Timeout()
	first := min(timeout, dialTime)
	base = append(base,
		kgo.ClientID("chronikctl"),
		kgo.SoftwareNameAndVersion("chronikctl", SoftwareVersion(a.Version)),
		kgo.RetryTimeout(timeout),
		kgo.RecordDeliveryTimeout(max(timeout, time.Second)),
		kgo.RequestTimeoutOverhead(max(first, 100*time.Millisecond)), // the least that the library takes
		kgo.Dialer(d.dial),
	)
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, first)
	defer cancel()
	web := a.asksHTTP(ctx, first/2)
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, a.noAnswer(ctx, err, d.connected.Load(), web, first)
	}
	return cl, nil
}

// asksHTTP asks an address that is silent for a while in HTTP, and reports the answer
// before ctx is over, so that the error of a first request can name it.
func (a *App) asksHTTP(ctx context.Context, silence time.Duration) (web chan bool) {
	web = make(chan bool, 1)
	go func() {
		t := time.NewTimer(silence)
		defer t.Stop()
		select {
		case <-t.C:
			web <- a.speaksHTTP(ctx)
		case <-ctx.Done():
			web <- false
		}
	}()
	return web
}

func (a *App) speaksHTTP(ctx context.Context) bool {
	return !a.Settings.Encrypted() &&
		slices.ContainsFunc(a.Settings.Seeds(), func(at string) bool { return cli.SpeaksHTTP(ctx, a.dial, at) })
}

// noAnswer is the error of a first request that failed, in ctx, which is over after the
// time first. web is the answer of asksHTTP.
func (a *App) noAnswer(ctx context.Context, err error, connected bool, web chan bool, first time.Duration) error {
	var timeout net.Error
	late := ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout()
	if connected && (late && <-web || !late && a.speaksHTTP(ctx)) {
		err = errWeb
	}
	from := fmt.Sprintf("no answer from %s (%s)", strings.Join(a.Settings.Seeds(), ", "), a.Settings.Source(contexts.Brokers))
	if connected && late && !errors.Is(err, errWeb) {
		return WithCode(ExitUnreachable, fmt.Errorf("%s within %v: connected, but nothing answers there; a broker that hangs says more in "+
			"its log, --timeout allows more time", from, first))
	}
	return WithCode(ExitUnreachable, fmt.Errorf("%s: %w; %s", from, plainly(err), a.whyNoAnswer(err)))
}

// errWeb is the answer of an HTTP server.
var errWeb = errors.New("HTTP is spoken there, not Kafka's protocol")

// whyNoAnswer is what to look at where no broker answered.
func (a *App) whyNoAnswer(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var header tls.RecordHeaderError
	var dns *net.DNSError
	var remote *net.OpError
	var eof *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, errWeb):
		return "that may be the admin port: name the one for clients with --brokers"
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
		return Remedy(err)
	case errors.As(err, &authority):
		return "name the authority that signed its certificate with --tls-ca"
	case errors.As(err, &host):
		return "give the name that its certificate has with --tls-server-name"
	case errors.As(err, &header):
		return "it does not speak TLS there: leave the tls settings out, or name its TLS port with --brokers"
	case errors.As(err, &remote) && remote.Op == "remote error": // crypto/tls's, of an alert
		return "it refused the TLS handshake: it may not speak TLS there; leave the tls settings out, or name its TLS port with --brokers; " +
			"a broker that does wants another certificate (--tls-cert) or version"
	case errors.As(err, &dns):
		return "is the name right?"
	case !errors.Is(err, io.EOF) && !errors.As(err, &eof):
	case a.Settings.Get(contexts.SASL) != "":
		return "it closed the connection: it may not offer authentication there; leave the sasl settings out, or name another port with --brokers"
	case a.Settings.Encrypted():
		return "it closed the connection: it may not speak TLS there; leave the tls settings out, or name its TLS port with --brokers"
	default:
		return "it closed the connection: does it want TLS (--tls) or authentication (--sasl)?"
	}
	return "is it running, and is --brokers right?"
}

// Connect is Client for requests that are no data: each is answered within --timeout.
func (a *App) Connect(ctx context.Context) (*kadm.Client, error) {
	cl, err := a.client(ctx, a.Settings.Timeout())
	if err != nil {
		return nil, err
	}
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(min(a.Settings.Timeout().Milliseconds(), math.MaxInt32)))
	return adm, nil
}

// SoftwareVersion keeps what KIP-511 allows: letters, digits, dots and dashes.
func SoftwareVersion(v string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, v)
	if clean = strings.Trim(clean, ".-"); clean == "" {
		return "unknown"
	}
	return clean
}

// plainly takes the client library's own guesses out: whyNoAnswer knows the
// settings and guesses better.
func plainly(err error) error {
	if eof := (*kgo.ErrFirstReadEOF)(nil); errors.As(err, &eof) {
		return io.EOF
	}
	return err
}

// retryGap is how long a coordinator is left alone before it is asked again.
const retryGap = 100 * time.Millisecond

// WhenReady asks again while the coordinator of a group is only being found or
// made, within the time of one request.
func (a *App) WhenReady(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, a.Settings.Timeout())
	defer cancel()
	for {
		err := ask()
		if !NotReady(err) {
			return err
		}
		if pause(ctx, retryGap) != nil {
			return err
		}
	}
}

// NotReady reports whether an error says that a group's coordinator is only being found
// or made.
func NotReady(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) ||
		errors.Is(err, kerr.NotCoordinator)
}
