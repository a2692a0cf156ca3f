package acl

import (
	"net/netip"
	"strings"
	"sync/atomic"
)

// Subject is a principal at an address, as Rules see it. It stays valid, with the decisions of its
// Rules, when the Rules are replaced. It may be used by several goroutines. A nil Subject may do
// everything.
type Subject struct {
	super    bool
	internal map[string]bool // as in Rules
	// says has the bindings of the principal and of Everybody, for every address and for that of
	// the subject; nil: there are none.
	says  [4]*tables
	names *tables
	// any holds what the subject may do with resources of each type, whatever their names; bit 0 is
	// set when it was computed.
	any [types]atomic.Uint32
}

// Subject returns what the rules say about a principal, such as "User:bob", whose client is at an
// address. The address is text as Kafka writes it, without a port. It costs four look-ups and one
// allocation.
func (r *Rules) Subject(principal, host string) *Subject {
	if r == nil {
		return nil
	}
	s := &Subject{super: r.super[principal], internal: r.internal, names: r.names}
	host = canonicalHost(host)
	for i, name := range [...]string{principal, Everybody} {
		if p := r.principals[name]; p != nil {
			s.says[2*i], s.says[2*i+1] = p.anywhere, p.at[host]
		}
	}
	return s
}

// Operations returns the operations that the subject may perform on the resource with a name. It
// does not allocate.
func (s *Subject) Operations(t ResourceType, name string) Mask {
	if s == nil || s.super {
		return Everything
	}
	if t >= types {
		return 0
	}
	m := Everything // if no binding at all is about this name
	if s.names == nil || s.names[t].find(name) != nil {
		m = s.granted(t, func(table *table) *rule { return table.find(name) })
	}
	if t == Topic && s.internal[name] {
		m &^= changes
	}
	return m
}

// granted returns the operations that one rule of each of the subject's tables of a type allow
// together.
func (s *Subject) granted(t ResourceType, of func(*table) *rule) Mask {
	var all rule
	for _, says := range s.says {
		if says != nil && says[t] != nil {
			all.merge(of(says[t]))
		}
	}
	return all.allow &^ all.deny
}

// Allowed reports whether the subject may perform an operation on the resource with a name.
func (s *Subject) Allowed(op Operation, t ResourceType, name string) bool {
	return s.Operations(t, name).Has(op)
}

// AllowedAny reports whether there is a name such that the subject may perform an operation on the
// resource with it, as Kafka's authorizeByResourceType does: a binding must allow it, and none must
// deny it for all names to which that binding applies. The first call for a type reads all
// bindings of the principal.
func (s *Subject) AllowedAny(op Operation, t ResourceType) bool {
	if s == nil || s.super {
		return true
	}
	if t >= types {
		return false
	}
	const known = 1
	m := s.any[t].Load()
	if m&known == 0 {
		m = uint32(s.anyName(t)) | known
		s.any[t].Store(m)
	}
	return (Mask(m) &^ known).Has(op)
}

// anyName returns the operations that the subject may perform on at least one resource of a type.
func (s *Subject) anyName(t ResourceType) Mask {
	// Kafka also asks for a name that it made up. It decides only where a name without any binding
	// is open to everybody.
	m := s.Operations(t, "hardcode")
	for _, says := range s.says {
		if says == nil || says[t] == nil {
			continue
		}
		for name := range says[t].literals {
			m |= s.granted(t, func(table *table) *rule { return table.find(name) })
		}
		for i := range says[t].prefixes {
			name := says[t].prefixes[i].name
			m |= s.granted(t, func(table *table) *rule { return table.begins(name) })
		}
	}
	return m | s.granted(t, func(table *table) *rule { return &table.wild })
}

// find returns the rule of a name; nil if no binding is about it.
func (t *table) find(name string) *rule {
	if t == nil {
		return nil
	}
	if r := t.literals[name]; r != nil {
		return r
	}
	return t.begins(name)
}

// begins returns the rule of the longest prefix of a name, or of all names.
func (t *table) begins(name string) *rule {
	if i := t.longest(name); i >= 0 {
		return &t.prefixes[i].rule
	}
	if t.wild == (rule{}) {
		return nil
	}
	return &t.wild
}

// longest returns the number of the longest prefix with which a name begins; -1: with none. All
// texts between a prefix of the name and the name itself begin with that prefix. So it is the last
// one that is not behind the name, or one of those with which that begins.
func (t *table) longest(name string) int {
	lo, hi := 0, len(t.prefixes)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); t.prefixes[mid].name <= name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	i := lo - 1
	for i >= 0 && !strings.HasPrefix(name, t.prefixes[i].name) {
		i = t.prefixes[i].up
	}
	return i
}

// canonicalHost returns the one text of an IPv6 address of which several exist: Java writes
// 0:0:0:0:0:0:0:1 where others write ::1. An IPv4 address that is written as an IPv6 address is
// left alone: as in Kafka, it is no client's address.
func canonicalHost(host string) string {
	if !strings.Contains(host, ":") {
		return host
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Is4In6() {
		return host
	}
	return a.String()
}
