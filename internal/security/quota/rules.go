package quota

import (
	"iter"
	"net/netip"
)

// Rules are all quotas at one time. They never change. nil has none.
type Rules struct {
	of map[Entity][numLimits]float64
	// has: there is a quota with this limit.
	has [numLimits]bool
}

// Compile returns the rules of some quotas; nil if there are none.
func Compile(all iter.Seq[Quota]) *Rules {
	r := &Rules{of: map[Entity][numLimits]float64{}}
	for q := range all {
		r.of[q.Entity] = q.Limits
		for l, v := range q.Limits {
			r.has[l] = r.has[l] || v > 0
		}
	}
	if len(r.of) == 0 {
		return nil
	}
	return r
}

// found is the quota that applies to a client.
type found struct {
	rate  float64
	rule  Entity // whose quota it is
	owner Entity // who shares it: Names without defaults
}

// client returns the quota that applies to a client. The first of Kafka's eight that exists counts,
// and no other. Who shares it follows from which it is: that of a user is one for all client ids.
func (r *Rules) client(l Limit, user, client string) (found, bool) {
	if r == nil || !r.has[l] {
		return found{}, false
	}
	u, c := Of(user), Of(client)
	for _, try := range [...]found{
		{rule: Entity{User: u, Client: c}, owner: Entity{User: u, Client: c}},
		{rule: Entity{User: u, Client: Any}, owner: Entity{User: u, Client: c}},
		{rule: Entity{User: u}, owner: Entity{User: u}},
		{rule: Entity{User: Any, Client: c}, owner: Entity{User: u, Client: c}},
		{rule: Entity{User: Any, Client: Any}, owner: Entity{User: u, Client: c}},
		{rule: Entity{User: Any}, owner: Entity{User: u}},
		{rule: Entity{Client: c}, owner: Entity{Client: c}},
		{rule: Entity{Client: Any}, owner: Entity{Client: c}},
	} {
		if try.rate = r.of[try.rule][l]; try.rate > 0 {
			return try, true
		}
	}
	return found{}, false
}

// AddressText returns the one text of an address that an Entity has: an IPv4 address that is mapped
// to IPv6 as IPv4.
func AddressText(ip netip.Addr) string { return ip.Unmap().WithZone("").String() }

// address returns the quota that applies to an address.
func (r *Rules) address(ip string) (found, bool) {
	if r == nil || !r.has[Connections] {
		return found{}, false
	}
	f := found{rule: Entity{Address: Of(ip)}, owner: Entity{Address: Of(ip)}}
	if f.rate = r.of[f.rule][Connections]; f.rate == 0 {
		f.rule.Address = Any
		f.rate = r.of[f.rule][Connections]
	}
	return f, f.rate > 0
}
