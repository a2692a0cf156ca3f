package acl

import (
	"maps"
	"slices"
	"strings"
)

// Options are what bindings alone do not say.
type Options struct {
	// SuperUsers are the principals that may do everything, whatever bindings deny.
	SuperUsers []string
	// AllowEveryone allows everything on a resource that no binding matches, as Kafka's
	// allow.everyone.if.no.acl.found does.
	AllowEveryone bool
	// Internal are the topics that no binding lets a client change: what is in them would no longer
	// be what the broker has promised. Super users are asked to know what they do.
	Internal []string
}

// changes are the operations on Options.Internal that need a super user.
var changes = Of(Write, Delete, Alter, AlterConfigs)

// Rules are the compiled bindings of a cluster. They never change, and may be used by several
// goroutines. With nil Rules everything is allowed.
type Rules struct {
	super      map[string]bool
	internal   map[string]bool
	principals map[string]*principal
	// names has a rule for each name and beginning of a name that any binding has. It is nil unless
	// everybody is allowed where there is no binding.
	names *tables
	count int
}

// principal is what the bindings of one principal say. It never changes.
type principal struct {
	bindings map[Binding]struct{}
	// anywhere has the bindings for every address. at has those for one address only, by that: a
	// table that held them for all addresses would repeat them with each name below them.
	anywhere *tables
	at       map[string]*tables
}

// tables are what bindings say, by type of resource; nil: nothing.
type tables [types]*table

// table is what bindings say about the resources of a type, by name. Each of its rules includes the
// rules of all shorter beginnings and of Wildcard, so that a name needs one of them only.
type table struct {
	wild     rule
	literals map[string]*rule
	prefixes []prefix // sorted by name
}

// prefix is the rule of the names that begin with a text.
type prefix struct {
	name string
	up   int // the longest of the other prefixes with which this name begins; -1: none
	rule rule
}

// rule has the operations that are allowed and denied.
type rule struct{ allow, deny Mask }

// Compile returns the rules of all bindings. A binding may be given more than once.
func Compile(bindings []Binding, o Options) *Rules {
	r := &Rules{super: setOf(o.SuperUsers), internal: setOf(o.Internal), principals: map[string]*principal{}}
	if o.AllowEveryone {
		r.names = &tables{}
	}
	return r.Change(nil, bindings)
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// Change returns the rules after some bindings were removed and others added. It compiles only the
// principals that these name, and shares the others with r. The time is that of copying the list
// of principals, and with Options.AllowEveryone that of reading all bindings.
func (r *Rules) Change(removed, added []Binding) *Rules {
	touched := map[string]map[Binding]struct{}{}
	of := func(name string) map[Binding]struct{} {
		if touched[name] == nil {
			touched[name] = map[Binding]struct{}{}
			if p := r.principals[name]; p != nil {
				maps.Copy(touched[name], p.bindings)
			}
		}
		return touched[name]
	}
	for _, b := range removed {
		delete(of(b.Principal), b)
	}
	for _, b := range added {
		of(b.Principal)[b] = struct{}{}
	}
	next := &Rules{super: r.super, internal: r.internal, principals: maps.Clone(r.principals), count: r.count}
	for name, bindings := range touched {
		if p := r.principals[name]; p != nil {
			next.count -= len(p.bindings)
		}
		next.count += len(bindings)
		if len(bindings) == 0 {
			delete(next.principals, name)
			continue
		}
		next.principals[name] = newPrincipal(bindings)
	}
	if r.names != nil {
		next.names = r.names
		if len(touched) > 0 {
			next.names = compileTables(next.all())
		}
	}
	return next
}

// Len returns the number of different bindings.
func (r *Rules) Len() int { return r.count }

// all returns all bindings, in no order.
func (r *Rules) all() func(func(Binding) bool) {
	return func(yield func(Binding) bool) {
		for _, p := range r.principals {
			for b := range p.bindings {
				if !yield(b) {
					return
				}
			}
		}
	}
}

func newPrincipal(bindings map[Binding]struct{}) *principal {
	p := &principal{bindings: bindings, at: map[string]*tables{}}
	byHost := map[string][]Binding{}
	for b := range bindings {
		host := canonicalHost(b.Host)
		byHost[host] = append(byHost[host], b)
	}
	for host, list := range byHost {
		if t := compileTables(slices.Values(list)); host == Wildcard {
			p.anywhere = t
		} else {
			p.at[host] = t
		}
	}
	return p
}

// compileTables compiles bindings, whatever their addresses, into a table for each type that they
// have.
func compileTables(bindings func(func(Binding) bool)) *tables {
	var tables tables
	begins := [types]map[string]*rule{}
	for b := range bindings {
		if b.Type >= types || b.Pattern != Literal && b.Pattern != Prefixed {
			continue // such a binding applies to nothing
		}
		t := tables[b.Type]
		if t == nil {
			t = &table{literals: map[string]*rule{}}
			tables[b.Type], begins[b.Type] = t, map[string]*rule{}
		}
		switch {
		case b.Pattern == Prefixed:
			entry(begins[b.Type], b.Name).add(b)
		case b.Name == Wildcard:
			t.wild.add(b)
		default:
			entry(t.literals, b.Name).add(b)
		}
	}
	for i, t := range tables {
		if t != nil {
			t.link(begins[i])
		}
	}
	return &tables
}

func entry(m map[string]*rule, name string) *rule {
	if m[name] == nil {
		m[name] = &rule{}
	}
	return m[name]
}

// link sorts the prefixes, and adds to each rule those that also apply to its names.
func (t *table) link(begins map[string]*rule) {
	var open []int // the prefixes with which the current name begins, the longest last
	for _, name := range slices.Sorted(maps.Keys(begins)) {
		for len(open) > 0 && !strings.HasPrefix(name, t.prefixes[open[len(open)-1]].name) {
			open = open[:len(open)-1]
		}
		p := prefix{name: name, up: -1, rule: *begins[name]}
		if len(open) > 0 {
			p.up = open[len(open)-1]
			p.rule.merge(&t.prefixes[p.up].rule)
		} else {
			p.rule.merge(&t.wild)
		}
		open = append(open, len(t.prefixes))
		t.prefixes = append(t.prefixes, p)
	}
	for name, l := range t.literals {
		if i := t.longest(name); i >= 0 {
			l.merge(&t.prefixes[i].rule)
		} else {
			l.merge(&t.wild)
		}
	}
}

// add adds what a binding says to a rule.
func (r *rule) add(b Binding) {
	switch b.Permission {
	case Allow:
		r.allow |= implied(b.Operation)
	case Deny:
		r.deny |= Of(b.Operation)
	}
}

// implied returns the operations that are allowed to a client that is allowed one.
func implied(op Operation) Mask {
	m := Of(op)
	switch op {
	case Read, Write, Delete, Alter:
		m |= Of(Describe)
	case AlterConfigs:
		m |= Of(DescribeConfigs)
	}
	return m
}

// merge adds what another rule says; nil: nothing.
func (r *rule) merge(o *rule) {
	if o != nil {
		r.allow |= o.allow
		r.deny |= o.deny
	}
}
