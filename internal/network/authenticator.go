package network

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// TLSOptions makes a listener speak TLS.
type TLSOptions struct {
	// Config returns the present configuration, for one handshake. It is called for each
	// connection, so that certificates can change without a restart. The configuration must not
	// change afterwards. Its ClientAuth decides about the certificates of clients.
	Config func() *tls.Config
	// Principal returns the principal of a client certificate that was verified. An error refuses
	// the connection. nil: certificates name no user. It is not asked on a listener with SASL.
	Principal func(leaf *x509.Certificate) (string, error)
	// Trusts reports whether the present configuration accepts what a client has shown, its own
	// certificate first. It is asked for certificates that were verified, see Server.EndUntrusted.
	// nil: they stay good.
	Trusts func(shown []*x509.Certificate) bool
}

// Authenticator knows the users. Its methods are called from many goroutines.
type Authenticator interface {
	// Mechanisms returns what a listener's clients may log in with, in the order in which they are
	// told.
	Mechanisms(l *Listener) []string
	// Begin begins a login with one of these mechanisms, of a client with an address as in
	// Session.Host. It may block for seconds, on a broker that starts. An error means that logins
	// are not possible yet: the connection ends without an answer, and the client connects again.
	Begin(l *Listener, mechanism, host string) (Conversation, error)
}

// Conversation is a login that has begun. It is used by one goroutine at a time, and not after an
// error or an identity.
type Conversation interface {
	// Step takes a message of the client, which it must not keep, and returns the answer. who is
	// set when the client has logged in. err refuses the login: out is sent all the same, with
	// error code 58 and loginFailed as the text; Error is for the log. If the error has a method
	// Delay() time.Duration, the client gets its answer after that time, and meanwhile costs no
	// more than its socket.
	//
	// Step may take milliseconds of a processor: as many run at a time as there are places
	// (internal/share).
	Step(in []byte) (out []byte, who *Identity, err error)
}

// Identity is who has logged in.
type Identity struct {
	Principal string    // "User:bob"
	Mechanism string    // as in Session
	Expires   time.Time // zero: never
	// Until, if it is set, is called once with the function that ends the session early; it returns
	// the one that is called when the session is over. The first may be called at once, more than
	// once, and from any goroutine that may call Session.End.
	Until func(end func()) (forget func())
}
