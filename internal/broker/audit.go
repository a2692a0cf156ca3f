package broker

import (
	"context"
	"errors"
	"strings"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/view"
)

// clientOf returns who sent a request, and which.
func clientOf(r *network.Request) audit.Client {
	c := audit.Client{Who: r.Session.Principal, Host: r.Session.Host, Listener: r.Session.Listener, Mechanism: r.Session.Mechanism,
		ID: r.ClientID, API: protocol.NameOf(r.Key), Version: r.Version, Correlation: r.CorrelationID}
	if r.Peer != nil {
		c.From = r.Peer.String()
	}
	return c
}

// contextOf returns a context for the work of a request. It ends with the broker.
func (b *Handler) contextOf(r *network.Request) context.Context {
	if !b.opt.Audit.Records(audit.Change) {
		return b.ctx
	}
	return audit.With(b.ctx, clientOf(r))
}

// recordChange records a change of ctx's client that does not pass this broker's store: the leader
// of the metadata has made it, or err leaves that unknown. A change that was not made has no line.
func (b *Handler) recordChange(ctx context.Context, operation, resource string, err error) {
	client, ok := audit.From(ctx)
	if !ok || unmade(err) {
		return
	}
	e := audit.Event{Kind: audit.Change, Client: client, Operation: operation, Resource: resource}
	if err != nil {
		e.Why = audit.Doubt(err)
	}
	b.opt.Audit.Record(e)
}

// unmade reports whether an error of the leader of the metadata says that nothing was changed.
func unmade(err error) bool {
	return errors.As(err, new(*controller.Error)) || errors.Is(err, metadata.ErrConflict) ||
		errors.Is(err, metadata.ErrUnavailable) || errors.Is(err, controller.ErrNotController)
}

// ask reports whether the client may perform an operation that its request asks for, and records
// the decision. Questions whose answer only shapes what a client is shown use may.
func (m rights) ask(op acl.Operation, kind acl.ResourceType, name string) bool {
	allowed := m.may(op, kind, name)
	if m.of == nil {
		return allowed
	}
	event := audit.Refused
	if allowed {
		event = audit.Allowed
	}
	if m.b.opt.Audit.Records(event) {
		m.record(event, op, kind, name)
	}
	m.count(allowed, op, kind, name)
	return allowed
}

// count counts a decision among those that operators see.
func (m rights) count(allowed bool, op acl.Operation, kind acl.ResourceType, name string) {
	t, s := m.b.opt.Refusals, m.r.Session
	if allowed {
		t.Passed(view.RefusedRight, s.Principal)
		return
	}
	t.Refused(view.RefusedRight, op.String()+" on "+kind.String(), "",
		refusals.Who{User: s.Principal, ClientID: m.r.ClientID, Address: origin.OfHost(s.Host)}, 0, func() (text, lift string) {
			e := m.of.rules.Decide(s.Principal, s.Host, op, kind, name[:min(len(name), acl.MaxName+1)])
			if e.Reason != acl.Denied {
				return "", ""
			}
			return e.Rules[0].String(), removal(&e.Rules[0])
		})
}

// removal returns the command that removes a rule which denies.
func removal(b *acl.Binding) string {
	words := []string{"chronikctl", "acl", "remove", b.Principal, acl.Written(b.Operation), acl.Written(b.Type) + ":" + b.Name, "--deny"}
	if b.Pattern == acl.Prefixed {
		words = append(words, "--prefix")
	}
	if b.Host != acl.Wildcard {
		words = append(words, "--host", b.Host)
	}
	return health.Command(words...)
}

// record passes a decision to the audit log. The rule that decides is looked up when a line is
// written: that reads all rules of the principal.
func (m rights) record(event audit.Kind, op acl.Operation, kind acl.ResourceType, name string) {
	// The log may keep the event for seconds. The name may have 32 KiB, and be a part of the
	// request's memory; one byte more than that of a rule decides as all of it.
	name = strings.Clone(name[:min(len(name), acl.MaxName+1)])
	rules, who, host := m.of.rules, m.r.Session.Principal, m.r.Session.Host
	m.b.opt.Audit.Record(audit.Event{Kind: event, Client: clientOf(m.r), Operation: op.String(),
		Resource: kind.String() + ":" + acl.Literal.String() + ":" + name,
		Rule:     func() string { return deciding(rules.Decide(who, host, op, kind, name)) }})
}

// deciding returns the rule of a decision as the audit log shows it.
func deciding(e acl.Explanation) string {
	switch {
	case e.Reason == acl.Internal:
		return "internal topic"
	case e.Reason == acl.SuperUser:
		return "super user"
	case len(e.Rules) > 0:
		return e.Rules[0].String()
	}
	return "none"
}
