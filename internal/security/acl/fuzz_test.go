package acl

import "testing"

// FuzzFilter takes rules and filters as clients send them: whatever can be stored is found by the
// filter of its own values and by that of all, is about exactly the names that Match finds it for,
// decides alike in every way of asking, and is gone when it was removed.
func FuzzFilter(f *testing.F) {
	f.Add(uint8(Topic), "orders", uint8(Literal), "User:bob", "*", uint8(Read), uint8(Allow), "orders")
	f.Add(uint8(Topic), "ord", uint8(Prefixed), "User:*", "10.0.0.7", uint8(All), uint8(Deny), "orders")
	f.Add(uint8(Group), "*", uint8(Literal), "User:bob", "::1", uint8(Describe), uint8(Allow), "*x")
	f.Add(uint8(Cluster), ClusterName, uint8(Literal), "Group:ops", "*", uint8(AlterConfigs), uint8(Allow), ClusterName)
	f.Fuzz(func(t *testing.T, kind uint8, name string, pattern uint8, principal, host string, op, permission uint8, asked string) {
		b := Binding{ResourceType(kind), name, Pattern(pattern), principal, host, Operation(op), Permission(permission)}
		own := Filter{b.Type, &b.Name, b.Pattern, &b.Principal, &b.Host, b.Operation, b.Permission}
		if b.Check() != "" {
			return
		}
		every, match := AllBindings(), AllBindings()
		match.Type, match.Pattern, match.Name = b.Type, Match, &asked
		switch {
		case own.Unknown() != "" || !own.Matches(&b) || !every.Matches(&b):
			t.Fatalf("%v is not found by its own values, or by no values", b)
		case match.Matches(&b) != b.Covers(b.Type, asked):
			t.Fatalf("%v, asked for %q: the filter says %t", b, asked, match.Matches(&b))
		}
		rules := Compile([]Binding{b}, Options{})
		allowed := rules.Subject(principal, "10.0.0.7").Allowed(b.Operation, b.Type, asked)
		if b.Operation != All && rules.Explain(principal, "10.0.0.7", b.Operation, b.Type, asked).Allowed != allowed {
			t.Fatalf("%v, asked for %q: allowed is %t, and explained otherwise", b, asked, allowed)
		}
		if allowed && (b.Permission == Deny || !b.Covers(b.Type, asked)) {
			t.Fatalf("%v allows %q", b, asked)
		}
		if left := rules.Change([]Binding{b}, nil).Len(); left != 0 {
			t.Fatalf("%v is removed, and %d rules are left", b, left)
		}
	})
}
