package quota

import (
	"iter"
	"net/netip"
	"strings"

	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/view"
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

// Applied is the quota that applies to a client.
type Applied struct {
	Rate  float64
	Rule  Entity // whose quota it is
	Owner Entity // who shares it: Names without defaults
}

// Client returns the quota that applies to a client. The first of Kafka's eight that exists counts,
// and no other. Who shares it follows from which it is: that of a user is one for all client ids.
func (r *Rules) Client(l Limit, user, client string) (Applied, bool) {
	if r == nil || !r.has[l] {
		return Applied{}, false
	}
	u, c, own := Of(user), Of(client), Of(short(client))
	for _, try := range [...]Applied{
		{Rule: Entity{User: u, Client: c}, Owner: Entity{User: u, Client: own}},
		{Rule: Entity{User: u, Client: Any()}, Owner: Entity{User: u, Client: own}},
		{Rule: Entity{User: u}, Owner: Entity{User: u}},
		{Rule: Entity{User: Any(), Client: c}, Owner: Entity{User: u, Client: own}},
		{Rule: Entity{User: Any(), Client: Any()}, Owner: Entity{User: u, Client: own}},
		{Rule: Entity{User: Any()}, Owner: Entity{User: u}},
		{Rule: Entity{Client: c}, Owner: Entity{Client: own}},
		{Rule: Entity{Client: Any()}, Owner: Entity{Client: own}},
	} {
		if try.Rate = r.of[try.Rule][l]; try.Rate > 0 {
			return try, true
		}
	}
	return Applied{}, false
}

// uses reports whether a client may share the bucket of an owner: one of its own quotas, or a
// default, has the limit.
func (r *Rules) uses(l Limit, owner Entity) bool {
	rules := func(n Name) []Name {
		if n.Kind == Named {
			return []Name{n, Any()}
		}
		return []Name{n}
	}
	for _, user := range rules(owner.User) {
		for _, client := range rules(owner.Client) {
			for _, address := range rules(owner.Address) {
				if r.of[Entity{user, client, address}][l] > 0 {
					return true
				}
			}
		}
	}
	return false
}

// refuses reports whether a refusal is one of the quota that applies to the client. It reports true
// for what no quota refused, and for clients that are not known.
func (r *Rules) refuses(x *view.Refused) bool {
	l, isQuota := ParseLimit(x.Cause)
	if !isQuota {
		return true
	}
	if x.Who == (view.Client{}) {
		return r != nil && r.has[l]
	}
	f, ok := r.Client(l, x.Who.User, x.Who.ClientID)
	if l.OfAddress() {
		host, _, _ := strings.Cut(x.Who.Address, "/")                             // an IPv6 origin is a prefix …
		if own := strings.TrimPrefix(x.Rule, "ip="); strings.Contains(own, ":") { // … and a quota is of one address
			host = own
		}
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return r != nil && r.has[l]
		}
		f, ok = r.Address(ip)
	}
	return ok && f.Rule.String() == x.Rule && rateText(f.Rate) == x.Detail
}

// AddressText returns the one text of an address that an Entity has: an IPv4 address that is mapped
// to IPv6 as IPv4.
func AddressText(ip netip.Addr) string { return ip.Unmap().WithZone("").String() }

// Address returns the quota that applies to an address: its own, or else that of all addresses
// without one. As in Kafka, its own is for this one address. The default gives a bucket to each
// origin, that is, to a /64 of IPv6, of which a host has every address.
func (r *Rules) Address(ip netip.Addr) (Applied, bool) {
	if r == nil || !r.has[Connections] {
		return Applied{}, false
	}
	own := Entity{Address: Of(AddressText(ip))}
	if rate := r.of[own][Connections]; rate > 0 {
		return Applied{rate, own, own}, true
	}
	all := Entity{Address: Any()}
	if rate := r.of[all][Connections]; rate > 0 {
		return Applied{rate, all, Entity{Address: Of(origin.Text(ip))}}, true
	}
	return Applied{}, false
}
