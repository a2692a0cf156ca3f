// Package guard opens what decides who may connect to a broker and what a client may do: the
// certificates of listeners, the proofs between brokers, logins and the first users, access rules,
// quotas, and the audit log of all that.
//
// It decides nothing: the packages below do, security/certs, login, security/acl, security/quota
// and audit. It gives them what the configuration says, and keeps them up to date when files or the
// metadata change. Access rules are never older than the metadata that requests see, and before the
// first metadata they permit only what super users do. The daemon starts and stops them.
package guard

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/audit/changes"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/security/refusals"
)

// Guard is what decides about the clients of one broker.
type Guard struct {
	cfg *config.Config
	log *zap.Logger

	// Refusals counts what all below refuses to clients.
	Refusals *refusals.Table
	Quotas   *quota.Keeper
	Logins   *Logins           // nil if no listener has SASL
	Rules    func() *acl.Rules // nil without authorization, and before Follow

	audit   atomic.Pointer[audit.Log] // see Audit
	taken   string                    // what TakeUsers has set last
	removed bool                      // by TakeUsers, and the directory is not synced yet
}

// New returns the guard of a configuration, without rules and quotas. It opens no file.
func New(cfg *config.Config, log *zap.Logger) (*Guard, error) {
	began := time.Now()
	g := &Guard{cfg: cfg, log: log, Refusals: refusals.New(time.Now),
		Quotas: quota.NewKeeper(func() time.Duration { return time.Since(began) })}
	g.Quotas.Refusals = g.Refusals
	var err error
	g.Logins, err = NewLogins(cfg, log.Named("logins"))
	return g, err
}

// Follow makes rules and quotas follow an applier that has not started.
func (g *Guard) Follow(applier *metadata.Applier) {
	g.Rules = FollowRules(&g.cfg.Security, g.log.Named("security"), applier) // before what asks them
	followQuotas(g.Quotas, applier)
}

// Audit returns the audit log, or nil if it is off, and before OpenAudit. Any goroutine may call
// it.
func (g *Guard) Audit() *audit.Log { return g.audit.Load() }

// Changes returns the store, with the changes of clients in the audit log.
func (g *Guard) Changes(store metadata.Store) metadata.Store { return changes.Watch(store, g.Audit()) }
