package acl

import (
	"cmp"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
)

// Reason is why a client may or may not do something.
type Reason uint8

// The reasons.
const (
	// Off: there are no rules, so everybody may do everything.
	Off Reason = iota
	// SuperUser: the principal is one of Options.SuperUsers.
	SuperUser
	// Denied: a binding denies it.
	Denied
	// Permitted: a binding allows it, and none denies it.
	Permitted
	// NoBinding: no binding is about the resource, and Options.AllowEveryone allows it then.
	NoBinding
	// NoPermission: no binding allows it.
	NoPermission
	// Internal: the topic is one of Options.Internal, which no binding lets a client change.
	Internal
)

// Explanation is a decision and its reason.
type Explanation struct {
	Allowed bool
	Reason  Reason
	// Rules are the bindings that decide: all that deny, or all that allow if none denies. They are
	// sorted.
	Rules []Binding
	// Almost are the bindings that apply to the resource and the operation, but to another
	// principal or address. They are there if no binding decides.
	Almost []Binding
}

// Explain decides as Subject.Allowed does, and returns the bindings that are the reason. If none
// decides, it reads all bindings for Explanation.Almost.
func (r *Rules) Explain(principal, host string, op Operation, t ResourceType, name string) Explanation {
	e := r.Decide(principal, host, op, t, name)
	if e.Reason != NoPermission {
		return e
	}
	for b := range r.all() {
		if b.Covers(t, name) && b.concerns(op) {
			e.Almost = append(e.Almost, b)
		}
	}
	sorts.Sort(e.Almost, Compare)
	return e
}

// Decide is Explain without Explanation.Almost. It reads the bindings of the principal and of
// Everybody.
func (r *Rules) Decide(principal, host string, op Operation, t ResourceType, name string) Explanation {
	switch {
	case r == nil:
		return Explanation{Allowed: true, Reason: Off}
	case r.super[principal]:
		return Explanation{Allowed: true, Reason: SuperUser}
	case t == Topic && r.internal[name] && changes.Has(op):
		return Explanation{Reason: Internal}
	}
	host = canonicalHost(host)
	byPermission := map[Permission][]Binding{}
	for who := range map[string]bool{principal: true, Everybody: true} {
		p := r.principals[who]
		if p == nil {
			continue
		}
		for b := range p.bindings {
			if b.Covers(t, name) && b.concerns(op) && (b.Host == Wildcard || canonicalHost(b.Host) == host) {
				byPermission[b.Permission] = append(byPermission[b.Permission], b)
			}
		}
	}
	e := Explanation{Reason: NoPermission}
	switch denies, allows := byPermission[Deny], byPermission[Allow]; {
	case len(denies) > 0:
		e = Explanation{Reason: Denied, Rules: denies}
	case len(allows) > 0:
		e = Explanation{Allowed: true, Reason: Permitted, Rules: allows}
	case t < types && r.names != nil && r.names[t].find(name) == nil:
		e = Explanation{Allowed: true, Reason: NoBinding}
	}
	sorts.Sort(e.Rules, Compare)
	return e
}

// concerns reports whether a binding allows or denies an operation.
func (b Binding) concerns(op Operation) bool {
	if b.Permission == Allow {
		return implied(b.Operation).Has(op)
	}
	return Of(b.Operation).Has(op)
}

// Covers reports whether a binding is about the resource with a name.
func (b Binding) Covers(t ResourceType, name string) bool {
	switch {
	case b.Type != t:
		return false
	case b.Pattern == Prefixed:
		return strings.HasPrefix(name, b.Name)
	case b.Pattern == Literal:
		return b.Name == name || b.Name == Wildcard
	}
	return false
}

// Compare orders bindings: by resource first, so that those of one resource are together.
func Compare(a, b Binding) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pattern, b.Pattern),
		cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(a.Permission, b.Permission))
}
