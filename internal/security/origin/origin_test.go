package origin

import (
	"net/netip"
	"testing"
)

// What one host can use as its address counts as one, and nothing else does.
func TestOf(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1":           "10.0.0.1",
		"::ffff:10.0.0.1":    "10.0.0.1",
		"2001:db8:0:1::1":    "2001:db8:0:1::/64",
		"2001:db8:0:1:ff::2": "2001:db8:0:1::/64",
		"2001:db8:0:2::1":    "2001:db8:0:2::/64",
		"fe80::1%eth0":       "fe80::/64",
		"::1":                "::/64",
		"pipe":               "pipe",
		"":                   "",
	} {
		if got := OfHost(host); got != want {
			t.Errorf("%q counts by %q, want %q", host, got, want)
		}
	}
	if p := Of(netip.Addr{}); p != (netip.Prefix{}) {
		t.Errorf("a connection without an address counts by %v", p)
	}
}
