package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/security/files"
)

// Logins connects the connections with the checks of logins. It implements network.Authenticator.
type Logins struct {
	*login.Logins
	keys *login.Keys         // of OAUTHBEARER; nil without it
	sasl map[string][]string // by listener

	once  sync.Once
	ready chan struct{} // closed when the users are known
}

// NewLogins returns the logins of a configuration; nil if no listener has SASL.
func NewLogins(cfg *config.Config, log *zap.Logger) (*Logins, error) {
	if !cfg.HasSASL() {
		return nil, nil
	}
	l := &Logins{sasl: map[string][]string{}, ready: make(chan struct{})}
	for _, x := range cfg.Listeners {
		if len(x.SASL) > 0 {
			l.sasl[x.Name] = x.SASL
		}
	}
	s := &cfg.Security
	opt := login.Options{MaxSession: s.MaxReauth, Delay: s.FailedDelay}
	if s.OAuth.JWKS != "" {
		fetch := func(context.Context) ([]byte, error) { // reading a file cannot be interrupted
			text, _, err := files.Read(s.OAuth.JWKS)
			return text, err
		}
		if strings.Contains(s.OAuth.JWKS, "://") {
			var err error
			if fetch, err = login.FetchURL(s.OAuth.JWKS); err != nil {
				return nil, exit.With(exit.Usage, fmt.Errorf("oauth.jwks: %w", err))
			}
		}
		l.keys = login.NewKeys(login.KeysOptions{Fetch: fetch, Log: log})
		tokens, err := login.NewTokens(login.TokenOptions{
			Keys: l.keys, Issuer: s.OAuth.Issuer, Audience: audiences(s.OAuth.Audience), Skew: s.OAuth.ClockSkew,
			PrincipalClaim: s.OAuth.PrincipalClaim,
		})
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		opt.Tokens = tokens
	}
	l.Logins = login.New(opt)
	return l, nil
}

// audiences returns the entries of a list that is separated by commas.
func audiences(list string) []string {
	return slices.DeleteFunc(strings.Split(strings.ReplaceAll(list, " ", ""), ","), func(s string) bool { return s == "" })
}

// Authenticator returns the logins as the server wants them: nil without any.
func (l *Logins) Authenticator() network.Authenticator {
	if l == nil {
		return nil
	}
	return l
}

// Run reads the keys of OAUTHBEARER in the background until the returned function is called.
func (l *Logins) Run() (stop func(context.Context) error) {
	if l.keys == nil {
		return func(context.Context) error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.keys.Run(ctx) })
	return func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	}
}

// ShowKeys shows the state of the keys of OAUTHBEARER, which are at place, in findings and metrics.
func (l *Logins) ShowKeys(place string, in *checks.Monitor, reg prometheus.Registerer) error {
	if l.keys == nil {
		return nil
	}
	in.Add(func(f *checks.Facts) {
		k := l.keys.State()
		f.TokenKeys = checks.TokenKeys{Source: place, Keys: k.Keys, Read: k.Read, Error: observe.Reason(k.Err)}
	})
	return metrics.RegisterTokenKeys(reg, func() (time.Time, bool) {
		k := l.keys.State()
		return k.Read, k.Err != nil
	})
}

// Follow is a metadata.Subscriber.
func (l *Logins) Follow(ctx context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
	defer l.once.Do(func() { close(l.ready) })
	return l.Logins.Follow(ctx, prev, next, d)
}

// startPatience is how long a login waits for a broker that starts and does not know its users.
const startPatience = 5 * time.Second

// Mechanisms implements network.Authenticator.
func (l *Logins) Mechanisms(at *network.Listener) []string { return l.sasl[at.Name] }

// Begin implements network.Authenticator.
func (l *Logins) Begin(_ *network.Listener, mechanism, host string) (network.Conversation, error) {
	select {
	case <-l.ready:
	case <-time.After(startPatience): // the listener for brokers is open early
		return nil, errors.New("the broker starts and does not know its users yet")
	}
	c, err := l.Logins.Begin(mechanism, host)
	if err != nil {
		return nil, err
	}
	return conversation{c}, nil
}

// conversation is a login.Conversation as network.Conversation.
type conversation struct{ login.Conversation }

// Step implements network.Conversation.
func (c conversation) Step(in []byte) (out []byte, who *network.Identity, err error) {
	out, is, err := c.Conversation.Step(in)
	if is != nil {
		who = &network.Identity{Principal: is.Principal, Mechanism: is.Mechanism, Expires: is.Expires, Until: is.Until}
	}
	return out, who, err
}
