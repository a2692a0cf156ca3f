// Package origin maps addresses to the origins by which a broker counts what clients do to it:
// failed logins, connections that have not logged in, lines of logs, new connections.
//
// An IPv4 address counts alone. An IPv6 address counts by its /64, the smallest network that a
// provider gives to a subscriber (RFC 6177, RIPE-690): a host may use any address of it, and could
// otherwise be a new client for each attempt.
//
// Every address has exactly one origin: an IPv4 address that is mapped to IPv6 has that of the IPv4
// address. The package does not know what is counted.
package origin

import "net/netip"

// networkBits is the length of the part of an IPv6 address that counts.
const networkBits = 64

// Of returns what an address counts by: itself as a network of one address, or its /64. The zero
// Addr, of a connection without an address, counts by the zero Prefix. IPv4 addresses that are
// mapped to IPv6 count as IPv4.
func Of(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	p, _ := ip.Prefix(min(networkBits, ip.BitLen())) // the zero Prefix for the zero Addr
	return p
}

// OfPeer is Of the address in ADDRESS:PORT, that of the other end of a connection; the zero Prefix
// if it has none.
func OfPeer(peer string) netip.Prefix {
	at, _ := netip.ParseAddrPort(peer) // a pipe has none
	return Of(at.Addr())
}

// Text returns what an address counts by as messages show it: an IPv4 address, or a network such as
// 2001:db8::/64.
func Text(ip netip.Addr) string {
	p := Of(ip)
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// OfHost is Text of an address that is given as text. A text that is no address counts as it is.
func OfHost(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return Text(ip)
}
