package network

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/security/origin"
)

func from(ip string) netip.Prefix { return origin.Of(netip.MustParseAddr(ip)) }

// Addresses take turns, however many goroutines of one of them wait; those of an address are served
// in the order of their arrival.
func TestPlacesAreSharedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.free = 1
		if err := p.take(t.Context(), nil, from("10.0.0.9")); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, who := range []struct{ ip, name string }{
			{"10.0.0.1", "a1"}, {"10.0.0.1", "a2"}, {"10.0.0.1", "a3"}, {"10.0.0.2", "b1"},
			{"2001:db8::1", "c1"}, {"2001:db8::2", "c2"}, {"10.0.0.2", "b2"},
		} {
			go func() {
				if err := p.take(t.Context(), nil, from(who.ip)); err != nil {
					t.Error(err)
				}
				order = append(order, who.name)
				p.leave()
			}()
			synctest.Wait()
		}
		if p.count() != 7 {
			t.Errorf("%d wait", p.count())
		}
		p.leave()
		synctest.Wait()
		if want := []string{"a1", "b1", "c1", "a2", "b2", "c2", "a3"}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
		wantAllFree(t, p, 1)
	})
}

// A full queue refuses the last of the address with the most, and then newcomers of that address.
func TestAFullQueueOfPlacesRefusesTheGreediest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		p.free = 0
		ctx, cancel := context.WithCancel(t.Context())
		refused := 0
		take := func(ip string) {
			go func() {
				if err := p.take(ctx, nil, from(ip)); errors.Is(err, errBusy) {
					refused++
				}
			}()
			synctest.Wait()
		}
		for range maxPlaceQueue {
			take("10.0.0.1")
		}
		take("10.0.0.2")
		if n := len(p.groups[from("10.0.0.1")].waiting); n != maxPlaceQueue-1 || refused != 1 || len(p.groups) != 2 {
			t.Errorf("%d wait, %d were refused", n, refused)
		}
		take("10.0.0.1")
		if refused != 2 || p.count() != maxPlaceQueue {
			t.Errorf("%d were refused, %d wait", refused, p.count())
		}
		cancel()
		synctest.Wait()
		wantAllFree(t, p, 0)
	})
}

func wantAllFree(t *testing.T, p *places, free int) {
	t.Helper()
	if p.free != free || p.queued != 0 || len(p.groups) != 0 || len(p.turns) != 0 {
		t.Errorf("%d free, %d wait in %d groups", p.free, p.queued, len(p.groups))
	}
}
