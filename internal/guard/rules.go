package guard

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// FollowRules returns the access rules as broker.Options.Rules; nil without authorization. They
// follow an applier that has not started: an Image is shown when its rules are compiled, so that a
// request after the answer to DeleteAcls is decided without the deleted rules. Until the first
// Image, nothing is allowed but what super users do.
func FollowRules(s *config.Security, log *zap.Logger, applier *metadata.Applier) func() *acl.Rules {
	if !s.ACL {
		return nil
	}
	var current atomic.Pointer[acl.Rules]
	opt := acl.Options{SuperUsers: s.SuperUsers, Internal: metadata.InternalTopics()}
	current.Store(acl.Compile(nil, opt))
	opt.AllowEveryone = s.AllowEveryone
	known := false
	applier.Subscribe("access rules", func(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
		rules := current.Load()
		switch {
		case !known: // now it is also known which names have no rule
			rules, known = acl.Compile(nil, opt), true
		case len(d.ACLsAdded)+len(d.ACLsRemoved) == 0:
			return nil
		}
		begun := time.Now()
		rules = rules.Change(d.ACLsRemoved, d.ACLsAdded)
		current.Store(rules)
		log.Info("access rules changed", zap.Int("added", len(d.ACLsAdded)), zap.Int("removed", len(d.ACLsRemoved)),
			zap.Int("rules", rules.Len()), zap.Int64("version", next.Version()), zap.Duration("compiled", time.Since(begun)))
		return nil
	})
	return current.Load
}
