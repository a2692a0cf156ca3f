package acl

import (
	"cmp"
	"slices"
	"strings"
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

// Explanation is a decision, and why it is so.
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

// Explain decides as Subject.Allowed does, and says which bindings are the reason. It reads all
// bindings.
func (r *Rules) Explain(principal, host string, op Operation, t ResourceType, name string) Explanation {
	switch {
	case r == nil:
		return Explanation{Allowed: true, Reason: Off}
	case r.super[principal]:
		return Explanation{Allowed: true, Reason: SuperUser}
	case t == Topic && r.internal[name] && changes.Has(op):
		return Explanation{Reason: Internal}
	}
	var e, allows Explanation
	host = canonicalHost(host)
	about := false
	for b := range r.all() {
		if !b.Covers(t, name) {
			continue
		}
		about = true
		covers := Of(b.Operation)
		if b.Permission == Allow {
			covers = implied(b.Operation)
		}
		switch fits := (b.Principal == principal || b.Principal == Everybody) && (b.Host == Wildcard || canonicalHost(b.Host) == host); {
		case !covers.Has(op):
		case !fits:
			e.Almost = append(e.Almost, b)
		case b.Permission == Deny:
			e.Rules = append(e.Rules, b)
		case b.Permission == Allow:
			allows.Rules = append(allows.Rules, b)
		}
	}
	switch {
	case len(e.Rules) > 0:
		e.Reason, e.Almost = Denied, nil
	case len(allows.Rules) > 0:
		e = Explanation{Allowed: true, Reason: Permitted, Rules: allows.Rules}
	case !about && r.names != nil:
		e = Explanation{Allowed: true, Reason: NoBinding}
	default:
		e.Reason = NoPermission
	}
	slices.SortFunc(e.Rules, Compare)
	slices.SortFunc(e.Almost, Compare)
	return e
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
