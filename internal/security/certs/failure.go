package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// Failure is what the error of a TLS handshake says about its two ends, for the end that has the
// error. Both ends of all of chronik's connections decide by it what to change; each has its own
// names for the settings.
type Failure uint8

// The failures. Those of Their… are found here, about the certificate that the other end shows. The
// others are the other end's: an alert proves that it speaks TLS, except Disagreed.
const (
	// NoFailure: the error is none of TLS, such as a closed connection.
	NoFailure Failure = iota
	// PlainText: the other end answered with something that is not TLS.
	PlainText
	// TheirAuthority: no authority that is trusted here signed their certificate.
	TheirAuthority
	// TheirName: their certificate does not have the name that was dialed.
	TheirName
	// TheirDate: their certificate has expired, or is not valid yet.
	TheirDate
	// TheirCertificate is wrong in another way.
	TheirCertificate
	// OursMissing: they need a certificate and got none. An end shows none that is not of an
	// authority in the list of the server.
	OursMissing
	// OursExpired: they say that the certificate of this end has expired.
	OursExpired
	// OursAuthority: they do not trust the authority of this end's certificate.
	OursAuthority
	// OursRefused: they refuse the certificate of this end and do not say why. At brokers in Java
	// it may be each of the three above.
	OursRefused
	// OtherVersion: the ends have no version of TLS in common.
	OtherVersion
	// Disagreed: the ends have nothing in common, such as a cipher suite, or with TLS 1.2 a
	// certificate is missing. A broker of chronik answers the same on a listener without TLS, as no
	// alert says that TLS is not spoken.
	Disagreed
	// OtherAlert: they ended the handshake for another reason, which the error names.
	OtherAlert
)

// alerts has the failures of the alerts that say what to change (RFC 8446, 6.2).
var alerts = map[tls.AlertError]Failure{
	40:  Disagreed,     // handshake_failure
	42:  OursRefused,   // bad_certificate
	43:  OursRefused,   // unsupported_certificate
	44:  OursRefused,   // certificate_revoked
	45:  OursExpired,   // certificate_expired
	46:  OursRefused,   // certificate_unknown
	48:  OursAuthority, // unknown_ca
	70:  OtherVersion,  // protocol_version
	116: OursMissing,   // certificate_required
}

// remoteError is the operation of crypto/tls's errors of alerts that arrived.
const remoteError = "remote error"

// Explain returns the failure of an error of a TLS connection: of its handshake, or of its first
// read, since a client of TLS 1.3 learns only then that its certificate was refused (RFC 8446,
// 4.4.2.4).
func Explain(err error) Failure {
	var header tls.RecordHeaderError
	var op *net.OpError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &header):
		return PlainText
	case errors.As(err, &op) && op.Op == remoteError:
		return alerted(op.Err)
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return TheirAuthority
	case errors.As(err, new(x509.HostnameError)):
		return TheirName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return TheirDate
	case errors.As(err, &invalid), errors.As(err, new(*tls.CertificateVerificationError)):
		return TheirCertificate
	}
	return NoFailure
}

// alerted returns the failure of an alert. crypto/tls does not export the type of its alerts, but
// that of their words.
func alerted(alert error) Failure {
	for number, failure := range alerts {
		if alert.Error() == number.Error() {
			return failure
		}
	}
	return OtherAlert
}
