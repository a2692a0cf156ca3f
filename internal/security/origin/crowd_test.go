package origin

import (
	"net/netip"
	"testing"
)

type member struct {
	name  string
	since int64 // 0: it does not count
}

func since(m *member) (int64, bool) { return m.since, m.since != 0 }

// A few addresses that fill a crowd make room for others, and clients that came at the same moment
// do not displace each other.
func TestWhoYields(t *testing.T) {
	const before = 100
	var s Crowd[*member]
	of := func(ip string) netip.Prefix { return Of(netip.MustParseAddr(ip)) }
	add := func(ip, name string, since int64) *member {
		m := &member{name, since}
		s.Add(of(ip), m)
		return m
	}
	check := func(what string, got *member, ok bool, want string) {
		t.Helper()
		name := ""
		if ok {
			name = got.name
		}
		if name != want {
			t.Errorf("%s: %q yields, not %q", what, name, want)
		}
	}
	yields := func(what, to, want string) {
		t.Helper()
		got, ok := s.Yielding(of(to), since, before)
		check(what, got, ok, want)
	}
	yields("of an origin without a member", "10.0.0.9", "")
	add("10.0.0.1", "a1", 150)
	a2 := add("10.0.0.1", "a2", 200)
	a3 := add("10.0.0.1", "a3", 140)
	b1 := add("2001:db8::1", "b1", 90)
	add("2001:db8::2", "b2", 300)
	add("10.0.0.2", "busy", 0)
	yields("for a new address, of the one with the most, its oldest", "10.0.0.9", "a3")
	yields("for one of the address with the most, its oldest, too late", "10.0.0.1", "")
	a3.since = 95
	yields("for one of the address with the most, its oldest", "10.0.0.1", "a3")
	yields("for an address that would have two", "2001:db8::3", "a3")
	s.Remove(of("2001:db8::1"), b1)
	s.Remove(of("2001:db8::1"), b1)
	a3.since = 140
	yields("all came lately", "10.0.0.1", "")
	s.Remove(of("10.0.0.1"), a3)
	yields("of two, for a new address", "10.0.0.9", "a1")
	got, ok := s.YieldingOwn(of("10.0.0.1"), since, before)
	check("of its own, too late", got, ok, "")
	a2.since = before
	got, ok = s.YieldingOwn(of("10.0.0.1"), since, before)
	check("of its own", got, ok, "a2")
	if s.Len() != 4 || s.From(of("10.0.0.1")) != 2 || len(s.of) != 3 {
		t.Errorf("%d members of %d origins are left", s.Len(), len(s.of))
	}
}
