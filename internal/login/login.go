package login

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/chronik-io/chronik/internal/metadata"
)

// The mechanisms, as SASL names them.
const (
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	Plain       = "PLAIN"
	OAuthBearer = "OAUTHBEARER"
)

// Text is what a client sees of every failure, so that it can't tell one from another.
const Text = "Authentication failed."

// PrincipalType begins every principal.
const PrincipalType = "User:"

// Bounds of what a client sends, in bytes.
const (
	maxMessage = 4 << 10  // of SCRAM and PLAIN
	maxToken   = 16 << 10 // of OAUTHBEARER
)

// Identity is who has logged in.
type Identity struct {
	Principal string // "User:bob"
	Mechanism string
	// Expires is when the session ends unless the client logs in again; zero: never.
	Expires time.Time
	// Until registers a function that is called when the session ends early, because its user was
	// removed or has a new password: at once if that is so already, and perhaps more than once. It
	// must not block. forget removes it. nil: the session does not end early.
	Until func(end func()) (forget func())
}

// Conversation is one login of one client. It is used by one goroutine at a time.
type Conversation interface {
	// Step takes the next message of the client. who is not nil when the client has logged in, and
	// out is the answer to it then. After an error, which is a *Failure, and after the login, the
	// conversation is over and further calls fail. It computes for up to some 20 ms.
	Step(in []byte) (out []byte, who *Identity, err error)
}

// Failure is why a login failed. Clients see Text instead.
type Failure struct {
	Mechanism string
	// User is the name that the client gave, empty if it gave none. It is unchecked: at most
	// metadata.MaxUserName bytes, of any value.
	User   string
	Reason string
	delay  time.Duration
}

// Error returns the reason, for the log.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s login as %q: %s", f.Mechanism, f.User, f.Reason)
}

// Delay is how long the answer waits: it doubles with each failure from one address.
func (f *Failure) Delay() time.Duration { return f.delay }

// ErrUnknownMechanism is the error of Begin.
var ErrUnknownMechanism = errors.New("the mechanism is unknown or not configured")

// Options configure Logins.
type Options struct {
	// MaxSession bounds sessions (connections.max.reauth.ms). 0: only a token bounds its session.
	MaxSession time.Duration
	// Delay is the delay of the first failure of an address
	// (connection.failed.authentication.delay.ms), which doubles with each further one; 0 means
	// that there is none. MaxDelay bounds it, 5 s by default.
	Delay, MaxDelay time.Duration
	// Tokens checks those of OAUTHBEARER; nil: there is no such mechanism.
	Tokens *Tokens
	// Now reads the clock. Default time.Now.
	Now func() time.Time
}

// Logins checks logins. Its methods may be called concurrently. Follow must be subscribed to the
// metadata before clients connect.
type Logins struct {
	opt      Options
	image    atomic.Pointer[metadata.Image]
	shapes   atomic.Pointer[shapes]
	census   *census // of what shapes has
	delays   delays
	memo     memo
	sessions sessions
	seed     maphash.Seed // of Logins.credential
}

// New returns Logins that know no user yet.
func New(o Options) *Logins {
	if o.MaxDelay <= 0 {
		o.MaxDelay = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Logins{opt: o, seed: maphash.MakeSeed(), census: newCensus()}
	l.delays.first, l.delays.most, l.delays.by = o.Delay, max(o.Delay, o.MaxDelay), map[string]failures{}
	_, _ = rand.Read(l.memo.key[:]) // never fails
	l.sessions.by = map[string]map[*session]bool{}
	l.image.Store(metadata.Empty())
	l.shapes.Store(&shapes{})
	return l
}

// Follow is a metadata.Subscriber. It ends the sessions of users that were removed or changed.
func (l *Logins) Follow(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	prev := l.image.Swap(next)
	if len(d.Users) > 0 {
		l.shapes.Store(l.census.change(prev, next, d.Users))
		l.sessions.endStale(next, d.Users)
	}
	return nil
}

// Begin begins a login. host is the client's address without a port. Failures are counted by it;
// IPv6 by its first 64 bits.
func (l *Logins) Begin(mechanism, host string) (Conversation, error) {
	a := attempt{logins: l, mechanism: mechanism, host: host}
	switch {
	case mechanism == ScramSHA256 || mechanism == ScramSHA512:
		return newScram(a), nil
	case mechanism == Plain:
		return &plain{attempt: a}, nil
	case mechanism == OAuthBearer && l.opt.Tokens != nil:
		return &bearer{attempt: a}, nil
	}
	return nil, ErrUnknownMechanism
}

// attempt is what all conversations have in common.
type attempt struct {
	logins    *Logins
	mechanism string
	host      string
	over      bool
}

// fail ends the attempt, and counts it.
func (a *attempt) fail(user, reason string) error {
	a.over = true
	if len(user) > metadata.MaxUserName {
		user = user[:metadata.MaxUserName]
	}
	return &Failure{Mechanism: a.mechanism, User: user, Reason: reason, delay: a.logins.delays.failed(a.host, a.logins.opt.Now())}
}

// succeed ends the attempt with a login. expires is when what the client has shown expires, zero
// for never.
func (a *attempt) succeed(user string, expires time.Time, until func(func()) func()) *Identity {
	a.over = true
	if m := a.logins.opt.MaxSession; m > 0 {
		if end := a.logins.opt.Now().Add(m); expires.IsZero() || end.Before(expires) {
			expires = end
		}
	}
	return &Identity{Principal: PrincipalType + user, Mechanism: a.mechanism, Expires: expires, Until: until}
}

// derive computes bytes from the salt that all brokers share, for a purpose and a user.
func derive(image *metadata.Image, purpose, user string) []byte {
	mac := hmac.New(sha256.New, image.Logins().Salt.Bytes())
	mac.Write([]byte(purpose + "\x00" + user))
	return mac.Sum(nil)
}

// ValidName reports whether a name may be that of a user: text of at most metadata.MaxUserName
// bytes, not empty, without control characters. Every other name could be no principal.
func ValidName(user string) bool {
	return user != "" && len(user) <= metadata.MaxUserName && utf8.ValidString(user) && !strings.ContainsFunc(user, unicode.IsControl)
}
