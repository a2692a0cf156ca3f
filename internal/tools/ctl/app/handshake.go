package app

import (
	"context"
	"errors"
	"io"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/cli/seeds"
	"github.com/chronik-io/chronik/internal/security/certs"
)

// handshakeRemedy returns what to change if a TLS handshake or a login with a broker failed, else
// "". It is the only place that decides this. secured reports that a TLS handshake succeeded.
func (a *App) handshakeRemedy(ctx context.Context, err error, secured bool) string {
	if remedy := tlsRemedy(certs.Explain(err), a.ownCertificate()); remedy != "" {
		return remedy
	}
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
		return Remedy(err)
	case errors.Is(err, kerr.IllegalSaslState):
		return "it has no authentication there: remove the sasl settings, or give another port with --brokers"
	case errors.Is(err, seeds.ErrAlert), dropped(err) && !secured && a.usesTLS(ctx):
		return "it uses TLS there: add --tls-ca with the certificate of the authority that signed its certificate, or --tls if this machine " +
			"trusts that authority"
	case !errors.Is(err, io.EOF):
		return ""
	case secured:
		return "it closed the connection after the TLS handshake: it may require authentication there (--sasl)"
	case a.Settings.Encrypted():
		return "it closed the connection: it may not use TLS there; remove the tls settings, or give its TLS port with --brokers"
	case a.Settings.Get(contexts.SASL) != "":
		return "it closed the connection: a limit of connections may be reached, then its log says so; otherwise it may not support " +
			"authentication there: remove the sasl settings, or give another port with --brokers"
	}
	return "it closed the connection: does it require authentication (--sasl), or a certificate (--tls-ca, --tls-cert)?"
}

// dropped reports whether the other end ended the connection instead of an answer. A server that
// closes before it has read everything resets the connection.
func dropped(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// ownCertificate reports whether the command has a certificate of its own.
func (a *App) ownCertificate() bool { return a.Settings.Get(contexts.TLSCert) != "" }

// tlsRemedy returns what to change after a failure of TLS, else "". own reports that the command
// has a certificate.
func tlsRemedy(f certs.Failure, own bool) string {
	const accepted = "one that the broker accepts, signed by an authority in its tls.client-ca"
	switch {
	case f == certs.PlainText:
		return "it does not use TLS there: remove the tls settings, or give its TLS port with --brokers"
	case f == certs.TheirAuthority:
		return "give the certificate of the authority that signed its certificate with --tls-ca"
	case f == certs.TheirName:
		return "give the name in its certificate with --tls-server-name"
	case f == certs.TheirDate:
		return "renew its certificate, or correct the clock of this machine"
	case f == certs.TheirCertificate:
		return "give the broker another certificate"
	case f == certs.OursMissing && !own, f == certs.OursRefused && !own:
		return "it requires a certificate of clients: give " + accepted + ", with --tls-cert and --tls-key"
	case f == certs.OursMissing, f == certs.OursAuthority:
		return "the certificate of --tls-cert is of no authority that the broker trusts: give " + accepted
	case f == certs.OursExpired:
		return "the certificate of --tls-cert has expired, or the broker's clock is wrong: renew the certificate"
	case f == certs.OursRefused:
		return "it does not accept the certificate of --tls-cert: give " + accepted + ", that has not expired and is for clients " +
			"(extended key usage clientAuth)"
	case f == certs.OtherVersion:
		return "it has no version of TLS in common with chronikctl, which needs TLS 1.2 or later: change the broker's (tls.min-version)"
	case f == certs.Disagreed:
		return "it may not use TLS there: remove the tls settings, or give its TLS port with --brokers; with TLS 1.2, it may also require a " +
			"certificate (--tls-cert)"
	case f == certs.OtherAlert:
		return "it ended the TLS handshake; the broker's log says more"
	}
	return ""
}

// usesTLS reports whether a seed completes a TLS handshake up to its certificate. It asks only if
// the requests were not encrypted, and closes the connections without a request.
func (a *App) usesTLS(ctx context.Context) bool {
	if a.Settings.Encrypted() {
		return false
	}
	return a.anySeed(func(at string) bool {
		_, err := a.Certificates(ctx, at)
		return err == nil
	})
}
