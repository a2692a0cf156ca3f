package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// logins connects the connections with the checks of logins. It implements network.Authenticator.
type logins struct {
	*login.Logins
	keys *login.Keys         // of OAUTHBEARER; nil without it
	sasl map[string][]string // by listener

	once  sync.Once
	ready chan struct{} // closed when the users are known
}

// newLogins returns the logins of a configuration; nil if no listener has SASL.
func newLogins(cfg *config.Config, log *zap.Logger) (*logins, error) {
	l := &logins{sasl: map[string][]string{}, ready: make(chan struct{})}
	for _, x := range cfg.Listeners {
		if len(x.SASL) > 0 {
			l.sasl[x.Name] = x.SASL
		}
	}
	if len(l.sasl) == 0 {
		return nil, nil
	}
	s := &cfg.Security
	opt := login.Options{MaxSession: s.MaxReauth, Delay: s.FailedDelay}
	if s.OAuth.JWKS != "" {
		fetch := func(context.Context) ([]byte, error) {
			text, _, err := files.Read(s.OAuth.JWKS)
			return text, err
		}
		if strings.Contains(s.OAuth.JWKS, "://") {
			var err error
			if fetch, err = login.FetchURL(s.OAuth.JWKS); err != nil {
				return nil, &ExitError{ExitUsage, fmt.Errorf("oauth.jwks: %w", err)}
			}
		}
		l.keys = login.NewKeys(login.KeysOptions{Fetch: fetch, Log: log})
		tokens, err := login.NewTokens(login.TokenOptions{
			Keys: l.keys, Issuer: s.OAuth.Issuer, Audience: audiences(s.OAuth.Audience), Skew: s.OAuth.ClockSkew,
			PrincipalClaim: s.OAuth.PrincipalClaim,
		})
		if err != nil {
			return nil, &ExitError{ExitUsage, err}
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

// authenticator returns the logins as the server wants them: nil without any.
func (l *logins) authenticator() network.Authenticator {
	if l == nil {
		return nil
	}
	return l
}

// run reads the keys of OAUTHBEARER in the background until the returned function is called.
func (l *logins) run() (stop func(context.Context) error) {
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

// watchTokenKeys shows the state of the keys of OAUTHBEARER in findings and metrics.
func (b *Broker) watchTokenKeys(l *logins) error {
	if l.keys == nil {
		return nil
	}
	b.health.Add(func(f *checks.Facts) {
		k := l.keys.State()
		f.TokenKeys = checks.TokenKeys{Source: b.cfg.Security.OAuth.JWKS, Keys: k.Keys, Read: k.Read, Error: observe.Reason(k.Err)}
	})
	return metrics.RegisterTokenKeys(b.reg, func() (time.Time, bool) {
		k := l.keys.State()
		return k.Read, k.Err != nil
	})
}

// Follow is a metadata.Subscriber.
func (l *logins) Follow(ctx context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
	defer l.once.Do(func() { close(l.ready) })
	return l.Logins.Follow(ctx, prev, next, d)
}

// startPatience is how long a login waits for a broker that starts and does not know its users.
const startPatience = 5 * time.Second

// Mechanisms implements network.Authenticator.
func (l *logins) Mechanisms(at *network.Listener) []string { return l.sasl[at.Name] }

// Begin implements network.Authenticator.
func (l *logins) Begin(_ *network.Listener, mechanism, host string) (network.Conversation, error) {
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

// credentialUsers is the name of the first users among systemd's credentials.
const credentialUsers = "chronik-users"

// prepareLogins makes the metadata ready for logins, with the first users if there are none.
func (b *Broker) prepareLogins(ctx context.Context, r *components) error {
	name := b.cfg.Security.BootstrapUsers
	if name == "" {
		if located := files.Locate(credentialUsers); located != credentialUsers {
			name = located
		}
	}
	if r.logins == nil && name == "" {
		return nil
	}
	kv, _, err := r.store.Get(ctx, metadata.LoginsKey)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	users, _, err := r.store.Range(ctx, metadata.UserPrefix)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	var first []metadata.User
	switch had := kv.ModRevision != 0 && bootstrapped(kv); {
	case had: // the file may be gone
	case len(users) == 0:
		if first, err = readUsers(name); err != nil {
			return &ExitError{ExitUsage, fmt.Errorf("bootstrap.users %s: %w", name, err)}
		}
		if len(first) == 0 && onlyUsersLogIn(b.cfg) {
			return &ExitError{ExitUsage, fmt.Errorf("there are no users, so no client can log in; make the first one: "+
				"chronikd user add NAME --data-dir %s, or name a file of users with bootstrap.users", absolute(b.cfg.DataDir))}
		}
	case name != "":
		b.log.Warn("there are users already: bootstrap.users was not applied, and will not be; add its users with chronikctl user add",
			zap.String("file", name), zap.Int("users", len(users)))
	}
	applied, revision, err := r.control.PrepareLogins(ctx, first)
	if err != nil {
		return err
	}
	if applied {
		b.log.Info("added the first users; bootstrap.users is not read again", zap.String("file", name), zap.Int("users", len(first)))
	}
	return r.store.WaitFor(ctx, revision)
}

// onlyUsersLogIn reports whether stored users are all that can connect: then the first one must be
// there before the first start.
func onlyUsersLogIn(cfg *config.Config) bool {
	return onlyStored(cfg) && !slices.ContainsFunc(cfg.Listeners, func(l config.Listener) bool { return len(l.SASL) == 0 })
}

func bootstrapped(kv metadata.KV) bool {
	l, err := metadata.DecodeLogins(kv)
	return err == nil && l.Bootstrapped
}

// readUsers reads a file of users; none without a name.
func readUsers(name string) ([]metadata.User, error) {
	if name == "" {
		return nil, nil
	}
	text, _, err := files.ReadSecret(name)
	if err != nil {
		return nil, err
	}
	return parseUsers(string(text))
}

// parseUsers parses lines NAME:MECHANISM:PASSWORD. Empty lines and those that begin with # are
// skipped. A user may have a line for each mechanism. Errors show no password.
func parseUsers(text string) ([]metadata.User, error) {
	var users []metadata.User
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s; write lines NAME:SCRAM-SHA-512:PASSWORD", i+1, fmt.Sprintf(format, args...))
		}
		name, rest, ok := strings.Cut(line, ":")
		mechanism, password, ok2 := strings.Cut(rest, ":")
		m, known := metadata.ParseScramMechanism(mechanism)
		at := slices.IndexFunc(users, func(u metadata.User) bool { return u.Name == name })
		switch {
		case !ok || !ok2:
			return nil, wrong("it has fewer than three parts")
		case !login.ValidName(name):
			return nil, wrong("the name is empty, longer than %d bytes, or has control characters", metadata.MaxUserName)
		case !known:
			return nil, wrong("the mechanism is neither SCRAM-SHA-256 nor SCRAM-SHA-512")
		case password == "":
			return nil, wrong("the password is empty")
		case at >= 0 && users[at].Credential(m) != nil:
			return nil, wrong("user %s has a second password for %s", name, m)
		}
		c, err := login.NewCredential(m, secret.Of(password), login.DefaultIterations)
		if err != nil {
			return nil, wrong("%v", err)
		}
		if at < 0 {
			at, users = len(users), append(users, metadata.User{Name: name})
		}
		users[at] = users[at].With(c)
	}
	if len(users) == 0 {
		return nil, errors.New("it names no user; write lines NAME:SCRAM-SHA-512:PASSWORD")
	}
	return users, nil
}

// setUser gives a user a password for some mechanisms.
func setUser(ctx context.Context, c *controller.Controller, name string, password secret.Secret,
	mechanisms []metadata.ScramMechanism) error {
	if _, _, err := c.PrepareLogins(ctx, nil); err != nil {
		return err
	}
	var changes []controller.UserChange // made together: no former password stays for one of them
	for _, m := range mechanisms {
		credential, err := login.NewCredential(m, password, login.DefaultIterations)
		if err != nil {
			return err
		}
		changes = append(changes, controller.UserChange{User: name, Mechanism: m, Set: &credential})
	}
	_, errs, err := c.AlterUsers(ctx, changes)
	return errors.Join(append(errs, err)...)
}
