package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

const (
	// maxVersionRequests is how many ApiVersions requests a client may send before it logs in.
	maxVersionRequests = 5
	// maxLoginSteps bounds the messages of a login; SCRAM and a refused token need two.
	maxLoginSteps = 8
	// maxPrincipal bounds a principal in bytes: "User:" and a name of 256.
	maxPrincipal = 5 + 256
	// loginFailed is all that a client learns when its login failed, whatever the cause: it must
	// not learn which users exist.
	loginFailed = "Authentication failed."
)

var (
	errLateLogin = errors.New("the client did not log in in time (login.timeout.ms)")
	errExpired   = errors.New("the session has expired and the client did not log in again")
	errNoLogin   = errors.New("the client did not log in")
)

// login is the state of a connection's TLS handshake and login. It is owned by the reading role.
//
//	pending ──SaslHandshake──▶ pending, conversation ──SaslAuthenticate…──▶ logged in
//	                                                                     │      ▲
//	                         session with an end (KIP-368): SaslHandshake└──────┘
//
// While pending, the connection takes only the requests of the login, and a few for the versions
// that the broker supports; any other closes it without an answer, and so does the deadline.
type login struct {
	pending     bool
	deadline    time.Time // of the handshake and login together; zero when both are over
	certificate time.Time // when the client's certificate ends; zero if it has shown none
	versions    int       // ApiVersions requests before the login
	talk        Conversation
	mechanism   string // of talk
	steps       int    // of talk
	forget      func() // of Identity.Until
}

// beginLogin returns the state of a new connection.
func (s *Server) beginLogin(l *Listener, opened time.Time, over bool) login {
	wait := s.opts.LoginTimeout
	switch {
	case l.TLS == nil && !l.SASL:
		return login{}
	case over:
		wait = min(wait, linkWait)
	}
	return login{pending: l.SASL, deadline: opened.Add(wait)}
}

// isLogin reports whether an API is one of a login with SASL.
func isLogin(key int16) bool {
	return key == protocol.KeySASLHandshake || key == protocol.KeySASLAuthenticate
}

// permit refuses a request that the client may not send, before it has logged in or after its
// session has expired.
func (c *conn) permit(h protocol.Header) error {
	if !c.login.pending {
		return c.permitLater(h.Key)
	}
	switch {
	case h.Key == protocol.KeyApiVersions:
		if c.login.versions++; c.login.versions > maxVersionRequests {
			return fmt.Errorf("%w: it sent more than %d ApiVersions requests", errNoLogin, maxVersionRequests)
		}
	case !isLogin(h.Key) && !c.isLink(h):
		return fmt.Errorf("%w: it sent API %d; set security.protocol=%s and sasl.mechanism at the client", errNoLogin, h.Key,
			c.listener.protocol())
	}
	return nil
}

// permitLater is permit for a client that has logged in. It is asked again when the request has
// arrived and may start: it may have waited long for another one.
func (c *conn) permitLater(key int16) error {
	if !c.session.Expires.IsZero() && !(c.listener.SASL && isLogin(key)) && c.session.expired(time.Now()) {
		return errExpired
	}
	return nil
}

// mayLogin reports whether this is a request of a login that the connection takes. Others are the
// handler's, which refuses them.
func (c *conn) mayLogin(key int16) bool {
	return isLogin(key) && c.listener.SASL && (c.login.pending || !c.session.Expires.IsZero())
}

// serveLogin answers a request of a login, on the reader.
func (c *conn) serveLogin(r *Request) {
	r.MayBlock()
	decoded, err := c.srv.opts.Table.Decode(r.Key, r.Version, r.Body)
	if err != nil {
		r.Abort(err)
		return
	}
	switch req := decoded.(type) {
	case *kmsg.SASLHandshakeRequest:
		c.chooseMechanism(r, req)
	case *kmsg.SASLAuthenticateRequest:
		c.continueLogin(r, req)
	}
}

// chooseMechanism answers SaslHandshake.
func (c *conn) chooseMechanism(r *Request, req *kmsg.SASLHandshakeRequest) {
	a, l := c.srv.opts.Authenticator, c.listener
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.SupportedMechanisms = a.Mechanisms(l)
	known := false
	for _, m := range resp.SupportedMechanisms {
		known = known || m == req.Mechanism
	}
	var why error
	switch {
	case req.Version == 0:
		// Messages without a header would follow. The broker lists this version all the same:
		// librdkafka (2.0.2, for example) does not log in with version 1 without it.
		resp.ErrorCode, why = kerr.UnsupportedVersion.Code, errors.New("the client uses version 0 of SaslHandshake; "+
			"use a client of Kafka 1.0 or later")
	case c.login.talk != nil:
		resp.ErrorCode, why = kerr.IllegalSaslState.Code, errors.New("a second SaslHandshake in one login")
	case !known:
		resp.ErrorCode, why = kerr.UnsupportedSaslMechanism.Code, fmt.Errorf("the client wants the mechanism %.32q, and the listener "+
			"has %s: set sasl.mechanism at the client, or sasl of the listener", req.Mechanism,
			strings.Join(resp.SupportedMechanisms, ", "))
	}
	if r.Code = resp.ErrorCode; r.Code != 0 {
		mechanism := ""
		if known {
			mechanism = req.Mechanism
		}
		c.failedLogin(mechanism, why)
		c.stopReading(ClosedLogin)
		r.Respond(resp)
		return
	}
	if !c.login.pending {
		c.login.deadline = time.Now().Add(c.srv.opts.LoginTimeout)
	}
	c.login.mechanism, c.login.steps = req.Mechanism, 0
	talk, err := a.Begin(l, req.Mechanism, c.session.Host)
	if err != nil {
		c.notTried(r, err)
		return
	}
	c.login.talk = talk
	r.Respond(resp)
}

// continueLogin answers SaslAuthenticate.
func (c *conn) continueLogin(r *Request, req *kmsg.SASLAuthenticateRequest) {
	talk := c.login.talk
	switch {
	case talk == nil && !c.login.pending:
		c.srv.opts.Handler.Handle(r)
		return
	case talk == nil:
		r.Abort(fmt.Errorf("%w: SaslAuthenticate without SaslHandshake before it", errNoLogin))
		return
	}
	if err := c.takePlace(); err != nil {
		c.notTried(r, err)
		return
	}
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	out, who, err := c.step(talk, req.SASLAuthBytes)
	if err == nil && who != nil {
		resp.SessionLifetimeMillis, err = c.loggedIn(who)
	}
	resp.SASLAuthBytes = out
	if resp.SASLAuthBytes == nil {
		resp.SASLAuthBytes = []byte{}
	}
	if err == nil {
		r.Respond(resp)
		return
	}
	c.failedLogin(c.login.mechanism, err)
	c.login.talk = nil
	r.ReleaseBody()
	if d := (interface{ Delay() time.Duration })(nil); errors.As(err, &d) {
		c.srv.refuseLogin(c)
		c.delay(d.Delay())
	}
	text := loginFailed
	resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &text
	r.Code = resp.ErrorCode
	c.stopReading(ClosedLogin)
	r.Respond(resp)
}

// takePlace waits for a handshake place, until the deadline of the login, or the end of the
// connection or the Server, which is errStopped.
func (c *conn) takePlace() error {
	ctx, cancel := context.WithDeadline(c.span.ctx, c.login.deadline)
	defer cancel()
	err := c.srv.places.Take(ctx, c.srv.draining, origin.Of(c.ip))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errLateLogin
	case errors.Is(err, context.Canceled), errors.Is(err, share.ErrDone):
		return errStopped
	}
	return err
}

// notTried ends a login that the broker could not check. The client must not take it for a wrong
// password, after which clients give up: its connection ends without an answer, and it connects
// again.
func (c *conn) notTried(r *Request, err error) {
	c.login.talk = nil
	if errors.Is(err, errStopped) {
		c.stopReading(ClosedShutdown)
	} else {
		c.failedLogin(c.login.mechanism, err)
		c.stopReading(ClosedLogin)
	}
	r.Reset(err)
}

// step passes a client's message to the login. It gives the handshake place back.
func (c *conn) step(talk Conversation, in []byte) ([]byte, *Identity, error) {
	defer c.srv.places.Leave()
	if c.login.steps++; c.login.steps > maxLoginSteps {
		return nil, nil, fmt.Errorf("login of more than %d messages", maxLoginSteps)
	}
	return talk.Step(in)
}

// loggedIn begins the session of a client, and returns for how many milliseconds it lasts; 0 if
// there is no end.
func (c *conn) loggedIn(who *Identity) (millis int64, err error) {
	former, again := c.session, !c.login.pending
	if err := checkPrincipal(who.Principal); err != nil {
		return 0, err
	}
	if again && (who.Principal != former.Principal || who.Mechanism != former.Mechanism) {
		return 0, fmt.Errorf("%s logged in with %s on a connection of %s, %s", who.Principal, who.Mechanism, former.Principal,
			former.Mechanism)
	}
	expires := who.Expires
	if end := c.login.certificate; !end.IsZero() && (expires.IsZero() || end.Before(expires)) {
		expires = end
	}
	if !expires.IsZero() {
		left := time.Until(expires)
		if left <= 0 {
			return 0, errors.New("the login had expired when it was complete")
		}
		millis = max(left.Milliseconds(), 1)
	}
	if c.login.forget != nil {
		c.login.forget()
	}
	c.identify(who.Principal, who.Mechanism, expires)
	c.login = login{certificate: c.login.certificate}
	if who.Until != nil {
		c.login.forget = who.Until(c.session.End)
	}
	c.srv.known(c)
	c.srv.opts.Observer.Login(&LoginEvent{Listener: c.listener, Peer: c.peer, Session: c.session, Mechanism: who.Mechanism, Again: again})
	return millis, nil
}

func (c *conn) failedLogin(mechanism string, err error) {
	c.srv.opts.Observer.Login(&LoginEvent{Listener: c.listener, Peer: c.peer, Session: c.session, Mechanism: mechanism,
		Again: !c.login.pending, Err: err})
	c.srv.limited.log(c, zap.InfoLevel, "a login failed", err)
}

// delay waits, on the reader, before a refusal is sent. The connection then has its socket and
// goroutines, and no other resource.
func (c *conn) delay(d time.Duration) {
	c.srv.delayed.Add(1)
	defer c.srv.delayed.Add(-1)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.span.ctx.Done():
	case <-c.srv.draining:
	}
}

// checkPrincipal refuses names that can't be written in a line of a log.
func checkPrincipal(name string) error {
	if name == "" || len(name) > maxPrincipal || !utf8.ValidString(name) {
		return fmt.Errorf("a principal of %d bytes: it must be text of 1 to %d bytes", len(name), maxPrincipal)
	}
	for _, r := range name {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return fmt.Errorf("the principal %q contains control characters", name)
		}
	}
	return nil
}
